"""Argument checks shared by several modules; each raises an ArgumentError or returns the checked value."""

import difflib
import numbers
import operator
from collections.abc import Iterable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from squad.errors import ArgumentError

__all__ = [
    "broadcasts_to",
    "check_choice",
    "check_count",
    "check_finite",
    "check_fraction",
    "check_keys",
    "check_number",
    "check_size",
    "check_temperature",
    "common_shape",
    "extremes",
]

T = TypeVar("T", bound=str)

#: Lowest temperature allowed: far below it, logits divided by the temperature overflow.
MIN_TEMPERATURE = 1e-6
#: Largest number of units, bins or members: far more than fits into memory, far less than what overflows.
MAX_SIZE = 1_000_000
#: Smallest risk and delta: nobody can label the number of cases that smaller ones need.
MIN_FRACTION = 1e-9


def check_count(name: str, value: int, minimum: int, maximum: int | None = None) -> int:
    """Check that ``value`` is an integer within bounds.

    Args:
        name: Name of the argument, used in the error message.
        value: Value of any integer type; bool is rejected.
        minimum: Smallest value allowed.
        maximum: Largest value allowed; None for no upper bound.

    Returns:
        The value as an int.
    """
    try:
        count = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = None
    if count is None or count < minimum or (maximum is not None and count > maximum):
        allowed = f">= {minimum}" if maximum is None else f"between {minimum} and {maximum}"
        raise ArgumentError.of(name, repr(value), f"an integer {allowed}")
    return count


def check_size(name: str, value: int, minimum: int) -> int:
    """Check the size of something held in memory: an integer between ``minimum`` and ``MAX_SIZE``.

    A larger size is a mistake and would overflow somewhere.

    Args:
        name: Name of the argument, used in the error message.
        value: Value to check.
        minimum: Smallest allowed value.

    Returns:
        The value as a Python int.

    Raises:
        ArgumentError: If the value is not an integer in this range.
    """
    count = check_count(name, value, minimum)
    if count > MAX_SIZE:
        raise ArgumentError.of(name, value, f"an integer of at most {MAX_SIZE:,}")
    return count


def check_number(
    name: str,
    value: float,
    minimum: float = float("-inf"),
    maximum: float = float("inf"),
    *,
    exclude: float | None = None,
) -> float:
    """Check that ``value`` is a finite real number within bounds.

    Args:
        name: Name of the argument, used in the error message.
        value: Value of any real type; bool is rejected.
        minimum: Lower bound.
        maximum: Upper bound.
        exclude: Bound that is itself not allowed: ``minimum`` or ``maximum``.

    Returns:
        The value as a float.
    """
    given: object = value
    try:
        number = float("nan") if isinstance(given, bool) or not isinstance(given, numbers.Real) else float(given)
    except OverflowError:  # an integer beyond the range of floats
        number = float("inf")
    if not minimum <= number <= maximum or number == exclude or number in (float("inf"), float("-inf")):
        low = (
            "" if minimum == float("-inf") else f"above {minimum:g}" if exclude == minimum else f"at least {minimum:g}"
        )
        high = "" if maximum == float("inf") else f"below {maximum:g}" if exclude == maximum else f"at most {maximum:g}"
        raise ArgumentError.of(
            name, repr(value), f"a number{' ' if low or high else ''}{' and '.join(filter(None, (low, high)))}"
        )
    return number


def check_fraction(name: str, value: float) -> float:
    """Check a number strictly between 0 and 1.

    Args:
        name: Name of the argument, used in the error message.
        value: Value to check.

    Returns:
        The value as a Python float.

    Raises:
        ArgumentError: If the value is not strictly between 0 and 1; a value that looks like a percentage is converted
            in the message.
    """
    try:
        number = check_number(name, value, MIN_FRACTION, 1.0, exclude=1.0)
    except ArgumentError:
        given: object = value
        percent = isinstance(given, (int, float)) and not isinstance(given, bool) and 1 <= given < 100
        hint = f"{given:g} % is {given / 100:g}." if percent else ""  # type: ignore[operator]
        raise ArgumentError.of(
            name, repr(value), f"a number above 0 (at least {MIN_FRACTION:g}) and below 1", hint
        ) from None
    return number


