"""What a setting ranges over in a search: whole numbers, reals, octaves, choices, or one value for all trials.

An entry knows no setting's name; whoever does puts it before the errors.  Values are plain: numbers, text, booleans,
and tuples for lists (so that an entry cannot be changed), which leave it as lists.
"""

import json
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from squad.core.checks import check_keys, check_number
from squad.errors import ArgumentError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["Choices", "Entry", "Fixed", "Integers", "Octaves", "Reals", "entry_of"]

#: Whole numbers up to here are exact as floats, which is how Optuna stores them.
LARGEST = 2**53
#: Octaves between two values at the least and at the most, and values of one entry: a finer grid is a range.
FINEST, COARSEST, GRID = 0.001, 53, 1000
#: Decimals of Optuna's numbers for octaves: enough to tell them apart, and few enough to add up without rounding.
DECIMALS = 6


@dataclass(frozen=True)
class Fixed:
    """The same value in all trials: nothing that is searched."""

    prefix: ClassVar[str] = ""

    value: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _value(self.value))

    @property
    def ends(self) -> tuple[Any, ...]:
        """Its values if they are few, else the least and the largest."""
        return (self.value,)

    def plain(self) -> Any:
        """As in TOML."""
        return _listed(self.value)


@dataclass(frozen=True)
class Choices:
    """One of a few values, in no order."""

    prefix: ClassVar[str] = ""

    choices: tuple[Any, ...]

    def __post_init__(self) -> None:
        given: object = self.choices
        if not isinstance(given, (list, tuple)) or not given:
            raise ArgumentError.of("choices", repr(given), 'a list of values, such as ["a", "b"]')
        values = tuple(_value(choice) for choice in given)
        for place, value in enumerate(values):
            if value in values[:place]:
                raise ArgumentError.of("choices", f"{_listed(value)!r} twice", "different from each other")
        if len(values) == 1:
            raise ArgumentError.of("choices", "one value", "two values at least", "Fixed holds a single one.")
        object.__setattr__(self, "choices", values)

    @property
    def ends(self) -> tuple[Any, ...]:
        """Its values if they are few, else the least and the largest."""
        return self.choices

    def distribution(self) -> "BaseDistribution":
        """What Optuna draws from; lists are text there, because it keeps nothing else."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution([_stored(choice) for choice in self.choices])

    def setting(self, param: Any) -> Any:
        """The value of a setting, from Optuna's."""
        for choice in self.choices:
            if _stored(choice) == param:
                return _listed(choice)
        raise ArgumentError.of("it", repr(param), f"one of {', '.join(repr(_stored(one)) for one in self.choices)}")

    def param(self, setting: Any) -> Any:
        """Optuna's value, from that of a setting."""
        value = _value(setting)
        for choice in self.choices:
            # True == 1 in Python; numbers may be whole or not.
            if choice == value and isinstance(choice, bool) == isinstance(value, bool):
                return _stored(choice)
        raise ArgumentError.of("it", repr(setting), f"one of {', '.join(repr(_listed(one)) for one in self.choices)}")

    def nearest(self, setting: Any) -> Any | None:
        """Optuna's value for that of a setting; None if it is none of the choices."""
        try:
            return self.param(setting)
        except ArgumentError:
            return None

    def plain(self) -> dict[str, Any]:
        """As in TOML."""
        return {"choices": [_listed(choice) for choice in self.choices]}


