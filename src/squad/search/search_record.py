"""The record of a search: plain data, from which the summary, the figures and the tables are written.

A study's own storage is a database that may be gone tomorrow, or on another machine.  ``trials.json`` beside it needs
neither Optuna nor a server to be read.
"""

import csv
import io
import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from squad.errors import ArgumentError, SquadError
from squad.files import write_text
from squad.records import Record, RecordError, machine, versions
from squad.search.record_checks import check_search, check_trial
from squad.search.storage_guard import DamagedError

if TYPE_CHECKING:
    import optuna
    import pandas

    from squad.fitting import FitSettings
    from squad.search.space import Space

__all__ = [
    "CSV",
    "META",
    "TRIALS",
    "Measure",
    "Search",
    "TrialRecord",
    "TrialsError",
    "export",
    "read",
    "write_csv",
    "write_text",
]

#: Files in a study's folder: the record, and the same as one row a trial for people.
TRIALS, CSV = "trials.json", "trials.csv"

#: What a search must say about itself: the model, {"asked": ..., "used": ...}, the settings that were not searched as
#: tables of a fit, the space as Space.to_dict() gives it, the seed, the slots and facts about the data.
META = ("model", "objective", "base", "space", "seed", "slots", "data")

#: Optuna's states in plain words.
STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "running", "WAITING": "waiting"}


class TrialsError(SquadError):
    """A folder or a file that holds no search."""


@dataclass(frozen=True)
class Measure:
    """How values of an objective are told to people.

    Attributes:
        name: "coverage", "accuracy" or "AURC".
        title: the same with what it is measured at, "coverage at risk 2 %".
        percent: whether it is a share, told in per cent.
        sign: -1 for what is better the smaller it is, and kept with a minus.
    """

    name: str
    title: str
    percent: bool
    sign: int

    @classmethod
    def of(cls, objective: str) -> "Measure":
        """Of an objective as :class:`squad.search.objective.Objective` writes it: "coverage@risk=0.02,delta=0.01"."""
        name, _, options = objective.partition("@")
        if name == "aurc":
            return cls("AURC", "AURC", percent=False, sign=-1)
        given = dict(part.split("=", 1) for part in options.split(",") if "=" in part)
        title = f"{name} at risk {100 * float(given['risk']):.4g} %" if "risk" in given else name
        return cls(name, title, percent=True, sign=1)

    def shown(self, value: float) -> float:
        """A value as it is told: in per cent, or without the minus."""
        return 100 * value if self.percent else self.sign * value + 0.0  # no -0

    def short(self, value: float, digits: int = 1) -> str:
        """``69.5 %`` or ``0.01234``: of an AURC four digits that count, since it may be .0031 or .031."""
        return f"{self.shown(value):.{digits}f} %" if self.percent else _digits(self.shown(value))

    def text(self, value: float, digits: int = 1) -> str:
        """``coverage 69.5 %`` or ``AURC 0.01234``."""
        return f"{self.name} {self.short(value, digits)}"


def _digits(value: float) -> str:
    """Four significant digits: 0.003100, and 3.100e-5 where there would be more zeros than digits."""
    if value == 0:
        return "0"
    mantissa, e, power = f"{value:#.4g}".partition("e")
    return f"{mantissa}e{int(power)}" if e else mantissa


@dataclass(frozen=True)
class TrialRecord:
    """One trial.

    Attributes:
        number: its own in the study.
        state: "complete", "pruned", "failed", "running" or "waiting".
        value: what is maximized; None for all but those that are complete.
        settings: by dotted names.
        params: the same by Optuna's names.
        ended: how: "stopped early", "at max_epochs", "diverged", "pruned"; None for one that did not end.
        details: epochs, accuracy and the like.
        started, finished: UTC, ISO 8601.
        retried_from: the number of the trial whose worker was lost, which this one tries again.
        worker: who trained it.
        accuracies: of the validation rows, by the epoch after which they were looked at; none in a search that does not
            prune.
        defaults: whether these are the default settings, which every search is compared with.
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
        """Whether its loss was no longer finite: its value is then the objective's worst, and was not measured."""
        return self.ended == "diverged"

    @property
    def inside(self) -> bool:
        """Whether its settings are a point of the space: the defaults need not be one."""
        return bool(self.params) or not self.defaults

    @property
    def measured(self) -> bool:
        """Whether its value is that of a trained network."""
        refused = self.ended is not None and self.ended.startswith("refused")  # settings that did not go together
        return self.state == "complete" and self.value is not None and not self.diverged and not refused


