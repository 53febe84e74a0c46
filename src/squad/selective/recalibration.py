"""Confidences that say how often an answer is right: a map of the confidence.

What is mapped is the confidence alone, the probability of the most likely class; the other classes follow, so that the
order within a row stays.  The map never falls: a row that was surer than another is at least as sure afterwards.  (A
softmax at another temperature, as by Guo et al. 2017, has not got this property for more than two classes: it makes
different things of equal confidences, and so changes which rows a threshold accepts.)

:mod:`squad.selective.recalibration_fit` fits the map to rows of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squad.core.checks import check_choice, check_count, check_number
from squad.core.portable_math import exp_of_minus, log_of
from squad.errors import ArgumentError
from squad.selective.scored_cases import as_array

__all__ = ["COLDEST", "HOTTEST", "METHODS", "Recalibration", "heated", "tempered"]

METHODS = ("temperature", "isotonic")

#: No temperature outside of these is looked for.
COLDEST, HOTTEST = 0.05, 20.0

#: What a class without probability counts for where a row is tempered.
TINIEST = 1e-300

#: Steps of Newton's method at the most; it takes five to ten.
STEPS = 60

#: Probabilities from half precision may be above 1 by a little.
ROUNDED = 1.01

#: Classes at the most: far beyond, 1 / classes is no number.
MANY = 10**9

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Recalibration:
    """A map from confidences to confidences that never falls, as ``fit_recalibration`` makes them.

    Attributes:
        method: "temperature" or "isotonic".
        classes: how many there are.
        temperature: above 1 it lowers confidences, below 1 it raises them.
        rows: how many rows it was fitted on.
        knots: pairs (before, after), ascending, with straight lines between them; none for temperature.
        share: how much of the map is that of the knots, from 0 to 1; the rest is that of the temperature.
        confidence_mean: of these rows, before and after.
        nll: negative log-likelihood of these rows, before and after; after is out of sample, see ``folds``.
        ece: expected calibration error of these rows, before and after; likewise.
        folds: the number of folds of the cross-validation that ``nll`` and ``ece`` after come from: each row is mapped
            by a fit to the other folds.  0 in models saved by earlier versions, which measured the rows they fitted.
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
        check_count("classes", self.classes, 2, MANY)
        check_count("rows", self.rows, 1)
        for name in ("confidence_mean", "nll", "ece"):
            before_and_after = getattr(self, name)
            if len(before_and_after) != 2:
                raise ArgumentError.of(name, before_and_after, "two numbers, before and after")
            for number in before_and_after:
                check_number(name, number, 0)
        check_number("temperature", self.temperature, COLDEST, HOTTEST)
        check_number("share", self.share, 0, 1)
        check_count("folds", self.folds, 0, MANY)
        if self.unchanged:
            return
        if self.method == "isotonic":
            _check_knots(self.knots, 1 / self.classes)
        elif self.knots or self.share:
            raise ArgumentError.of("knots", str(self.knots)[:60], "none for the method temperature", "Fit again.")

    @property
    def unchanged(self) -> bool:
        """Whether it leaves every probability as it is: cross-validation found no gain that is worth it."""
        # Earlier versions computed with a temperature of exactly 1 too, and what they saved keeps its last digits.
        return self.folds > 0 and self.temperature == 1 and not self.share and not self.knots

    def __str__(self) -> str:
        rows = f"{self.rows:,} row{'' if self.rows == 1 else 's'}"
        if self.unchanged:
            return (
                f"confidences are left as they are: fitted on {rows}, {self.method} recalibration has no clear gain in"
                f" {self.folds}-fold cross-validation; NLL {self.nll[0]:.3f}, ECE {self.ece[0]:.3f}"
            )
        before, after = self.confidence_mean
        moved = "lowered" if after < before else "raised" if after > before else "left as they are"
        how = f"temperature {self.temperature:.3g}"
        if self.method == "isotonic":
            how = f"isotonic regression ({100 * self.share:.0f} % of it, and the rest {how})"
        return (
            f"confidences are {moved}: {how}, fitted on {rows}; NLL {self.nll[0]:.3f} -> {self.nll[1]:.3f},"
            f" ECE {self.ece[0]:.3f} -> {self.ece[1]:.3f} "
            + (f"in {self.folds}-fold cross-validation" if self.folds else "on the rows it was fitted on")
        )

    def confidence(self, confidence: ArrayLike | torch.Tensor, classes: int | None = None) -> Array:
        """What becomes of confidences: float64, of the same shape; NaN stays NaN.

        Args:
            confidence: largest class probabilities, from 1 / classes to 1.
            classes: how many there are, if the caller would like that to be checked.
        """
        if classes not in (None, self.classes):
            raise ArgumentError.of("classes", classes, f"{self.classes}, as where it was fitted")
        given = as_array("confidence", confidence)
        if given.dtype.kind not in "biuf":
            raise ArgumentError.of("confidence", given.dtype, "an array of numbers")
        c = given.astype(np.float64)
        bad = (c < 0) | (c > ROUNDED)
        if bad.any():
            raise ArgumentError.of("confidence", c[bad][0], f"probabilities, from {1 / self.classes:.3g} to 1")
        return self.mapped(c)[0]

    def apply(self, probabilities: ArrayLike | torch.Tensor, confidence: Array | None = None) -> Array:
        """Class probabilities (N, classes) with confidences that were mapped, float64; a row of NaN stays one.

        Every row is tempered, p^b with a power b of its own, just so far that its most likely class has the new
        confidence.  So the most likely class stays, and the order of the classes as well.

        Args:
            probabilities: rows adding up to 1.
            confidence: (N,), what is mapped instead of each row's largest probability: that probability rounded, so
                that the result does not hang on its last digits.
        """
        p = as_array("probabilities", probabilities)
        if p.ndim != 2 or p.shape[1] != self.classes or p.dtype.kind not in "biuf":
            got = f"{p.dtype} of shape {p.shape}"
            raise ArgumentError.of("probabilities", got, f"numbers of shape (rows, {self.classes})")
        p = p.astype(np.float64)
        bad = ~((p >= 0) & (p <= ROUNDED)).all(1) & ~np.isnan(p).any(1)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            hint = "Take the softmax of logits first."
            raise ArgumentError.of("probabilities", f"{p[row][:8]} in row {row}", "between 0 and 1", hint)
        if not len(p) or self.unchanged:
            return p
        top = p.argmax(1)  # of several, the first; of a row with NaN, that
        old = p[np.arange(len(p)), top]
        new, rest = self.mapped(old if confidence is None else confidence)
        mapped: Array = p.copy()
        moved = np.flatnonzero(new != old)
        mapped[moved] = tempered(p[moved], top[moved], new[moved], rest[moved])
        mapped[np.arange(len(p)), top] = new
        return mapped

    def mapped(self, confidence: Array) -> tuple[Array, Array]:
        """Confidences after, and 1 minus them; the latter to full precision, where the former is 1 by rounding."""
        lowest = 1 / self.classes
        c = np.clip(confidence, lowest, 1.0)
        if self.unchanged:
            return c, 1 - c
        new, rest = heated(c, self.temperature, self.classes)
        if self.share:
            steps, below = _lines(c, *self._knots)
            new, rest = ((1 - self.share) * a + self.share * b for a, b in ((new, steps), (rest, below)))
        return np.maximum(new, lowest), np.minimum(rest, 1 - lowest)

    @cached_property
    def _knots(self) -> tuple[Array, Array]:
        x, y = np.asarray(self.knots).T
        return x, y

    def to_json(self) -> dict[str, Any]:
        """As plain data; one of an earlier version as it was, since the identity of its model is a hash of this."""
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
        """What :meth:`to_json` made; anything else is an ArgumentError."""
        names = set(cls.__dataclass_fields__) - {"folds"}  # which earlier versions did not have
        if not isinstance(data, Mapping) or set(data) - {"folds"} != names:
            got = ", ".join(sorted(map(str, data)))[:200] if isinstance(data, Mapping) else repr(data)[:60]
            raise ArgumentError(f"A saved recalibration must have {', '.join(sorted(names))}, got {got or 'nothing'}.")
        lists = {name: data[name] for name in ("knots", "confidence_mean", "nll", "ece")}
        for name, value in lists.items():
            if not isinstance(value, list) or (name == "knots" and not all(isinstance(knot, list) for knot in value)):
                raise ArgumentError.of(f"{name!r} of a saved recalibration", repr(value)[:60], "a list")
        knots = tuple(map(tuple, lists.pop("knots")))
        return cls(**{**data, **{name: tuple(value) for name, value in lists.items()}, "knots": knots})