@dataclass(frozen=True)
class Integers:
    """Whole numbers from ``low`` to ``high``, both among them: every ``step``-th, or evenly in their logarithm."""

    prefix: ClassVar[str] = ""

    low: int
    high: int
    step: int = 1
    log: bool = False

    def __post_init__(self) -> None:
        low, high, step = (_whole(name, getattr(self, name)) for name in ("low", "high", "step"))
        _ascending(low, high)
        _logarithm(self.log, low)
        if step < 1:
            raise ArgumentError.of("step", step, "1 at least")
        if self.log and step != 1:
            raise ArgumentError.of("step", step, "left out where log = true")
        if (high - low) % step:
            _does_not_divide(low, high, step, high - (high - low) % step)
        for name, value in (("low", low), ("high", high), ("step", step)):
            object.__setattr__(self, name, value)

    @property
    def ends(self) -> tuple[Any, ...]:
        """Its values if they are few, else the least and the largest."""
        return self.low, self.high

    def distribution(self) -> "BaseDistribution":
        """What Optuna draws from."""
        from optuna.distributions import IntDistribution

        return IntDistribution(self.low, self.high, log=self.log, step=self.step)

    def setting(self, param: Any) -> int:
        """The value of a setting, from Optuna's."""
        number = check_number("it", param, self.low, self.high)
        if number != int(number) or (int(number) - self.low) % self.step:
            every = f"{self.low}, {self.low + self.step}, ... {self.high}"
            raise ArgumentError.of("it", repr(param), f"one of {every}")
        return int(number)

    def param(self, setting: Any) -> int:
        """Optuna's value, from that of a setting."""
        return self.setting(setting)

    def nearest(self, setting: Any) -> int | None:
        """Optuna's value for the number of the range nearest to that of a setting; None outside the range."""
        if not self.low <= setting <= self.high:
            return None
        return int(self.low + round((setting - self.low) / self.step) * self.step)

    def plain(self) -> dict[str, Any]:
        """As in TOML."""
        step = {"step": self.step} if self.step != 1 else {}
        return {"low": self.low, "high": self.high, **step, **({"log": True} if self.log else {})}


@dataclass(frozen=True)
class Reals:
    """Real numbers from ``low`` to ``high``: evenly, evenly in their logarithm, or every ``step``-th of them."""

    prefix: ClassVar[str] = ""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        low, high = check_number("low", self.low), check_number("high", self.high)
        _ascending(low, high)
        _logarithm(self.log, low)
        step = None if self.step is None else check_number("step", self.step, 0.0, exclude=0.0)
        if step is not None:
            if self.log:
                raise ArgumentError.of("step", f"{step:g}", "left out where log = true")
            # As decimals, which is what was written: 0.3 is no multiple of 0.1 otherwise.  Optuna does the same.
            if (rest := (_decimal(high) - _decimal(low)) % _decimal(step)) != 0:
                _does_not_divide(low, high, step, float(_decimal(high) - rest))
        for name, value in (("low", low), ("high", high), ("step", step)):
            object.__setattr__(self, name, value)

    @property
    def ends(self) -> tuple[Any, ...]:
        """Its values if they are few, else the least and the largest."""
        return self.low, self.high

    def distribution(self) -> "BaseDistribution":
        """What Optuna draws from."""
        from optuna.distributions import FloatDistribution

        return FloatDistribution(self.low, self.high, log=self.log, step=self.step)

    def setting(self, param: Any) -> float:
        """The value of a setting, from Optuna's; with a step it is 0.3, where Optuna has 0.30000000000000004."""
        slack = 0.0 if self.step is None else 1e-8 * self.step
        number = check_number("it", param, self.low - slack, self.high + slack)
        if self.step is None:
            return number
        steps = round((number - self.low) / self.step)
        if abs((number - self.low) / self.step - steps) > 1e-6:
            every = f"{self.low:g}, {float(_decimal(self.low) + _decimal(self.step)):g}, ... {self.high:g}"
            raise ArgumentError.of("it", repr(param), f"one of {every}")
        return float(_decimal(self.low) + steps * _decimal(self.step))

    def param(self, setting: Any) -> float:
        """Optuna's value, from that of a setting."""
        return self.setting(setting)

    def nearest(self, setting: Any) -> float | None:
        """Optuna's value for the number of the range nearest to that of a setting; None outside the range."""
        if not self.low <= setting <= self.high:
            return None
        if self.step is None:
            return float(setting)
        return float(_decimal(self.low) + round((setting - self.low) / self.step) * _decimal(self.step))

    def plain(self) -> dict[str, Any]:
        """As in TOML."""
        step = {} if self.step is None else {"step": self.step}
        return {"low": self.low, "high": self.high, **step, **({"log": True} if self.log else {})}


