"""Fitting a recalibration: shrunk towards no change, and used only where cross-validation shows a clear gain.

A model that is calibrated already can only be made worse, and a few dozen rows always suggest some change.  So there
are two decisions, both by rows that a fit has not seen.  How far to go (how strongly the temperature is drawn to 1, and
how much of isotonic regression is mixed in) is what gives the least NLL in an inner cross-validation.  Whether to go at
all is decided by an outer one: the whole procedure, that choice included, is fitted to all folds but one and measured
on it.  Unless it gains more than one standard error, and makes the rows ten times likelier, confidences are left as
they are.  The outer one is what is reported.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squad.core.checks import check_choice
from squad.errors import ArgumentError
from squad.metrics.calibration import ece
from squad.metrics.checks import check_probabilities
from squad.selective.recalibration import COLDEST, HOTTEST, METHODS, Recalibration, heated, tempered

__all__ = ["FEWEST", "FOLDS", "fit_recalibration"]

#: So many rows at least: fewer say nothing about how often answers are right.
FEWEST = 10

FOLDS = 5

#: Standard errors by which a change must gain, or nothing is changed.
CLEAR = 1.0

#: And how many times likelier it must make the rows.  Rows without an error among them show no spread, and so no
#: standard error; but of a calibrated model at most one sample in ten is ten times likelier under another.
LIKELIER = 10.0

#: Deviations of the normal prior of log(temperature), the strongest first: 0 is no change.
DEVIATIONS = (0.0, 0.1, 0.3, 1.0)

#: How much of isotonic regression is tried.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)

#: How much of the old confidence is mixed into an isotonic one: as little as keeps rows of one step apart.
TILT = 0.01

#: The highest confidence that isotonic regression gives to less than certainty.
HIGHEST = 1 - 1e-6

#: As :func:`squad.metrics.nll` has it: what counts for a probability of 0.
SMALLEST = float(np.finfo(np.float64).tiny)

#: Logarithms of temperatures, denser around 0, which is among them.
GRID = np.sign(np.linspace(-1, 1, 61)) * np.abs(np.linspace(-1, 1, 61)) ** 1.5 * math.log(HOTTEST)

Array = NDArray[np.float64]
Places = NDArray[np.int64]
Knots = tuple[tuple[float, float], ...]


def fit_recalibration(
    probabilities: ArrayLike | torch.Tensor, labels: ArrayLike | torch.Tensor, method: str = "temperature"
) -> Recalibration:
    """Find the map that makes confidences true for rows like these, which must be new to the model.

    * "temperature": what a softmax temperature does to a row whose other classes are equally likely.  One number, and
      the map always rises, so that the ranking of rows stays, and with it what a threshold can do.  The number is that
      of the highest likelihood, with a normal prior of log(temperature) whose mean is 0 and whose deviation is chosen
      by cross-validation.
    * "isotonic": the best map of all that never fall (isotonic regression), made continuous, and mixed with that of the
      temperature in the proportion that is most likely in cross-validation: alone it takes chance for truth where rows
      are few.  It can mend more, takes some hundred rows, and may make equal what was nearly equal.

    Either way nothing is changed (``unchanged``) unless the cross-validated gain in NLL is larger than its standard
    error.  The result's ``nll`` and ``ece`` after recalibration are cross-validated as well.

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
        raise ArgumentError(f"Recalibration takes at least {FEWEST} rows, got {len(p)}. Label more: some hundreds.")
    rows = _Rows(p, y, method)
    log_before = np.log(np.maximum(p[rows.all, y], SMALLEST))
    log_after, confidence = np.empty(len(p)), np.empty(len(p))
    for out in range(FOLDS):
        rest = [fold for fold in range(FOLDS) if fold != out]
        found = rows.fitted(rest, *rows.chosen(rest))
        held = np.flatnonzero(rows.fold == out)
        log_after[held] = rows.log_likelihood(found, held)
        confidence[held] = found.confidence(rows.old[held])
    old = rows.old
    before = float(old.mean()), 0.0 - float(log_before.mean()), ece(old, rows.right)
    gain = log_after - log_before
    if gain.mean() <= CLEAR * gain.std(ddof=1) / math.sqrt(len(gain)) or gain.sum() < math.log(LIKELIER):
        return _with_numbers(rows.nothing, before, before)
    everything = list(range(FOLDS))
    made = rows.fitted(everything, *rows.chosen(everything), exact=True)
    after = float(made.confidence(old).mean()), 0.0 - float(log_after.mean()), ece(confidence, rows.right)
    return _with_numbers(made, before, after)


def _with_numbers(
    made: Recalibration, before: tuple[float, float, float], after: tuple[float, float, float]
) -> Recalibration:
    """Mean confidence, NLL and ECE, before and after."""
    means, nlls, eces = zip(before, after, strict=True)
    return replace(made, confidence_mean=means, nll=nlls, ece=eces)


