"""Failure detection: do errors have low confidence?  Errors are the positive class, found by low confidence."""

from squad.metrics.checks import Values, check_confidence
from squad.metrics.detection import auroc, average_precision
from squad.metrics.ties import Ties

__all__ = ["failure_ap", "failure_auroc"]


def failure_auroc(confidence: Values, correct: Values) -> float:
    """Area under the ROC curve of finding errors by low confidence: 1 is perfect, 1/2 is chance.

    It is the chance that an error has lower confidence than a right answer, equal confidences counting one half.  NaN
    where there are no errors, or nothing else: there is nothing to tell apart.

    Args:
        confidence: (N,), the higher the surer, on any scale.
        correct: (N,), whether each answer is right.

    >>> failure_auroc([0.9, 0.8, 0.7], [True, False, True])
    0.5
    """
    return auroc(Ties.split(*check_confidence(confidence, correct)))


def failure_ap(confidence: Values, correct: Values) -> float:
    """Average precision of finding errors by low confidence; that of chance is about the error rate.

    Errors are the positive class.  Precision is the share of errors among the least confident cases, and its mean is
    over the errors: a sum of steps, not of trapezoids; equal confidences enter at once.  NaN where there are no errors.

    Args:
        confidence: (N,), the higher the surer, on any scale.
        correct: (N,), whether each answer is right.

    >>> failure_ap([0.9, 0.8, 0.7], [True, False, True])
    0.5
    """
    return average_precision(Ties.split(*check_confidence(confidence, correct)))
