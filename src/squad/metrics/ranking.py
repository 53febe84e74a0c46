"""Risk-coverage metrics: how well does confidence rank predictions, with errors among the least confident?

A threshold cannot separate equal confidences.  The areas, and the risk at a coverage, are averaged over all orders of
tied cases in closed form: exact, and independent of the order of the rows.
"""

import math

import numpy as np

from squad.core.checks import check_number
from squad.metrics.checks import Values, check_confidence
from squad.metrics.ties import SLACK, Ties, before

__all__ = ["augrc", "aurc", "coverage_at_risk", "e_aurc", "risk_at_coverage"]


def coverage_at_risk(confidence: Values, correct: Values, risk: float) -> float:
    """Largest coverage that a threshold on confidence reaches with a selective risk of at most ``risk``.

    Cases of equal confidence are accepted together or not at all.  The threshold is the best one for these very cases,
    so the result is an observation and no guarantee for new cases: :func:`squad.certify` gives one.

    Args:
        confidence: (N,), confidence scores on any scale; higher means more confident.
        correct: (N,), whether each prediction is correct.
        risk: Error rate allowed among accepted cases, from 0 to 1.

    Returns:
        The coverage, from 0 (no threshold satisfies ``risk``) to 1.

    See Also:
        risk_at_coverage: The inverse question.
        squad.certify: A threshold with a guarantee for new cases.

    Examples:
        >>> coverage_at_risk([0.9, 0.8, 0.7, 0.6], [True, True, False, True], 0.3)
        1.0
        >>> coverage_at_risk([0.9, 0.8, 0.7, 0.6], [True, True, False, True], 0.1)
        0.5
    """
    risk = check_number("risk", risk, 0, 1)
    ties = Ties.split(*check_confidence(confidence, correct))
    accepted = ties.all
    good = accepted[ties.bad <= risk * accepted + SLACK]
    return float(good[-1] / accepted[-1]) if len(good) else 0.0


def risk_at_coverage(confidence: Values, correct: Values, coverage: float) -> float:
    """Selective risk at a coverage: error rate of the smallest top-confidence set that reaches ``coverage``.

    If the last accepted cases are tied with rejected ones, the result is the mean over all ways to break the tie.

    Args:
        confidence: (N,), confidence scores on any scale; higher means more confident.
        correct: (N,), whether each prediction is correct.
        coverage: Fraction of cases accepted, above 0 (an empty set has no error rate) and at most 1.

    Returns:
        The error rate among the accepted cases.

    See Also:
        coverage_at_risk: The inverse question.
        aurc: Mean of this risk over all coverages.

    Examples:
        >>> risk_at_coverage([0.9, 0.8, 0.7, 0.6], [True, True, False, True], 0.75)
        0.3333333333333333
        >>> risk_at_coverage([0.9, 0.5, 0.5, 0.5], [True, True, False, True], 0.5)
        0.16666666666666666
    """
    coverage = check_number("coverage", coverage, 0, 1, exclude=0)
    ties = Ties.split(*check_confidence(confidence, correct))
    ends = ties.all
    accepted = max(1, math.ceil(coverage * int(ends[-1]) - SLACK))
    group = int(np.searchsorted(ends, accepted))
    start, wrong = (int(before(counts)[group]) for counts in (ends, ties.bad))
    share = (int(ties.bad[group]) - wrong) / (int(ends[group]) - start)
    return (wrong + (accepted - start) * share) / accepted


def aurc(confidence: Values, correct: Values) -> float:
    """Area under the risk-coverage curve (AURC): mean selective risk of the n most confident cases, n = 1 to N.

    From 0 (no errors) to 1 (only errors).  With errors, even a perfect ranking has an AURC above 0: see :func:`e_aurc`.

    Args:
        confidence: (N,), confidence scores on any scale; higher means more confident.
        correct: (N,), whether each prediction is correct.

    Returns:
        The area; lower is better.

    See Also:
        e_aurc: AURC in excess of a perfect ranking.
        augrc: Area under the generalized risk-coverage curve.

    References:
        Y. Geifman, G. Uziel and R. El-Yaniv, Bias-reduced uncertainty estimation for deep neural classifiers, ICLR
        2019.

    Examples:
        >>> aurc([0.9, 0.8], [True, False])
        0.25
        >>> aurc([0.5, 0.5], [True, False])
        0.5
    """
    return _area(Ties.split(*check_confidence(confidence, correct)))


def e_aurc(confidence: Values, correct: Values) -> float:
    """Excess AURC: AURC minus that of the best ranking, in which all errors come last.  0 is perfect.

    Args:
        confidence: (N,), confidence scores on any scale; higher means more confident.
        correct: (N,), whether each prediction is correct.

    Returns:
        The excess area; lower is better.

    See Also:
        aurc: The area itself.

    References:
        Y. Geifman, G. Uziel and R. El-Yaniv, Bias-reduced uncertainty estimation for deep neural classifiers, ICLR
        2019.

    Examples:
        >>> e_aurc([0.9, 0.8], [True, False])
        0.0
        >>> e_aurc([0.8, 0.9], [True, False])
        0.5
    """
    ties = Ties.split(*check_confidence(confidence, correct))
    count, errors = int(ties.all[-1]), int(ties.bad[-1])
    wrong = np.arange(1, errors + 1)
    best = float((wrong / (count - errors + wrong)).sum()) / count
    return max(0.0, _area(ties) - best)  # rounding errors could make it slightly negative


def augrc(confidence: Values, correct: Values) -> float:
    """Area under the generalized risk-coverage curve (AUGRC), from 0 (no errors) to 1/2 (only errors).

    The generalized risk is the fraction of all cases that are both accepted and wrong; the area is its mean over all
    coverages, by the trapezoidal rule.  It equals (1 - A) p (1 - p) + p^2 / 2, where p is the error rate and A the
    :func:`~squad.metrics.failure_auroc`.  Unlike AURC, it is not dominated by the few most confident cases.

    Args:
        confidence: (N,), confidence scores on any scale; higher means more confident.
        correct: (N,), whether each prediction is correct.

    Returns:
        The area; lower is better.

    See Also:
        aurc: Area under the risk-coverage curve.
        failure_auroc: Misclassification detection AUROC.

    References:
        J. Traub, T. J. Bungert, C. T. Lüth, M. Baumgartner, K. H. Maier-Hein, L. Maier-Hein and P. F. Jäger, Overcoming
        common flaws in the evaluation of selective classification systems, NeurIPS 2024.

    Examples:
        >>> augrc([0.9, 0.8], [True, False])
        0.125
    """
    ties = Ties.split(*check_confidence(confidence, correct))
    count, errors = int(ties.all[-1]), int(ties.bad[-1])
    return (ties.misranked() + errors**2 / 2) / count**2


def _area(ties: Ties) -> float:
    """Return the AURC.  Within a tie group, the expected error count grows by the group's error rate per rank."""
    ends = ties.all
    starts, wrong = before(ends), before(ties.bad)
    errors = ties.bad - wrong
    share = errors / (ends - starts)
    # Sum 1 / rank over each group directly: differences of harmonic numbers would lose digits at high ranks.
    steps = np.add.reduceat(1.0 / np.arange(1, ends[-1] + 1), starts)
    return float((errors + (wrong - share * starts) * steps).sum() / ends[-1])
