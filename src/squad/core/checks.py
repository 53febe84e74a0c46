"""Checks that several modules share: each returns what it checked, or raises an ArgumentError."""

import operator
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from squad.errors import ArgumentError

__all__ = [
    "broadcasts_to",
    "cheap_to_read",
    "check_choice",
    "check_count",
    "check_finite",
    "check_temperature",
    "common_shape",
]

T = TypeVar("T", bound=str)


def check_count(name: str, value: int, minimum: int) -> int:
    """A whole number of at least ``minimum``, of whatever integer type, as an int; a bool is not one."""
    try:
        count = minimum - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = minimum - 1
    if count < minimum:
        raise ArgumentError.of(name, repr(value), f"a whole number of at least {minimum}")
    return count


def check_choice(name: str, value: T, choices: Sequence[T]) -> T:
    """One of a few words."""
    if value not in choices:
        raise ArgumentError.of(name, repr(value), "one of " + ", ".join(map(repr, choices)))
    return value


def cheap_to_read(tensor: Tensor) -> bool:
    """Whether the content of ``tensor`` can be looked at for free: on the CPU, and not while a graph is traced."""
    return not torch.compiler.is_compiling() and tensor.device.type == "cpu"


def check_finite(name: str, tensor: Tensor) -> Tensor:
    """A tensor without NaN and infinities."""
    finite = torch.isfinite(tensor)
    if not bool(finite.all()):
        bad = tensor.detach()[~finite].flatten()[0].item()
        raise ArgumentError.of(name, bad, "finite", "Look for a division by zero or a learning rate that is too large.")
    return tensor


def check_temperature(temperature: float | Tensor) -> None:
    """A positive, finite number, or a tensor of such."""
    if not isinstance(temperature, Tensor):
        if isinstance(temperature, bool) or not isinstance(temperature, (int, float)):
            raise ArgumentError.of("temperature", repr(temperature), "a number or a tensor")
        good = 0 < temperature < float("inf")
        worst: float = temperature
    else:
        if not cheap_to_read(temperature) or temperature.numel() == 0:
            return
        low, high = torch.aminmax(temperature.detach())
        good = bool(low > 0) and bool(high < float("inf"))
        worst = low.item() if not bool(low > 0) else high.item()
    if not good:
        raise ArgumentError.of("temperature", worst, "positive and finite", "The paper anneals it from 1.0 to 0.5.")


def common_shape(one: Sequence[int], other: Sequence[int]) -> torch.Size | None:
    """The shape that both broadcast to, or None."""
    try:
        return torch.Size(torch.broadcast_shapes(tuple(one), tuple(other)))
    except RuntimeError:
        return None


def broadcasts_to(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether ``shape`` can be expanded to ``target``, axis by axis from the right."""
    return len(shape) <= len(target) and all(
        a in (1, b) for a, b in zip(reversed(shape), reversed(target), strict=False)
    )
