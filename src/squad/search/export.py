"""Export of a study: its record as plain data, and a CSV table with one row per trial."""

import csv
import io
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from squad.errors import ArgumentError
from squad.files import write_text
from squad.files.plain import plain_json
from squad.records import Record, machine, versions
from squad.search.record_checks import STATES, check_trial
from squad.search.search_record import META, Search
from squad.search.storage_guard import DamagedError

if TYPE_CHECKING:
    import optuna

__all__ = ["export_record", "write_csv"]


def export_record(study: "optuna.Study", meta: Mapping[str, Any], earlier: Record | None = None) -> Record:
    """Return the record of a study in its present state; the same study gives the same record.

    Args:
        study: Optuna's study; the user_attrs of its trials hold "settings", "ended", "details" and "worker".  Surplus
            trials, which several workers began at the end of a study, are left out.
        meta: Description of the search: :data:`META`, optional "notes" for the user, and anything else to keep.
        earlier: Earlier record of the same study, whose machine and versions are kept; None if it was run here.

    Returns:
        The record.
    """
    import optuna

    missing = [name for name in META if name not in meta]
    if missing:
        raise ArgumentError(f"meta lacks {', '.join(missing)}. It must have {', '.join(META)}.")
    frozen = sorted(study.get_trials(deepcopy=False), key=lambda trial: trial.number)
    try:
        trials = [_plain_trial(trial) for trial in frozen if trial.user_attrs.get("ended") != "surplus"]
        for trial in trials:
            check_trial(trial)
    except (ValueError, TypeError, LookupError, AttributeError) as cause:
        raise DamagedError(f"The study's database is damaged: {str(cause).rstrip('.')}.") from cause
    times = [time for trial in trials for time in (trial["started"], trial["finished"]) if time]
    # The date is that of the study, so that exporting it again does not change the record.
    return Record(
        kind="search",
        name=str(meta["model"]),
        settings={"study": study.study_name, **{name: plain_json(meta[name]) for name in meta if name != "notes"}},
        results={"notes": list(meta.get("notes", ())), "trials": trials},
        seed=meta["seed"],
        date=max(times, default=_iso(getattr(study, "datetime_start", None)) or datetime.now(UTC).isoformat()),
        machine=machine() if earlier is None else earlier.machine,
        versions={**versions(), "optuna": optuna.__version__} if earlier is None else earlier.versions,
    )


def _plain_trial(trial: "optuna.trial.FrozenTrial") -> dict[str, Any]:
    """Return a trial as plain data: the fields of :class:`~squad.search.search_record.TrialRecord`."""
    state, attrs = STATES[trial.state.name], trial.user_attrs
    # Optuna's value of a pruned trial is its last accuracy, which is not the objective.
    value = trial.value if state == "complete" else None
    # Only the trial of the defaults has this field, so that records without one keep their form.
    defaults = {"defaults": True} if attrs.get("defaults") else {}
    return {
        "number": trial.number,
        "state": state,
        "value": plain_json(value),
        "settings": plain_json(attrs.get("settings", {})),
        "params": plain_json(trial.params),
        "ended": attrs.get("ended"),
        "details": plain_json(attrs.get("details", {})),
        "started": _iso(trial.datetime_start),
        "finished": _iso(trial.datetime_complete),
        "retried_from": attrs.get("retried_from", trial.system_attrs.get("failed_trial")),
        "worker": attrs.get("worker"),
        "accuracies": plain_json(trial.intermediate_values),
        **defaults,
    }


def _iso(time: datetime | None) -> str | None:
    """Format a time in UTC; Optuna's times are local and have no time zone."""
    return None if time is None else time.astimezone(UTC).isoformat(timespec="milliseconds")


def write_csv(search: Search, path: str | Path) -> Path:
    """Write one row per trial, atomically.

    Args:
        search: The search.
        path: File to write.

    Returns:
        Path of the file.
    """
    header, rows = search.rows()
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(["" if cell is None else _cell(cell) for cell in row] for row in rows)
    return write_text(Path(path), text.getvalue())


def _cell(value: Any) -> Any:
    """Format a cell: ``true`` as in TOML, and lists separated by spaces."""
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
