"""The search space: which settings are tried, and the range of each.

Spaces are data.  That of each network is a file in this package, ``spaces/squad.toml`` and so on, to be read, copied
and edited; a user's own space is a file of the same form.  The paper's spaces are in ``spaces/paper``.
"""

import difflib
import importlib.resources
import tomllib
import types
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from squad.errors import ArgumentError, SquadError
from squad.models import network_config
from squad.models.config import CONFIGS
from squad.search.parameters import Choices, Entry, Fixed, Integers, Octaves, Reals, entry_of
from squad.train import TrainConfig

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["Choices", "Entry", "Fixed", "Integers", "Octaves", "Reals", "Space", "SpaceError", "read_tables"]

TABLES = ("network", "training")
#: Name of the paper's space, accepted instead of a file.
PAPER = "paper"
#: Settings of training that must be equal for all trials that train together.
NOT_SEARCHABLE = ("precision", "backend", "adversarial")
#: Ranges allowed for each kind of setting, in addition to Choices and Fixed.
RANGES: dict[str, tuple[type, ...]] = {"integer": (Integers, Octaves), "float": (Reals,)}


class SpaceError(SquadError):
    """A file whose search space cannot be used."""


@dataclass(frozen=True)
class Space:
    """A search space.

    Spaces are equal by value, in whatever order their settings were given.  Every value of every entry is checked by
    the class of its setting.  Of pairs of settings, only anneal_epochs and max_epochs can conflict; they are compared
    if both are in the space.

    Attributes:
        model: Name of the network.
        entries: Range of each setting by dotted name, such as "network.bins".  A ``Fixed`` entry has the same value in
            all trials and is not a parameter of Optuna's.

    Examples:
        >>> space = Space.of("squad", {"network": {"bins": {"low": 5, "high": 21, "step": 2}, "hidden": [32, 32]},
        ...                            "training": {"batch_size": {"low": 32, "high": 512, "octaves": 0.5}}})
        >>> sorted(space.distributions())
        ['network.bins', 'training.log2_batch_size']
        >>> space.settings({"network.bins": 15, "training.log2_batch_size": 7.5})
        {'network.hidden': [32, 32], 'network.bins': 15, 'training.batch_size': 181}
    """

    model: str
    entries: Mapping[str, Entry]

    def __post_init__(self) -> None:
        kinds = _kinds(self.model)
        _check_entries(self.model, self.entries, kinds)
        # In the order of the settings' classes, because a sampler's draws depend on the order of its parameters.
        object.__setattr__(self, "entries", {name: self.entries[name] for name in kinds if name in self.entries})
        if all(isinstance(entry, Fixed) for entry in self.entries.values()):
            raise ArgumentError("The space has no setting to search. Give at least one setting a range or choices.")
        anneal, epochs = (self.entries.get(f"training.{name}") for name in ("anneal_epochs", "max_epochs"))
        if anneal is not None and epochs is not None and max(anneal.ends) >= min(epochs.ends):
            allowed = f"below the smallest max_epochs, {min(epochs.ends)}"
            hint = "The best weights are chosen among the epochs after annealing."
            raise ArgumentError.of("training.anneal_epochs", f"up to {max(anneal.ends)}", allowed, hint)

    @classmethod
    def of(cls, model: str, tables: Mapping[str, Any], fixed: Collection[str] = ()) -> "Space":
        """Parse tables as in TOML.

        Args:
            model: Name of the network.
            tables: {"network": {...}, "training": {...}}; each maps a setting's name to {"low": ..., "high": ...} with
                optional "log": True, "step" or "octaves", to {"choices": [...]}, or to one value for all trials.  A
                range of one value and a single choice count as one value, too.  "model" is optional and must agree.
            fixed: Dotted names that are set elsewhere; they are checked and left out.

        Returns:
            The space.
        """
        kinds = _kinds(model)
        entries = dict(_parse(model, tables, kinds))
        _check_entries(model, entries, kinds)
        kept = {name: entry for name, entry in entries.items() if name not in fixed}
        if entries and all(isinstance(entry, Fixed) for entry in kept.values()) and len(kept) < len(entries):
            names = ", ".join(name for name in entries if name in fixed)
            raise ArgumentError(f"Nothing is left to search: {names} are set. Leave at least one of them unset.")
        return cls(model, kept)

    @classmethod
    def default(cls, model: str, fixed: Collection[str] = ()) -> "Space":
        """Return the default space of a network, which contains the default settings; ``fixed`` as in :meth:`of`.

        Args:
            model: Name of the network.
            fixed: Dotted names that are set elsewhere, as in :meth:`of`.

        Returns:
            The space.
        """
        return cls.of(model, _packaged(model), fixed)

    @classmethod
    def paper(cls, model: str, fixed: Collection[str] = ()) -> "Space":
        """Return the space of the paper's appendix, which excludes some defaults; ``fixed`` as in :meth:`of`.

        Args:
            model: Name of the network.
            fixed: Dotted names that are set elsewhere, as in :meth:`of`.

        Returns:
            The space.
        """
        return cls.of(model, _packaged(model, PAPER), fixed)

    @classmethod
    def read(cls, path: Path, model: str, fixed: Collection[str] = ()) -> "Space":
        """Read a TOML file, or return the paper's space for the path "paper"; ``fixed`` as in :meth:`of`.

        Args:
            path: The TOML file, or "paper".
            model: Name of the network.
            fixed: Dotted names that are set elsewhere, as in :meth:`of`.

        Returns:
            The space.
        """
        if str(path) == PAPER and not path.exists():
            return cls.paper(model, fixed)
        tables = read_tables(path)
        try:
            return cls.of(model, tables, fixed)
        except ArgumentError as cause:
            raise SpaceError(f"{path}: {cause}") from cause

    def distributions(self) -> "dict[str, BaseDistribution]":
        """Return Optuna's distributions by parameter: setting names, with "training.log2_batch_size" for octaves."""
        return {_param(name, entry): entry.distribution() for name, entry in self._searched()}

    def settings(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Convert Optuna's parameters to settings by dotted name, including fixed ones.

        Args:
            params: Value by name of the parameter.

        Returns:
            Value by dotted name of the setting.
        """
        names = {_param(name, entry) for name, entry in self._searched()}
        self._check_names("parameters", params, names)
        return {
            name: entry.plain()
            if isinstance(entry, Fixed)
            else _named(name, entry.setting, params[_param(name, entry)])
            for name, entry in self.entries.items()
        }

    def params(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Convert settings by dotted name to Optuna's parameters; fixed settings may be missing, but not differ.

        Args:
            settings: Value by dotted name of the setting.

        Returns:
            Value by name of the parameter.
        """
        fixed = {name: entry for name, entry in self.entries.items() if isinstance(entry, Fixed)}
        self._check_names("settings", settings, {name for name, _ in self._searched()}, fixed)
        for name in fixed.keys() & settings.keys():
            if not _is_value(settings[name], fixed[name]):
                allowed = f"{fixed[name].plain()!r}, as in all trials of this space"
                raise ArgumentError.of(name, repr(settings[name]), allowed)
        return {_param(name, entry): _named(name, entry.param, settings[name]) for name, entry in self._searched()}

    def nearest(self, settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return Optuna's parameters of the nearest point of the space, and the names of settings that lie outside.

        A value between two points of a grid counts as inside: a batch size of 28 on a grid with 23 and 32.

        Args:
            settings: Value by dotted name, for all settings of the space.

        Returns:
            Value by name of the parameter, and dotted names.
        """
        params, outside = {}, []
        for name, entry in self.entries.items():
            if isinstance(entry, Fixed):
                if not _is_value(settings[name], entry):
                    outside.append(name)
            elif (found := entry.nearest(settings[name])) is None:
                outside.append(name)
            else:
                params[_param(name, entry)] = found
        return params, outside

    def to_dict(self) -> dict[str, Any]:
        """Return the space as plain data: tables as in TOML, which :meth:`of` reads back."""
        tables: dict[str, Any] = {"model": self.model}
        for name, entry in self.entries.items():
            table, _, key = name.partition(".")
            tables.setdefault(table, {})[key] = entry.plain()
        return tables

    def most(self, name: str) -> Any | None:
        """Return the largest value of a setting; None if it is not in the space.

        Args:
            name: Dotted name of the setting.

        Returns:
            The value, or None.
        """
        entry = self.entries.get(name)
        if entry is None:
            return None
        if isinstance(entry.ends[0], (str, bool, tuple)):
            raise ArgumentError(f"{name} has no largest value, because its values are not numbers.")
        return max(entry.ends)

    def points(self) -> int | None:
        """Return the number of different points of the space; None if a range is continuous."""
        count = 1
        for _, entry in self._searched():
            match entry:
                case Choices():
                    count *= len(entry.choices)
                case Octaves():
                    count *= len(entry.values)
                case Integers():
                    count *= (entry.high - entry.low) // entry.step + 1
                case Reals():
                    if entry.step is None:
                        return None
                    count *= round((entry.high - entry.low) / entry.step) + 1
        return count

    def _searched(self) -> Iterator[tuple[str, "Choices | Integers | Reals | Octaves"]]:
        for name, entry in self.entries.items():
            if not isinstance(entry, Fixed):
                yield name, entry

    def _check_names(
        self, what: str, given: Mapping[str, Any], needed: Collection[str], allowed: Collection[str] = ()
    ) -> None:
        known = sorted({*needed, *allowed})
        if missing := [name for name in sorted(needed) if name not in given]:
            raise ArgumentError(f"{missing[0]} is missing in the {what}. Required: {', '.join(known)}.")
        if unknown := [name for name in given if name not in known]:
            raise ArgumentError(f"{unknown[0]} is not one of the {what} of this space: {', '.join(known)}.")


def _is_value(given: Any, entry: Fixed) -> bool:
    """Return whether a value is that of a fixed entry; True is not 1."""
    given, value = list(given) if isinstance(given, tuple) else given, entry.plain()
    return bool(given == value and isinstance(given, bool) == isinstance(value, bool))


def _packaged(model: str, *folders: str) -> dict[str, Any]:
    """Return the tables of a space of this package."""
    _kinds(model)  # refuses unknown models, before the name becomes part of a path
    file = importlib.resources.files(__package__).joinpath("spaces", *folders, f"{model}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def read_tables(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file; an empty dictionary for "paper", which names a space for every model."""
    if str(path) == PAPER and not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as cause:
        raise SpaceError(f"{path} cannot be read: {cause.strerror}.") from cause
    except (ValueError, RecursionError) as cause:  # not TOML, not UTF-8, or a number of thousands of digits
        raise SpaceError(f"{path} is not TOML: {' '.join(str(cause).split())}.") from cause


def _parse(model: str, tables: Mapping[str, Any], kinds: Mapping[str, str]) -> Iterator[tuple[str, Entry]]:
    """Parse the entries of all tables, with their dotted names."""
    if not isinstance(tables, Mapping):
        raise ArgumentError.of("a space", repr(tables), "a mapping with the tables network and training")
    for key in tables:
        if key not in ("model", *TABLES):
            raise ArgumentError(f"{key} is not a table of a space. {_suggestion(str(key), ['model', *TABLES])}")
    if (named := tables.get("model", model)) != model:
        hint = f"This space is for {named}: search that network, or change the model of the space."
        raise ArgumentError.of("model", repr(named), f"{model!r}, the network that is searched", hint)
    for table in TABLES:
        rows = tables.get(table, {})
        if not isinstance(rows, Mapping):
            raise ArgumentError.of(table, repr(rows), "a table with a line for each setting")
        for key, given in rows.items():
            name = f"{table}.{key}"
            _check_searchable(model, name, kinds)
            yield name, _named(name, entry_of, given, kinds[name])


def _check_entries(model: str, entries: Mapping[str, Entry], kinds: Mapping[str, str]) -> None:
    """Check that each setting accepts the ends of its range, or all its choices."""
    for name, entry in entries.items():
        _check_searchable(model, name, kinds)
        allowed = (Choices, Fixed, *RANGES.get(kinds[name], ()))
        if not isinstance(entry, allowed):
            names = ", ".join(kind.__name__ for kind in allowed)
            raise ArgumentError.of(name, type(entry).__name__, f"one of {names}")
        for value in entry.ends:
            if isinstance(value, tuple) and kinds[name] != "list":
                raise ArgumentError.of(name, repr(list(value)), "a single value, since a trial is one network")
            _named(name, _check_value, model, name, value)


def _check_value(model: str, name: str, value: Any) -> None:
    """Check a value by constructing the class of its setting."""
    table, _, key = name.partition(".")
    if table == "network":
        network_config(model, {key: value})
    elif key == "anneal_epochs":  # must be below max_epochs, which may be set elsewhere
        TrainConfig.of({key: value, "max_epochs": max(value, 0) + 1 if isinstance(value, int) else 1})
    else:
        TrainConfig.of({key: value})


def _named(name: str, function: Any, *arguments: Any) -> Any:
    """Call a function, and put the setting's name in front of its error message."""
    try:
        return function(*arguments)
    except ArgumentError as cause:
        raise ArgumentError(f"{name}: {cause}") from cause


def _param(name: str, entry: Entry) -> str:
    """Return Optuna's name of a setting."""
    table, _, key = name.partition(".")
    return f"{table}.{entry.prefix}{key}"


def _kinds(model: str) -> dict[str, str]:
    """Return the kind of each searchable setting: "integer", "float", "bool", "text" or "list", by dotted name."""
    network = type(network_config(model))
    found: dict[str, str] = {}
    for table, settings in (("network", network), ("training", TrainConfig)):
        hints = get_type_hints(settings)
        found |= {f"{table}.{field.name}": _kind(hints[field.name]) for field in fields(settings)}
    left_out = [*NOT_SEARCHABLE, *_without_effect(model)]
    return {name: kind for name, kind in found.items() if name.removeprefix("training.") not in left_out}


def _kind(hint: Any) -> str:
    """Return the kind of a type hint; a number may be optional, or given per member."""
    if get_origin(hint) is Literal:
        return "text"
    if get_origin(hint) is tuple:
        return "list"
    types_ = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return next(kind for of, kind in ((bool, "bool"), (float, "float"), (int, "integer")) if of in types_)


def _without_effect(model: str) -> dict[str, str]:
    """Return the settings of training that have no effect for a network, and why."""
    found = {}
    if CONFIGS[model].kl_multiplier == 0:
        found["kl_multiplier"] = "has no KL"
    if CONFIGS[model].anneal_epochs == 0:
        found |= dict.fromkeys(("anneal_epochs", "temperature_start", "temperature_end"), "has no temperature")
    return found


def _check_searchable(model: str, name: str, kinds: Mapping[str, str]) -> None:
    """Check that a setting can be searched; the error says why not, or which setting was probably meant."""
    if name in kinds:
        return
    table, _, key = name.partition(".")
    if table == "training" and key in NOT_SEARCHABLE:
        raise ArgumentError(
            f"{name} cannot be searched, because it must be equal for all trials that train together."
            f" Set it for the whole study with --set {name}=..."
        )
    if table == "training" and (why := _without_effect(model).get(key)):
        raise ArgumentError(f"{name} cannot be searched: the network {model} {why}, so it has no effect.")
    other = f"{'training' if table == 'network' else 'network'}.{key}"
    models = [one for one, config in CONFIGS.items() if key in {field.name for field in fields(config)}]
    if other in kinds:
        hint = f"It belongs under [{other.partition('.')[0]}]."
    elif table == "network" and models:
        hint = f"It is a setting of {', '.join(models)}."
    else:
        hint = _suggestion(key, [one.partition(".")[2] for one in kinds if one.startswith(f"{table}.")])
    subject = f"the network {model}" if table == "network" else table
    raise ArgumentError(f"{name} is not a searchable setting of {subject}. {hint}")


def _suggestion(given: str, known: list[str]) -> str:
    near = difflib.get_close_matches(given, known, 1)
    return f"Did you mean {near[0]}?" if near else f"Choose one of {', '.join(known)}."
