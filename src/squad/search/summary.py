"""What a search found, in words: from its record alone."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from squad.search.parameters import Choices, Fixed, Integers, Octaves, Reals
from squad.search.search_record import Search, TrialRecord, TrialsError

__all__ = [
    "LABELS",
    "TOP",
    "Axis",
    "Row",
    "axes",
    "best_settings",
    "best_toml",
    "best_trial",
    "doubt",
    "facts",
    "rows",
    "spread_heading",
    "top",
    "warning",
]

#: So many of the best trials are marked and summed up, as in the paper.
TOP = 60
#: The share of a study that they are at the most: the best 60 of 70 would tell nothing about the best.
TOP_SHARE = 1 / 4
#: The middle of them that an interval spans, and from how many of them on; fewer are spanned as a whole.
MIDDLE, ENOUGH = 0.8, 10

#: Settings that the paper has a letter for; all others are called in figures as they are in tables and in TOML.
LABELS = {"bins": "C (bins)", "rank": "B (rank)"}


@dataclass(frozen=True)
class Axis:
    """A setting that was searched.

    Attributes:
        name: its dotted name.
        own: the same without its table, where no other table has it too; for tables on a screen.
        label: the same with the paper's letter, for figures.
        entry: what it ranges over.
    """

    name: str
    own: str
    label: str
    entry: Choices | Integers | Reals | Octaves

    @property
    def choices(self) -> tuple[Any, ...] | None:
        """The values of a setting that has no order; None for numbers."""
        return tuple(map(_hashable, self.entry.choices)) if isinstance(self.entry, Choices) else None

    @property
    def log(self) -> bool:
        """Whether it is spread evenly in its logarithm."""
        return isinstance(self.entry, Octaves) or bool(getattr(self.entry, "log", False))

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest value of numbers."""
        assert isinstance(self.entry, (Integers, Reals, Octaves))
        return float(self.entry.low), float(self.entry.high)

    @property
    def searched(self) -> str:
        """``1e-6 to 0.01, log``; choices one a line."""
        entry = self.entry
        if isinstance(entry, Choices):
            return "\n".join(value_text(choice) for choice in entry.choices)
        low, high = self.ends
        text = f"{value_text(low)} to {value_text(high)}"
        if isinstance(entry, Octaves):
            return f"{text}, {'whole' if entry.octaves == 1 else f'{entry.octaves:g}'} octaves"
        if entry.log:
            return f"{text}, log"
        return text if entry.step in (None, 1) else f"{text}, step {value_text(entry.step)}"

    def of(self, trial: TrialRecord) -> Any:
        """A trial's value."""
        return _hashable(trial.settings[self.name])


@dataclass(frozen=True)
class Row:
    """A line of the table of settings: its name, the best value, those of the best trials, the searched ones."""

    name: str
    best: str
    top: str
    searched: str


def axes(search: Search) -> list[Axis]:
    """The settings that were searched, in the order of the space; the fixed ones are none of them."""
    found = {name: entry for name, entry in search.space.entries.items() if not isinstance(entry, Fixed)}
    last = [name.rpartition(".")[2] for name in found]
    return [
        Axis(name, own, LABELS.get(own, own), entry) if last.count(own) == 1 else Axis(name, name, name, entry)
        for (name, entry), own in zip(found.items(), last, strict=True)
    ]


def top(search: Search) -> list[TrialRecord]:
    """The best trials of a study: 60, or a quarter of a smaller one, but one at least."""
    return search.top(max(1, min(TOP, math.floor(TOP_SHARE * len(search.measured)))))


def best_trial(search: Search) -> TrialRecord:
    """The best one; that there is none yet is an error which says what there is."""
    best = search.best()
    if best is None:
        counts = count_text(search) or "there is no trial at all"
        raise TrialsError(f"The search has no finished trial to show yet: {counts}. Let it go on, and look again.")
    return best


def best_settings(search: Search) -> dict[str, Any]:
    """The settings of a fit that trains the best trial's network again, as tables."""
    from squad.settings import merged

    base = search.record.settings["base"]
    own = {"model": search.model, "seed": base.get("seed", search.record.seed)}
    return merged(base, (), {**own, **best_trial(search).settings})


def best_toml(search: Search, source: str = "") -> str:
    """The same as a file for ``squad fit --config``, with where it comes from in its first lines.

    Args:
        search: with a measured trial at least.
        source: which study, for the comment.
    """
    from squad.settings import to_toml

    best, measure = best_trial(search), search.measure
    found = "" if best.finished is None else f", {datetime.fromisoformat(best.finished):%Y-%m-%d %H:%M} UTC"
    head = [
        f"{source or 'squad search'}: the best of {len(search.measured)} measured trials, number {best.number}{found}.",
        f"{search.record.settings['objective']['used']}: {measure.text(_value(best), 2)} on the validation rows,",
        "which chose it among the others: on new rows it is probably worse. Certify it on rows of their own.",
    ]
    # A name of a folder can hold anything, a line break too.
    comments = ["# " + "".join(letter if letter.isprintable() else " " for letter in line) for line in head]
    return "\n".join(comments) + "\n\n" + to_toml(best_settings(search))


