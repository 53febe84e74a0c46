"""Accuracy and proper scoring rules of predicted class probabilities."""

import numpy as np

from squad.metrics.checks import Values, check_probabilities

__all__ = ["accuracy", "brier", "nll"]

#: Smallest positive normal float64: :func:`nll` clips probabilities at this value.
SMALLEST = float(np.finfo(np.float64).tiny)


def accuracy(probabilities: Values, labels: Values) -> float:
    """Fraction of rows whose most probable class (the first one among ties) is the true class.

    Args:
        probabilities: (N, K), class probabilities; each row sums to 1.
        labels: (N,), true classes as integers from 0 to K - 1.

    Returns:
        The accuracy, from 0 to 1.

    See Also:
        nll: Negative log-likelihood.
        brier: Brier score.

    Examples:
        >>> accuracy([[0.9, 0.1], [0.8, 0.2]], [0, 1])
        0.5
    """
    p, y = check_probabilities(probabilities, labels)
    return float((p.argmax(axis=1) == y).mean())


def nll(probabilities: Values, labels: Values) -> float:
    """Mean negative log-likelihood of the true class, in nats.

    Probabilities are clipped at 2.2e-308, so the loss of a row is at most 708.4 and never infinite.

    Args:
        probabilities: (N, K), class probabilities; each row sums to 1.
        labels: (N,), true classes as integers from 0 to K - 1.

    Returns:
        The mean over rows; 0 is perfect.

    See Also:
        brier: A bounded proper scoring rule.

    Examples:
        >>> nll([[1.0, 0.0], [0.0, 1.0]], [0, 1])
        0.0
    """
    p, y = check_probabilities(probabilities, labels)
    # Subtract from 0 instead of negating, so that a perfect score is 0.0 and not -0.0.
    return 0.0 - float(np.log(np.maximum(p[np.arange(len(y)), y], SMALLEST)).mean())


def brier(probabilities: Values, labels: Values) -> float:
    """Brier score: squared error summed over classes, averaged over rows, from 0 (perfect) to 2.

    Args:
        probabilities: (N, K), class probabilities; each row sums to 1.
        labels: (N,), true classes as integers from 0 to K - 1.

    Returns:
        The mean over rows.

    See Also:
        nll: Negative log-likelihood.

    References:
        G. W. Brier, Verification of forecasts expressed in terms of probability, Monthly Weather Review 78, 1950.

    Examples:
        >>> brier([[0.5, 0.5]], [0])
        0.5
    """
    p, y = check_probabilities(probabilities, labels)
    p[np.arange(len(y)), y] -= 1.0
    return float((p**2).sum(axis=1).mean())