def check_keys(what: str, keys: Iterable[str], known: Sequence[str]) -> None:
    """Check that all keys of a mapping are known; the error suggests the most similar known key.

    Args:
        what: What the keys configure, used in the error message, e.g. "the network squad".
        keys: Keys to check.
        known: Valid keys.
    """
    for key in keys:
        if key not in known:
            similar = difflib.get_close_matches(str(key), known, 1)
            hint = f"Did you mean {similar[0]}?" if similar else f"Valid settings are {', '.join(known)}."
            raise ArgumentError(f"{key} is not a setting of {what}. {hint}")


def check_choice(name: str, value: T, choices: Sequence[T]) -> T:
    """Check that ``value`` is one of ``choices``, and return it.

    Args:
        name: Name of the argument, used in the error message.
        value: Value to check.
        choices: Allowed values.

    Returns:
        The value, unchanged.

    Raises:
        ArgumentError: If the value is not one of the choices.
    """
    if value not in choices:
        raise ArgumentError.of(name, repr(value), "one of " + ", ".join(map(repr, choices)))
    return value


def extremes(tensor: Tensor) -> tuple[float, float] | None:
    """Return the smallest and largest element (NaN if there is one), or None where that is costly or impossible.

    None is returned for tensors on other devices than the CPU, while torch.compile traces a graph, inside transforms
    of torch.func, and for empty tensors.
    """
    if torch.compiler.is_compiling() or tensor.device.type != "cpu" or tensor.numel() == 0:
        return None
    try:
        if tensor.numel() == 1:
            only = tensor.detach().item()
            return only, only
        low, high = torch.aminmax(tensor.detach())
        return low.item(), high.item()
    except RuntimeError:  # under torch.func.vmap the tensor has no single value
        return None


def check_finite(name: str, tensor: Tensor) -> Tensor:
    """Check that a tensor contains neither NaN nor infinity, and return it.

    Args:
        name: Name of the argument, used in the error message.
        tensor: Tensor to check, any shape.

    Returns:
        The tensor, unchanged.

    Raises:
        ArgumentError: If an element is NaN or infinite; the message shows the first one.
    """
    finite = torch.isfinite(tensor)
    if not bool(finite.all()):
        bad = tensor.detach()[~finite].flatten()[0].item()
        hint = "Check for a division by zero, or a learning rate that is too large."
        raise ArgumentError.of(name, bad, "finite", hint)
    return tensor


def check_temperature(temperature: float | Tensor) -> None:
    """Check that all temperatures are finite and at least ``MIN_TEMPERATURE``."""
    if isinstance(temperature, Tensor):
        bounds = extremes(temperature)
    elif isinstance(temperature, bool) or not isinstance(temperature, (int, float)):
        raise ArgumentError.of("temperature", repr(temperature), "a number or a tensor")
    else:
        bounds = temperature, temperature
    for number in bounds or ():
        if not MIN_TEMPERATURE <= number < float("inf"):
            hint = f"The minimum is {MIN_TEMPERATURE}; the paper anneals from 1.0 to 0.5."
            raise ArgumentError.of("temperature", number, "positive and finite", hint)


def common_shape(one: Sequence[int], other: Sequence[int]) -> torch.Size | None:
    """Return the shape to which both shapes broadcast, or None if they are incompatible."""
    try:
        return torch.Size(torch.broadcast_shapes(tuple(one), tuple(other)))
    except RuntimeError:
        return None


def broadcasts_to(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Return whether ``shape`` can be expanded to ``target``, axis by axis from the right."""
    lead = len(target) - len(shape)
    return lead >= 0 and all(a in (1, b) for a, b in zip(shape, target[lead:], strict=True))
