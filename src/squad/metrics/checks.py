"""Checks that the metrics share: each returns float64 or int64 arrays, or raises an ArgumentError."""

from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squad.errors import ArgumentError

__all__ = [
    "Values",
    "check_array",
    "check_confidence",
    "check_probabilities",
    "check_samples",
    "check_scores",
    "check_simplex",
]

#: What every metric takes: numpy arrays, lists, and tensors of any device and precision.
Values: TypeAlias = ArrayLike | torch.Tensor

#: Rows of probabilities may miss 1 by this much: they come from half precision, too.
TOLERANCE = 1e-2


def check_array(name: str, value: Values) -> NDArray[Any]:
    """Numbers, at least one, as an array on the CPU."""
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError.of(
            name, "a masked array", "an array without a mask", "Leave such rows out: x.compressed()."
        )
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        # In torch, since numpy has no bfloat16; every float is exact in float64.
        value = (value.double() if value.is_floating_point() else value).numpy()
    try:
        array = np.asarray(value)
    except ValueError as cause:
        raise ArgumentError(f"{name} must be an array of numbers; NumPy says: {str(cause).rstrip('.')}.") from cause
    if array.dtype.kind not in "biuf":
        found = {"U": "text", "S": "bytes", "O": "objects, such as None"}.get(array.dtype.kind, array.dtype)
        raise ArgumentError.of(name, found, "an array of numbers")
    if not array.size:
        raise ArgumentError.of(name, f"the shape {array.shape}", "of at least one row")
    return array


def check_simplex(probabilities: Values) -> NDArray[np.float64]:
    """Probabilities (N, K) of each class, a copy."""
    p = check_array("probabilities", probabilities)
    if p.ndim != 2:
        raise ArgumentError.of("probabilities", f"the shape {p.shape}", "of shape (rows, classes)")
    return _adding_up("probabilities", p)


def check_samples(samples: Values) -> NDArray[np.float64]:
    """Probabilities (T, N, K) of each class by each sample, a copy."""
    p = check_array("samples", samples)
    if p.ndim != 3:
        hint = "These are the probabilities of each sample, before their mean is taken."
        raise ArgumentError.of("samples", f"the shape {p.shape}", "of shape (samples, rows, classes)", hint)
    return _adding_up("samples", p)


def _adding_up(name: str, array: NDArray[Any]) -> NDArray[np.float64]:
    p = array.astype(np.float64)
    good = (p >= 0).all(axis=-1) & (np.abs(p.sum(axis=-1) - 1) <= TOLERANCE)  # NaN fails either
    if not good.all():
        *sample, row = np.argwhere(~good)[0].tolist()
        place = f"row {row}" + (f" of sample {sample[0]}" if sample else "")
        found = p[(*sample, row)]
        shown = ", ".join(f"{number:g}" for number in found[:8]) + (", ..." if len(found) > 8 else "")
        hint = "Take the softmax of logits first."
        raise ArgumentError.of(name, f"[{shown}] in {place}", "not negative and add up to 1", hint)
    return p


def check_probabilities(probabilities: Values, labels: Values) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Probabilities (N, K) of each class, a copy, and the classes (N,) that were right, from 0."""
    p, y = check_simplex(probabilities), check_array("labels", labels)
    if y.shape != p.shape[:1]:
        raise ArgumentError.of("labels", f"the shape {y.shape}", f"of shape ({len(p)},), one a row of probabilities")
    if y.dtype.kind not in "iu":
        raise ArgumentError.of("labels", y.dtype, "whole numbers, the classes from 0")
    if y.min() < 0 or y.max() >= p.shape[1]:
        bad = y[(y < 0) | (y >= p.shape[1])][0]
        raise ArgumentError.of("labels", bad, f"between 0 and {p.shape[1] - 1}, a column of probabilities each")
    return p, y.astype(np.int64)


def check_scores(name: str, scores: Values) -> NDArray[np.float64]:
    """Scores (N,) on any scale."""
    found = check_array(name, scores)
    if found.ndim != 1:
        hint = "Of probabilities, squad.metrics.scores makes one number a row." if found.ndim > 1 else ""
        raise ArgumentError.of(name, f"the shape {found.shape}", "of shape (rows,)", hint)
    # float32 stays exact in float64, so that ties stay ties and order stays order; so do whole numbers to 2^53.
    found = found.astype(np.float64, copy=False)
    finite = np.isfinite(found)
    if not finite.all():
        place = int(np.argmin(finite))
        hint = "Leave out cases that have no answer."
        raise ArgumentError.of(name, f"{found[place]} in row {place}", "finite", hint)
    return found


def check_confidence(
    confidence: Values, correct: Values, *, unit: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Confidences (N,), the higher the surer, on any scale; and the errors (N,), True where the answer was not right.

    With ``unit`` confidences are probabilities: those a rounding error beyond 0 or 1 are put there.
    """
    c, right = check_scores("confidence", confidence), check_array("correct", correct)
    if right.shape != c.shape:
        raise ArgumentError.of("correct", f"the shape {right.shape}", f"of shape {c.shape}, one a confidence")
    if right.dtype.kind != "b":
        bad = (right != 0) & (right != 1)
        if bad.any():
            place = int(np.argmax(bad))
            raise ArgumentError.of("correct", f"{right[place]} in row {place}", "True or False, or 1 or 0")
    if unit:
        inside = np.clip(c, 0.0, 1.0)
        far = np.abs(c - inside) > 1e-6
        if far.any():
            place = int(np.argmax(far))
            hint = "Only probabilities can be calibrated: take squad.metrics.scores.softmax_response."
            raise ArgumentError.of("confidence", f"{c[place]:g} in row {place}", "between 0 and 1", hint)
        c = inside
    return c, ~right.astype(np.bool_)
