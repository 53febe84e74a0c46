"""Summary of a search as text, from its record alone."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from squad.search.parameters import Choices, Fixed, Integers, Octaves, Reals
from squad.search.search_record import Search, TrialRecord, TrialsError, value_of

__all__ = [
    "LABELS", "TOP", "Axis", "Row", "axes", "best_settings", "best_toml", "best_trial", "doubt", "facts", "rows",
    "spread_heading", "top", "warning",
]  # fmt: skip

#: Number of best trials that are marked and summarized, as in the paper.
TOP = 60
#: Maximum fraction of a study that counts as its best trials: the best 60 of 70 would say little about the best.
TOP_FRACTION = 1 / 4
#: Central fraction of the best trials that an interval spans, and the smallest number of trials for which it is used;
#: an interval of fewer trials spans all of them.
CENTRAL_FRACTION, MIN_FOR_CENTRAL = 0.8, 10

#: Labels in figures of settings for which the paper has a symbol; the others are labelled by their names.
LABELS = {"bins": "C (bins)", "rank": "B (rank)"}


@dataclass(frozen=True)
class Axis:
    """A setting that was searched.

    Attributes:
        name: Dotted name.
        own: Name without its table, if no other table has the same; used in tables on a terminal.
        label: The same with the paper's symbol; used in figures.
        entry: Range of the setting.
    """

    name: str
    own: str
    label: str
    entry: Choices | Integers | Reals | Octaves

    @property
    def choices(self) -> tuple[Any, ...] | None:
        """Values of a categorical setting; None for numbers."""
        return tuple(map(_hashable, self.entry.choices)) if isinstance(self.entry, Choices) else None

    @property
    def log(self) -> bool:
        """Whether it is searched on a logarithmic scale."""
        return isinstance(self.entry, Octaves) or bool(getattr(self.entry, "log", False))

    @property
    def ends(self) -> tuple[float, float]:
        """Smallest and largest value of a numeric setting."""
        assert isinstance(self.entry, (Integers, Reals, Octaves))
        return float(self.entry.low), float(self.entry.high)

    @property
    def searched(self) -> str:
        """Range as text, such as ``1e-6 to 0.01, log``; choices on one line each."""
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
        """Return the value of this setting in a trial."""
        return _hashable(trial.settings[self.name])


@dataclass(frozen=True)
class Row:
    """A row of the table of settings: name, best value, values of the best trials, and searched range."""

    name: str
    best: str
    top: str
    searched: str


def axes(search: Search) -> list[Axis]:
    """Return the settings that were searched, without fixed ones, in the order of the space."""
    found = {name: entry for name, entry in search.space.entries.items() if not isinstance(entry, Fixed)}
    last = [name.rpartition(".")[2] for name in found]
    return [
        Axis(name, own, LABELS.get(own, own), entry) if last.count(own) == 1 else Axis(name, name, name, entry)
        for (name, entry), own in zip(found.items(), last, strict=True)
    ]


def top(search: Search) -> list[TrialRecord]:
    """Return the best trials of a study: 60, or a quarter of a smaller study, but at least one."""
    return search.top(max(1, min(TOP, math.floor(TOP_FRACTION * len(search.measured)))))


def best_trial(search: Search) -> TrialRecord:
    """Return the best trial.

    Returns:
        The trial with the largest value.

    Raises:
        TrialsError: No trial was measured; the message says how many trials are in which state.
    """
    best = search.best()
    if best is None:
        counts = count_text(search) or "it has no trials"
        raise TrialsError(f"The search has no finished trial to show yet: {counts}. Resume it, and try again.")
    return best


def best_settings(search: Search) -> dict[str, Any]:
    """Return the settings of a fit that trains the best trial's network again, as tables."""
    from squad.settings import merged

    base = search.record.settings["base"]
    own = {"model": search.model, "seed": base.get("seed", search.record.seed)}
    return merged(base, (), {**own, **best_trial(search).settings})


def best_toml(search: Search, source: str = "") -> str:
    """Return the best settings as a file for ``squad fit --config``, with their origin as a comment.

    Args:
        search: Search with at least one measured trial.
        source: Name of the study, for the comment.

    Returns:
        Text of a TOML file.
    """
    from squad.settings import to_toml

    best, measure = best_trial(search), search.measure
    date = "" if best.finished is None else f", {datetime.fromisoformat(best.finished):%Y-%m-%d %H:%M} UTC"
    head = [
        f"{source or 'squad search'}: the best of {len(search.measured)} measured trials, number {best.number}{date}.",
        f"{search.record.settings['objective']['used']}: {measure.text(value_of(best), 2)} on the validation rows,",
        "which also chose it: on new rows it is probably worse. Certify it on rows that the search has not seen.",
    ]
    # The name of a folder may contain anything, even a line break.
    comments = ["# " + "".join(char if char.isprintable() else " " for char in line) for line in head]
    return "\n".join(comments) + "\n\n" + to_toml(best_settings(search))


