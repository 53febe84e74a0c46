"""How well confidence ranks answers: errors should be among the least confident ones.

Equal confidences cannot be told apart by a threshold.  Areas and the risk at a coverage are their means over all orders
of equals, in closed form: exact, and the same in whatever order the rows come.
"""

import math

import numpy as np

from squad.core.checks import check_number
from squad.metrics.checks import Values, check_confidence
from squad.metrics.ties import SLACK, Ties, before

__all__ = ["augrc", "aurc", "coverage_at_risk", "e_aurc", "risk_at_coverage"]


def coverage_at_risk(confidence: Values, correct: Values, risk: float) -> float:
    """The largest share of cases that a threshold on confidence can answer with an error rate of at most ``risk``.

    Equal confidences are answered together or not at all.  0 if no threshold will do.  This is what was observed on
    these cases, with the best threshold for them: no promise for others.

    Args:
        confidence: (N,), the higher the surer, on any scale.
        correct: (N,), whether each answer is right.
        risk: the error rate allowed among the answered, from 0 to 1.

    >>> coverage_at_risk([0.9, 0.8, 0.7, 0.6], [True, True, False, True], 0.3)
    1.0
    >>> coverage_at_risk([0.9, 0.8, 0.7, 0.6], [True, True, False, True], 0.1)
    0.5
    """
    risk = check_number("risk", risk, 0, 1)
    ties = Ties.split(*check_confidence(confidence, correct))
    answered = ties.all
    good = answered[ties.bad <= risk * answered + SLACK]
    return float(good[-1] / answered[-1]) if len(good) else 0.0


def risk_at_coverage(confidence: Values, correct: Values, coverage: float) -> float:
    """The error rate among the most confident cases, as few as make up at least the share ``coverage``.

    Where the last of these is one of several with equal confidence, as many of them are answered as are needed, and the
    mean over all choices is returned.

    Args:
        confidence: (N,), the higher the surer, on any scale.
        correct: (N,), whether each answer is right.
        coverage: the share of cases that is answered, above 0 (of nothing there is no error rate) and up to 1.

    >>> risk_at_coverage([0.9, 0.8, 0.7, 0.6], [True, True, False, True], 0.75)
    0.3333333333333333
    >>> risk_at_coverage([0.9, 0.5, 0.5, 0.5], [True, True, False, True], 0.5)
    0.16666666666666666
    """
    coverage = check_number("coverage", coverage, 0, 1, exclude=0)
    ties = Ties.split(*check_confidence(confidence, correct))
    ends = ties.all
    answered = max(1, math.ceil(coverage * int(ends[-1]) - SLACK))
    group = int(np.searchsorted(ends, answered))
    start, wrong = (int(before(counts)[group]) for counts in (ends, ties.bad))
    share = (int(ties.bad[group]) - wrong) / (int(ends[group]) - start)
    return (wrong + (answered - start) * share) / answered


def aurc(confidence: Values, correct: Values) -> float:
    """Area under the risk-coverage curve: the error rate among the n most confident, as a mean over n = 1 to N.

    From 0 (no errors) to 1 (nothing else).  The best that an error rate allows is above 0: see :func:`e_aurc`.

    Args:
        confidence: (N,), the higher the surer, on any scale.
        correct: (N,), whether each answer is right.

    >>> aurc([0.9, 0.8], [True, False])
    0.25
    >>> aurc([0.5, 0.5], [True, False])
    0.5
    """
    return _area(Ties.split(*check_confidence(confidence, correct)))


def e_aurc(confidence: Values, correct: Values) -> float:
    """Excess AURC: what AURC is above that of the best order, in which all errors come last.  0 is perfect.

    Args:
        confidence: (N,), the higher the surer, on any scale.
        correct: (N,), whether each answer is right.

    >>> e_aurc([0.9, 0.8], [True, False])
    0.0
    >>> e_aurc([0.8, 0.9], [True, False])
    0.5
    """
    ties = Ties.split(*check_confidence(confidence, correct))
    count, errors = int(ties.all[-1]), int(ties.bad[-1])
    wrong = np.arange(1, errors + 1)
    best = float((wrong / (count - errors + wrong)).sum()) / count
    return max(0.0, _area(ties) - best)  # rounding could leave it a hair below zero


def augrc(confidence: Values, correct: Values) -> float:
    """Area under the generalized risk-coverage curve (Traub et al., 2024), from 0 (no errors) to 1/2 (nothing else).

    The generalized risk is the share of all cases that are answered, and wrongly; the area is its mean over all
    coverages, by trapezoids.  It equals (1 - A) p (1 - p) + p^2 / 2, with p the error rate and A what
    :func:`squad.metrics.failure_auroc` is.  Unlike AURC it does not lean on the few most confident cases.

    Args:
        confidence: (N,), the higher the surer, on any scale.
        correct: (N,), whether each answer is right.

    >>> augrc([0.9, 0.8], [True, False])
    0.125
    """
    ties = Ties.split(*check_confidence(confidence, correct))
    count, errors = int(ties.all[-1]), int(ties.bad[-1])
    return (ties.misranked() + errors**2 / 2) / count**2


def _area(ties: Ties) -> float:
    """AURC.  Within a group the expected number of errors grows by the group's share of errors with every rank."""
    ends = ties.all
    starts, wrong = before(ends), before(ties.bad)
    errors = ties.bad - wrong
    share = errors / (ends - starts)
    # Sum of 1 / rank over each group: as differences of harmonic numbers these would lose digits at high ranks.
    steps = np.add.reduceat(1.0 / np.arange(1, ends[-1] + 1), starts)
    return float((errors + (wrong - share * starts) * steps).sum() / ends[-1])
