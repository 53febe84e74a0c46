"""Confidences that say how often an answer is right: a map of the confidence, fitted on rows of its own.

What is mapped is the confidence alone, the probability of the most likely class; the other classes follow, so that the
order within a row stays.  The map never falls: a row that was surer than another is at least as sure afterwards.  (A
softmax at another temperature, as by Guo et al. 2017, has not got this property for more than two classes: it makes
different things of equal confidences, and so changes which rows a threshold accepts.)
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squad.core.checks import check_choice, check_count, check_number
from squad.core.exact import exp_of_minus, log_of
from squad.errors import ArgumentError
from squad.metrics import nll
from squad.metrics.calibration import ece
from squad.metrics.inputs import check_probabilities
from squad.selective.scores import as_array

__all__ = ["METHODS", "Recalibration", "fit_recalibration"]

METHODS = ("temperature", "isotonic")

#: No temperature outside of these is looked for.
COLDEST, HOTTEST = 0.05, 20.0

#: So many rows at least: fewer say nothing about how often answers are right.
FEWEST = 10

#: How much of isotonic regression is tried, and in how many parts the rows are cross-validated.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
FOLDS = 5

#: How much of the old confidence is mixed into an isotonic one: as little as keeps rows of one step apart.
TILT = 0.01

#: The highest confidence that isotonic regression gives to less than certainty.
HIGHEST = 1 - 1e-6

#: As :func:`squad.metrics.nll` has it: what counts for a probability of 0.
SMALLEST = float(np.finfo(np.float64).tiny)

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
    """A map from confidences to confidences that never falls, made by :func:`fit_recalibration`.

    Attributes:
        method: "temperature" or "isotonic".
        classes: how many there are.
        temperature: above 1 it lowers confidences, below 1 it raises them.
        rows: how many rows it was fitted on.
        knots: pairs (before, after), ascending, with straight lines between them; none for temperature.
        share: how much of the map is that of the knots, from 0 to 1; the rest is that of the temperature.
        confidence_mean: of these rows, before and after.
        nll: negative log-likelihood of these rows, before and after.
        ece: expected calibration error of these rows, before and after.
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
        if self.method == "isotonic":
            _check_knots(self.knots, 1 / self.classes)
        elif self.knots or self.share:
            raise ArgumentError.of("knots", str(self.knots)[:60], "none for the method temperature", "Fit again.")

    def __str__(self) -> str:
        before, after = self.confidence_mean
        moved = "lowered" if after < before else "raised" if after > before else "left as they are"
        how = f"temperature {self.temperature:.3g}"
        if self.method == "isotonic":
            how = f"isotonic regression ({100 * self.share:.0f} % of it, and the rest {how})"
        return (
            f"confidences are {moved}: {how}, fitted on {self.rows:,} row{'' if self.rows == 1 else 's'}; NLL"
            f" {self.nll[0]:.3f} -> {self.nll[1]:.3f}, ECE {self.ece[0]:.3f} -> {self.ece[1]:.3f} there"
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
        return self._map(c)[0]

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
        if not len(p):
            return p
        top = p.argmax(1)  # of several, the first; of a row with NaN, that
        old = p[np.arange(len(p)), top]
        new, rest = self._map(old if confidence is None else confidence)
        mapped: Array = p.copy()
        moved = np.flatnonzero(new != old)
        mapped[moved] = _tempered(p[moved], top[moved], new[moved], rest[moved])
        mapped[np.arange(len(p)), top] = new
        return mapped

    def _map(self, confidence: Array) -> tuple[Array, Array]:
        """Confidences after, and 1 minus them; the latter to full precision, where the former is 1 by rounding."""
        lowest = 1 / self.classes
        c = np.clip(confidence, lowest, 1.0)
        new, rest = _heated(c, self.temperature, self.classes)
        if self.share:
            steps, below = _lines(c, *self._knots)
            new, rest = ((1 - self.share) * a + self.share * b for a, b in ((new, steps), (rest, below)))
        return np.maximum(new, lowest), np.minimum(rest, 1 - lowest)

    @cached_property
    def _knots(self) -> tuple[Array, Array]:
        x, y = np.asarray(self.knots).T
        return x, y

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
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
        names = set(cls.__dataclass_fields__)
        if not isinstance(data, Mapping) or set(data) != names:
            got = ", ".join(sorted(map(str, data)))[:200] if isinstance(data, Mapping) else repr(data)[:60]
            raise ArgumentError(f"A saved recalibration must have {', '.join(sorted(names))}; got {got or 'nothing'}.")
        lists = {name: data[name] for name in ("knots", "confidence_mean", "nll", "ece")}
        for name, value in lists.items():
            if not isinstance(value, list) or (name == "knots" and not all(isinstance(knot, list) for knot in value)):
                raise ArgumentError.of(f"{name!r} of a saved recalibration", repr(value)[:60], "a list")
        knots = tuple(map(tuple, lists.pop("knots")))
        return cls(**{**data, **{name: tuple(value) for name, value in lists.items()}, "knots": knots})


def fit_recalibration(
    probabilities: ArrayLike | torch.Tensor, labels: ArrayLike | torch.Tensor, method: str = "temperature"
) -> Recalibration:
    """Find the map that makes confidences true on these rows, which must be new to the model.

    * "temperature": what a softmax temperature does to a row whose other classes are equally likely.  One number, so a
      few dozen rows will do; and it always rises, so that the ranking of rows stays, and with it what a threshold can
      do.  The number is that of the highest likelihood, with a normal distribution of log(temperature) as its prior
      (mean 0, deviation 1), which matters only where rows are very few, or all of them right.
    * "isotonic": the best map of all that never fall (isotonic regression), made continuous, and mixed with that of the
      temperature in the proportion that is most likely in a fivefold cross-validation: alone it takes chance for truth
      where rows are few.  It can mend more, takes some hundred rows, and may make equal what was nearly equal.

    Args:
        probabilities: (N, classes), rows adding up to 1.
        labels: (N,), the right classes, from 0.
        method: "temperature" or "isotonic".
    """
    check_choice("method", method, METHODS)
    p, y = check_probabilities(probabilities, labels)
    classes = p.shape[1]
    if classes < 2:
        raise ArgumentError.of("probabilities", f"the shape {p.shape}", "of at least 2 classes")
    if len(p) < FEWEST:
        raise ArgumentError.of("probabilities", len(p), f"of at least {FEWEST} rows", "Label more rows: some hundreds.")
    right = p.argmax(1) == y
    old = np.clip(p.max(1), 1 / classes, 1.0)
    draft = Recalibration(
        method="temperature", classes=classes, temperature=_best_temperature(p, y, classes), rows=len(p)
    )
    if method == "isotonic":
        draft = _with_steps(draft, p, y, old, right)
    mapped = draft.apply(p)
    new = mapped.max(1)
    return replace(
        draft,
        confidence_mean=(float(old.mean()), float(new.mean())),
        nll=(nll(p, y), nll(mapped, y)),
        ece=(ece(old, right), ece(new, right)),
    )


def _with_steps(
    heated: Recalibration, p: Array, y: NDArray[np.int64], old: Array, right: NDArray[np.bool_]
) -> Recalibration:
    """The temperature mixed with isotonic regression, as much of that as is good for rows that it was not made from."""
    classes = heated.classes
    fold = np.empty(len(p), dtype=np.int64)
    fold[np.argsort(old, kind="stable")] = np.arange(len(p)) % FOLDS  # every fold has confidences of all sizes
    costs = dict.fromkeys(SHARES, 0.0)
    for out in range(FOLDS):
        held, kept = fold == out, fold != out
        knots = _isotonic_knots(old[kept], right[kept], classes)
        for share in SHARES:
            mixed = replace(heated, method="isotonic", knots=knots, share=share)
            costs[share] += nll(mixed.apply(p[held]), y[held]) * int(held.sum())
    best = min(SHARES, key=lambda share: costs[share])
    return replace(heated, method="isotonic", knots=_isotonic_knots(old, right, classes), share=best)


def _tempered(p: Array, top: NDArray[np.int64], new: Array, rest: Array) -> Array:
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


def _heated(confidence: Array, temperature: float, classes: int) -> tuple[Array, Array]:
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


def _best_temperature(p: Array, y: NDArray[np.int64], classes: int) -> float:
    """The one under which the rows are most likely."""
    from scipy.optimize import minimize_scalar

    top = p.argmax(1)
    old = np.clip(p.max(1), 1 / classes, 1.0)
    wrong = np.flatnonzero(top != y)

    def cost(log_t: float) -> float:
        new, rest = _heated(old, math.exp(log_t), classes)
        likelihood = new.copy()
        # Of a row that is certain of the wrong class nothing can be made.
        mapped = _tempered(p[wrong], top[wrong], new[wrong], rest[wrong])
        likelihood[wrong] = np.where(rest[wrong] > 0, mapped[np.arange(len(wrong)), y[wrong]], 0.0)
        return float(0.5 * log_t**2 - np.log(np.maximum(likelihood, SMALLEST)).sum())

    # The likelihood may have more than one peak: look at all of it first.  1 is among them, so that the outcome is
    # never worse than no change.
    low, high = math.log(COLDEST), math.log(HOTTEST)
    grid = sorted({*np.linspace(low, high, 40).tolist(), 0.0})
    costs = [cost(log_t) for log_t in grid]
    at = int(np.argmin(costs))
    bounds = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
    found = minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-6})
    best = float(found.x) if found.fun < costs[at] else grid[at]
    return min(max(math.exp(best), COLDEST), HOTTEST)


