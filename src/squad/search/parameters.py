"""Ranges of settings in a search: integers, reals, octaves, choices, or one value for all trials.

These classes check what a user wrote and convert between settings and Optuna's parameters.  They are not Optuna's
distributions, because records must be readable without Optuna, and because Optuna changes a range that its step does
not divide where squad refuses it.

A range does not know the name of its setting; the caller adds it to error messages.  Values are plain: numbers, text,
booleans, and lists, which are held as tuples so that a range is immutable.
"""

import json
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from squad.core.checks import check_keys, check_number
from squad.errors import ArgumentError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["Choices", "Entry", "Fixed", "Integers", "Octaves", "Reals", "entry_of"]

#: Largest integer allowed: up to here integers are exact as floats, which is how Optuna stores them.
MAX_INTEGER = 2**53
#: Bounds of the step between two values of an Octaves entry.
MIN_OCTAVES, MAX_OCTAVES = 0.001, 53
#: Maximum number of values of an Octaves entry.
MAX_OCTAVE_VALUES = 1000
#: Decimals of Optuna's log2 values: enough to tell them apart, and few enough that sums of steps are exact.
LOG2_DECIMALS = 6
#: Name of a value in error messages, after the name of its setting.
VALUE = "the value"


@dataclass(frozen=True)
class Fixed:
    """The same value in all trials."""

    prefix: ClassVar[str] = ""

    value: Any

    def __post_init__(self) -> None:
        _set(self, value=_checked_value(self.value))

    @property
    def ends(self) -> tuple[Any, ...]:
        """The value."""
        return (self.value,)

    def plain(self) -> Any:
        """Return the entry as in TOML."""
        return _with_lists(self.value)


@dataclass(frozen=True)
class Choices:
    """One of several values without an order.

    Examples:
        >>> Choices(("gaussian", "uniform")).nearest("uniform")
        'uniform'
    """

    prefix: ClassVar[str] = ""

    choices: tuple[Any, ...]

    def __post_init__(self) -> None:
        given: object = self.choices
        if not isinstance(given, (list, tuple)) or not given:
            raise ArgumentError.of("choices", repr(given), 'a list of values, such as ["a", "b"]')
        values = tuple(_checked_value(choice) for choice in given)
        for index, value in enumerate(values):
            if value in values[:index]:
                raise ArgumentError(f"choices must not repeat a value, got {_with_lists(value)!r} twice.")
        if len(values) == 1:
            raise ArgumentError.of("choices", "one value", "at least two values", "Use Fixed for a single value.")
        _set(self, choices=values)

    @property
    def ends(self) -> tuple[Any, ...]:
        """All values."""
        return self.choices

    def distribution(self) -> "BaseDistribution":
        """Return Optuna's distribution; lists are JSON text there, because Optuna stores no lists."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution([_stored(choice) for choice in self.choices])

    def setting(self, param: Any) -> Any:
        """Convert Optuna's value to that of the setting.

        Returns:
            Value of the setting; a tuple becomes a list.
        """
        for choice in self.choices:
            if _stored(choice) == param:
                return _with_lists(choice)
        raise ArgumentError.of(VALUE, repr(param), f"one of {', '.join(repr(_stored(one)) for one in self.choices)}")

    def param(self, setting: Any) -> Any:
        """Convert the value of the setting to Optuna's.

        Returns:
            Value of Optuna's parameter.
        """
        value = _checked_value(setting)
        for choice in self.choices:
            if choice == value and isinstance(choice, bool) == isinstance(value, bool):  # True == 1 in Python
                return _stored(choice)
        allowed = ", ".join(repr(_with_lists(one)) for one in self.choices)
        raise ArgumentError.of(VALUE, repr(setting), f"one of {allowed}")

    def nearest(self, setting: Any) -> Any | None:
        """Return Optuna's value for that of the setting; None if it is not one of the choices."""
        try:
            return self.param(setting)
        except ArgumentError:
            return None

    def plain(self) -> dict[str, Any]:
        """Return the entry as in TOML."""
        return {"choices": [_with_lists(choice) for choice in self.choices]}