@dataclass(frozen=True)
class _Rows:
    """Rows in folds, and what is fitted to some of the folds."""

    p: Array
    y: Places
    method: str

    @cached_property
    def classes(self) -> int:
        return int(self.p.shape[1])

    @cached_property
    def all(self) -> Places:
        return np.arange(len(self.p))

    @cached_property
    def top(self) -> Places:
        return np.asarray(self.p.argmax(1))

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        return np.asarray(self.top == self.y)

    @cached_property
    def old(self) -> Array:
        return np.asarray(np.clip(self.p.max(1), 1 / self.classes, 1.0))

    @cached_property
    def fold(self) -> Places:
        """Every fold has confidences of all sizes, and the order of the rows does not matter."""
        found = np.empty(len(self.p), dtype=np.int64)
        found[np.lexsort((self.p[self.all, self.y], self.right, self.old))] = self.all % FOLDS
        return found

    @cached_property
    def nothing(self) -> Recalibration:
        return Recalibration(self.method, self.classes, 1.0, len(self.p), folds=FOLDS)

    def log_likelihood(self, recalibration: Recalibration, places: Places) -> Array:
        """Of the right class of these rows."""
        new, rest = recalibration.mapped(self.old[places])
        return self._log_likelihood(new, rest, places)

    def _log_likelihood(self, new: Array, rest: Array, places: Places) -> Array:
        wrong = np.flatnonzero(~self.right[places])
        at = places[wrong]
        likelihood = new.copy()
        others = tempered(self.p[at], self.top[at], new[wrong], rest[wrong])[np.arange(len(at)), self.y[at]]
        # Of a row that is certain of the wrong class nothing can be made.
        likelihood[wrong] = np.where(rest[wrong] > 0, others, 0.0)
        return np.log(np.maximum(likelihood, SMALLEST))

    # ---- how far to go

    def chosen(self, folds: Sequence[int]) -> tuple[float, float]:
        """The prior's deviation and the share of isotonic regression that are best in these folds, cross-validated."""
        inner = [(out, [fold for fold in folds if fold != out]) for out in folds]
        costs = [-sum(self._sums[out, self._place(rest, one)] for out, rest in inner) for one in DEVIATIONS]
        deviation = DEVIATIONS[int(np.argmin(costs))]  # of equals the first, which changes least
        if self.method != "isotonic":
            return deviation, 0.0
        mixed = dict.fromkeys(SHARES, 0.0)
        for out, rest in inner:
            held = np.flatnonzero(self.fold == out)
            fitted = self.fitted(rest, deviation, 1.0)
            for share in SHARES:
                mixed[share] -= float(self.log_likelihood(replace(fitted, share=share), held).sum())
        return deviation, min(SHARES, key=lambda share: mixed[share])

    def fitted(self, folds: Sequence[int], deviation: float, share: float, exact: bool = False) -> Recalibration:
        """The map that is fitted to these folds; its temperature is on the grid unless it must be exact."""
        place = self._place(folds, deviation)
        temperature = self._refined(place, deviation) if exact else math.exp(GRID[place])
        made = replace(self.nothing, method="temperature", temperature=min(max(temperature, COLDEST), HOTTEST))
        if self.method == "isotonic":
            key = tuple(folds)
            if key not in self._knots:
                inside = np.isin(self.fold, folds)
                self._knots[key] = _isotonic_knots(self.old[inside], self.right[inside], self.classes)
            made = replace(made, method="isotonic", knots=self._knots[key], share=share)
        return made

    @cached_property
    def _knots(self) -> dict[tuple[int, ...], Knots]:
        return {}

    # ---- temperature

    def _at(self, log_t: float) -> Array:
        return self._log_likelihood(*heated(self.old, math.exp(log_t), self.classes), self.all)

    @cached_property
    def _sums(self) -> Array:
        """(FOLDS, temperatures): the log-likelihood of each fold.  All that a cross-validation needs."""
        return np.stack([np.bincount(self.fold, self._at(log_t), FOLDS) for log_t in GRID], 1)

    def _place(self, folds: Sequence[int], deviation: float) -> int:
        """Where on the grid the folds are most likely."""
        # The likelihood may have more than one peak: all of it is looked at.
        if not deviation:
            return int(np.flatnonzero(GRID == 0)[0])
        return int(np.argmin(0.5 * (GRID / deviation) ** 2 - self._sums[list(folds)].sum(0)))

    def _refined(self, place: int, deviation: float) -> float:
        """The best temperature for all rows, near one of the grid."""
        from scipy.optimize import minimize_scalar

        if not deviation:
            return 1.0

        def cost(log_t: float) -> float:
            return float(0.5 * (log_t / deviation) ** 2 - self._at(log_t).sum())

        bounds = GRID[max(place - 1, 0)], GRID[min(place + 1, len(GRID) - 1)]
        found = minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-6})
        return math.exp(float(found.x) if found.fun < cost(GRID[place]) else GRID[place])


# ---- isotonic


def _isotonic_knots(confidence: Array, right: NDArray[np.bool_], classes: int) -> Knots:
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
