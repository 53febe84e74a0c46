"""Differences between two models on the same rows, with confidence intervals."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.core.checks import check_count, check_number
from squad.errors import ArgumentError
from squad.metrics.bootstrap import Interval, check_length, evaluate
from squad.metrics.checks import Values, check_array
from squad.metrics.ood import ood_fpr
from squad.metrics.resampled import OOD_METRICS, Counts, MetricOfCounts, draw_counts, on_counts, unwrap_partial

__all__ = ["paired_difference"]


def paired_difference(
    metric: Callable[..., float],
    first: Sequence[Values],
    second: Sequence[Values],
    level: float = 0.95,
    repeats: int = 1000,
    seed: int = 0,
) -> Interval:
    """Compute a metric of the second model minus that of the first, with a confidence interval.

    Both models have the same rows in each bootstrap resample, so that what makes rows easy or hard for both cancels.
    The interval, between percentiles of the resampled differences, accounts for the choice of rows; the models are
    taken as fixed.  Resamples are drawn by position: rows in another order give another interval, as another seed does.

    Args:
        metric: Function that takes the arrays of one model and returns a number, such as one of :mod:`squad.metrics`,
            but not one of OOD detection. Bind further arguments with ``functools.partial``.
        first: Arrays of the first model, such as confidences and whether predictions are correct, (N,) each.
        second: Arrays of the second model, row by row for the same cases.
        level: Confidence level.
        repeats: Number of resamples.
        seed: Seed of the resamples.

    Returns:
        The difference and its interval.

    See Also:
        bootstrap: An interval for the metric of one model.

    References:
        B. Efron and R. J. Tibshirani, An introduction to the bootstrap, Chapman & Hall, 1993, chapter 13.

    Examples:
        >>> from functools import partial
        >>> from squad.metrics import risk_at_coverage
        >>> confidence, good, better = [0.9, 0.8, 0.7, 0.6], [1, 1, 0, 0], [1, 1, 1, 1]
        >>> error_rate = partial(risk_at_coverage, coverage=1.0)
        >>> paired_difference(error_rate, (confidence, good), (confidence, better)).value
        -0.5
    """
    function, _ = unwrap_partial(metric)
    if function in (*OOD_METRICS, ood_fpr):
        raise ArgumentError(
            f"{function.__name__} compares rows of two data sets, which cannot be drawn in pairs. Use bootstrap for"
            " each model, with paired=False."
        )
    level = check_number("level", level, 0, 1, exclude=0)
    models = [[check_array(f"array {i + 1}", array) for i, array in enumerate(rows)] for rows in (first, second)]
    sizes = {check_length(i, array) for rows in models for i, array in enumerate(rows)}
    if len(sizes) != 1:
        raise ArgumentError(
            f"Both models need one entry per row in every array, got {sorted(sizes)} rows. Predict the same rows with"
            " both."
        )
    value = evaluate(metric, models[1]) - evaluate(metric, models[0])
    one, other = (_measure(metric, rows) for rows in models)
    draws = np.random.default_rng(check_count("seed", seed, 0))
    blocks = draw_counts(draws, [sizes.pop()], check_count("repeats", repeats, 1))
    differences = np.concatenate([other(counts) - one(counts) for counts in blocks])
    defined = differences[~np.isnan(differences)]
    low, high = np.percentile(defined, (50 * (1 - level), 50 * (1 + level))) if len(defined) else (np.nan, np.nan)
    undefined = len(differences) - len(defined)
    return Interval(value, float(low), float(high), undefined, True, "percentile")


def _measure(metric: Callable[..., float], rows: list[NDArray[Any]]) -> MetricOfCounts:
    """Return a function from row counts (B, N) of B resamples to metrics (B,)."""

    def slow(counts: Counts) -> NDArray[np.float64]:
        picks = (np.repeat(np.arange(len(one)), one) for one in counts)
        return np.array([evaluate(metric, [array[pick] for array in rows]) for pick in picks])

    return on_counts(metric, rows) or slow