@dataclass(frozen=True, repr=False)
class Search:
    """A search as its record tells it.

    Attributes:
        record: settings as :data:`META` lists them; results with notes and trials.
        trials: all of them, by number.
    """

    record: Record
    trials: tuple[TrialRecord, ...]

    def __repr__(self) -> str:
        """Short: hundreds of trials with all their settings would fill a notebook."""
        best = self.best()
        found = "none measured" if best is None else f"best {self.measure.text(_value(best))} in trial {best.number}"
        return f"Search({self.model}: {len(self.counted)} trial{'s' * (len(self.counted) != 1)}, {found})"

    @property
    def model(self) -> str:
        """The network that was searched for."""
        return self.record.name

    @property
    def measure(self) -> Measure:
        """How its values are told."""
        return Measure.of(self.record.settings["objective"]["used"])

    @property
    def notes(self) -> list[str]:
        """What was said aloud."""
        return list(self.record.results.get("notes", []))

    @cached_property
    def space(self) -> "Space":
        """What was searched."""
        from squad.search.space import Space

        return Space.of(self.model, self.record.settings["space"])

    @cached_property
    def measured(self) -> tuple[TrialRecord, ...]:
        """Trials with a value of their own, by number."""
        return tuple(trial for trial in self.trials if trial.measured)

    @cached_property
    def interrupted(self) -> frozenset[int]:
        """Numbers of the trials whose worker stopped or was lost, and whose settings a later trial tried again."""
        # However often settings are tried, each attempt names the first of them: the last one is not followed by any.
        last: dict[int, int] = {}
        for trial in self.trials:
            last[_first(trial)] = max(trial.number, last.get(_first(trial), -1))
        return frozenset(
            trial.number for trial in self.trials if trial.state == "failed" and last[_first(trial)] > trial.number
        )

    @cached_property
    def counted(self) -> tuple[TrialRecord, ...]:
        """The trials less the attempts that were interrupted and made again: settings that were tried count once."""
        return tuple(trial for trial in self.trials if trial.number not in self.interrupted)

    def fate(self, trial: TrialRecord) -> str:
        """What became of a trial: "measured", "pruned", "diverged", "failed", "interrupted", "running", "waiting"."""
        if trial.measured:
            return "measured"
        if trial.number in self.interrupted:
            return "interrupted"
        if trial.diverged:
            return "diverged"
        # One that is complete and ended without a number: nothing that could be compared.
        return "failed" if trial.state == "complete" else trial.state

    def best(self) -> TrialRecord | None:
        """The trial with the best value, of several that share it as :meth:`top` says; None before there is one."""
        return next(iter(self.top(1)), None)

    def top(self, count: int) -> list[TrialRecord]:
        """The best ``count`` trials, best first.

        Of equal ones the defaults, then that of the smaller AURC, then NLL, then the earlier.
        """
        # On few rows many trials reach an AURC of 0, and on hard ones none has any coverage.
        return sorted(
            self.measured,
            key=lambda trial: (
                -_value(trial),
                not trial.defaults,
                _detail(trial, "aurc"),
                _detail(trial, "nll"),
                trial.number,
            ),
        )[:count]

    def defaults(self) -> TrialRecord | None:
        """The trial of the default settings, at its last attempt; None in a search without."""
        return next((trial for trial in reversed(self.trials) if trial.defaults), None)

    def best_settings(self) -> "FitSettings":
        """The settings of a fit that trains the best trial's network again."""
        from squad.search.summary import best_settings
        from squad.settings import fit_settings

        return fit_settings(best_settings(self))

    def seconds(self) -> float:
        """How long anything was trained: pauses between the runs of a search do not count, nor trials side by side."""
        spans = sorted(
            (datetime.fromisoformat(trial.started).timestamp(), datetime.fromisoformat(trial.finished).timestamp())
            for trial in self.trials
            # A failed one was lost, and found to be so much later.
            if trial.started and trial.finished and trial.state != "failed"
        )
        total, reached = 0.0, -math.inf
        for begin, end in spans:
            total += max(0.0, end - max(begin, reached))
            reached = max(reached, end)
        return total

    def rows(self) -> tuple[list[str], list[list[Any]]]:
        """A header, and one row a trial: number, state, value, ended, times, its settings, and plain details."""
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
        # A detail could be called as a column is: "value" of a trial and of its details are two.
        return [*own, *settings, *(f"details.{name}" for name in details)], rows

    def table(self) -> "pandas.DataFrame":
        """The same as a DataFrame of pandas."""
        import pandas as pd

        header, rows = self.rows()
        return pd.DataFrame(rows, columns=header)