# ---- isotonic


def _isotonic_knots(confidence: Array, right: NDArray[np.bool_], classes: int) -> tuple[tuple[float, float], ...]:
    """Centres and heights of the steps of isotonic regression, tilted; and the ends of the range."""
    lowest = 1 / classes
    steps = _steps(confidence, right)
    sizes = np.array([step[0] for step in steps], dtype=np.float64)
    x = np.array([step[2] for step in steps]) / sizes
    y = np.array([step[1] for step in steps]) / sizes
    # Where all of the surest are right, how many they are says how near to 1 they may be.
    before = y[-2] if len(y) > 1 else 0.0
    y[-1] = max(min(y[-1], (sizes[-1] + 0.5) / (sizes[-1] + 1), HIGHEST), before)
    y = np.clip(y, lowest, 1.0)
    x = np.maximum.accumulate(np.clip(np.concatenate([[lowest], x, [1.0]]), lowest, 1.0))
    y = np.maximum((1 - TILT) * np.concatenate([y[:1], y, y[-1:]]) + TILT * x, lowest)
    # A centre can be at an end: where all of its rows are certain, say.
    kept = np.append(x[1:] > x[:-1], True)
    x, y = x[kept], np.maximum.accumulate(y[kept])
    return tuple(zip(x.tolist(), y.tolist(), strict=True))


def _steps(confidence: Array, right: NDArray[np.bool_]) -> list[tuple[int, int, float]]:
    """Of the non-decreasing step function nearest to ``right``: rows, right ones and summed confidences of each step.

    Neighbours that are in the wrong order are pooled until there are none.  Counts are whole, so comparisons are exact.
    """
    values, place, sizes = np.unique(confidence, return_inverse=True, return_counts=True)
    hits = np.bincount(place, weights=right, minlength=len(values)).astype(np.int64)
    steps: list[tuple[int, int, float]] = []
    for size, hit, value in zip(sizes.tolist(), hits.tolist(), values.tolist(), strict=True):
        step = (size, hit, size * value)
        while steps and steps[-1][1] * step[0] >= step[1] * steps[-1][0]:
            last = steps.pop()
            step = (last[0] + step[0], last[1] + step[1], last[2] + step[2])
        steps.append(step)
    return steps


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