@dataclass(frozen=True)
class Octaves:
    """Whole numbers ``low``, ... ``high``, each 2**octaves times the one before, rounded.

    Optuna sees their logarithm to the base 2, so that neighbours on the grid are neighbours for its sampler.
    """

    prefix: ClassVar[str] = "log2_"

    low: int
    high: int
    octaves: float

    def __post_init__(self) -> None:
        low, high = _whole("low", self.low), _whole("high", self.high)
        octaves = check_number("octaves", self.octaves, FINEST, COARSEST)
        _ascending(low, high)
        if low < 1:
            raise ArgumentError.of("low", low, "1 at least, where there are octaves")
        for name, value in (("low", low), ("high", high), ("octaves", octaves)):
            object.__setattr__(self, name, value)
        steps = self._steps
        if steps >= GRID:
            raise ArgumentError.of("octaves", f"{octaves:g}", f"so large that there are at most {GRID:,} values")
        if self._at(steps) != high or not steps:
            below = math.floor(math.log2(high / low) / octaves)
            hint = f"The nearest are {self._at(below)} and {self._at(below + 1)}."
            raise ArgumentError.of("high", high, f"a whole number of steps of {octaves:g} octaves above {low}", hint)
        if len(set(self.values)) != len(self.values):
            hint = "Some of these are equal once they are whole numbers: take a larger low, or more octaves a step."
            shown = ", ".join(map(str, self.values[:8]))
            raise ArgumentError.of("octaves", f"{octaves:g}, which gives {shown}, ...", "of different values", hint)

    @property
    def _steps(self) -> int:
        return round(math.log2(self.high / self.low) / self.octaves)

    def _at(self, step: int) -> int:
        return round(self.low * 2 ** (step * self.octaves))

    @property
    def values(self) -> tuple[int, ...]:
        """All of them, ascending."""
        return tuple(self._at(step) for step in range(self._steps + 1))

    @property
    def _logs(self) -> tuple[float, ...]:
        """Optuna's numbers for them; exact in decimals, so that the grid that Optuna counts is this one."""
        low, step = (Decimal(f"{number:.{DECIMALS}f}") for number in (math.log2(self.low), self.octaves))
        return tuple(float(low + place * step) for place in range(self._steps + 1))

    @property
    def ends(self) -> tuple[Any, ...]:
        """Its values if they are few, else the least and the largest."""
        return self.low, self.high

    def distribution(self) -> "BaseDistribution":
        """What Optuna draws from."""
        from optuna.distributions import FloatDistribution

        return FloatDistribution(self._logs[0], self._logs[-1], step=round(self.octaves, DECIMALS))

    def setting(self, param: Any) -> int:
        """The value of a setting, from Optuna's."""
        logs = self._logs
        number = check_number("it", param)
        place = min(range(len(logs)), key=lambda index: abs(logs[index] - number))
        if abs(logs[place] - number) > 1e-6 * self.octaves:
            raise ArgumentError.of("it", repr(param), f"one of {', '.join(f'{log:g}' for log in logs)}")
        return self._at(place)

    def param(self, setting: Any) -> float:
        """Optuna's value, from that of a setting."""
        number, values = check_number("it", setting), self.values
        if number not in values:
            raise ArgumentError.of("it", repr(setting), f"one of {', '.join(map(str, values))}")
        return self._logs[values.index(int(number))]

    def nearest(self, setting: Any) -> float | None:
        """Optuna's value for the number of the grid nearest to that of a setting; None outside the range."""
        if not self.low <= setting <= self.high:
            return None
        logs = self._logs
        return min(logs, key=lambda log: abs(log - math.log2(setting)))

    def plain(self) -> dict[str, Any]:
        """As in TOML."""
        return {"low": self.low, "high": self.high, "octaves": self.octaves}


Entry: TypeAlias = Fixed | Choices | Integers | Reals | Octaves


