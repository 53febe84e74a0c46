"""That the record of a search is as squad writes it: a file may have been edited, or its database damaged."""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

__all__ = ["check_search", "check_trial"]

STATES = ("complete", "pruned", "failed", "running", "waiting")
#: Details that are numbers, and those that are intervals, wherever they are told.
NUMBERS = ("aurc", "nll", "accuracy", "coverage", "epochs", "best_epoch", "seconds", "rows")
INTERVALS = ("accuracy_interval", "coverage_interval")


def check_search(name: Any, settings: Any, results: Any, date: Any, needed: tuple[str, ...]) -> None:
    """That a record has what a search says about itself: ValueError if it has not.

    Args:
        name: of the network.
        settings: with ``needed`` and more.
        results: with notes and trials.
        date: when it ended.
        needed: names that settings must have.
    """
    _check("its name", name, isinstance(name, str))
    _check("settings", settings, _is_table(settings))
    for key in needed:
        if key not in settings:
            raise ValueError(f"settings.{key} is missing")
    objective = settings["objective"]
    _check("settings.objective", objective, _is_table(objective))
    for key in ("asked", "used"):
        _check(f"settings.objective.{key}", objective.get(key), isinstance(objective.get(key), str))
    for key in ("base", "space", "data"):
        _check(f"settings.{key}", settings[key], _is_table(settings[key]))
    _check("settings.base.seed", settings["base"].get("seed"), _is_whole(settings["base"].get("seed", 0)))
    _check("results", results, _is_table(results))
    _check("results.trials", results.get("trials"), isinstance(results.get("trials"), list))
    notes = results.get("notes", [])
    _check("results.notes", notes, isinstance(notes, list) and all(isinstance(note, str) for note in notes))
    _check("date", date, isinstance(date, str))


def check_trial(data: Any) -> None:
    """That a trial's fields are of their kinds: ValueError if one is not, with its name and value."""
    if not _is_table(data):
        raise ValueError(f"a trial is {data!r:.40}")
    number = data.get("number")
    _check("number", number, _is_whole(number) and number >= 0)
    where = f"trial {number}: "
    _check(f"{where}state", data.get("state"), data.get("state") in STATES)
    _check(f"{where}value", data.get("value"), _is_number(data.get("value")))
    for name in ("settings", "params", "details"):
        _check(f"{where}{name}", data.get(name), _is_table(data.get(name)))
    accuracies = data.get("accuracies", {})
    _check(f"{where}accuracies", accuracies, _is_table(accuracies) and all(map(_is_number, accuracies.values())))
    for name in ("ended", "worker"):
        _check(f"{where}{name}", data.get(name), data.get(name) is None or isinstance(data[name], str))
    for name in ("started", "finished"):
        _check(f"{where}{name}", data.get(name), _is_time(data.get(name)))
    retried = data.get("retried_from")
    _check(f"{where}retried_from", retried, retried is None or _is_whole(retried))
    _check(f"{where}defaults", data.get("defaults"), isinstance(data.get("defaults", False), bool))
    for name in NUMBERS:
        _check(f"{where}details.{name}", data["details"].get(name), _is_number(data["details"].get(name)))
    for name in INTERVALS:
        ends = data["details"].get(name)
        right = isinstance(ends, list) and len(ends) == 2 and None not in ends and all(map(_is_number, ends))
        _check(f"{where}details.{name}", ends, ends is None or right)


def _check(name: str, value: Any, right: bool) -> None:
    if not right:
        raise ValueError(f"{name} is {value!r:.40}")


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    """Whether it is a finite number, or none was measured."""
    if value is None:
        return True
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63


def _is_time(value: Any) -> bool:
    if value is None:
        return True
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False
