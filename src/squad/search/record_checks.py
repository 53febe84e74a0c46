"""Checks of a search's record: its file may have been edited, or its database damaged."""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

__all__ = ["STATES", "check_search", "check_trial"]

#: States of a trial in a record, by Optuna's names.
STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "running", "WAITING": "waiting"}
#: Details that must be numbers, and those that must be intervals, if present.
NUMERIC_DETAILS = ("aurc", "nll", "accuracy", "coverage", "epochs", "best_epoch", "seconds", "rows")
INTERVAL_DETAILS = ("accuracy_interval", "coverage_interval")


def check_search(name: Any, settings: Any, results: Any, date: Any, required: tuple[str, ...]) -> None:
    """Check the fields of a record that describe the search.

    Args:
        name: Name of the network.
        settings: Settings of the record.
        results: Results of the record, with notes and trials.
        date: When the search ended.
        required: Names that ``settings`` must have.

    Raises:
        ValueError: A field is missing or has the wrong type.
    """
    _check("its name", name, isinstance(name, str))
    _check("settings", settings, _is_table(settings))
    for key in required:
        if key not in settings:
            raise ValueError(f"settings.{key} is missing")
    objective = settings["objective"]
    _check("settings.objective", objective, _is_table(objective))
    for key in ("asked", "used"):
        _check(f"settings.objective.{key}", objective.get(key), isinstance(objective.get(key), str))
    for key in ("base", "space", "data"):
        _check(f"settings.{key}", settings[key], _is_table(settings[key]))
    _check("settings.base.seed", settings["base"].get("seed"), _is_integer(settings["base"].get("seed", 0)))
    _check("results", results, _is_table(results))
    _check("results.trials", results.get("trials"), isinstance(results.get("trials"), list))
    notes = results.get("notes", [])
    _check("results.notes", notes, isinstance(notes, list) and all(isinstance(note, str) for note in notes))
    _check("date", date, isinstance(date, str))


def check_trial(data: Any) -> None:
    """Check the types of a trial's fields.

    Raises:
        ValueError: A field has the wrong type; the message names it and its value.
    """
    if not _is_table(data):
        raise ValueError(f"a trial is {data!r:.40}")
    number = data.get("number")
    _check("number", number, _is_integer(number) and number >= 0)
    where = f"trial {number}: "
    _check(f"{where}state", data.get("state"), data.get("state") in STATES.values())
    _check(f"{where}value", data.get("value"), _is_number_or_none(data.get("value")))
    for name in ("settings", "params", "details"):
        _check(f"{where}{name}", data.get(name), _is_table(data.get(name)))
    accuracies = data.get("accuracies", {})
    valid = _is_table(accuracies) and all(map(_is_number_or_none, accuracies.values()))
    _check(f"{where}accuracies", accuracies, valid)
    for name in ("ended", "worker"):
        _check(f"{where}{name}", data.get(name), data.get(name) is None or isinstance(data[name], str))
    for name in ("started", "finished"):
        _check(f"{where}{name}", data.get(name), _is_time_or_none(data.get(name)))
    retried = data.get("retried_from")
    _check(f"{where}retried_from", retried, retried is None or _is_integer(retried))
    _check(f"{where}defaults", data.get("defaults"), isinstance(data.get("defaults", False), bool))
    for name in NUMERIC_DETAILS:
        _check(f"{where}details.{name}", data["details"].get(name), _is_number_or_none(data["details"].get(name)))
    for name in INTERVAL_DETAILS:
        ends = data["details"].get(name)
        valid = isinstance(ends, list) and len(ends) == 2 and None not in ends and all(map(_is_number_or_none, ends))
        _check(f"{where}details.{name}", ends, ends is None or valid)


def _check(name: str, value: Any, valid: bool) -> None:
    if not valid:
        raise ValueError(f"{name} is {value!r:.40}")


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number_or_none(value: Any) -> bool:
    """Return whether a value is a finite number, or None for "not measured"."""
    if value is None:
        return True
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63


def _is_time_or_none(value: Any) -> bool:
    if value is None:
        return True
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False
