"""AUROC, average precision and false-positive rate of detecting "bad" cases by low scores.

Shared by misclassification detection (bad cases are errors) and OOD detection (bad cases are out-of-distribution).
"""

import numpy as np

from squad.metrics.ties import SLACK, Ties, before

__all__ = ["auroc", "average_precision", "false_positives"]


def auroc(ties: Ties) -> float:
    """Return the probability that a bad case scores below a good one, ties counting one half; NaN without pairs."""
    pairs = int(ties.good[-1]) * int(ties.bad[-1])
    return 1 - ties.misranked() / pairs if pairs else float("nan")


def average_precision(ties: Ties) -> float:
    """Return the average precision of flagging cases from the lowest score up; NaN if there is no bad case.

    Cases of equal score are flagged together.  This is the step-wise sum of precision times the increase in recall;
    trapezoidal interpolation would be too optimistic, because precision is not linear in recall.
    """
    total = int(ties.bad[-1])
    if not total:
        return float("nan")
    ends, bad = ties.all, before(ties.bad)
    precision = (total - bad) / (ends[-1] - before(ends))
    return float(((ties.bad - bad) * precision).sum() / total)


def false_positives(ties: Ties, share: float) -> float:
    """Return the fraction of good cases flagged by the lowest threshold that flags ``share`` of the bad ones.

    Args:
        ties: Counts of good and bad cases.
        share: Fraction of the bad cases that must be flagged, above 0 and at most 1.

    Returns:
        Fraction from 0 to 1.
    """
    found = ties.bad[-1] - before(ties.bad)  # at or below each score, the highest first: falling
    last = np.flatnonzero(found >= share * found[0] - SLACK)[-1]
    return float((ties.good[-1] - before(ties.good)[last]) / ties.good[-1])
