"""Recalibration: a monotone map of confidences that makes them match how often predictions are correct.

Only the confidence, the probability of the most probable class, is mapped; the other classes follow, so that the order
within a row is preserved.  The map is non-decreasing: a row that was more confident than another is at least as
confident afterwards.  (A softmax at another temperature, as in Guo et al., 2017, does not have this property for more
than two classes: it maps equal confidences to different ones, and so changes which rows a threshold accepts.)

:mod:`squad.selective.recalibration_fit` fits the map to a separate set of rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squad.core.checks import check_choice, check_count, check_number
from squad.core.portable_math import exp_neg, log
from squad.errors import ArgumentError
from squad.selective.scored_cases import as_array

__all__ = ["MAX_TEMPERATURE", "METHODS", "MIN_TEMPERATURE", "Recalibration", "temper_rows", "temperature_map"]

#: Available methods.
METHODS = ("temperature", "isotonic")

#: Range of temperatures.
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 20.0

#: Lower limit of class probabilities when a row is tempered.
MIN_PROBABILITY = 1e-300

#: Maximum number of Newton steps; five to ten are typical.
MAX_NEWTON_STEPS = 60

#: Upper limit of probabilities in half precision, which may exceed 1 slightly.
MAX_ROUNDED_PROBABILITY = 1.01

#: Maximum number of classes (and folds), to reject nonsensical files.
MAX_CLASSES = 10**9

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Recalibration:
    """A non-decreasing map from confidences to confidences, as fitted by ``fit_recalibration``.

    Attributes:
        method: "temperature" or "isotonic".
        classes: Number of classes.
        temperature: Above 1 it lowers confidences, below 1 it raises them.
        rows: Number of rows that it was fitted on.
        knots: Pairs (before, after), ascending, connected by straight lines; empty for temperature.
        share: Weight of the piecewise linear map, from 0 to 1; the rest is the temperature's.
        confidence_mean: Mean confidence of these rows, before and after.
        nll: Negative log-likelihood of these rows, before and after; after is out of sample, see ``folds``.
        ece: Expected calibration error of these rows, before and after; likewise.
        folds: Number of folds of the cross-validation for ``nll`` and ``ece`` after: each row is mapped by a fit to the
            other folds.  0 in models saved by earlier versions, which evaluated the rows they fitted.
    """

    method: str
    classes: int
    temperature: float
    rows: int
    knots: tuple[tuple[float, float], ...] = ()
    share: float = 0.0
    confidence_mean: tuple[float, float] = (0.0, 0.0)
    nll: tuple[float, float] = (0.0, 0.0)
    ece: tuple[float, float] = (0.0, 0.0)
    folds: int = 0

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        check_count("classes", self.classes, 2, MAX_CLASSES)
        check_count("rows", self.rows, 1)
        for name in ("confidence_mean", "nll", "ece"):
            before_and_after = getattr(self, name)
            if len(before_and_after) != 2:
                raise ArgumentError.of(name, before_and_after, "two numbers: before and after")
            for number in before_and_after:
                check_number(name, number, 0)
        check_number("temperature", self.temperature, MIN_TEMPERATURE, MAX_TEMPERATURE)
        check_number("share", self.share, 0, 1)
        check_count("folds", self.folds, 0, MAX_CLASSES)
        if self.unchanged:
            return
        if self.method == "isotonic":
            _check_knots(self.knots, 1 / self.classes)
        elif self.knots or self.share:
            raise ArgumentError.of("knots", str(self.knots)[:60], "empty for the method temperature", "Fit again.")

    @property
    def unchanged(self) -> bool:
        """Whether all probabilities are left unchanged, because cross-validation found no clear gain."""
        # Earlier versions also applied a temperature of exactly 1; their models must keep the last digits.
        return self.folds > 0 and self.temperature == 1 and not self.share and not self.knots

    def __str__(self) -> str:
        rows = f"{self.rows:,} row{'' if self.rows == 1 else 's'}"
        if self.unchanged:
            return (
                f"confidences are unchanged: fitted on {rows}, {self.method} recalibration shows no clear gain in"
                f" {self.folds}-fold cross-validation; NLL {self.nll[0]:.3f}, ECE {self.ece[0]:.3f}"
            )
        before, after = self.confidence_mean
        moved = "lowered" if after < before else "raised" if after > before else "unchanged"
        how = f"temperature {self.temperature:.3g}"
        if self.method == "isotonic":
            how = f"isotonic regression (weight {100 * self.share:.0f} %, the rest {how})"
        return (
            f"confidences are {moved}: {how}, fitted on {rows}; NLL {self.nll[0]:.3f} -> {self.nll[1]:.3f},"
            f" ECE {self.ece[0]:.3f} -> {self.ece[1]:.3f} "
            + (f"in {self.folds}-fold cross-validation" if self.folds else "on the rows it was fitted on")
        )

    def confidence(self, confidence: ArrayLike | torch.Tensor, classes: int | None = None) -> Array:
        """Map confidences: float64, of the same shape; NaN stays NaN.

        Args:
            confidence: Largest class probabilities, from 1 / classes to 1.
            classes: Number of classes to check against, or None.

        Returns:
            Recalibrated confidences, of the same shape.
        """
        if classes not in (None, self.classes):
            raise ArgumentError.of("classes", classes, f"{self.classes}, the number it was fitted with")
        given = as_array("confidence", confidence)
        if given.dtype.kind not in "biuf":
            raise ArgumentError.of("confidence", given.dtype, "an array of numbers")
        c = given.astype(np.float64)
        bad = (c < 0) | (c > MAX_ROUNDED_PROBABILITY)
        if bad.any():
            raise ArgumentError.of("confidence", c[bad][0], f"probabilities, from {1 / self.classes:.3g} to 1")
        return self.mapped(c)[0]

    def apply(self, probabilities: ArrayLike | torch.Tensor, confidence: Array | None = None) -> Array:
        """Map class probabilities (N, classes): float64, with recalibrated confidences; a row of NaN stays one.

        Every row is tempered: raised to a power of its own, such that its most probable class has the new confidence.
        The most probable class and the order of the classes are preserved.

        Args:
            probabilities: (N, classes), class probabilities; each row sums to 1.
            confidence: (N,), confidences to map instead of each row's largest probability: that probability rounded, so
                that the result does not depend on its last digits.

        Returns:
            (N, classes), recalibrated probabilities.
        """
        p = as_array("probabilities", probabilities)
        if p.ndim != 2 or p.shape[1] != self.classes or p.dtype.kind not in "biuf":
            got = f"{p.dtype} of shape {p.shape}"
            raise ArgumentError.of("probabilities", got, f"numbers of shape (rows, {self.classes})")
        p = p.astype(np.float64)
        bad = ~((p >= 0) & (p <= MAX_ROUNDED_PROBABILITY)).all(1) & ~np.isnan(p).any(1)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            hint = "If these are logits, apply the softmax first."
            raise ArgumentError.of("probabilities", f"{p[row][:8]} in row {row}", "between 0 and 1", hint)
        if not len(p) or self.unchanged:
            return p
        top = p.argmax(1)  # the first among ties; the NaN of a row that has one
        old = p[np.arange(len(p)), top]
        new, rest = self.mapped(old if confidence is None else confidence)
        mapped: Array = p.copy()
        moved = np.flatnonzero(new != old)
        mapped[moved] = temper_rows(p[moved], top[moved], new[moved], rest[moved])
        mapped[np.arange(len(p)), top] = new
        return mapped

    def mapped(self, confidence: Array) -> tuple[Array, Array]:
        """Return mapped confidences, and 1 minus them to full precision, even where the confidence rounds to 1."""
        lowest = 1 / self.classes
        c = np.clip(confidence, lowest, 1.0)
        if self.unchanged:
            return c, 1 - c
        new, rest = temperature_map(c, self.temperature, self.classes)
        if self.share:
            steps, below = _piecewise_linear(c, *self._knots)
            new, rest = ((1 - self.share) * a + self.share * b for a, b in ((new, steps), (rest, below)))
        return np.maximum(new, lowest), np.minimum(rest, 1 - lowest)

    @cached_property
    def _knots(self) -> tuple[Array, Array]:
        x, y = np.asarray(self.knots).T
        return x, y

    def to_json(self) -> dict[str, Any]:
        """Return plain data; unchanged for maps of earlier versions, because a model's identity is a hash of it."""
        return {
            **({"folds": self.folds} if self.folds else {}),
            "method": self.method,
            "classes": self.classes,
            "temperature": self.temperature,
            "knots": [list(knot) for knot in self.knots],
            "share": self.share,
            "rows": self.rows,
            "confidence_mean": list(self.confidence_mean),
            "nll": list(self.nll),
            "ece": list(self.ece),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Recalibration":
        """Read what :meth:`to_json` wrote; anything else raises an ArgumentError.

        Args:
            data: Parsed JSON.

        Returns:
            The recalibration.
        """
        names = set(cls.__dataclass_fields__) - {"folds"}  # absent in earlier versions
        if not isinstance(data, Mapping) or set(data) - {"folds"} != names:
            got = ", ".join(sorted(map(str, data)))[:200] if isinstance(data, Mapping) else repr(data)[:60]
            raise ArgumentError(f"A saved recalibration must have {', '.join(sorted(names))}, got {got or 'nothing'}.")
        lists = {name: data[name] for name in ("knots", "confidence_mean", "nll", "ece")}
        for name, value in lists.items():
            if not isinstance(value, list) or (name == "knots" and not all(isinstance(knot, list) for knot in value)):
                raise ArgumentError.of(f"{name!r} of a saved recalibration", repr(value)[:60], "a list")
        knots = tuple(map(tuple, lists.pop("knots")))
        return cls(**{**data, **{name: tuple(value) for name, value in lists.items()}, "knots": knots})


def temper_rows(p: Array, top: NDArray[np.int64], new: Array, rest: Array) -> Array:
    """Raise each row (N, classes) to the power b that leaves probability ``rest`` to all classes but the top one.

    Newton's method on the log-odds of the other classes, which decrease with b and are convex: after the first step it
    approaches the root from the left and never passes it.

    Args:
        p: (N, classes), class probabilities.
        top: (N,), most probable classes.
        new: (N,), new confidences.
        rest: (N,), 1 minus the new confidences, to full precision.

    Returns:
        (N, classes), tempered probabilities; that of the top class is 0, to be set to its new confidence.
    """
    rows = np.arange(len(p))
    # Relative to the top class.  A probability of 0 counts as 1e-300, so that it may become positive.
    logs = np.log(np.maximum(p, MIN_PROBABILITY)) - np.log(p[rows, top])[:, None]
    logs = np.minimum(logs, 0.0)
    logs[rows, top] = -np.inf
    wanted = np.log(np.maximum(rest, MIN_PROBABILITY)) - np.log(new)
    b = np.ones(len(p))
    done = np.zeros(len(p), dtype=np.bool_)
    for _ in range(MAX_NEWTON_STEPS):
        weights = np.exp(b[:, None] * logs)
        total = np.maximum(weights.sum(1), MIN_PROBABILITY)
        slope = np.sum(np.where(weights > 0, weights * np.maximum(logs, -1e9), 0.0), 1) / total
        step = (wanted - np.log(total)) / np.minimum(slope, -1e-12)
        moved = np.where(
            done, b, np.clip(b + step, 1e-9, 1e9)
        )  # converged rows stay fixed: results must not depend on other rows
        done |= np.abs(moved - b) <= 1e-13 * b
        b = moved
        if done.all():
            break
    weights = np.exp(b[:, None] * logs)
    share = weights / np.maximum(weights.sum(1), MIN_PROBABILITY)[:, None]
    # Neither rounding nor ties may lift a class above the top one, which is the first among ties.
    before = np.arange(p.shape[1]) < top[:, None]
    limit = np.where(before, np.nextafter(new, 0.0)[:, None], new[:, None])
    found: Array = np.minimum(rest[:, None] * share, limit)
    return found


# ---- temperature


def temperature_map(confidence: Array, temperature: float, classes: int) -> tuple[Array, Array]:
    """Return g(c) = 1 / (1 + (C - 1) o^(-1/t)) with o = c (C - 1) / (1 - c), and 1 - g(c).

    Args:
        confidence: (N,), confidences c from 1 / classes to 1.
        temperature: Temperature t; above 1, confidences become lower.
        classes: Number of classes C.

    Returns:
        (N,), new confidences, and (N,), 1 minus these to full precision.

    Examples:
        >>> new, rest = temperature_map(np.array([0.9]), 2.0, 2)
        >>> new.round(6).tolist(), rest.round(6).tolist()
        ([0.75], [0.25])
    """
    sure, flat = confidence >= 1, confidence <= 1 / classes
    # Every step is monotone under rounding: a larger c never gives a smaller result.
    odds = confidence / np.where(sure, 1.0, 1 - confidence) * (classes - 1)
    others = (classes - 1) * exp_neg(log(np.maximum(odds, 1.0)) / temperature)
    fixed = sure | flat
    return (
        np.where(fixed, confidence, 1 / (1 + others)),
        np.where(fixed, 1 - confidence, others / (1 + others)),
    )


# ---- isotonic


def _piecewise_linear(confidence: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Interpolate linearly between knots, and return 1 minus it as well; non-decreasing under rounding."""
    index = np.clip(np.searchsorted(x, confidence, side="right") - 1, 0, len(x) - 2)
    slope = (y[index + 1] - y[index]) / (x[index + 1] - x[index])
    new = np.minimum(y[index] + slope * (confidence - x[index]), y[index + 1])
    return new, 1 - new


def _check_knots(knots: tuple[tuple[float, float], ...], lowest: float) -> None:
    if len(knots) < 2 or any(len(knot) != 2 for knot in knots):
        raise ArgumentError.of("knots", str(knots)[:60], "two or more pairs (before, after)")
    for knot in knots:
        for number in knot:
            check_number("knots", number, 0, 1)
    x, y = np.asarray(knots, dtype=np.float64).T
    if not ((x[1:] > x[:-1]).all() and (y[1:] >= y[:-1]).all() and x[0] == lowest and x[-1] == 1 and y[0] >= lowest):
        allowed = f"ascending from {lowest:.3g} to 1, with non-decreasing values of at least {lowest:.3g}"
        raise ArgumentError.of("knots", str(knots)[:60], allowed)