def facts(search: Search) -> list[tuple[str, str]]:
    """What is told above the table: the best value, accuracy, trials, time, notes."""
    best, measure, settings = best_trial(search), search.measure, search.record.settings
    objective = settings["objective"]
    asked = "" if objective["asked"] == objective["used"] else f" (asked for: {objective['asked']})"
    value = f"{measure.short(_value(best), 2)}{_interval(best, measure.name)} in trial {best.number}"
    shown = [
        ("model", search.model),
        ("objective", f"{objective['used']}{asked}"),
        (f"best {measure.name}", value),
    ]
    if (defaults := search.defaults()) is not None:
        shown.append(("defaults", _defaults_text(search, defaults, best)))
    equal = sum(trial.value == best.value for trial in search.measured)
    if equal > 1:
        by = "the defaults are kept" if best.defaults else "the smaller AURC, then NLL, decides"
        shown.append(("ties", f"{equal:,} trials share this value; {by}"))
    accuracy = best.details.get("accuracy")
    if accuracy is not None and measure.name != "accuracy":
        shown.append(("its accuracy", f"{100 * accuracy:.2f} %{_interval(best, 'accuracy')}"))
    shown += [("trials", count_text(search)), ("time", time_text(search.seconds()))]
    notes = [*search.notes, *filter(None, [doubt(search)])]
    return shown + [("note", note) for note in notes]


def _defaults_text(search: Search, defaults: TrialRecord, best: TrialRecord) -> str:
    """``AURC 0.003412 in trial 0``, or what became of it; and that nothing was better."""
    at = f"trial {defaults.number}"
    if not defaults.measured:
        return f"{search.fate(defaults)}, {at}"
    value = f"{search.measure.short(_value(defaults), 2)}{_interval(defaults, search.measure.name)} in {at}"
    return f"{value}: no trial was better" if best.defaults else value


def doubt(search: Search) -> str | None:
    """That the best trial is none, where nothing could be certified with any, and what to do; None where it is one."""
    best, used = search.best(), search.record.settings["objective"]["used"]
    if best is None or search.measure.name != "coverage" or _value(best) > 0:
        return None
    return (
        f"No trial could be certified for {used}: all have coverage 0, so this says little about which is best. "
        "Allow a higher risk, or search for aurc: --objective aurc."
    )


def warning(search: Search) -> str:
    """That the best of many is too good to be true, and what to do about it."""
    count, rows = len(search.measured), best_trial(search).details.get("rows")
    by = f"the {rows:,} validation rows" if isinstance(rows, int) else "the validation rows"
    return (
        f"The best of {count} trials was chosen by {by} that it was measured on: on new rows it is probably worse. "
        "For a promise, fit it and certify it on rows that neither training nor the search has seen."
    )


def rows(search: Search) -> list[Row]:
    """The table of settings."""
    best, leaders = best_trial(search), top(search)
    return [
        Row(axis.own, value_text(axis.of(best)), _spread(axis, [axis.of(trial) for trial in leaders]), axis.searched)
        for axis in axes(search)
    ]


def spread_heading(search: Search) -> str:
    """What the third column holds: ``80 % of the best 60``; nothing new if the best is one."""
    count = len(top(search))
    if count >= ENOUGH:
        return f"{100 * MIDDLE:.0f} % of the best {count}"
    return f"the best {count}" if count > 1 else ""


def _spread(axis: Axis, values: Sequence[Any]) -> str:
    if axis.choices is not None:
        return "\n".join(f"{100 * values.count(choice) / len(values):.0f} %" for choice in axis.choices)
    ordered = sorted(values)
    # Values that occurred, not ones between them: there is no batch of 300 rows on a grid of octaves.
    cut = math.floor((1 - MIDDLE) / 2 * len(ordered)) if len(ordered) >= ENOUGH else 0
    low, high = value_text(ordered[cut]), value_text(ordered[-1 - cut])
    return low if low == high else f"{low} to {high}"


def count_text(search: Search) -> str:
    """``612 measured, 70 pruned, 12 diverged, 6 failed, 4 waiting``; none of a kind is not told."""
    fates = Counter(map(search.fate, search.trials))
    # Until somebody goes on with a study, trials whose worker was killed look like those of one that lives.
    words = {"interrupted": "interrupted and tried again", "running": "running, or interrupted"}
    kinds = ("measured", "pruned", "diverged", "failed", "interrupted", "waiting", "running")
    return ", ".join(f"{fates[kind]:,} {words.get(kind, kind)}" for kind in kinds if fates[kind])


def time_text(seconds: float) -> str:
    """``42 s``, ``18 min 20 s``, ``3 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def _interval(trial: TrialRecord, name: str) -> str:
    """`` (95 %: 67.9 to 71.1 %)``, if it was measured."""
    ends = trial.details.get(f"{name}_interval")
    return "" if not ends else f" (95 %: {100 * ends[0]:.1f} to {100 * ends[1]:.1f} %)"


def value_text(value: Any) -> str:
    """Three digits of a number, and words as in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "-".join(map(value_text, value))
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.3g}"
    mantissa, e, power = text.partition("e")
    return f"{mantissa}e{int(power)}" if e else text


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value


def _value(trial: TrialRecord) -> float:
    assert trial.value is not None
    return trial.value