def entry_of(given: Any, kind: str) -> Entry:
    """From a value of a TOML file.

    Args:
        given: {low = ..., high = ...} with log, step or octaves; {choices = [...]}; or the one value for all trials.
        kind: of the setting: "whole", "real", "flag", "word" or "list".
    """
    if not isinstance(given, Mapping):
        return Fixed(_of_kind(given, kind))
    check_keys("a range", map(str, given), ["low", "high", "log", "step", "octaves", "choices"])
    if "choices" in given:
        if len(given) > 1:
            other = next(key for key in given if key != "choices")
            raise ArgumentError.of("choices", f"{other} beside them", "alone")
        choices = given["choices"]
        if not isinstance(choices, (list, tuple)):
            raise ArgumentError.of("choices", repr(choices), 'a list of values, such as ["a", "b"]')
        found = [_of_kind(choice, kind) for choice in choices]
        return Fixed(found[0]) if len(found) == 1 else Choices(tuple(found))
    return _range(given, kind)


def _range(given: Mapping[str, Any], kind: str) -> Entry:
    if kind not in ("whole", "real"):
        raise ArgumentError("it is not a number, so it has no range. Write {choices = [...]}.")
    if missing := [key for key in ("low", "high") if key not in given]:
        what = " and ".join(missing) + " are" if len(missing) > 1 else f"{missing[0]} is"
        raise ArgumentError(f"{what} missing. Write {{low = ..., high = ...}}, or {{choices = [...]}}.")
    for name in ("low", "high", "step"):
        if name in given:
            _whole(name, given[name]) if kind == "whole" else check_number(name, given[name])
    single = given["low"] == given["high"]
    if "octaves" in given:
        if more := [key for key in ("log", "step") if key in given]:
            raise ArgumentError.of("octaves", f"{more[0]} beside it", "alone with low and high")
        if kind == "real":
            raise ArgumentError("octaves are for whole numbers, and this one is not. Write log = true instead.")
        check_number("octaves", given["octaves"], FINEST, COARSEST)
    if single:  # as what programs that narrow a space end with
        return Fixed(_of_kind(given["low"], kind))
    if "octaves" in given:
        return Octaves(**given)
    return Integers(**given) if kind == "whole" else Reals(**given)


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        wanted = "a whole number" + (", without a point" if isinstance(value, float) else "")
        raise ArgumentError.of(name, repr(value), wanted)
    number = int(value)
    if abs(number) > LARGEST:
        raise ArgumentError.of(name, number, f"at most {LARGEST}")
    return number


def _of_kind(value: Any, kind: str) -> Any:
    """A value as its setting takes it; whether it is allowed is the setting's own to say."""
    if isinstance(value, (list, tuple)) and kind != "list":
        hint = "To try several, write {choices = [...]}."
        raise ArgumentError.of("it", repr(value), "one value, since a trial is one network", hint)
    if kind == "real":
        return check_number("it", value)
    # Python's own numbers, whatever type they came in: files know no other.
    return value if isinstance(value, bool) or not isinstance(value, numbers.Integral) else int(value)


def _value(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_value(one) for one in value)
    if not isinstance(value, (bool, int, float, str)):
        raise ArgumentError.of("it", repr(value), "a number, text, true, false or a list")
    return value


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if isinstance(value, tuple) else value


def _stored(choice: Any) -> Any:
    return json.dumps(_listed(choice)) if isinstance(choice, tuple) else choice


def _logarithm(log: Any, low: float) -> None:
    if not isinstance(log, bool):
        raise ArgumentError.of("log", repr(log), "true or false")
    if log and low <= 0:
        raise ArgumentError.of(
            "low", f"{low:.10g}", "above 0 where log = true", f"There is no logarithm of {low:.10g}."
        )


def _ascending(low: float, high: float) -> None:
    if low >= high:
        hint = "The range is empty." if low > high else "Fixed holds a single value."
        raise ArgumentError.of("low", f"{low:.10g}", f"below high, {high:.10g}", hint)


def _does_not_divide(low: float, high: float, step: float, instead: float) -> None:
    hint = f"Write high = {instead:.10g}." if instead > low else "Write a smaller step."
    raise ArgumentError.of("high", f"{high:.10g}", f"a whole number of steps of {step:.10g} above {low:.10g}", hint)


def _decimal(number: float) -> Decimal:
    return Decimal(str(number))
