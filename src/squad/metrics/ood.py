"""Out-of-distribution detection: do cases from elsewhere have low confidence?

Cases out of distribution are the positive class, found by low confidence.  Any score will do that is the higher the
surer: see :mod:`squad.metrics.scores`.
"""

from squad.core.checks import check_number
from squad.metrics.checks import Values, check_scores
from squad.metrics.detection import auroc, average_precision, false_positives
from squad.metrics.ties import Ties

__all__ = ["ood_ap", "ood_auroc", "ood_fpr"]


def ood_auroc(inside: Values, outside: Values) -> float:
    """Area under the ROC curve of finding cases from outside by low confidence: 1 is perfect, 1/2 is chance.

    It is the chance that a case from outside has lower confidence than one from inside, equal ones counting one half.

    Args:
        inside: (N,), confidences of cases in distribution, the higher the surer, on any scale.
        outside: (M,), those of cases out of distribution.

    >>> ood_auroc([0.9, 0.8], [0.8, 0.1])
    0.875
    """
    return auroc(_ties(inside, outside))


def ood_ap(inside: Values, outside: Values) -> float:
    """Average precision of finding cases from outside by low confidence; that of chance is about M / (N + M).

    Outside is the positive class.  This is a sum of steps, not of trapezoids; equal confidences enter at once.

    Args:
        inside: (N,), confidences of cases in distribution, the higher the surer, on any scale.
        outside: (M,), those of cases out of distribution.

    >>> ood_ap([0.9, 0.8], [0.8, 0.1])
    0.8333333333333333
    """
    return average_precision(_ties(inside, outside))


def ood_fpr(inside: Values, outside: Values, tpr: float = 0.95) -> float:
    """The share of cases from inside that are flagged, once at least ``tpr`` of those from outside are.

    Flagged are all confidences up to the lowest threshold that suffices: equal ones together, and nothing is
    interpolated.  Where others take inside for the positive class, the share of outside that is let in when ``tpr`` of
    inside are, that is ``ood_fpr(-outside, -inside)``.

    Args:
        inside: (N,), confidences of cases in distribution, the higher the surer, on any scale.
        outside: (M,), those of cases out of distribution.
        tpr: the share of ``outside`` to be found, above 0 and up to 1.

    >>> ood_fpr([0.9, 0.8, 0.3, 0.2], [0.3, 0.1])
    0.5
    """
    tpr = check_number("tpr", tpr, 0, 1, exclude=0)
    return false_positives(_ties(inside, outside), tpr)


def _ties(inside: Values, outside: Values) -> Ties:
    return Ties.of(check_scores("inside", inside), check_scores("outside", outside))
