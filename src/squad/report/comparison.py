"""Several models compared on the same test cases: differences from the first one, with confidence intervals."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from squad.metrics import coverage_at_risk, paired_difference, risk_at_coverage

__all__ = ["Difference", "compare_models"]

#: Selective risks at which coverages are compared.
COMPARED_RISKS = (0.01, 0.02, 0.05)
#: Number of bootstrap resamples.
RESAMPLES = 1000


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
    """

    name: str
    risk: float | None
    first: float
    other: float
    low: float
    high: float


def compare_models(models: Mapping[str, tuple[NDArray[np.float64], NDArray[np.bool_]]]) -> list[Difference]:
    """Compare the error rates and the coverages of all models with those of the first.

    Args:
        models: Confidences and whether predictions are correct, (N,) each and for the same cases, by name.

    Returns:
        Differences, metric by metric; empty for a single model.

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
            gap = paired_difference(metric, first, rows, repeats=RESAMPLES)
            found.append(Difference(name, risk, float(metric(*first)), float(metric(*rows)), gap.low, gap.high))
    return found