def export(study: "optuna.Study", meta: Mapping[str, Any], earlier: Record | None = None) -> Record:
    """The record of a study, as it stands now; the same study gives the same record.

    Args:
        study: of Optuna's; a trial's user_attrs hold "settings", "ended", "details" and "worker".  Surplus trials,
            which were asked for and not wanted, are left out.
        meta: :data:`META`, and whatever else is worth keeping; "notes" are what was said aloud, such as a change of
            the objective.
        earlier: a record of the same study, which says where and with what it was run; None if that was here.
    """
    import optuna

    missing = [name for name in META if name not in meta]
    if missing:
        raise ArgumentError.of("meta", f"none for {', '.join(missing)}", f"a mapping with {', '.join(META)}")
    found = sorted(study.get_trials(deepcopy=False), key=lambda trial: trial.number)
    try:
        trials = [_plain_trial(trial) for trial in found if trial.user_attrs.get("ended") != "surplus"]
        for trial in trials:
            check_trial(trial)
    except (ValueError, TypeError, LookupError, AttributeError) as cause:
        raise DamagedError(f"The study's database is damaged: {str(cause).rstrip('.')}.") from cause
    times = [time for trial in trials for time in (trial["started"], trial["finished"]) if time]
    # The date is the study's, not that of the export, or every look at a study would change its record.
    return Record(
        kind="search",
        name=str(meta["model"]),
        settings={"study": study.study_name, **{name: plain(meta[name]) for name in meta if name != "notes"}},
        results={"notes": list(meta.get("notes", ())), "trials": trials},
        seed=meta["seed"],
        date=max(times, default=_iso(getattr(study, "datetime_start", None)) or datetime.now(UTC).isoformat()),
        machine=machine() if earlier is None else earlier.machine,
        versions={**versions(), "optuna": optuna.__version__} if earlier is None else earlier.versions,
    )


def _plain_trial(trial: "optuna.trial.FrozenTrial") -> dict[str, Any]:
    """A trial as plain data: the fields of :class:`TrialRecord`."""
    state, attrs = STATES[trial.state.name], trial.user_attrs
    # The value Optuna gives a pruned trial is the last accuracy it was told, which is another quantity.
    value = trial.value if state == "complete" else None
    # Said of the one trial alone: records of searches without it stay as they are.
    defaults = {"defaults": True} if attrs.get("defaults") else {}
    return {
        "number": trial.number,
        "state": state,
        "value": plain(value),
        "settings": plain(attrs.get("settings", {})),
        "params": plain(trial.params),
        "ended": attrs.get("ended"),
        "details": plain(attrs.get("details", {})),
        "started": _iso(trial.datetime_start),
        "finished": _iso(trial.datetime_complete),
        "retried_from": attrs.get("retried_from", trial.system_attrs.get("failed_trial")),
        "worker": attrs.get("worker"),
        "accuracies": plain(trial.intermediate_values),
        **defaults,
    }


def plain(value: Any) -> Any:
    """Data that JSON has, and nothing else: a number that is not finite is None."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if value is None or isinstance(value, (str, bool)):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:  # numpy's numbers and truths
        return plain(value.item())
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    raise ArgumentError.of("a value of a record", f"{value!r} ({type(value).__name__})", "plain data")


def _iso(time: datetime | None) -> str | None:
    """In UTC; Optuna's times are those of this machine's clock, without a zone."""
    return None if time is None else time.astimezone(UTC).isoformat(timespec="milliseconds")


def read(path: str | Path) -> Search:
    """The search of a record.

    Args:
        path: of trials.json, or of the folder it is in.
    """
    path = Path(path)
    file = path / TRIALS if path.is_dir() else path
    if not file.is_file():
        raise TrialsError(
            f"{path} must be the folder of a search, with {TRIALS} in it; there is none. squad search makes one."
        )
    record = Record.load(file)
    if record.kind != "search":
        raise TrialsError(f"{file} must be the record of a search; it is one of kind {record.kind!r}.")
    try:
        check_search(record.name, record.settings, record.results, record.date, META)
        Measure.of(record.settings["objective"]["used"])
        trials = sorted((_trial(each) for each in record.results["trials"]), key=lambda trial: trial.number)
    except (KeyError, ValueError) as cause:
        what = f"{cause} is missing" if isinstance(cause, KeyError) else cause
        raise RecordError(f"{file} must have the fields of a search: {what}. Was it edited?") from cause
    return Search(record, tuple(trials))


def _trial(data: Mapping[str, Any]) -> TrialRecord:
    """Of a file; what a newer version wrote besides is not needed, and what an older one did not know is as it was."""
    check_trial(data)
    needed = [each.name for each in fields(TrialRecord) if each.default is each.default_factory is MISSING]
    given = [each.name for each in fields(TrialRecord) if each.name in data or each.name in needed]
    return TrialRecord(**{name: data[name] for name in given})


def write_csv(search: Search, path: str | Path) -> Path:
    """One row a trial, whole or not at all."""
    path = Path(path)
    header, rows = search.rows()
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(["" if cell is None else _cell(cell) for cell in row] for row in rows)
    return write_text(path, text.getvalue())


def _cell(value: Any) -> Any:
    """``true`` as in the settings' TOML, and a list with blanks."""
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _names(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    """All names, in the order in which they first come."""
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _first(trial: TrialRecord) -> int:
    """The number of the first attempt at a trial's settings."""
    return trial.number if trial.retried_from is None else trial.retried_from


def _detail(trial: TrialRecord, name: str) -> float:
    """One that is better the smaller it is; the worst if it was not measured."""
    value = trial.details.get(name)
    return math.inf if value is None else float(value)


def _value(trial: TrialRecord) -> float:
    assert trial.value is not None
    return trial.value