class _Range(ABC):
    """Methods shared by the ranges of numbers."""

    prefix: ClassVar[str] = ""

    low: Any
    high: Any

    @property
    def ends(self) -> tuple[Any, ...]:
        """The smallest and the largest value."""
        return self.low, self.high

    @abstractmethod
    def setting(self, param: Any) -> Any:
        """Convert Optuna's value to that of the setting."""

    def param(self, setting: Any) -> Any:
        """Convert the value of the setting to Optuna's."""
        return self.setting(setting)

    def nearest(self, setting: Any) -> Any | None:
        """Return Optuna's value for the nearest value of the range; None outside the range."""
        return self._nearest(setting) if self.low <= setting <= self.high else None

    @abstractmethod
    def _nearest(self, setting: Any) -> Any:
        """Return Optuna's value for the nearest value of the range, of a setting that lies inside."""

    def plain(self) -> dict[str, Any]:
        """Return the entry as in TOML."""
        options = {"step": getattr(self, "step", None), "log": getattr(self, "log", False) or None}
        used = {name: value for name, value in options.items() if value is not None}
        return {"low": self.low, "high": self.high, **used}


@dataclass(frozen=True)
class Integers(_Range):
    """Integers from ``low`` to ``high``, both included: every ``step``-th, or log-uniform.

    Examples:
        >>> Integers(1, 9, step=2).setting(3.0)
        3
    """

    low: int
    high: int
    step: int = 1
    log: bool = False

    def __post_init__(self) -> None:
        low, high, step = (_integer(name, getattr(self, name)) for name in ("low", "high", "step"))
        _check_bounds(low, high, self.log)
        if step < 1:
            raise ArgumentError.of("step", step, "at least 1")
        if self.log and step != 1:
            raise ArgumentError.of("step", step, "left out if log = true")
        if (high - low) % step:
            raise _does_not_divide(low, high, step, high - (high - low) % step)
        _set(self, low=low, high=high, step=step)

    def distribution(self) -> "BaseDistribution":
        """Return Optuna's distribution."""
        from optuna.distributions import IntDistribution

        return IntDistribution(self.low, self.high, log=self.log, step=self.step)

    def setting(self, param: Any) -> int:
        """Convert Optuna's value to that of the setting.

        Returns:
            Value of the setting.
        """
        number = check_number(VALUE, param, self.low, self.high)
        if number != int(number) or (int(number) - self.low) % self.step:
            raise ArgumentError.of(VALUE, repr(param), f"one of {self.low}, {self.low + self.step}, ... {self.high}")
        return int(number)

    def _nearest(self, setting: Any) -> int:
        return int(self.low + round((setting - self.low) / self.step) * self.step)

    def plain(self) -> dict[str, Any]:
        """Return the entry as in TOML."""
        return {name: value for name, value in super().plain().items() if (name, value) != ("step", 1)}


@dataclass(frozen=True)
class Reals(_Range):
    """Real numbers from ``low`` to ``high``: uniform, log-uniform, or every ``step``-th.

    Examples:
        >>> Reals(0.1, 0.9, step=0.1).setting(0.30000000000000004)
        0.3
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        low, high = check_number("low", self.low), check_number("high", self.high)
        _check_bounds(low, high, self.log)
        step = None if self.step is None else check_number("step", self.step, 0.0, exclude=0.0)
        if step is not None:
            if self.log:
                raise ArgumentError.of("step", f"{step:g}", "left out if log = true")
            # In decimals, as written: in binary 0.3 is not a multiple of 0.1.  Optuna does the same.
            if (rest := (_decimal(high) - _decimal(low)) % _decimal(step)) != 0:
                raise _does_not_divide(low, high, step, float(_decimal(high) - rest))
        _set(self, low=low, high=high, step=step)

    def distribution(self) -> "BaseDistribution":
        """Return Optuna's distribution."""
        from optuna.distributions import FloatDistribution

        return FloatDistribution(self.low, self.high, log=self.log, step=self.step)

    def setting(self, param: Any) -> float:
        """Convert Optuna's value to that of the setting: with a step, 0.30000000000000004 becomes 0.3.

        Returns:
            Value of the setting.
        """
        slack = 0.0 if self.step is None else 1e-8 * self.step
        number = check_number(VALUE, param, self.low - slack, self.high + slack)
        if self.step is None:
            return number
        steps = round((number - self.low) / self.step)
        if abs((number - self.low) / self.step - steps) > 1e-6:
            allowed = f"one of {self.low:g}, {self._at(1):g}, ... {self.high:g}"
            raise ArgumentError.of(VALUE, repr(param), allowed)
        return self._at(steps)

    def _at(self, steps: int) -> float:
        """The value ``steps`` steps above ``low``."""
        return float(_decimal(self.low) + steps * _decimal(self.step or 0.0))

    def _nearest(self, setting: Any) -> float:
        return float(setting) if self.step is None else self._at(round((setting - self.low) / self.step))


