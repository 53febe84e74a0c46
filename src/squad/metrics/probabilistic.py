"""How good predicted probabilities are."""

import numpy as np

from squad.metrics.checks import Values, check_probabilities

__all__ = ["accuracy", "brier", "nll"]

#: The smallest positive float64 of full precision: what :func:`nll` takes for a probability of 0.
SMALLEST = float(np.finfo(np.float64).tiny)


def accuracy(probabilities: Values, labels: Values) -> float:
    """Share of rows whose most probable class (of several, the first) is right.

    Args:
        probabilities: (N, K), rows adding up to 1.
        labels: (N,), the right classes, from 0.

    >>> accuracy([[0.9, 0.1], [0.8, 0.2]], [0, 1])
    0.5
    """
    p, y = check_probabilities(probabilities, labels)
    return float((p.argmax(axis=1) == y).mean())


def nll(probabilities: Values, labels: Values) -> float:
    """Mean negative log-likelihood in nats.  A probability of 0 counts as 2.2e-308: at most 708.4, never infinite.

    Args:
        probabilities: (N, K), rows adding up to 1.
        labels: (N,), the right classes, from 0.

    >>> nll([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    0.0
    """
    p, y = check_probabilities(probabilities, labels)
    # 0 is subtracted from, lest it come out as -0.0.
    return 0.0 - float(np.log(np.maximum(p[np.arange(len(y)), y], SMALLEST)).mean())


def brier(probabilities: Values, labels: Values) -> float:
    """Brier score: the squared error summed over the classes, from 0 to 2, as a mean over rows.

    Args:
        probabilities: (N, K), rows adding up to 1.
        labels: (N,), the right classes, from 0.

    >>> brier([[0.5, 0.5]], [0])
    0.5
    """
    p, y = check_probabilities(probabilities, labels)
    p[np.arange(len(y)), y] -= 1.0
    return float((p**2).sum(axis=1).mean())
