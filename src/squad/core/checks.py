"""Checks that several modules share: each returns what it checked, or raises an ArgumentError."""

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
    "check_keys",
    "check_number",
    "check_size",
    "check_temperature",
    "common_shape",
    "extremes",
]

T = TypeVar("T", bound=str)

#: The lowest temperature: far below, logits divided by it are infinite.
COLDEST = 1e-6
#: The most units, bins or members: far beyond what a machine has room for, far below what overflows.
LARGEST = 1_000_000


def check_count(name: str, value: int, minimum: int, maximum: int | None = None) -> int:
    """A whole number within bounds, of whatever integer type, as an int; a bool is not one."""
    try:
        count = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = None
    if count is None or count < minimum or (maximum is not None and count > maximum):
        allowed = f"of at least {minimum}" if maximum is None else f"between {minimum} and {maximum}"
        raise ArgumentError.of(name, repr(value), f"a whole number {allowed}")
    return count


def check_size(name: str, value: int, minimum: int) -> int:
    """A whole number of things that are held in memory: more than ``LARGEST`` is a mistake, and overflows somewhere."""
    count = check_count(name, value, minimum)
    if count > LARGEST:
        raise ArgumentError.of(name, value, f"a whole number of at most {LARGEST:,}")
    return count


def check_number(
    name: str,
    value: float,
    minimum: float = float("-inf"),
    maximum: float = float("inf"),
    *,
    exclude: float | None = None,
) -> float:
    """A finite number within bounds, of whatever real type, as a float; ``exclude`` is a bound that is left out."""
    given: object = value
    try:
        number = float("nan") if isinstance(given, bool) or not isinstance(given, numbers.Real) else float(given)
    except OverflowError:  # a whole number beyond all floats
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


def check_keys(what: str, keys: Iterable[str], known: Sequence[str]) -> None:
    """That all keys of a mapping are known; the error says which one was probably meant."""
    for key in keys:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(known)}."
            raise ArgumentError(f"{key} is not a setting of {what}. {hint}")


def check_choice(name: str, value: T, choices: Sequence[T]) -> T:
    """One of a few words."""
    if value not in choices:
        raise ArgumentError.of(name, repr(value), "one of " + ", ".join(map(repr, choices)))
    return value


def extremes(tensor: Tensor) -> tuple[float, float] | None:
    """The smallest and the largest element (NaN if there is one), or None where a look would cost or is impossible.

    That is on another device, while torch.compile traces a graph, inside torch.func's transformations, and of nothing.
    """
    if torch.compiler.is_compiling() or tensor.device.type != "cpu" or tensor.numel() == 0:
        return None
    try:
        if tensor.numel() == 1:
            only = tensor.detach().item()
            return only, only
        low, high = torch.aminmax(tensor.detach())
        return low.item(), high.item()
    except RuntimeError:  # torch.func.vmap: no single number is behind it
        return None


def check_finite(name: str, tensor: Tensor) -> Tensor:
    """A tensor without NaN and infinities."""
    finite = torch.isfinite(tensor)
    if not bool(finite.all()):
        bad = tensor.detach()[~finite].flatten()[0].item()
        raise ArgumentError.of(name, bad, "finite", "Look for a division by zero or a learning rate that is too large.")
    return tensor


def check_temperature(temperature: float | Tensor) -> None:
    """A number, or a tensor of numbers, that can be divided by."""
    if isinstance(temperature, Tensor):
        found = extremes(temperature)
    elif isinstance(temperature, bool) or not isinstance(temperature, (int, float)):
        raise ArgumentError.of("temperature", repr(temperature), "a number or a tensor")
    else:
        found = temperature, temperature
    for number in found or ():
        if not COLDEST <= number < float("inf"):
            hint = f"{COLDEST} is the least; the paper anneals from 1.0 to 0.5."
            raise ArgumentError.of("temperature", number, "positive and finite", hint)


def common_shape(one: Sequence[int], other: Sequence[int]) -> torch.Size | None:
    """The shape that both broadcast to, or None."""
    try:
        return torch.Size(torch.broadcast_shapes(tuple(one), tuple(other)))
    except RuntimeError:
        return None


def broadcasts_to(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether ``shape`` can be expanded to ``target``, axis by axis from the right."""
    lead = len(target) - len(shape)
    return lead >= 0 and all(a in (1, b) for a, b in zip(shape, target[lead:], strict=True))
