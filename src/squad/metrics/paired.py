"""Differences between two models on the same rows, with confidence intervals."""

from collections.abc import Callable, Sequence

import numpy as np

from squad.core.checks import check_count, check_number
from squad.errors import ArgumentError
from squad.metrics.bootstrap import Interval
from squad.metrics.checks import Values, check_array
from squad.metrics.resampled import draw_counts, on_counts

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
    taken as fixed.

    Args:
        metric: Function of :mod:`squad.metrics` that takes two arrays, or a ``functools.partial`` of one.
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
    level = check_number("level", level, 0, 1, exclude=0)
    models = [[check_array(f"array {i + 1}", array) for i, array in enumerate(rows)] for rows in (first, second)]
    sizes = {len(array) for rows in models for array in rows}
    if len(sizes) != 1:
        raise ArgumentError(f"Both models need one entry per row in every array, got {sorted(sizes)} rows.")
    measures = [on_counts(metric, rows) for rows in models]
    if measures[0] is None or measures[1] is None:
        raise ArgumentError("metric must be a function of squad.metrics, or a functools.partial of one.")
    one, other = measures[0], measures[1]
    draws = np.random.default_rng(check_count("seed", seed, 0))
    blocks = draw_counts(draws, [sizes.pop()], check_count("repeats", repeats, 1))
    differences = np.concatenate([other(counts) - one(counts) for counts in blocks])
    value = float(metric(*models[1])) - float(metric(*models[0]))
    defined = differences[~np.isnan(differences)]
    low, high = np.percentile(defined, (50 * (1 - level), 50 * (1 + level))) if len(defined) else (np.nan, np.nan)
    undefined = len(differences) - len(defined)
    return Interval(value, float(low), float(high), undefined, True, "percentile")
