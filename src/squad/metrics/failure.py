"""Misclassification detection: do errors have low confidence?  Errors are the positive class."""

from squad.metrics.checks import Values, check_confidence
from squad.metrics.detection import auroc, average_precision
from squad.metrics.ties import Ties

__all__ = ["failure_ap", "failure_auroc"]


def failure_auroc(confidence: Values, correct: Values) -> float:
    """AUROC of misclassification detection: 1 is perfect, 1/2 is chance.

    The probability that an error has lower confidence than a correct prediction, ties counting one half.  NaN if there
    are no errors, or only errors.

    Args:
        confidence: (N,), confidence scores on any scale; higher means more confident.
        correct: (N,), whether each prediction is correct.

    Returns:
        The area, from 0 to 1, or NaN.

    See Also:
        failure_ap: Average precision of the same detection task.
        augrc: Combines this AUROC with the error rate.

    References:
        D. Hendrycks and K. Gimpel, A baseline for detecting misclassified and out-of-distribution examples in neural
        networks, ICLR 2017.

    Examples:
        >>> failure_auroc([0.9, 0.8, 0.7], [True, False, True])
        0.5
    """
    return auroc(Ties.split(*check_confidence(confidence, correct)))


def failure_ap(confidence: Values, correct: Values) -> float:
    """Average precision of misclassification detection; a random ranking scores about the error rate.

    Errors are the positive class, flagged from the least confident case up.  Precision is averaged over the errors as a
    step-wise sum, without trapezoidal interpolation; cases of equal confidence are flagged together.

    Args:
        confidence: (N,), confidence scores on any scale; higher means more confident.
        correct: (N,), whether each prediction is correct.

    Returns:
        The average precision, from 0 to 1; NaN if there are no errors.

    See Also:
        failure_auroc: AUROC of the same detection task.

    Examples:
        >>> failure_ap([0.9, 0.8, 0.7], [True, False, True])
        0.5
    """
    return average_precision(Ties.split(*check_confidence(confidence, correct)))
