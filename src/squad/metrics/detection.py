"""How well a score finds bad cases, which should stand low: the areas that failures and outliers share."""

import numpy as np

from squad.metrics.ties import SLACK, Ties, before

__all__ = ["auroc", "average_precision", "false_positives"]


def auroc(ties: Ties) -> float:
    """The chance that a bad case stands below a good one, equal scores counting one half; NaN if there are no pairs."""
    pairs = int(ties.good[-1]) * int(ties.bad[-1])
    return 1 - ties.misranked() / pairs if pairs else float("nan")


def average_precision(ties: Ties) -> float:
    """The share of bad cases among those flagged, from the lowest score up, as a mean over the bad ones; NaN if none.

    Equal scores are flagged at once.  This is the sum of steps, precision times gain in recall; the trapezoid between
    points of the curve would promise too much, as precision is not linear in recall.
    """
    total = int(ties.bad[-1])
    if not total:
        return float("nan")
    ends, bad = ties.all, before(ties.bad)
    precision = (total - bad) / (ends[-1] - before(ends))
    return float(((ties.bad - bad) * precision).sum() / total)


def false_positives(ties: Ties, share: float) -> float:
    """The share of good cases flagged, from the lowest score up, once at least ``share`` of the bad ones are."""
    found = ties.bad[-1] - before(ties.bad)  # at or below each score, the highest first: falling
    last = np.flatnonzero(found >= share * found[0] - SLACK)[-1]
    return float((ties.good[-1] - before(ties.good)[last]) / ties.good[-1])
