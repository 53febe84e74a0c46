"""Confidence intervals for any metric: bootstrap, DeLong and exact binomial."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.core.checks import check_count, check_number
from squad.errors import ArgumentError
from squad.metrics.bca import acceleration, bca
from squad.metrics.calibration import clopper_pearson
from squad.metrics.checks import Values, check_array, check_confidence, check_probabilities, check_scores
from squad.metrics.delong import delong
from squad.metrics.failure import failure_ap, failure_auroc
from squad.metrics.ood import ood_auroc
from squad.metrics.probabilistic import accuracy, brier, nll
from squad.metrics.ranking import augrc, aurc, e_aurc, risk_at_coverage
from squad.metrics.resampled import (
    MAX_COUNTS_IN_MEMORY,
    OOD_METRICS,
    Counts,
    MetricOfCounts,
    draw_counts,
    on_counts,
    unwrap_partial,
)

__all__ = ["Interval", "bootstrap", "check_length", "evaluate"]

#: Smooth metrics, for which theory supports the bootstrap, and the number of events (errors, correct predictions or OOD
#: cases, whichever are fewest) from which on intervals reach their nominal coverage, as measured by
#: benchmarks/intervals.py.  With fewer events, and for all other metrics, an interval is marked as approximate.
MIN_EVENTS: dict[Callable[..., float], int] = {
    nll: 30,
    brier: 30,
    aurc: 30,
    augrc: 30,
    risk_at_coverage: 30,
    e_aurc: 50,
    failure_ap: 100,
    failure_auroc: 20,
    ood_auroc: 20,
}

#: Up to this many rows, the jackknife leaves out single rows; beyond, groups of rows.
MAX_LEFT_OUT_SINGLY = 400


@dataclass(frozen=True)
class Interval:
    """A metric with its confidence interval.

    Attributes:
        value: Metric of the given rows.
        low: Lower end of the interval; at most ``value``, unless ``method`` is "percentile".
        high: Upper end of the interval; at least ``value``, unless ``method`` is "percentile": if most resamples lie on
            one side of ``value``, so may the interval between their percentiles.
        undefined: Number of resamples that were left out because the metric was undefined (NaN) there, for example
            without any error.
        approximate: Whether the interval may cover the true value less often than its level says: the metric is not
            smooth, is not one of :mod:`squad.metrics`, or the interval rests on few events, such as few errors.
        method: "bca" (bias-corrected and accelerated bootstrap), "percentile" (bootstrap, of a difference), "delong"
            (AUROC, on the log-odds scale), "exact" (binomial) or "bound" (no errors observed: the worst value
            compatible with an exact bound on the error rate).

    See Also:
        bootstrap: Computes these.

    Examples:
        >>> print(Interval(0.75, 0.19, 0.99, approximate=True))
        0.75 (0.19 to 0.99, approximate)
    """

    value: float
    low: float
    high: float
    undefined: int = 0
    approximate: bool = False
    method: str = "bca"

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g}{', approximate' if self.approximate else ''})"


def bootstrap(
    metric: Callable[..., float],
    *arrays: Values,
    level: float = 0.95,
    repeats: int = 1000,
    seed: int = 0,
    paired: bool = True,
) -> Interval:
    """Compute a metric with a confidence interval, by resampling rows with replacement.

    The interval accounts for the choice of rows; the model is taken as fixed.  It is the bias-corrected and accelerated
    bootstrap interval (BCa), except where something better is known: DeLong's interval on the log-odds scale for
    ``failure_auroc`` and ``ood_auroc``, the Clopper-Pearson interval for ``accuracy``, and, for risk-coverage metrics
    without any observed error, the worst value compatible with an exact bound on the error rate.  Where coverage may
    fall short of ``level``, the result is marked as ``approximate``; the page "Validity" of the documentation has
    measurements.  An interval is not a guarantee: :func:`squad.certify` gives one.

    Args:
        metric: Function that takes the arrays and returns a number.  Bind further arguments with ``functools.partial``.
        arrays: (N, ...) each, with rows along the first axis.  The order of rows does not matter.
        level: Nominal confidence level.
        repeats: Number of resamples.
        seed: Seed of the resamples: the same rows are drawn for every metric.
        paired: Whether row i of each array belongs to the same case, so that they are drawn together.  If False, as for
            in-distribution and OOD scores, each array is resampled independently, and lengths may differ.

    Returns:
        The metric and its interval.

    See Also:
        squad.certify: A threshold with a guarantee on its selective risk.

    References:
        B. Efron, Better bootstrap confidence intervals, Journal of the American Statistical Association 82, 1987.

        E. R. DeLong, D. M. DeLong and D. L. Clarke-Pearson, Comparing the areas under two or more correlated receiver
        operating characteristic curves: a nonparametric approach, Biometrics 44, 1988.

        C. J. Clopper and E. S. Pearson, The use of confidence or fiducial limits illustrated in the case of the
        binomial, Biometrika 26, 1934.

    Examples:
        >>> from squad.metrics import accuracy
        >>> found = bootstrap(accuracy, [[0.9, 0.1], [0.4, 0.6], [0.8, 0.2], [0.3, 0.7]], [0, 1, 0, 0])
        >>> found.value, round(found.low, 2), round(found.high, 2), found.method
        (0.75, 0.19, 0.99, 'exact')
    """
    rows = [check_array(f"array {i + 1}", array) for i, array in enumerate(arrays)]
    if not rows:
        raise ArgumentError("bootstrap needs at least one array after the metric, got none.")
    sizes = [check_length(i, array) for i, array in enumerate(rows)]
    if paired and len(set(sizes)) > 1:
        hint = "Pass paired=False to resample each array independently."
        raise ArgumentError.of("arrays", ", ".join(map(str, sizes)) + " rows", "of equal length", hint)
    level = check_number("level", level, 0, 1, exclude=0)
    draws = np.random.default_rng(check_count("seed", seed, 0))
    repeats = check_count("repeats", repeats, 1)
    value = evaluate(metric, rows)
    known = _without_draws(metric, rows, value, level, paired)
    if known is not None:
        return known
    return _resampled(metric, rows, value, draws, repeats, paired).interval(level)


@dataclass(frozen=True)
class Resampled:
    """Metric of the rows, of bootstrap resamples, and of leave-one-out samples.

    Attributes:
        value: Metric of the rows.
        values: (repeats,), metric of each resample.
        left: Per independent sample, metric without each row or group of rows (jackknife).
        reliable: Whether the interval is known to reach its nominal coverage: the metric is smooth, and events are not
            few.
    """

    value: float
    values: NDArray[np.float64]
    left: list[NDArray[np.float64]]
    reliable: bool

    def interval(self, level: float) -> Interval:
        """Return the BCa interval."""
        defined = self.values[~np.isnan(self.values)]
        low = high = math.nan
        if not math.isnan(self.value):
            low, high = bca(self.value, defined, acceleration(self.left), level)
        undefined = len(self.values) - len(defined)
        return Interval(self.value, low, high, undefined, not self.reliable or undefined > 0)


def _resampled(
    metric: Callable[..., float],
    rows: list[NDArray[Any]],
    value: float,
    draws: np.random.Generator,
    repeats: int,
    paired: bool,
) -> Resampled:
    samples = [len(rows[0])] if paired else [len(array) for array in rows]
    measure = _measure(metric, _sorted_rows(rows, paired), samples)
    values = np.concatenate([measure(counts) for counts in draw_counts(draws, samples, repeats)])
    function, _ = unwrap_partial(metric)
    reliable = function in MIN_EVENTS and _rarer_events(metric, rows, value) >= MIN_EVENTS[function]
    return Resampled(value, values, _jackknife(measure, samples, draws), reliable)


def _rarer_events(metric: Callable[..., float], rows: list[NDArray[Any]], value: float) -> int:
    """Return the number of errors or correct predictions (or of in-distribution or OOD cases), whichever is smaller."""
    function, named = unwrap_partial(metric)
    if named is None:
        return 0
    if function in OOD_METRICS:
        return min(map(len, rows))
    if function in (nll, brier):
        p, y = check_probabilities(*rows)
        wrong = int((p.argmax(1) != y).sum())
        return min(wrong, len(y) - wrong)
    _, errors = check_confidence(rows[0], rows[1])
    wrong, count = int(errors.sum()), len(errors)
    if function is risk_at_coverage:  # among accepted cases
        count = math.ceil(float(named["coverage"]) * count)
        wrong = round(value * count)
    return min(wrong, count - wrong)


# ---- intervals without resampling


def _without_draws(
    metric: Callable[..., float], rows: list[NDArray[Any]], value: float, level: float, paired: bool
) -> Interval | None:
    """Return the interval where something better than the bootstrap is known; otherwise None."""
    function, named = unwrap_partial(metric)
    if len(rows) != 2 or named is None:
        return None
    if function is failure_auroc and paired:
        c, errors = check_confidence(*rows)
        return _auroc_interval(c[~errors], c[errors], level)
    if function is ood_auroc and not paired:
        return _auroc_interval(check_scores("inside", rows[0]), check_scores("outside", rows[1]), level)
    if function is accuracy and paired:
        p, y = check_probabilities(*rows)
        return Interval(value, *_binomial_interval(int((p.argmax(1) == y).sum()), len(y), level), 0, False, "exact")
    if function in (aurc, e_aurc, augrc, risk_at_coverage) and paired:
        _, errors = check_confidence(*rows)
        if not errors.any():
            worst = _binomial_interval(0, len(errors), level)[1]
            if function is risk_at_coverage:  # all errors could be among the accepted cases
                high = min(1.0, worst / float(named["coverage"]))
            elif function is augrc:
                high = worst - worst**2 / 2
            else:
                high = worst - worst * math.log(worst)
            return Interval(value, 0.0, high, 0, False, "bound")
    return None


def _auroc_interval(good: NDArray[np.float64], bad: NDArray[np.float64], level: float) -> Interval:
    """Return DeLong's interval of the AUROC, or the exact one if all pairs are ranked correctly."""
    value, low, high = delong(good, bad, level)
    perfect = value in (0.0, 1.0)
    few = min(len(good), len(bad)) < MIN_EVENTS[failure_auroc] and not perfect
    return Interval(value, low, high, 0, few, "exact" if perfect else "delong")


