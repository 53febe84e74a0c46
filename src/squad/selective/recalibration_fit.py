"""Fitting a recalibration: shrunk towards no change, and used only where cross-validation shows a clear gain.

A calibrated model can only be made worse, and a few dozen rows always suggest some change.  So there are two decisions,
both based on rows that a fit has not seen.  How far to go (how strongly the temperature is shrunk towards 1, and the
weight of isotonic regression) minimizes the NLL of an inner cross-validation.  Whether to change anything is decided by
an outer one: the whole procedure, including that choice, is fitted to all folds but one and evaluated on it.  Unless it
gains more than one standard error, and makes the rows ten times as likely, confidences are left unchanged.  The outer
cross-validation is what is reported.
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
from squad.selective.recalibration import (
    MAX_TEMPERATURE,
    METHODS,
    MIN_TEMPERATURE,
    Recalibration,
    temper_rows,
    temperature_map,
)

__all__ = ["FOLDS", "MIN_ROWS", "fit_recalibration"]

#: Minimum number of rows: fewer say nothing about how often predictions are correct.
MIN_ROWS = 10

#: Number of folds of both cross-validations.
FOLDS = 5

#: Minimum gain, in standard errors; below it, nothing is changed.
MIN_GAIN = 1.0

#: Minimum factor by which the rows must become more likely.  Rows without an error have no spread and so no standard
#: error; but for a calibrated model at most one sample in ten is ten times as likely under another one.
MIN_LIKELIHOOD_RATIO = 10.0

#: Standard deviations of the normal prior on log(temperature) to choose from, the strongest first; 0 means no change.
PRIOR_DEVIATIONS = (0.0, 0.1, 0.3, 1.0)

#: Weights of isotonic regression to choose from.
ISOTONIC_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)

#: Fraction of the old confidence mixed into isotonic regression: just enough to keep rows of one step apart.
TILT = 0.01

#: Largest confidence that isotonic regression assigns to anything below certainty.
MAX_CONFIDENCE = 1 - 1e-6

#: Lower limit of probabilities, as in :func:`squad.metrics.nll`.
MIN_LIKELIHOOD = float(np.finfo(np.float64).tiny)

#: Grid of log-temperatures, denser around 0, which it contains.
LOG_TEMPERATURES = np.sign(np.linspace(-1, 1, 61)) * np.abs(np.linspace(-1, 1, 61)) ** 1.5 * math.log(MAX_TEMPERATURE)

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Knots = tuple[tuple[float, float], ...]


def fit_recalibration(
    probabilities: ArrayLike | torch.Tensor, labels: ArrayLike | torch.Tensor, method: str = "temperature"
) -> Recalibration:
    """Fit the map that calibrates the confidences of rows like these, which must be new to the model.

    * "temperature": the effect of a softmax temperature on a row whose other classes are equally probable.  The map has
      one parameter and is strictly increasing, so the ranking of rows, and what a threshold can achieve, are preserved.
      The parameter maximizes the likelihood with a normal prior on log(temperature), whose mean is 0 and whose standard
      deviation is chosen by cross-validation.
    * "isotonic": the best non-decreasing map (isotonic regression), made continuous and mixed with the temperature's;
      the weight is chosen by cross-validation, because isotonic regression alone overfits few rows.  It can correct
      more, needs some hundred rows, and may turn nearly equal confidences into ties.

    With either method, nothing is changed (``unchanged``) unless the cross-validated gain in NLL exceeds its standard
    error.  ``nll`` and ``ece`` of the result after recalibration are cross-validated as well.

    Args:
        probabilities: (N, classes), class probabilities; each row sums to 1.
        labels: (N,), true classes as integers from 0.
        method: "temperature" or "isotonic".

    Returns:
        The fitted map.

    References:
        C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, On calibration of modern neural networks, ICML 2017.

        B. Zadrozny and C. Elkan, Transforming classifier scores into accurate multiclass probability estimates, KDD
        2002.
    """
    check_choice("method", method, METHODS)
    p, y = check_probabilities(probabilities, labels)
    classes = p.shape[1]
    if classes < 2:
        raise ArgumentError(f"Recalibration needs at least 2 classes, but probabilities have shape {p.shape}.")
    if len(p) < MIN_ROWS:
        raise ArgumentError(
            f"Recalibration needs at least {MIN_ROWS} rows, got {len(p)}. Some hundreds are recommended."
        )
    rows = _Rows(p, y, method)
    log_before = np.log(np.maximum(p[rows.all, y], MIN_LIKELIHOOD))
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
    if gain.mean() <= MIN_GAIN * gain.std(ddof=1) / math.sqrt(len(gain)) or gain.sum() < math.log(MIN_LIKELIHOOD_RATIO):
        return _with_statistics(rows.unchanged, before, before)
    everything = list(range(FOLDS))
    made = rows.fitted(everything, *rows.chosen(everything), exact=True)
    after = float(made.confidence(old).mean()), 0.0 - float(log_after.mean()), ece(confidence, rows.right)
    return _with_statistics(made, before, after)


def _with_statistics(
    made: Recalibration, before: tuple[float, float, float], after: tuple[float, float, float]
) -> Recalibration:
    """Return the map with mean confidence, NLL and ECE before and after."""
    means, nlls, eces = zip(before, after, strict=True)
    return replace(made, confidence_mean=means, nll=nlls, ece=eces)


@dataclass(frozen=True)
class _Rows:
    """Rows in folds, and maps fitted to some of the folds."""

    p: Array
    y: Indices
    method: str

    @cached_property
    def classes(self) -> int:
        return int(self.p.shape[1])

    @cached_property
    def all(self) -> Indices:
        return np.arange(len(self.p))

    @cached_property
    def top(self) -> Indices:
        return np.asarray(self.p.argmax(1))

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        return np.asarray(self.top == self.y)

    @cached_property
    def old(self) -> Array:
        return np.asarray(np.clip(self.p.max(1), 1 / self.classes, 1.0))

    @cached_property
    def fold(self) -> Indices:
        """Fold of each row: each fold has confidences of all sizes, and the order of the rows does not matter."""
        found = np.empty(len(self.p), dtype=np.int64)
        found[np.lexsort((self.p[self.all, self.y], self.right, self.old))] = self.all % FOLDS
        return found

    @cached_property
    def unchanged(self) -> Recalibration:
        return Recalibration(self.method, self.classes, 1.0, len(self.p), folds=FOLDS)

    def log_likelihood(self, recalibration: Recalibration, indices: Indices) -> Array:
        """Return the log-likelihood of the true class of these rows."""
        new, rest = recalibration.mapped(self.old[indices])
        return self._log_likelihood(new, rest, indices)

    def _log_likelihood(self, new: Array, rest: Array, indices: Indices) -> Array:
        wrong = np.flatnonzero(~self.right[indices])
        at = indices[wrong]
        likelihood = new.copy()
        others = temper_rows(self.p[at], self.top[at], new[wrong], rest[wrong])[np.arange(len(at)), self.y[at]]
        # A row that is certain of a wrong class cannot be recalibrated.
        likelihood[wrong] = np.where(rest[wrong] > 0, others, 0.0)
        return np.log(np.maximum(likelihood, MIN_LIKELIHOOD))

    # ---- strength of the change

    def chosen(self, folds: Sequence[int]) -> tuple[float, float]:
        """Choose the prior's deviation and the weight of isotonic regression by cross-validation within these folds."""
        inner = [(out, [fold for fold in folds if fold != out]) for out in folds]
        costs = [-sum(self._sums[out, self._best_index(rest, one)] for out, rest in inner) for one in PRIOR_DEVIATIONS]
        deviation = PRIOR_DEVIATIONS[int(np.argmin(costs))]  # the first among ties, which changes least
        if self.method != "isotonic":
            return deviation, 0.0
        mixed = dict.fromkeys(ISOTONIC_WEIGHTS, 0.0)
        for out, rest in inner:
            held = np.flatnonzero(self.fold == out)
            fitted = self.fitted(rest, deviation, 1.0)
            for share in ISOTONIC_WEIGHTS:
                mixed[share] -= float(self.log_likelihood(replace(fitted, share=share), held).sum())
        return deviation, min(ISOTONIC_WEIGHTS, key=lambda share: mixed[share])

    def fitted(self, folds: Sequence[int], deviation: float, share: float, exact: bool = False) -> Recalibration:
        """Fit the map to these folds; its temperature is on the grid unless ``exact``."""
        index = self._best_index(folds, deviation)
        temperature = self._refine_temperature(index, deviation) if exact else math.exp(LOG_TEMPERATURES[index])
        made = replace(
            self.unchanged, method="temperature", temperature=min(max(temperature, MIN_TEMPERATURE), MAX_TEMPERATURE)
        )
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

    def _log_likelihood_at(self, log_t: float) -> Array:
        return self._log_likelihood(*temperature_map(self.old, math.exp(log_t), self.classes), self.all)

    @cached_property
    def _sums(self) -> Array:
        """(FOLDS, temperatures): log-likelihood of each fold, all that cross-validation needs."""
        return np.stack(
            [np.bincount(self.fold, self._log_likelihood_at(log_t), FOLDS) for log_t in LOG_TEMPERATURES], 1
        )

    def _best_index(self, folds: Sequence[int], deviation: float) -> int:
        """Return the index of the most likely temperature for these folds."""
        # The likelihood may have several peaks, so the whole grid is evaluated.
        if not deviation:
            return int(np.flatnonzero(LOG_TEMPERATURES == 0)[0])
        return int(np.argmin(0.5 * (LOG_TEMPERATURES / deviation) ** 2 - self._sums[list(folds)].sum(0)))

    def _refine_temperature(self, index: int, deviation: float) -> float:
        """Return the best temperature for all rows, close to one of the grid."""
        from scipy.optimize import minimize_scalar

        if not deviation:
            return 1.0

        def cost(log_t: float) -> float:
            return float(0.5 * (log_t / deviation) ** 2 - self._log_likelihood_at(log_t).sum())

        bounds = LOG_TEMPERATURES[max(index - 1, 0)], LOG_TEMPERATURES[min(index + 1, len(LOG_TEMPERATURES) - 1)]
        found = minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-6})
        return math.exp(float(found.x) if found.fun < cost(LOG_TEMPERATURES[index]) else LOG_TEMPERATURES[index])