@dataclass(frozen=True)
class Octaves(_Range):
    """Integers ``low``, ... ``high``, each 2**octaves times the previous one, rounded.

    Optuna's parameter is the base-2 logarithm, so that neighbours on the grid are neighbours for its sampler.

    Examples:
        >>> Octaves(16, 64, 1).values
        (16, 32, 64)
    """

    prefix: ClassVar[str] = "log2_"

    low: int
    high: int
    octaves: float

    def __post_init__(self) -> None:
        low, high = _integer("low", self.low), _integer("high", self.high)
        octaves = check_number("octaves", self.octaves, MIN_OCTAVES, MAX_OCTAVES)
        _check_bounds(low, high)
        if low < 1:
            raise ArgumentError.of("low", low, "at least 1 if there are octaves")
        _set(self, low=low, high=high, octaves=octaves)
        steps = self._steps
        if steps >= MAX_OCTAVE_VALUES:
            allowed = f"large enough that there are at most {MAX_OCTAVE_VALUES:,} values"
            raise ArgumentError.of("octaves", f"{octaves:g}", allowed)
        if self._at(steps) != high or not steps:
            below = math.floor(math.log2(high / low) / octaves)
            hint = f"The nearest are {self._at(below)} and {self._at(below + 1)}."
            raise ArgumentError.of("high", high, f"an integer number of steps of {octaves:g} octaves above {low}", hint)
        if len(set(self.values)) != len(self.values):
            shown = ", ".join(map(str, self.values[:8]))
            raise ArgumentError(
                f"octaves = {octaves:g} gives {shown}, ..., and some of these are equal once rounded. "
                "Use a larger low or more octaves per step."
            )

    @property
    def _steps(self) -> int:
        return round(math.log2(self.high / self.low) / self.octaves)

    def _at(self, step: int) -> int:
        return round(self.low * 2 ** (step * self.octaves))

    @property
    def values(self) -> tuple[int, ...]:
        """All values, ascending."""
        return tuple(self._at(step) for step in range(self._steps + 1))

    @property
    def _logs(self) -> tuple[float, ...]:
        """Optuna's values; exact in decimals, so that Optuna's grid has the same number of points."""
        low, step = (Decimal(f"{number:.{LOG2_DECIMALS}f}") for number in (math.log2(self.low), self.octaves))
        return tuple(float(low + index * step) for index in range(self._steps + 1))

    def distribution(self) -> "BaseDistribution":
        """Return Optuna's distribution."""
        from optuna.distributions import FloatDistribution

        return FloatDistribution(self._logs[0], self._logs[-1], step=round(self.octaves, LOG2_DECIMALS))

    def setting(self, param: Any) -> int:
        """Convert Optuna's value to that of the setting.

        Returns:
            Value of the setting.
        """
        logs = self._logs
        number = check_number(VALUE, param)
        index = min(range(len(logs)), key=lambda index: abs(logs[index] - number))
        if abs(logs[index] - number) > 1e-6 * self.octaves:
            raise ArgumentError.of(VALUE, repr(param), f"one of {', '.join(f'{log:g}' for log in logs)}")
        return self._at(index)

    def param(self, setting: Any) -> float:
        """Convert the value of the setting to Optuna's.

        Returns:
            Value of Optuna's parameter, a logarithm.
        """
        number, values = check_number(VALUE, setting), self.values
        if number not in values:
            raise ArgumentError.of(VALUE, repr(setting), f"one of {', '.join(map(str, values))}")
        return self._logs[values.index(int(number))]

    def _nearest(self, setting: Any) -> float:
        return min(self._logs, key=lambda log: abs(log - math.log2(setting)))

    def plain(self) -> dict[str, Any]:
        """Return the entry as in TOML."""
        return {"low": self.low, "high": self.high, "octaves": self.octaves}


Entry: TypeAlias = Fixed | Choices | Integers | Reals | Octaves


