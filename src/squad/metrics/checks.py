"""Validation of metric arguments: each check returns float64 or int64 arrays, or raises an ArgumentError."""

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

#: Accepted by every metric: NumPy arrays, lists, and tensors of any device and precision.
Values: TypeAlias = ArrayLike | torch.Tensor

#: Allowed deviation of a row sum from 1: probabilities may come from half precision.
TOLERANCE = 1e-2


def check_array(name: str, value: Values) -> NDArray[Any]:
    """Convert to a non-empty numeric array on the CPU.

    Args:
        name: Name of the argument, used in the error message.
        value: Array, tensor or nested sequence of numbers.

    Returns:
        The array.

    Raises:
        ArgumentError: If it is masked, empty, or not numeric.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError.of(
            name, "a masked array", "an array without a mask", "Drop masked rows with x.compressed()."
        )
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        # Convert in torch, because NumPy has no bfloat16; float64 represents every float exactly.
        value = (value.double() if value.is_floating_point() else value).numpy()
    try:
        array = np.asarray(value)
    except ValueError as cause:
        raise ArgumentError(f"{name} must be an array of numbers: {str(cause).rstrip('.')}.") from cause
    if array.dtype.kind not in "biuf":
        found = {"U": "text", "S": "bytes", "O": "objects, such as None"}.get(array.dtype.kind, array.dtype)
        raise ArgumentError.of(name, found, "an array of numbers")
    if not array.size:
        raise ArgumentError.of(name, f"shape {array.shape}", "a non-empty array")
    return array


def check_simplex(probabilities: Values) -> NDArray[np.float64]:
    """Check class probabilities of shape (N, K), and return a float64 copy."""
    p = check_array("probabilities", probabilities)
    if p.ndim != 2:
        raise ArgumentError.of("probabilities", f"shape {p.shape}", "of shape (rows, classes)")
    return _check_sums_to_one("probabilities", p)


def check_samples(samples: Values) -> NDArray[np.float64]:
    """Check class probabilities per sample, of shape (T, N, K), and return a float64 copy."""
    p = check_array("samples", samples)
    if p.ndim != 3:
        hint = "Pass the probabilities of each sample, before averaging them."
        raise ArgumentError.of("samples", f"shape {p.shape}", "of shape (samples, rows, classes)", hint)
    return _check_sums_to_one("samples", p)


def _check_sums_to_one(name: str, array: NDArray[Any]) -> NDArray[np.float64]:
    p = array.astype(np.float64)
    good = (p >= 0).all(axis=-1) & (np.abs(p.sum(axis=-1) - 1) <= TOLERANCE)  # NaN fails either
    if not good.all():
        *sample, row = np.argwhere(~good)[0].tolist()
        where = f"row {row}" + (f" of sample {sample[0]}" if sample else "")
        found = p[(*sample, row)]
        shown = ", ".join(f"{number:g}" for number in found[:8]) + (", ..." if len(found) > 8 else "")
        hint = "If these are logits, apply the softmax first."
        raise ArgumentError.of(name, f"[{shown}] in {where}", "non-negative and sum to 1 per row", hint)
    return p


def check_probabilities(probabilities: Values, labels: Values) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Check class probabilities and labels.

    Args:
        probabilities: (N, K), class probabilities; each row sums to 1.
        labels: (N,), class indices from 0.

    Returns:
        A copy of the probabilities in float64, and the labels.

    Raises:
        ArgumentError: If shapes, dtypes or values are not as described.
    """
    p, y = check_simplex(probabilities), check_array("labels", labels)
    if y.shape != p.shape[:1]:
        raise ArgumentError.of("labels", f"shape {y.shape}", f"of shape ({len(p)},), one per row of probabilities")
    if y.dtype.kind not in "iu":
        raise ArgumentError.of("labels", y.dtype, "integers: class indices from 0")
    if y.min() < 0 or y.max() >= p.shape[1]:
        bad = y[(y < 0) | (y >= p.shape[1])][0]
        raise ArgumentError.of("labels", bad, f"between 0 and {p.shape[1] - 1}: the columns of probabilities")
    return p, y.astype(np.int64)


def check_scores(name: str, scores: Values) -> NDArray[np.float64]:
    """Check scores of shape (N,), on any scale.

    Args:
        name: Name of the argument, used in the error message.
        scores: (N,), numbers on any scale.

    Returns:
        The scores in float64.

    Raises:
        ArgumentError: If they have another shape, or are not finite.
    """
    found = check_array(name, scores)
    if found.ndim != 1:
        hint = "squad.metrics.scores turns probabilities into one score per row." if found.ndim > 1 else ""
        raise ArgumentError.of(name, f"shape {found.shape}", "of shape (rows,)", hint)
    # Exact for float32 and for integers up to 2^53, so ties and order are preserved.
    found = found.astype(np.float64, copy=False)
    finite = np.isfinite(found)
    if not finite.all():
        row = int(np.argmin(finite))
        hint = "Leave out cases without a prediction."
        raise ArgumentError.of(name, f"{found[row]} in row {row}", "finite", hint)
    return found


def check_confidence(
    confidence: Values, correct: Values, *, unit: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Check confidences and correctness.

    Args:
        confidence: (N,), scores on any scale; higher means more confident.
        correct: (N,), booleans, or 0 and 1.
        unit: Whether confidences must be probabilities; values beyond 0 or 1 by a rounding error are clipped.

    Returns:
        The confidences in float64, and the errors (True where not correct), (N,) each.
    """
    c, right = check_scores("confidence", confidence), check_array("correct", correct)
    if right.shape != c.shape:
        raise ArgumentError.of("correct", f"shape {right.shape}", f"of shape {c.shape}, one per confidence")
    if right.dtype.kind != "b":
        bad = (right != 0) & (right != 1)
        if bad.any():
            row = int(np.argmax(bad))
            raise ArgumentError.of("correct", f"{right[row]} in row {row}", "boolean, or 0 and 1")
    if unit:
        inside = np.clip(c, 0.0, 1.0)
        far = np.abs(c - inside) > 1e-6
        if far.any():
            row = int(np.argmax(far))
            hint = "Calibration needs probabilities, such as squad.metrics.scores.softmax_response."
            raise ArgumentError.of("confidence", f"{c[row]:g} in row {row}", "between 0 and 1", hint)
        c = inside
    return c, ~right.astype(np.bool_)