def facts(search: Search) -> list[tuple[str, str]]:
    """Return the lines above the table: best value, accuracy, trials, time and notes."""
    best, measure, settings = best_trial(search), search.measure, search.record.settings
    objective = settings["objective"]
    asked = "" if objective["asked"] == objective["used"] else f" (requested: {objective['asked']})"
    value = f"{measure.short(value_of(best), 2)}{_interval(best, measure.name)} in trial {best.number}"
    shown = [
        ("model", search.model),
        ("objective", f"{objective['used']}{asked}"),
        (f"best {measure.name}", value),
    ]
    if (defaults := search.defaults()) is not None:
        shown.append(("defaults", _defaults_text(search, defaults, best)))
    equal = sum(trial.value == best.value for trial in search.measured)
    if equal > 1:
        rule = "the defaults win" if best.defaults else "the lowest AURC, then NLL, wins"
        shown.append(("ties", f"{equal:,} trials share this value; {rule}"))
    accuracy = best.details.get("accuracy")
    if accuracy is not None and measure.name != "accuracy":
        shown.append(("its accuracy", f"{100 * accuracy:.2f} %{_interval(best, 'accuracy')}"))
    shown += [("trials", count_text(search)), ("time", time_text(search.seconds()))]
    notes = [*search.notes, *filter(None, [doubt(search)])]
    return shown + [("note", note) for note in notes]


def _defaults_text(search: Search, defaults: TrialRecord, best: TrialRecord) -> str:
    """Return the value of the defaults, such as ``0.003412 in trial 0``, or their state; and if nothing was better."""
    at = f"trial {defaults.number}"
    if not defaults.measured:
        return f"{search.fate(defaults)}, {at}"
    value = f"{search.measure.short(value_of(defaults), 2)}{_interval(defaults, search.measure.name)} in {at}"
    return f"{value}: no trial was better" if best.defaults else value


def doubt(search: Search) -> str | None:
    """Return a warning if no trial has any coverage, so that none of them is best; else None."""
    best, used = search.best(), search.record.settings["objective"]["used"]
    if best is None or search.measure.name != "coverage" or value_of(best) > 0:
        return None
    return (
        f"No trial could be certified for {used}: all have coverage 0, so there is no best trial. "
        "Allow a higher risk, or maximize AURC: --objective aurc."
    )


def warning(search: Search) -> str:
    """Return a warning that the best value is optimistic, and what to do about it."""
    count, rows = len(search.measured), best_trial(search).details.get("rows")
    chosen_on = f"the {rows:,} validation rows" if isinstance(rows, int) else "the validation rows"
    return (
        f"The best of {count} trials was chosen on {chosen_on} that it was measured on: on new rows it is probably "
        "worse. For a guarantee, fit it and certify it on rows that neither training nor the search has seen."
    )


def rows(search: Search) -> list[Row]:
    """Return the table of settings."""
    best, leaders = best_trial(search), top(search)
    return [
        Row(axis.own, value_text(axis.of(best)), _spread(axis, [axis.of(trial) for trial in leaders]), axis.searched)
        for axis in axes(search)
    ]


def spread_heading(search: Search) -> str:
    """Return the heading of the third column, such as ``80 % of the best 60``; empty for a single best trial."""
    count = len(top(search))
    if count >= MIN_FOR_CENTRAL:
        return f"{100 * CENTRAL_FRACTION:.0f} % of the best {count}"
    return f"the best {count}" if count > 1 else ""


def _spread(axis: Axis, values: Sequence[Any]) -> str:
    if axis.choices is not None:
        return "\n".join(f"{100 * values.count(choice) / len(values):.0f} %" for choice in axis.choices)
    ordered = sorted(values)
    # Values that occurred, not interpolated ones, which may not be on the grid.
    cut = math.floor((1 - CENTRAL_FRACTION) / 2 * len(ordered)) if len(ordered) >= MIN_FOR_CENTRAL else 0
    low, high = value_text(ordered[cut]), value_text(ordered[-1 - cut])
    return low if low == high else f"{low} to {high}"


def count_text(search: Search) -> str:
    """Return the number of trials by state, such as ``612 measured, 70 pruned, 12 diverged``; zeros are left out."""
    fates = Counter(map(search.fate, search.trials))
    # Until the study is resumed, a trial whose worker was killed cannot be distinguished from a running one.
    words = {"interrupted": "interrupted and tried again", "running": "running, or interrupted"}
    kinds = ("measured", "pruned", "diverged", "failed", "interrupted", "waiting", "running")
    return ", ".join(f"{fates[kind]:,} {words.get(kind, kind)}" for kind in kinds if fates[kind])


def time_text(seconds: float) -> str:
    """Format a duration: ``42 s``, ``18 min 20 s`` or ``3 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def _interval(trial: TrialRecord, name: str) -> str:
    """Return the confidence interval, such as `` (95 %: 67.9 to 71.1 %)``; empty if it was not measured."""
    ends = trial.details.get(f"{name}_interval")
    return "" if not ends else f" (95 %: {100 * ends[0]:.1f} to {100 * ends[1]:.1f} %)"


def value_text(value: Any) -> str:
    """Format a value: three significant digits of a number, and words as in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "-".join(map(value_text, value))
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.3g}"
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if e else text


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value
