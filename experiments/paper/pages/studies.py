"""The page of the hyperparameter searches, from their records."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.paper.jobs.plan import FINISHED_STATES, Plan, Study
from experiments.paper.pages.markdown import table
from squad.models import network_config
from squad.search import summary
from squad.search.search_record import TRIALS, Search, read

__all__ = ["PICTURES", "page"]

#: Figures that ``squad search show`` draws into a study's folder, with their captions.
PICTURES = {
    "history.png": "All trials in the order in which they were run",
    "importances.png": "Importance of each setting for the objective",
    "pairwise.png": "Each pair of settings, coloured by the objective, with the best trials marked",
}

#: Columns of a line of a command; longer commands are continued on the next line.
COMMAND_WIDTH = 90


def page(plans: Sequence[Plan], attempts: str) -> str:
    """Return the page of all studies.

    Args:
        plans: Plans whose rows take settings from the studies.
        attempts: A note on what the records do not contain: earlier attempts.
    """
    parts = [
        "# Hyperparameter searches",
        "Written by `python -m experiments.paper all --from-records`. "
        "All settings that the paper does not give were found by TPE on validation rows, "
        "which are split off the training rows; test rows were not used, with the exceptions described below. "
        "Each study has a folder with all trials as [JSON](search) and CSV, and the best settings as TOML for "
        "`squad fit --config`. Paths in commands are relative to `experiments/paper`.",
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
    study_folder = folder / "search" / study.name
    if not (study_folder / TRIALS).is_file():
        return f"## {study.name}\n\nNot run yet."
    search = read(study_folder)
    finished = sum(trial.state in FINISHED_STATES for trial in search.trials)
    if finished < study.trials:
        return f"## {study.name}\n\nNot complete: {finished} of {study.trials} trials have finished."
    best = summary.best_trial(search)
    assert best.value is not None
    machine = search.record.machine
    rows = search.record.settings["data"]["rows"]
    pictures = [
        f"![{text}](search/{study.name}/{file})" for file, text in PICTURES.items() if (study_folder / file).is_file()
    ]
    return "\n\n".join(
        [
            f"## {study.name}",
            _command(study),
            f"{summary.count_text(search)}{' (which have numbers as well)' * bool(search.interrupted)}, in "
            f"{summary.time_text(search.seconds())} on one "
            f"{machine.get('gpu') or machine['cpu']}, {search.record.settings['slots']} trials at once; "
            f"{rows['training']:,} training rows, {rows['validation']:,} validation rows. The best trial "
            f"({best.number}) has {search.measure.text(best.value, 2)} on the validation rows; because it was selected "
            f"among {len(search.measured)} trials, expect less on other rows. Trials were evaluated with "
            f"{_sampling_text(study.model)}.",
            _settings(search, published),
            *pictures,
        ]
    )


def _command(study: Study) -> str:
    """Return the command of a study as an indented block, in lines that a page shows whole."""
    parts = [
        f"squad search {study.data}",
        f"--model {study.model}",
        f"--trials {study.trials}",
        f"--objective {study.objective}",
        *(f"--set {name}={value}" for name, value in _flat(study.settings)),
        *([f"--space {study.space}"] if study.space else []),
        *(["--prune"] if study.prune else []),
    ]
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) < COMMAND_WIDTH:
            lines[-1] += f" {part}"
        else:
            lines[-1] += " \\"
            lines.append(f"    {part}")
    return "\n".join(f"    {line}" for line in lines)


def _sampling_text(model: str) -> str:
    """Describe the default sampling mode of a model, which its trials use."""
    sampling, samples = network_config(model).check_sampling(None, None)
    words = {"mean": "one pass", "sample": f"{samples} samples"}
    return words.get(sampling, f"{samples} {sampling} samples")


def _flat(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat += [(f"{name}.{key}", each) for key, each in value.items()]
        else:
            flat.append((name, value))
    return [(name, str(value).replace(" ", "")) for name, value in flat]


def _settings(search: Search, published: Mapping[str, Any]) -> str:
    """Return a table of the best settings, with those of the paper where it gives them."""
    paper = {
        f"{part}.{name}": value for part in ("network", "training") for name, value in published.get(part, {}).items()
    }
    rows = []
    gaussian = summary.best_trial(search).settings.get("network.spacing") == "gaussian"
    for axis, row in zip(summary.axes(search), summary.rows(search), strict=True):
        spread = row.top.replace("\n", ", ") if axis.choices is None else _format_choices(axis.choices, row.top)
        published_value = [summary.value_text(paper[axis.name]) if axis.name in paper else "not given"] if paper else []
        best = f"{row.best}, without effect" if axis.name == "network.limit" and gaussian else row.best
        rows.append([f"`{axis.name}`", *published_value, best, spread, axis.searched.replace("\n", ", ")])
    return table(
        ["setting", *(["paper"] if paper else []), "best trial", summary.spread_heading(search), "search space"], rows
    )


def _format_choices(choices: Sequence[Any], fractions: str) -> str:
    pairs = zip(choices, fractions.split("\n"), strict=True)
    return ", ".join(f"{summary.value_text(choice)} {fraction}" for choice, fraction in pairs)
