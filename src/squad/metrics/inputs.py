"""Checks that the metrics share: each returns float64 or int64 arrays, or raises an ArgumentError."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squad.errors import ArgumentError

__all__ = ["check_confidence", "check_probabilities"]

#: Rows of probabilities may miss 1 by this much: they come from half precision, too.
TOLERANCE = 1e-2


def _array(name: str, value: ArrayLike | torch.Tensor) -> NDArray[Any]:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = (value.float() if value.dtype is torch.bfloat16 else value).numpy()  # numpy has no bfloat16
    try:
        array = np.asarray(value)
    except ValueError as cause:
        raise ArgumentError(f"{name} must be an array of numbers; {cause}.") from cause
    if array.dtype.kind not in "biuf":
        raise ArgumentError.of(name, array.dtype, "an array of numbers")
    if not array.size:
        raise ArgumentError.of(name, f"the shape {array.shape}", "of at least one row")
    return array


def check_probabilities(
    probabilities: ArrayLike | torch.Tensor, labels: ArrayLike | torch.Tensor
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Probabilities (N, K) of each class, and the classes (N,) that were right, from 0."""
    p, y = _array("probabilities", probabilities), _array("labels", labels)
    if p.ndim != 2:
        raise ArgumentError.of("probabilities", f"the shape {p.shape}", "of shape (rows, classes)")
    if y.shape != p.shape[:1]:
        raise ArgumentError.of("labels", f"the shape {y.shape}", f"of shape ({len(p)},), one a row of probabilities")
    if y.dtype.kind not in "iu":
        raise ArgumentError.of("labels", y.dtype, "whole numbers, the classes from 0")
    if y.min() < 0 or y.max() >= p.shape[1]:
        bad = y[(y < 0) | (y >= p.shape[1])][0]
        raise ArgumentError.of("labels", bad, f"between 0 and {p.shape[1] - 1}, a column of probabilities each")
    p = p.astype(np.float64)
    if not (p >= 0).all() or not (np.abs(p.sum(axis=1) - 1) <= TOLERANCE).all():  # NaN fails either
        row = int(np.flatnonzero(~((p >= 0).all(axis=1) & (np.abs(p.sum(axis=1) - 1) <= TOLERANCE)))[0])
        hint = "Take the softmax of logits first."
        raise ArgumentError.of("probabilities", f"{p[row][:8]} in row {row}", "not negative and add up to 1", hint)
    return p, y.astype(np.int64)


def check_confidence(
    confidence: ArrayLike | torch.Tensor, correct: ArrayLike | torch.Tensor
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Confidences (N,), the higher the surer, on any scale; and the errors (N,), 1 where the answer was not right."""
    c, right = _array("confidence", confidence), _array("correct", correct)
    if c.ndim != 1:
        raise ArgumentError.of("confidence", f"the shape {c.shape}", "of shape (rows,)")
    if right.shape != c.shape:
        raise ArgumentError.of("correct", f"the shape {right.shape}", f"of shape {c.shape}, one a confidence")
    # float32 stays exact in float64, so that ties stay ties and order stays order; so do whole numbers to 2^53.
    c = c.astype(np.float64)
    if not np.isfinite(c).all():
        raise ArgumentError.of("confidence", c[~np.isfinite(c)][0], "finite")
    if not np.isin(right, (0, 1)).all():
        raise ArgumentError.of("correct", right[~np.isin(right, (0, 1))][0], "True or False, or 1 or 0")
    return c, 1 - right.astype(np.int64)