def tempered(p: Array, top: NDArray[np.int64], new: Array, rest: Array) -> Array:
    """The rows (N, classes) to the power of b, each with the b that leaves ``rest`` to the classes beside the top one.

    Newton's method on the logarithm of the others' odds, which falls as b grows and is convex: after the first step it
    comes from the left and never passes the root.
    """
    rows = np.arange(len(p))
    # Against the top class.  A class without probability counts as one of 1e-300: it may be given some.
    logs = np.log(np.maximum(p, TINIEST)) - np.log(p[rows, top])[:, None]
    logs = np.minimum(logs, 0.0)
    logs[rows, top] = -np.inf
    wanted = np.log(np.maximum(rest, TINIEST)) - np.log(new)
    b = np.ones(len(p))
    done = np.zeros(len(p), dtype=np.bool_)
    for _ in range(STEPS):
        weights = np.exp(b[:, None] * logs)
        total = np.maximum(weights.sum(1), TINIEST)
        slope = np.sum(np.where(weights > 0, weights * np.maximum(logs, -1e9), 0.0), 1) / total
        step = (wanted - np.log(total)) / np.minimum(slope, -1e-12)
        moved = np.where(done, b, np.clip(b + step, 1e-9, 1e9))  # a row that is done waits: others must not move it
        done |= np.abs(moved - b) <= 1e-13 * b
        b = moved
        if done.all():
            break
    weights = np.exp(b[:, None] * logs)
    share = weights / np.maximum(weights.sum(1), TINIEST)[:, None]
    # Neither rounding nor a map that makes equal must lift a class above the top one, which is the first of equals.
    before = np.arange(p.shape[1]) < top[:, None]
    limit = np.where(before, np.nextafter(new, 0.0)[:, None], new[:, None])
    found: Array = np.minimum(rest[:, None] * share, limit)
    return found