# ---- isotonic


def _isotonic_knots(confidence: Array, right: NDArray[np.bool_], classes: int) -> Knots:
    """Return centres and heights of the steps of isotonic regression, tilted, and the ends of the range."""
    lowest = 1 / classes
    steps = _steps(confidence, right)
    sizes = np.array([step[0] for step in steps], dtype=np.float64)
    x = np.array([step[2] for step in steps]) / sizes
    y = np.array([step[1] for step in steps]) / sizes
    # If all of the most confident rows are correct, their number limits how close to 1 they may get.
    before = y[-2] if len(y) > 1 else 0.0
    y[-1] = max(min(y[-1], (sizes[-1] + 0.5) / (sizes[-1] + 1), MAX_CONFIDENCE), before)
    y = np.clip(y, lowest, 1.0)
    x = np.maximum.accumulate(np.clip(np.concatenate([[lowest], x, [1.0]]), lowest, 1.0))
    y = np.maximum((1 - TILT) * np.concatenate([y[:1], y, y[-1:]]) + TILT * x, lowest)
    # A centre may be at an end of the range, for example if all of its rows are certain.
    kept = np.append(x[1:] > x[:-1], True)
    x, y = x[kept], np.maximum.accumulate(y[kept])
    return tuple(zip(x.tolist(), y.tolist(), strict=True))


def _steps(confidence: Array, right: NDArray[np.bool_]) -> list[tuple[int, int, float]]:
    """Fit the non-decreasing step function closest to ``right``.

    Returns, per step, the number of rows, the number of correct rows and the sum of confidences.

    Neighbours in the wrong order are pooled until there are none.  Counts are integers, so comparisons are exact.
    """
    values, index, sizes = np.unique(confidence, return_inverse=True, return_counts=True)
    hits = np.bincount(index, weights=right, minlength=len(values)).astype(np.int64)
    steps: list[tuple[int, int, float]] = []
    for size, hit, value in zip(sizes.tolist(), hits.tolist(), values.tolist(), strict=True):
        step = (size, hit, size * value)
        while steps and steps[-1][1] * step[0] >= step[1] * steps[-1][0]:
            last = steps.pop()
            step = (last[0] + step[0], last[1] + step[1], last[2] + step[2])
        steps.append(step)
    return steps