def _binomial_interval(hits: int, count: int, level: float) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a binomial rate."""
    low, high = clopper_pearson(np.array(hits), np.array(count), 1 - level)
    return float(low), float(high)


# ---- resamples


def _sorted_rows(rows: list[NDArray[Any]], paired: bool) -> list[NDArray[Any]]:
    """Sort rows by their bytes, so that a seed draws the same rows regardless of their order."""
    if paired:
        order = _order_by_bytes(rows)
        return [array[order] for array in rows]
    return [array[_order_by_bytes([array])] for array in rows]


def _order_by_bytes(rows: list[NDArray[Any]]) -> NDArray[np.intp]:
    flat = [np.ascontiguousarray(array.reshape(len(array), -1)) for array in rows]
    joined = np.concatenate([array.view(np.uint8).reshape(len(array), -1) for array in flat], 1)
    keys = np.ascontiguousarray(joined).view(f"V{joined.shape[1]}").ravel()
    return np.argsort(keys, kind="stable")


def _measure(metric: Callable[..., float], rows: list[NDArray[Any]], samples: list[int]) -> MetricOfCounts:
    """Return a function from row counts (B, rows), all samples concatenated, to metrics (B,) of resamples."""
    fast = on_counts(metric, rows)
    if fast is not None and (len(samples) == 1) != (unwrap_partial(metric)[0] in OOD_METRICS):
        return fast
    ends = np.cumsum(samples)[:-1]

    def slow(counts: Counts) -> NDArray[np.float64]:
        found = []
        for one in counts:
            parts = np.split(one, ends)
            repeated = [np.repeat(np.arange(len(part)), part) for part in parts]
            picks = repeated if len(samples) > 1 else repeated * len(rows)
            found.append(evaluate(metric, [array[pick] for array, pick in zip(rows, picks, strict=True)]))
        return np.array(found)

    return slow


def _jackknife(measure: MetricOfCounts, samples: list[int], draws: np.random.Generator) -> list[NDArray[np.float64]]:
    """Return, per sample, the metric without each row, or without each of many random groups of rows.

    Skewness over the square root of the number of parts is the same for random groups as for single rows.
    """
    found, start, total = [], 0, sum(samples)
    for size in samples:
        groups = min(size, MAX_LEFT_OUT_SINGLY)
        member = np.arange(size) * groups // size
        if groups < size:
            member = draws.permutation(member)
        block, values = max(1, MAX_COUNTS_IN_MEMORY // total), []
        for first in range(0, groups if size > 1 else 0, block):
            some = np.arange(first, min(first + block, groups))
            counts = np.ones((len(some), total), dtype=np.int32)
            counts[:, start : start + size] = member != some[:, None]
            values.append(measure(counts))
        found.append(np.concatenate(values) if values else np.empty(0))
        start += size
    return found


def check_length(position: int, array: NDArray[Any]) -> int:
    """Return the number of rows of the array at this position among the arguments."""
    if not array.ndim:
        hint = "Bind arguments that are not rows with functools.partial."
        raise ArgumentError.of(f"array {position + 1}", f"the scalar {array}", "an array of rows", hint)
    return len(array)


def evaluate(metric: Callable[..., float], rows: list[NDArray[Any]]) -> float:
    """Return a metric of these arrays.

    Args:
        metric: Function that takes the arrays and returns a number.
        rows: The arrays.

    Raises:
        ArgumentError: If the metric does not take that many arrays, or returns something else.
    """
    try:
        found = metric(*rows)
    except TypeError as cause:
        _check_call(metric, rows)
        raise cause
    try:
        return float(found)
    except (TypeError, ValueError) as cause:
        raise ArgumentError.of("metric", type(found).__name__, "a function that returns a number") from cause


def _check_call(metric: Callable[..., float], rows: list[NDArray[Any]]) -> None:
    """Raise an ArgumentError if a function cannot be called with these arrays alone."""
    function, bound, named = metric, (), {}
    if isinstance(metric, partial):
        function, bound, named = metric.func, metric.args, metric.keywords
    try:
        inspect.signature(function).bind(*bound, *rows, **named)
    except TypeError as cause:
        name = getattr(function, "__name__", repr(function))
        raise ArgumentError(
            f"{name} cannot be called with {len(rows)} arrays: {cause}. Bind other arguments with functools.partial."
        ) from cause
    except ValueError:  # a function of C, without a signature
        return
