"""What the searches found, in Markdown, from their records."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.paper.jobs.plan import ENDED, Plan, Study
from experiments.paper.pages.markdown import table
from squad.models import network_config
from squad.search import summary
from squad.search.search_record import TRIALS, Search, read

__all__ = ["PICTURES", "page"]

#: What squad search show draws into a study's folder.
PICTURES = {
    "history.png": "Every trial in the order in which they were tried",
    "importances.png": "What the objective depends on",
    "pairwise.png": "Each pair of settings, coloured by the objective, the best marked",
}


def page(plans: Sequence[Plan], attempts: str) -> str:
    """The page of all studies.

    Args:
        plans: whose rows take settings from them.
        attempts: what the records do not tell: which attempts came before.
    """
    parts = [
        "# Searches",
        "Written by `python -m experiments.paper all --from-records`. "
        "Settings of every row but those the paper gives were found by TPE on validation rows, "
        "which are split off the training rows; test rows had no part in it but for what is told below. "
        "A study has a folder with every trial as [JSON](search) and CSV, and the best settings as TOML for "
        "`squad fit --config`. Commands are as in this folder.",
        attempts.strip(),
    ]
    for plan in plans:
        known = next((row.content for row in plan.rows if row.name.endswith("/squad-paper")), {})
        for study in plan.studies().values():
            if any(f"## {study.name}\n" in part for part in parts):
                continue
            parts.append(_section(plan.folder, study, known if study.model == "squad" else {}))
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(folder: Path, study: Study, published: Mapping[str, Any]) -> str:
    place = folder / "search" / study.name
    if not (place / TRIALS).is_file():
        return f"## {study.name}\n\nNot run yet."
    search = read(place)
    ended = sum(trial.state in ENDED for trial in search.trials)
    if ended < study.trials:
        return f"## {study.name}\n\nNot complete: {ended} of {study.trials} trials have ended."
    best = summary.best_trial(search)
    assert best.value is not None
    machine = search.record.machine
    rows = search.record.settings["data"]["rows"]
    pictures = [f"![{text}](search/{study.name}/{file})" for file, text in PICTURES.items() if (place / file).is_file()]
    return "\n\n".join(
        [
            f"## {study.name}",
            f"    squad search {study.data} --model {study.model} --trials {study.trials} "
            f"--objective {study.objective} "
            + " ".join(f"--set {name}={value}" for name, value in _flat(study.settings))
            + (f" --space {study.space}" if study.space else "")
            + (" --prune" if study.prune else ""),
            f"{summary.count_text(search)}{' (these have numbers, too)' * bool(search.interrupted)}, in "
            f"{summary.time_text(search.seconds())} on one "
            f"{machine.get('gpu') or machine['cpu']}, {search.record.settings['slots']} trials at once; "
            f"{rows['training']:,} rows to train on, {rows['validation']:,} to measure the objective on. The best "
            f"trial ({best.number}) has {search.measure.text(best.value, 2)} there; it was chosen for that among "
            f"{len(search.measured)}: on other rows it is likely to have less. Trials were asked by "
            f"{_asked(study.model)}.",
            _settings(search, published),
            *pictures,
        ]
    )


def _asked(model: str) -> str:
    """How trials of a model are asked: in the model's own way."""
    sampling, samples = network_config(model).check_sampling(None, None)
    words = {"mean": "one pass", "sample": f"{samples} samples"}
    return words.get(sampling, f"{samples} {sampling} samples")


def _flat(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found += [(f"{name}.{key}", each) for key, each in value.items()]
        else:
            found.append((name, value))
    return [(name, str(value).replace(" ", "")) for name, value in found]


def _settings(search: Search, published: Mapping[str, Any]) -> str:
    """The best settings, beside the paper's where it tells them."""
    told = {
        f"{part}.{name}": value for part in ("network", "training") for name, value in published.get(part, {}).items()
    }
    rows = []
    gaussian = summary.best_trial(search).settings.get("network.spacing") == "gaussian"
    for axis, row in zip(summary.axes(search), summary.rows(search), strict=True):
        spread = row.top.replace("\n", ", ") if axis.choices is None else _shares(axis.choices, row.top)
        paper = [summary.value_text(told[axis.name]) if axis.name in told else "not told"] if told else []
        best = f"{row.best}, without effect" if axis.name == "network.limit" and gaussian else row.best
        rows.append([f"`{axis.name}`", *paper, best, spread, axis.searched.replace("\n", ", ")])
    paper = ["the paper's"] if told else []
    return table(["setting", *paper, "best trial", summary.spread_heading(search), "searched"], rows)


def _shares(choices: Sequence[Any], shares: str) -> str:
    pairs = zip(choices, shares.split("\n"), strict=True)
    return ", ".join(f"{summary.value_text(choice)} {share}" for choice, share in pairs)