# ---- temperature


def heated(confidence: Array, temperature: float, classes: int) -> tuple[Array, Array]:
    """g(c) = 1 / (1 + (C - 1) o^(-1/t)), o = c (C - 1) / (1 - c), and 1 - g(c)."""
    sure, flat = confidence >= 1, confidence <= 1 / classes
    # Every step is rounded so that a larger c never gives a smaller result.
    odds = confidence / np.where(sure, 1.0, 1 - confidence) * (classes - 1)
    others = (classes - 1) * exp_of_minus(log_of(np.maximum(odds, 1.0)) / temperature)
    fixed = sure | flat
    return (
        np.where(fixed, confidence, 1 / (1 + others)),
        np.where(fixed, 1 - confidence, others / (1 + others)),
    )


# ---- isotonic


def _lines(confidence: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Straight lines between the knots, and 1 minus them; rounding never lets them fall."""
    place = np.clip(np.searchsorted(x, confidence, side="right") - 1, 0, len(x) - 2)
    slope = (y[place + 1] - y[place]) / (x[place + 1] - x[place])
    new = np.minimum(y[place] + slope * (confidence - x[place]), y[place + 1])
    return new, 1 - new


def _check_knots(knots: tuple[tuple[float, float], ...], lowest: float) -> None:
    if len(knots) < 2 or any(len(knot) != 2 for knot in knots):
        raise ArgumentError.of("knots", str(knots)[:60], "two or more pairs (before, after)")
    for knot in knots:
        for number in knot:
            check_number("knots", number, 0, 1)
    x, y = np.asarray(knots, dtype=np.float64).T
    if not ((x[1:] > x[:-1]).all() and (y[1:] >= y[:-1]).all() and x[0] == lowest and x[-1] == 1 and y[0] >= lowest):
        allowed = f"ascending from {lowest:.3g} to 1, with values that never fall and are {lowest:.3g} at least"
        raise ArgumentError.of("knots", str(knots)[:60], allowed)
