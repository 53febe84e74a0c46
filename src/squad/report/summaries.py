"""Counts behind the report's tables and bar charts: by confidence, by harm and by class."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.metrics.calibration import Bin, reliability
from squad.predictor.harms import known_harm
from squad.selective import Certificate, Scores
from squad.selective.certificate_text import risks_text
from squad.selective.scored_cases import WRONG

__all__ = [
    "ClassRow",
    "ConfidenceBin",
    "Confusions",
    "HarmRow",
    "by_class",
    "by_harm",
    "confidence_bins",
    "count_confusions",
    "reliability_bins",
]

#: Edges of the confidence bins: narrower towards 1, where most predictions are.
CONFIDENCE_EDGES = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)
#: Number of bins of equal width in a reliability diagram.
RELIABILITY_BINS = 10


@dataclass(frozen=True)
class ConfidenceBin:
    """Predictions of similar confidence.

    Attributes:
        low: Lower edge of the bin.
        high: Upper edge of the bin.
        n: Number of predictions.
        wrong: Number of wrong predictions.
    """

    low: float
    high: float
    n: int
    wrong: int


@dataclass(frozen=True)
class HarmRow:
    """Frequency of one harm.

    Attributes:
        target: Target that accepts the cases, if the certificate has several; else empty.
        name: Name of the harm, such as "wrong" or "missed 3".
        limit: Maximum rate among accepted cases, or maximum mean cost; None if the certificate does not bound it.
        calibration: Number of accepted calibration cases with this harm, or their total cost; None if unknown.
        calibration_n: Number of accepted calibration cases that the harm is counted on; None if unknown.
        test: The same for (accepted) test cases; None if it cannot be computed from labels.
        test_n: Number of (accepted) test cases that the harm is counted on.
        costs: Whether the harm has costs between 0 and 1 instead of errors.
    """

    target: str
    name: str
    limit: float | None
    calibration: float | None
    calibration_n: int | None
    test: float | None
    test_n: int
    costs: bool = False


@dataclass(frozen=True)
class ClassRow:
    """Counts for one class, among the accepted cases (without a certificate: among all).

    Attributes:
        name: Name of the class.
        n: Number of cases of this class.
        missed: Number of these that were predicted as another class.
        predicted: Number of predictions of this class.
        false: Number of these that are wrong.
        referred: Number of referred cases of this class; None without a certificate.
        mistaken_for: Most frequent prediction among the missed cases; empty if there are none.
    """

    name: str
    n: int
    missed: int
    predicted: int
    false: int
    referred: int | None
    mistaken_for: str


@dataclass(frozen=True)
class Confusions:
    """Confusion matrices: how many cases of each true class (row) were predicted as each class (column).

    Attributes:
        every: All test cases.
        accepted: Accepted cases; None without a certificate.
        referred: Referred cases; None without a certificate.
    """

    every: list[list[int]]
    accepted: list[list[int]] | None
    referred: list[list[int]] | None


def confidence_bins(confidence: NDArray[np.float64], wrong: NDArray[np.bool_]) -> list[ConfidenceBin]:
    """Count predictions and errors in bins of confidence that are narrower towards 1.

    Args:
        confidence: (N,), confidence of each prediction.
        wrong: (N,), whether each prediction is wrong.

    Returns:
        All bins, also empty ones, in ascending order.

    Examples:
        >>> bins = confidence_bins(np.array([0.55, 0.97, 0.999]), np.array([True, False, False]))
        >>> sum(one.n for one in bins), sum(one.wrong for one in bins)
        (3, 1)
    """
    index = np.clip(np.searchsorted(CONFIDENCE_EDGES, confidence, side="right") - 1, 0, len(CONFIDENCE_EDGES) - 2)
    n, errors = (np.bincount(index, weights, minlength=len(CONFIDENCE_EDGES) - 1) for weights in (None, wrong))
    return [
        ConfidenceBin(*edges, int(a), int(b)) for edges, a, b in zip(pairwise(CONFIDENCE_EDGES), n, errors, strict=True)
    ]


def reliability_bins(confidence: NDArray[np.float64], wrong: NDArray[np.bool_]) -> list[Bin]:
    """Return the non-empty bins of equal width for the reliability diagram.

    Args:
        confidence: (N,), confidence of each prediction.
        wrong: (N,), whether each prediction is wrong.

    Returns:
        The bins, in ascending order.

    Examples:
        >>> len(reliability_bins(np.array([0.55, 0.97, 0.999]), np.array([True, False, False])))
        2
    """
    return reliability(confidence, ~wrong, RELIABILITY_BINS)


def by_harm(
    certificate: Certificate | None,
    scores: Scores | None,
    classes: Sequence[Any],
    predicted: NDArray[np.int64],
    truth: NDArray[np.int64],
    accepted: Sequence[NDArray[np.bool_] | None],
) -> list[HarmRow]:
    """Count each harm of each target among the cases that the target accepts; "wrong" is always included.

    Args:
        certificate: Certificate of the model, if any.
        scores: Calibration scores, if they were kept.
        classes: Classes of the model.
        predicted: (N,), index of each predicted class.
        truth: (N,), index of each true class.
        accepted: For each target (a single one without a certificate), which cases it accepts; None counts all cases.

    Returns:
        One row per target and harm.
    """
    targets = [{}] if certificate is None else certificate.targets
    several = len(targets) > 1
    rows = []
    for target, mask in zip(targets, accepted, strict=True):
        within = np.ones(len(predicted), dtype=bool) if mask is None else mask
        others = [] if several or scores is None else list(scores.harms)
        rules = () if certificate is None else certificate.target(target)
        for name in dict.fromkeys([WRONG, *target, *others]):
            harm = known_harm(name, classes, predicted, truth, {} if certificate is None else certificate.details)
            test, test_n = (None, int(within.sum())) if harm is None else _sum_and_count(harm[within])
            counted = [rule for rule in rules if name in rule.errors]
            rows.append(
                HarmRow(
                    risks_text(target) if several else "",
                    name,
                    target.get(name),
                    sum(rule.errors[name] for rule in counted) if counted else None,
                    sum(rule.counts(name)[0] for rule in counted) if counted else None,
                    test,
                    test_n,
                    any(name in rule.costs for rule in counted),
                )
            )
    return rows


def _sum_and_count(harm: NDArray[Any]) -> tuple[float, int]:
    """Return the number of cases with a harm (or their total cost) and the number of cases it is counted on.

    NaN marks cases that the harm is not counted on.
    """
    if harm.dtype == np.bool_:
        return int(harm.sum()), len(harm)
    counted = harm[~np.isnan(harm)]
    total = float(counted.sum())
    return (int(total) if total.is_integer() else total), len(counted)


def by_class(
    classes: Sequence[Any], predicted: NDArray[np.int64], truth: NDArray[np.int64], accepted: NDArray[np.bool_] | None
) -> list[ClassRow]:
    """Count errors per class, in the order of the classes.

    Args:
        classes: Classes of the model.
        predicted: (N,), index of each predicted class.
        truth: (N,), index of each true class.
        accepted: (N,), which cases are accepted; None counts all cases.

    Returns:
        One row per class.

    Examples:
        >>> by_class(["a", "b"], np.array([0, 0, 1]), np.array([0, 1, 1]), None)[0].name
        'a'
    """
    within = np.ones(len(predicted), dtype=bool) if accepted is None else accepted
    confusion = _confusion(len(classes), predicted[within], truth[within])
    hits = confusion.diagonal()
    rows = []
    for index, name in enumerate(classes):
        others = confusion[index].copy()
        others[index] = 0
        referred = None if accepted is None else int(((truth == index) & ~accepted).sum())
        rows.append(
            ClassRow(
                str(name),
                int(confusion[index].sum()),
                int(others.sum()),
                int(confusion[:, index].sum()),
                int(confusion[:, index].sum() - hits[index]),
                referred,
                str(classes[int(others.argmax())]) if others.any() else "",
            )
        )
    return rows


def count_confusions(
    size: int, predicted: NDArray[np.int64], truth: NDArray[np.int64], accepted: NDArray[np.bool_] | None
) -> Confusions:
    """Count how often each class is predicted as each other, among all, accepted and referred cases.

    Args:
        size: Number of classes.
        predicted: (N,), index of each predicted class.
        truth: (N,), index of each true class.
        accepted: (N,), which cases are accepted; None without a certificate.

    Returns:
        The confusion matrices.

    Examples:
        >>> count_confusions(2, np.array([0, 0, 1]), np.array([0, 1, 1]), None).every
        [[1, 0], [1, 1]]
    """
    every = _confusion(size, predicted, truth)
    if accepted is None:
        return Confusions(every.tolist(), None, None)
    kept = _confusion(size, predicted[accepted], truth[accepted])
    return Confusions(every.tolist(), kept.tolist(), (every - kept).tolist())


def _confusion(size: int, predicted: NDArray[np.int64], truth: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.bincount(truth * size + predicted, minlength=size * size).reshape(size, size)
