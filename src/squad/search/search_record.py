"""The record of a search, ``trials.json``: plain data from which the summary, the figures and the tables are written.

The study itself is in a database that may be lost, or on another machine.  The record can be read without Optuna and
without a server.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from squad.errors import SquadError
from squad.records import Record, RecordError
from squad.search.measure import Measure
from squad.search.record_checks import check_search, check_trial

if TYPE_CHECKING:
    import pandas

    from squad.fitting import FitSettings
    from squad.search.space import Space

__all__ = ["CSV", "META", "TRIALS", "Search", "TrialRecord", "TrialsError", "read", "value_of"]

#: Files in a study's folder: the record, and the same as a table with one row per trial.
TRIALS, CSV = "trials.json", "trials.csv"

#: Required settings of a record: the model, the objective {"asked": ..., "used": ...}, the settings that were not
#: searched as tables of a fit, the space as Space.to_dict() returns it, the seed, the slots and facts about the data.
META = ("model", "objective", "base", "space", "seed", "slots", "data")


class TrialsError(SquadError):
    """A folder or file that is not a search."""


@dataclass(frozen=True)
class TrialRecord:
    """One trial of a record.

    Attributes:
        number: Number of the trial in its study.
        state: "complete", "pruned", "failed", "running" or "waiting".
        value: Value of the objective; None for all trials that are not complete.
        settings: Values by dotted name.
        params: The same as Optuna's parameters.
        ended: "stopped early", "at max_epochs", "diverged", "pruned" or "refused: ..."; None for unfinished trials.
        details: epochs, accuracy and other measurements.
        started: When the trial began, UTC, ISO 8601.
        finished: When the trial ended, UTC, ISO 8601.
        retried_from: Number of the first trial with these settings, if this trial retries one whose worker was lost.
        worker: Name of the worker that trained it.
        accuracies: Validation accuracy by epoch; empty in a search without pruning.
        defaults: Whether this trial has the default settings.
    """

    number: int
    state: str
    value: float | None
    settings: Mapping[str, Any]
    params: Mapping[str, Any]
    ended: str | None
    details: Mapping[str, Any]
    started: str | None
    finished: str | None
    retried_from: int | None
    worker: str | None
    accuracies: Mapping[str, float] = field(default_factory=dict)
    defaults: bool = False

    @property
    def diverged(self) -> bool:
        """Whether its loss became infinite or NaN; its value is then the objective's worst, and not a measurement."""
        return self.ended == "diverged"

    @property
    def inside(self) -> bool:
        """Whether its settings are a point of the space; the defaults may lie outside."""
        return bool(self.params) or not self.defaults

    @property
    def measured(self) -> bool:
        """Whether its value is that of a trained network."""
        refused = self.ended is not None and self.ended.startswith("refused")  # incompatible settings
        return self.state == "complete" and self.value is not None and not self.diverged and not refused


