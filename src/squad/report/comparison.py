"""Several models compared on the same test cases: differences from the first one, with confidence intervals."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from squad.metrics import Interval, coverage_at_risk, paired_difference, risk_at_coverage

__all__ = [
    "BETTER",
    "MIN_ALLOWED_ERRORS",
    "MIN_CASES",
    "RESAMPLES",
    "TOO_FEW",
    "WITHIN_CHANCE",
    "WORSE",
    "Difference",
    "compare_models",
    "coverage_verdict",
]

#: Selective risks at which coverages are compared.
COMPARED_RISKS = (0.01, 0.02, 0.05)
#: Number of bootstrap resamples.
RESAMPLES = 1000
#: Verdicts.
BETTER, WORSE, WITHIN_CHANCE, TOO_FEW = "better", "worse", "within chance", "too few cases to tell"
#: A verdict needs at least this many cases that only one of two models predicts correctly (with five, no exact test at
#: the 5 % level can tell models apart); one on coverage, this many that at least one of them gets wrong.
MIN_CASES = 6
#: Significance level of the verdicts on error rates; the level of the intervals is one minus it.
SIGNIFICANCE = 0.05
#: A verdict on coverage needs enough cases for the selective risk to allow this many errors. With fewer, the coverage
#: hangs on single errors, and intervals tell models of equal quality apart too often.
MIN_ALLOWED_ERRORS = 2


@dataclass(frozen=True)
class Difference:
    """A metric of one model minus that of the first.

    Attributes:
        name: Name of the model.
        risk: Selective risk at which coverages are compared; None for the error rate on all cases.
        first: Metric of the first model.
        other: Metric of this model.
        low: Lower end of the 95 % confidence interval of the difference.
        high: Upper end of the interval.
        verdict: Whether this model is better or worse than the first, by more than chance explains, or why that cannot
            be said: one of ``BETTER``, ``WORSE``, ``WITHIN_CHANCE`` and ``TOO_FEW``.
    """

    name: str
    risk: float | None
    first: float
    other: float
    low: float
    high: float
    verdict: str


def compare_models(models: Mapping[str, tuple[NDArray[np.float64], NDArray[np.bool_]]]) -> list[Difference]:
    """Compare the error rates and the coverages of all models with those of the first.

    Error rates are judged by an exact McNemar test, coverages by their intervals. With few errors, bootstrap intervals
    are too short: they get no verdict.

    Args:
        models: Confidences and whether predictions are correct, (N,) each and for the same cases, by name.

    Returns:
        Differences, metric by metric; empty for a single model.

    References:
        Q. McNemar, Note on the sampling error of the difference between correlated proportions or percentages,
        Psychometrika 12, 1947.

    Examples:
        >>> confidence, good = np.linspace(0.5, 1, 100), np.ones(100, dtype=bool)
        >>> compare_models({"a": (confidence, good), "b": (confidence, confidence > 0.6)})[0].other
        0.2
    """
    (_, first), *others = models.items()
    metrics: list[tuple[float | None, Callable[..., float]]] = [(None, partial(risk_at_coverage, coverage=1.0))]
    metrics += [(risk, partial(coverage_at_risk, risk=risk)) for risk in COMPARED_RISKS]
    found = []
    for risk, metric in metrics:
        for name, rows in others:
            gap = paired_difference(metric, first, rows, 1 - SIGNIFICANCE, RESAMPLES)
            verdict = (
                _error_rate_verdict(first[1], rows[1])
                if risk is None
                else coverage_verdict(first[1], rows[1], risk, gap)
            )
            result = float(metric(*first)), float(metric(*rows))
            found.append(Difference(name, risk, *result, gap.low, gap.high, verdict))
    return found


def _error_rate_verdict(first: NDArray[np.bool_], other: NDArray[np.bool_]) -> str:
    """Judge two error rates by McNemar's exact test, from the cases that only one of the models predicts correctly."""
    from scipy.special import bdtr

    lost, won = int((first & ~other).sum()), int((other & ~first).sum())
    if lost + won < MIN_CASES:
        return TOO_FEW
    if 2 * bdtr(min(lost, won), lost + won, 0.5) > SIGNIFICANCE:
        return WITHIN_CHANCE
    return BETTER if won > lost else WORSE


def coverage_verdict(first: NDArray[np.bool_], other: NDArray[np.bool_], risk: float, gap: Interval) -> str:
    """Judge two coverages by the interval of their difference, unless it rests on too few errors or cases.

    Args:
        first: (N,), whether predictions of the first model are correct.
        other: (N,), the same for the other model.
        risk: Selective risk at which coverages are compared.
        gap: The other model's coverage minus the first's, with its interval.

    Returns:
        One of ``BETTER`` and ``WORSE`` (the other model), ``WITHIN_CHANCE`` and ``TOO_FEW``.

    Examples:
        >>> good, bad = np.ones(1000, dtype=bool), np.arange(1000) >= 20
        >>> coverage_verdict(good, bad, 0.01, Interval(-0.1, -0.2, -0.05))
        'worse'
    """
    if (~first | ~other).sum() < MIN_CASES or risk * len(first) < MIN_ALLOWED_ERRORS:
        return TOO_FEW
    return BETTER if gap.low > 0 else WORSE if gap.high < 0 else WITHIN_CHANCE
