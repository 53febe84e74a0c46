"""The space of a search: which settings are tried, and over what each of them ranges.

Spaces are data.  The one of each network is a file beside this module, ``spaces/squad.toml`` and so on, to be read,
copied and edited; a user's own is a file of the same form.  The paper's are in ``spaces/paper``.
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
#: What the paper's space is called in the place of a file.
PAPER = "paper"
#: Settings of training that are the same for all that train together.
SHARED = ("precision", "backend", "adversarial")
#: Entries that a setting of each kind can have, beside Choices and Fixed.
RANGES: dict[str, tuple[type, ...]] = {"whole": (Integers, Octaves), "real": (Reals,)}


class SpaceError(SquadError):
    """A file with a space that cannot be used."""


@dataclass(frozen=True)
class Space:
    """What a search tries.  Equal by value, and the same whatever order its settings were given in.

    Every value of every entry is one that the network and its training take by itself, or there is no such space; of
    pairs, only anneal_epochs and max_epochs can be at odds, and are compared where both are in the space.

    Attributes:
        model: the network's name.
        entries: by dotted name, such as "network.bins", what the setting ranges over.  A ``Fixed`` one has the same
            value in all trials, and is no parameter of Optuna's.

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
        _check(self.model, self.entries, kinds)
        # In the order of the settings' own classes: a sampler's draws depend on the order of its parameters.
        object.__setattr__(self, "entries", {name: self.entries[name] for name in kinds if name in self.entries})
        if all(isinstance(entry, Fixed) for entry in self.entries.values()):
            raise ArgumentError.of("a space", "nothing", "of one setting at least that is searched")
        anneal, epochs = (self.entries.get(f"training.{name}") for name in ("anneal_epochs", "max_epochs"))
        if anneal is not None and epochs is not None and max(anneal.ends) >= min(epochs.ends):
            allowed = f"below the least max_epochs, {min(epochs.ends)}"
            hint = "The best weights are looked for once the temperature has arrived."
            raise ArgumentError.of("training.anneal_epochs", f"up to {max(anneal.ends)}", allowed, hint)

    @classmethod
    def of(cls, model: str, tables: Mapping[str, Any], fixed: Collection[str] = ()) -> "Space":
        """From tables as in TOML.

        Args:
            model: the network's name.
            tables: {"network": {...}, "training": {...}}; in each, by a setting's name, {"low": ..., "high": ...} with
                "log": True, "step" or "octaves" if wanted, {"choices": [...]}, or the one value for all trials.  A
                range of one value, and a single choice, are such a value, too.  "model" may be there, and must agree.
            fixed: dotted names that are set elsewhere; they are checked and left out.
        """
        kinds = _kinds(model)
        entries = dict(_parsed(model, tables, kinds))
        _check(model, entries, kinds)
        kept = {name: entry for name, entry in entries.items() if name not in fixed}
        if entries and all(isinstance(entry, Fixed) for entry in kept.values()) and len(kept) < len(entries):
            left = ", ".join(name for name in entries if name in fixed)
            raise ArgumentError(f"Nothing is left to search: you have set {left}. Leave one of these to the search.")
        return cls(model, kept)

    @classmethod
    def default(cls, model: str, fixed: Collection[str] = ()) -> "Space":
        """The network's own, which contains the default settings of a fit; ``fixed`` as in :meth:`of`."""
        return cls.of(model, _packaged(model), fixed)

    @classmethod
    def paper(cls, model: str, fixed: Collection[str] = ()) -> "Space":
        """The space of the paper's appendix, which does not contain all defaults; ``fixed`` as in :meth:`of`."""
        return cls.of(model, _packaged(model, PAPER), fixed)

    @classmethod
    def read(cls, path: Path, model: str, fixed: Collection[str] = ()) -> "Space":
        """From a TOML file, or the paper's by its name, "paper"; ``fixed`` as in :meth:`of`."""
        if str(path) == PAPER and not path.exists():
            return cls.paper(model, fixed)
        tables = read_tables(path)
        try:
            return cls.of(model, tables, fixed)
        except ArgumentError as cause:
            raise SpaceError(f"{path}: {cause}") from cause

    def distributions(self) -> "dict[str, BaseDistribution]":
        """What Optuna draws from, by its names: those of the settings, and "training.log2_batch_size" for octaves."""
        return {_param(name, entry): entry.distribution() for name, entry in self._searched()}

    def settings(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Settings by dotted names, from Optuna's parameters; those that are fixed among them."""
        names = {_param(name, entry) for name, entry in self._searched()}
        self._check_names("parameters", params, names)
        return {
            name: entry.plain() if isinstance(entry, Fixed) else _told(name, entry.setting, params[_param(name, entry)])
            for name, entry in self.entries.items()
        }

    def params(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Optuna's parameters, from settings by dotted names; fixed ones may be missing, but not differ."""
        fixed = {name for name, entry in self.entries.items() if isinstance(entry, Fixed)}
        self._check_names("settings", settings, {name for name, _ in self._searched()}, fixed)
        for name in fixed & settings.keys():
            value = self.entries[name].plain()
            given = list(settings[name]) if isinstance(settings[name], tuple) else settings[name]
            if given != value or isinstance(given, bool) != isinstance(value, bool):
                raise ArgumentError.of(name, repr(settings[name]), f"{value!r}, as in all trials of this space")
        return {_param(name, entry): _told(name, entry.param, settings[name]) for name, entry in self._searched()}

    def nearest(self, settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Optuna's parameters of the point of the space that is nearest to settings, and which of them lie outside.

        Between two points of a grid counts as inside: a batch size of 28 where there are 23 and 32.
        """
        params, outside = {}, []
        for name, entry in self.entries.items():
            if isinstance(entry, Fixed):
                given = list(settings[name]) if isinstance(settings[name], tuple) else settings[name]
                if given != entry.plain() or isinstance(given, bool) != isinstance(entry.plain(), bool):
                    outside.append(name)
            elif (found := entry.nearest(settings[name])) is None:
                outside.append(name)
            else:
                params[_param(name, entry)] = found
        return params, outside

    def to_dict(self) -> dict[str, Any]:
        """As plain data: tables as in TOML, which :meth:`of` reads back."""
        tables: dict[str, Any] = {"model": self.model}
        for name, entry in self.entries.items():
            table, _, key = name.partition(".")
            tables.setdefault(table, {})[key] = entry.plain()
        return tables

    def most(self, name: str) -> Any | None:
        """The largest value a setting can take, by its dotted name; None if it is not in the space."""
        entry = self.entries.get(name)
        if entry is None:
            return None
        if isinstance(entry.ends[0], (str, bool, tuple)):
            raise ArgumentError.of(name, "a setting without an order", "a number, to have a largest value")
        return max(entry.ends)

    def points(self) -> int | None:
        """How many different trials there are; None if a setting is any number of a range."""
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
            raise ArgumentError(f"{missing[0]} is missing among the {what}. There must be {', '.join(known)}.")
        if unknown := [name for name in given if name not in known]:
            raise ArgumentError(f"{unknown[0]} is not among the {what} of this space. There are {', '.join(known)}.")


def _packaged(model: str, *folders: str) -> dict[str, Any]:
    """The tables of a space that comes with squad."""
    _kinds(model)  # an unknown name is told before it becomes one of a file
    place = importlib.resources.files(__package__).joinpath("spaces", *folders, f"{model}.toml")
    return tomllib.loads(place.read_text(encoding="utf-8"))


def read_tables(path: Path) -> dict[str, Any]:
    """The tables of a file, as they are; none of the paper's space, which there is for every model."""
    if str(path) == PAPER and not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as cause:
        raise SpaceError(f"{path} cannot be read: {cause.strerror}.") from cause
    except (ValueError, RecursionError) as cause:  # no TOML, no UTF-8, a number of thousands of digits
        raise SpaceError(f"{path} is not TOML: {' '.join(str(cause).split())}.") from cause


def _parsed(model: str, tables: Mapping[str, Any], kinds: Mapping[str, str]) -> Iterator[tuple[str, Entry]]:
    """The entries of all tables, by dotted name."""
    if not isinstance(tables, Mapping):
        raise ArgumentError.of("a space", repr(tables), "tables called network and training")
    for key in tables:
        if key not in ("model", *TABLES):
            raise ArgumentError(f"{key} is not a table of a space. {_meant(str(key), ['model', *TABLES])}")
    if (named := tables.get("model", model)) != model:
        hint = f"This space is for {named}: search that network, or change its first line."
        raise ArgumentError.of("model", repr(named), f"{model!r}, the network that is searched", hint)
    for table in TABLES:
        rows = tables.get(table, {})
        if not isinstance(rows, Mapping):
            raise ArgumentError.of(table, repr(rows), "a table, with a line for each setting")
        for key, given in rows.items():
            name = f"{table}.{key}"
            _check_known(model, name, kinds)
            yield name, _told(name, entry_of, given, kinds[name])


def _check(model: str, entries: Mapping[str, Entry], kinds: Mapping[str, str]) -> None:
    """That every value of every entry is one the setting takes."""
    for name, entry in entries.items():
        _check_known(model, name, kinds)
        allowed = (Choices, Fixed, *RANGES.get(kinds[name], ()))
        if not isinstance(entry, allowed):
            names = ", ".join(kind.__name__ for kind in allowed)
            raise ArgumentError.of(name, type(entry).__name__, f"one of {names}")
        for value in entry.ends:
            if isinstance(value, tuple) and kinds[name] != "list":
                raise ArgumentError.of(name, repr(list(value)), "one value, since a trial is one network")
            _told(name, _try, model, name, value)


def _try(model: str, name: str, value: Any) -> None:
    """Let a setting's own class look at a value."""
    table, _, key = name.partition(".")
    if table == "network":
        network_config(model, {key: value})
    elif key == "anneal_epochs":  # with more epochs than there are defaults for: they may be set elsewhere
        TrainConfig.of({key: value, "max_epochs": max(value, 0) + 1 if isinstance(value, int) else 1})
    else:
        TrainConfig.of({key: value})


def _told(name: str, function: Any, *arguments: Any) -> Any:
    """What a function returns; its errors with the setting's name before them."""
    try:
        return function(*arguments)
    except ArgumentError as cause:
        raise ArgumentError(f"{name}: {cause}") from cause


def _param(name: str, entry: Entry) -> str:
    """Optuna's name of a setting."""
    table, _, key = name.partition(".")
    return f"{table}.{entry.prefix}{key}"


def _kinds(model: str) -> dict[str, str]:
    """The settings of a network that can be searched, by dotted name: "whole", "real", "flag", "word" or "list"."""
    network = type(network_config(model))
    found: dict[str, str] = {}
    for table, settings in (("network", network), ("training", TrainConfig)):
        hints = get_type_hints(settings)
        found |= {f"{table}.{field.name}": _kind(hints[field.name]) for field in fields(settings)}
    left_out = [*SHARED, *_without_effect(model)]
    return {name: kind for name, kind in found.items() if name.removeprefix("training.") not in left_out}


def _kind(hint: Any) -> str:
    """What a type is of; a number may be None, too, or one a member."""
    if get_origin(hint) is Literal:
        return "word"
    if get_origin(hint) is tuple:
        return "list"
    some = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return next(kind for of, kind in ((bool, "flag"), (float, "real"), (int, "whole")) if of in some)


def _without_effect(model: str) -> dict[str, str]:
    """Settings of training that do nothing for a network, and why: searching them would be searching noise."""
    found = {}
    if CONFIGS[model].kl_multiplier == 0:
        found["kl_multiplier"] = "has no KL"
    if CONFIGS[model].anneal_epochs == 0:
        found |= dict.fromkeys(("anneal_epochs", "temperature_start", "temperature_end"), "has no temperature")
    return found


def _check_known(model: str, name: str, kinds: Mapping[str, str]) -> None:
    """That a setting is one that can be searched; the error says why not, or which one was probably meant."""
    if name in kinds:
        return
    table, _, key = name.partition(".")
    if table == "training" and key in SHARED:
        raise ArgumentError(
            f"{name} cannot be searched: it is the same for all trials that train together."
            f" Set it for the whole study instead, with --set {name}=..."
        )
    if table == "training" and (why := _without_effect(model).get(key)):
        raise ArgumentError(f"{name} cannot be searched: the network {model} {why}, so it has no effect.")
    other = f"{'training' if table == 'network' else 'network'}.{key}"
    having = [one for one, config in CONFIGS.items() if key in {field.name for field in fields(config)}]
    if other in kinds:
        hint = f"It belongs under [{other.partition('.')[0]}]."
    elif table == "network" and having:
        hint = f"It is one of {', '.join(having)}."
    else:
        hint = _meant(key, [one.partition(".")[2] for one in kinds if one.startswith(f"{table}.")])
    what = f"the network {model}" if table == "network" else table
    raise ArgumentError(f"{name} is not a setting of {what} that can be searched. {hint}")


def _meant(given: str, known: list[str]) -> str:
    near = difflib.get_close_matches(given, known, 1)
    return f"Did you mean {near[0]}?" if near else f"There are {', '.join(known)}."