@dataclass(frozen=True, repr=False)
class Search:
    """A search, read from its record; what :func:`squad.tune` returns.

    Attributes:
        record: The record, with the settings listed in :data:`META`, and with notes and trials as results.
        trials: All trials, by number.
    """

    record: Record
    trials: tuple[TrialRecord, ...]

    def __repr__(self) -> str:
        """Return one line, because hundreds of trials with all their settings would fill a notebook."""
        best = self.best()
        result = "none measured" if best is None else f"best {self.measure.text(value_of(best))} in trial {best.number}"
        return f"Search({self.model}: {len(self.counted)} trial{'s' * (len(self.counted) != 1)}, {result})"

    @property
    def model(self) -> str:
        """Name of the network."""
        return self.record.name

    @property
    def measure(self) -> Measure:
        """How values of the objective are displayed."""
        return Measure.of(self.record.settings["objective"]["used"])

    @property
    def notes(self) -> list[str]:
        """Notes that were shown to the user, such as a change of the objective."""
        return list(self.record.results.get("notes", []))

    @cached_property
    def space(self) -> "Space":
        """The search space."""
        from squad.search.space import Space

        return Space.of(self.model, self.record.settings["space"])

    @cached_property
    def measured(self) -> tuple[TrialRecord, ...]:
        """Trials whose value is that of a trained network, by number."""
        return tuple(trial for trial in self.trials if trial.measured)

    @cached_property
    def interrupted(self) -> frozenset[int]:
        """Numbers of the trials whose worker stopped or was lost, and whose settings a later trial retried."""
        # Each retry names the first trial with its settings, so all attempts but the last one were interrupted.
        last: dict[int, int] = {}
        for trial in self.trials:
            last[_first_attempt(trial)] = max(trial.number, last.get(_first_attempt(trial), -1))
        return frozenset(
            trial.number
            for trial in self.trials
            if trial.state == "failed" and last[_first_attempt(trial)] > trial.number
        )

    @cached_property
    def counted(self) -> tuple[TrialRecord, ...]:
        """All trials except interrupted attempts that were retried."""
        return tuple(trial for trial in self.trials if trial.number not in self.interrupted)

    def fate(self, trial: TrialRecord) -> str:
        """Return "measured", "pruned", "diverged", "failed", "interrupted", "running" or "waiting"."""
        if trial.measured:
            return "measured"
        if trial.number in self.interrupted:
            return "interrupted"
        if trial.diverged:
            return "diverged"
        return "failed" if trial.state == "complete" else trial.state  # complete, but without a value

    def best(self) -> TrialRecord | None:
        """Return the trial with the best value, ties broken as in :meth:`top`; None if no trial was measured."""
        return next(iter(self.top(1)), None)

    def top(self, count: int) -> list[TrialRecord]:
        """Return the best ``count`` trials, best first; ties: the defaults, lower AURC, lower NLL, lower number."""
        # Ties are common: on few rows many trials reach an AURC of 0, and on hard ones none has any coverage.
        return sorted(
            self.measured,
            key=lambda trial: (
                -value_of(trial),
                not trial.defaults,
                _detail(trial, "aurc"),
                _detail(trial, "nll"),
                trial.number,
            ),
        )[:count]

    def defaults(self) -> TrialRecord | None:
        """Return the last attempt at the default settings; None in a search without them."""
        return next((trial for trial in reversed(self.trials) if trial.defaults), None)

    def best_settings(self) -> "FitSettings":
        """Return the settings of a fit that trains the best trial's network again."""
        from squad.search.summary import best_settings
        from squad.settings import fit_settings

        return fit_settings(best_settings(self))

    def seconds(self) -> float:
        """Return the time spent training: the union of the trials' intervals, without pauses between runs."""
        spans = sorted(
            (datetime.fromisoformat(trial.started).timestamp(), datetime.fromisoformat(trial.finished).timestamp())
            for trial in self.trials
            # The end of a failed trial is when it was noticed, possibly much later.
            if trial.started and trial.finished and trial.state != "failed"
        )
        total, reached = 0.0, -math.inf
        for begin, end in spans:
            total += max(0.0, end - max(begin, reached))
            reached = max(reached, end)
        return total

    def rows(self) -> tuple[list[str], list[list[Any]]]:
        """Return a header and one row per trial: number, state, value, ended, times, settings, and scalar details."""
        settings = _names(trial.settings for trial in self.trials)
        details = [
            name
            for name in _names(trial.details for trial in self.trials)
            if not any(isinstance(trial.details.get(name), (list, dict)) for trial in self.trials)
        ]
        own = ["number", "state", "value", "ended", "started", "finished", "retried_from", "worker"]
        if self.defaults() is not None:
            own.append("defaults")
        rows = [
            [
                *(getattr(trial, name) for name in own),
                *(trial.settings.get(name) for name in settings),
                *(trial.details.get(name) for name in details),
            ]
            for trial in self.trials
        ]
        # The prefix keeps details apart from columns of the same name.
        return [*own, *settings, *(f"details.{name}" for name in details)], rows

    def table(self) -> "pandas.DataFrame":
        """Return the rows as a pandas DataFrame."""
        import pandas as pd

        header, rows = self.rows()
        return pd.DataFrame(rows, columns=header)


def read(path: str | Path) -> Search:
    """Read the record of a search.

    Args:
        path: Path of trials.json, or of its folder.

    Returns:
        The search.
    """
    path = Path(path)
    file = path / TRIALS if path.is_dir() else path
    if not file.is_file():
        raise TrialsError(f"{path} is not the folder of a search: it has no {TRIALS}. Run squad search to make one.")
    record = Record.load(file)
    if record.kind != "search":
        raise TrialsError(f"{file} must be the record of a search, got one of kind {record.kind!r}.")
    try:
        check_search(record.name, record.settings, record.results, record.date, META)
        Measure.of(record.settings["objective"]["used"])
        trials = sorted((_trial(each) for each in record.results["trials"]), key=lambda trial: trial.number)
    except (KeyError, ValueError) as cause:
        what = f"{cause} is missing" if isinstance(cause, KeyError) else cause
        raise RecordError(f"{file} is not a valid record of a search: {what}. Was it edited?") from cause
    return Search(record, tuple(trials))


def _trial(data: Mapping[str, Any]) -> TrialRecord:
    """Read a trial; fields of newer versions are ignored, and fields unknown to older versions get their defaults."""
    check_trial(data)
    required = [each.name for each in fields(TrialRecord) if each.default is each.default_factory is MISSING]
    names = [each.name for each in fields(TrialRecord) if each.name in data or each.name in required]
    return TrialRecord(**{name: data[name] for name in names})


def value_of(trial: TrialRecord) -> float:
    """Return the value of a measured trial, which is never None."""
    assert trial.value is not None
    return trial.value


def _names(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return all names, in the order of first appearance."""
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _first_attempt(trial: TrialRecord) -> int:
    """Return the number of the first trial with these settings."""
    return trial.number if trial.retried_from is None else trial.retried_from


def _detail(trial: TrialRecord, name: str) -> float:
    """Return a detail of which smaller is better; infinity if it was not measured."""
    value = trial.details.get(name)
    return math.inf if value is None else float(value)