def entry_of(given: Any, kind: str) -> Entry:
    """Parse an entry of a TOML file.

    Args:
        given: {low = ..., high = ...} with log, step or octaves; {choices = [...]}; or the value for all trials.
        kind: Kind of the setting: "integer", "float", "bool", "text" or "list".

    Returns:
        The entry.

    Examples:
        >>> entry_of({"low": 1, "high": 9}, "integer")
        Integers(low=1, high=9, step=1, log=False)
    """
    if not isinstance(given, Mapping):
        return Fixed(_of_kind(given, kind))
    check_keys("a range", map(str, given), ["low", "high", "log", "step", "octaves", "choices"])
    if "choices" not in given:
        return _range(given, kind)
    if len(given) > 1:
        other = next(key for key in given if key != "choices")
        raise ArgumentError(f"choices cannot be combined with {other}. Remove one of the two.")
    choices = given["choices"]
    if not isinstance(choices, (list, tuple)):
        raise ArgumentError.of("choices", repr(choices), 'a list of values, such as ["a", "b"]')
    values = [_of_kind(choice, kind) for choice in choices]
    return Fixed(values[0]) if len(values) == 1 else Choices(tuple(values))


def _range(given: Mapping[str, Any], kind: str) -> Entry:
    """Parse {low = ..., high = ...}; a range of one value, as programs that narrow a space may write, is Fixed."""
    if kind not in ("integer", "float"):
        raise ArgumentError("A setting that is not a number has no range. Write {choices = [...]}.")
    if missing := [key for key in ("low", "high") if key not in given]:
        subject = " and ".join(missing) + " are" if len(missing) > 1 else f"{missing[0]} is"
        raise ArgumentError(f"{subject} missing. Write {{low = ..., high = ...}}, or {{choices = [...]}}.")
    for name in ("low", "high", "step"):
        if name in given:
            _integer(name, given[name]) if kind == "integer" else check_number(name, given[name])
    if "octaves" in given:
        if other := [key for key in ("log", "step") if key in given]:
            raise ArgumentError(f"octaves cannot be combined with {other[0]}. Remove one of the two.")
        if kind == "float":
            raise ArgumentError("octaves are for integers, and this setting is a real number. Write log = true.")
        check_number("octaves", given["octaves"], MIN_OCTAVES, MAX_OCTAVES)
    if given["low"] == given["high"]:
        return Fixed(_of_kind(given["low"], kind))
    if "octaves" in given:
        return Octaves(**given)
    return Integers(**given) if kind == "integer" else Reals(**given)


def _integer(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        allowed = "an integer" + (", without a decimal point" if isinstance(value, float) else "")
        raise ArgumentError.of(name, repr(value), allowed)
    number = int(value)
    if abs(number) > MAX_INTEGER:
        raise ArgumentError.of(name, number, f"at most {MAX_INTEGER}")
    return number


def _of_kind(value: Any, kind: str) -> Any:
    """Return a value in the type of its setting; the setting's own class checks whether it is allowed."""
    if isinstance(value, (list, tuple)) and kind != "list":
        hint = "To try several values, write {choices = [...]}."
        raise ArgumentError.of(VALUE, repr(value), "a single value, since a trial is one network", hint)
    if kind == "float":
        return check_number(VALUE, value)
    # Convert integer types such as NumPy's, which JSON cannot store.
    return value if isinstance(value, bool) or not isinstance(value, numbers.Integral) else int(value)


def _checked_value(value: Any) -> Any:
    """Return a value with lists as tuples."""
    if isinstance(value, (list, tuple)):
        return tuple(_checked_value(one) for one in value)
    if not isinstance(value, (bool, int, float, str)):
        raise ArgumentError.of(VALUE, repr(value), "a number, text, true, false or a list")
    return value


def _with_lists(value: Any) -> Any:
    """Return a value with tuples as lists."""
    return [_with_lists(one) for one in value] if isinstance(value, tuple) else value


def _stored(choice: Any) -> Any:
    """Return a choice as Optuna stores it."""
    return json.dumps(_with_lists(choice)) if isinstance(choice, tuple) else choice


def _set(entry: Any, **values: Any) -> None:
    """Set attributes of a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(entry, name, value)


def _check_bounds(low: float, high: float, log: Any = False) -> None:
    if low >= high:
        hint = "The range is empty." if low > high else "Use Fixed for a single value."
        raise ArgumentError.of("low", f"{low:.10g}", f"below high, {high:.10g}", hint)
    if not isinstance(log, bool):
        raise ArgumentError.of("log", repr(log), "true or false")
    if log and low <= 0:
        raise ArgumentError.of("low", f"{low:.10g}", "above 0 if log = true")


def _does_not_divide(low: float, high: float, step: float, instead: float) -> ArgumentError:
    hint = f"Write high = {instead:.10g}." if instead > low else "Write a smaller step."
    allowed = f"an integer number of steps of {step:.10g} above {low:.10g}"
    return ArgumentError.of("high", f"{high:.10g}", allowed, hint)


def _decimal(number: float) -> Decimal:
    return Decimal(str(number))
