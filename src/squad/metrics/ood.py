"""Out-of-distribution (OOD) detection: do OOD inputs have low confidence?

OOD inputs are the positive class, detected by low confidence.  Any score works for which higher means more confident:
see :mod:`squad.metrics.scores`.
"""

from squad.core.checks import check_number
from squad.metrics.checks import Values, check_scores
from squad.metrics.detection import auroc, average_precision, false_positives
from squad.metrics.ties import Ties

__all__ = ["ood_ap", "ood_auroc", "ood_fpr"]


def ood_auroc(inside: Values, outside: Values) -> float:
    """AUROC of OOD detection: 1 is perfect, 1/2 is chance.

    The probability that an OOD case has lower confidence than an in-distribution case, ties counting one half.

    Args:
        inside: (N,), confidence scores of in-distribution cases, on any scale; higher means more confident.
        outside: (M,), confidence scores of out-of-distribution cases.

    Returns:
        The area, from 0 to 1.

    See Also:
        ood_ap: Average precision of the same detection task.
        ood_fpr: False-positive rate at a given true-positive rate.

    References:
        D. Hendrycks and K. Gimpel, A baseline for detecting misclassified and out-of-distribution examples in neural
        networks, ICLR 2017.

    Examples:
        >>> ood_auroc([0.9, 0.8], [0.8, 0.1])
        0.875
    """
    return auroc(_ties(inside, outside))


def ood_ap(inside: Values, outside: Values) -> float:
    """Average precision of OOD detection; a random ranking scores about M / (N + M).

    OOD cases are the positive class.  This is a step-wise sum, without trapezoidal interpolation; cases of equal
    confidence are flagged together.

    Args:
        inside: (N,), confidence scores of in-distribution cases, on any scale; higher means more confident.
        outside: (M,), confidence scores of out-of-distribution cases.

    Returns:
        The average precision, from 0 to 1.

    See Also:
        ood_auroc: AUROC of the same detection task.

    Examples:
        >>> ood_ap([0.9, 0.8], [0.8, 0.1])
        0.8333333333333333
    """
    return average_precision(_ties(inside, outside))


def ood_fpr(inside: Values, outside: Values, tpr: float = 0.95) -> float:
    """False-positive rate of OOD detection at a true-positive rate: the "FPR at 95 % TPR" of the literature.

    The fraction of in-distribution cases flagged at the lowest threshold that flags at least ``tpr`` of the OOD cases.
    Cases of equal confidence are flagged together, and nothing is interpolated.  Papers that take in-distribution as
    the positive class report ``ood_fpr(-outside, -inside)``.

    Args:
        inside: (N,), confidence scores of in-distribution cases, on any scale; higher means more confident.
        outside: (M,), confidence scores of out-of-distribution cases.
        tpr: Fraction of ``outside`` that must be flagged, above 0 and at most 1.

    Returns:
        The false-positive rate, from 0 to 1.

    See Also:
        ood_auroc: Summary over all thresholds.

    Examples:
        >>> ood_fpr([0.9, 0.8, 0.3, 0.2], [0.3, 0.1])
        0.5
    """
    tpr = check_number("tpr", tpr, 0, 1, exclude=0)
    return false_positives(_ties(inside, outside), tpr)


def _ties(inside: Values, outside: Values) -> Ties:
    return Ties.of(check_scores("inside", inside), check_scores("outside", outside))
