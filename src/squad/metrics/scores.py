"""Scores of confidence, one a row, each the higher the surer: measures of doubt are taken with a minus sign.

Any of them can be what a threshold is put on.  They are numpy arrays in float64, in which near certainty still has an
order: in float32 the largest probability is exactly 1 from a gap of 18 between the logits on.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from squad.errors import ArgumentError
from squad.metrics.checks import Values, check_samples, check_simplex

__all__ = ["entropy", "margin", "mutual_information", "softmax_response", "variance"]


def softmax_response(probabilities: Values) -> NDArray[np.float64]:
    """The probability of the most probable class, (N,): what squad calls confidence unless told otherwise.

    Args:
        probabilities: (N, K), rows adding up to 1.

    >>> softmax_response([[0.5, 0.25, 0.25]]).tolist()
    [0.5]
    """
    return np.asarray(check_simplex(probabilities).max(axis=1))


def margin(probabilities: Values) -> NDArray[np.float64]:
    """The probability of the most probable class less that of the next, (N,), from 0 to 1.

    Args:
        probabilities: (N, K), rows adding up to 1; two classes at least.

    >>> margin([[0.5, 0.25, 0.25]]).tolist()
    [0.25]
    """
    p = check_simplex(probabilities)
    if p.shape[1] < 2:
        raise ArgumentError.of("probabilities", f"the shape {p.shape}", "of two classes at least", "One has no next.")
    p.partition(p.shape[1] - 2, axis=1)
    return np.asarray(p[:, -1] - p[:, -2])


def entropy(probabilities: Values) -> NDArray[np.float64]:
    """Minus the entropy over the classes, (N,), in nats: 0 where one class is certain, -log K where all are equal.

    Args:
        probabilities: (N, K), rows adding up to 1.

    >>> entropy([[0.0, 1.0], [0.5, 0.5]]).tolist()
    [0.0, -0.6931471805599453]
    """
    return _negentropy(check_simplex(probabilities))


def mutual_information(samples: Values) -> NDArray[np.float64]:
    """Minus the mutual information between the class and which sample is asked, (N,), in nats: 0 where all agree.

    It is the entropy of the mean less the mean of the entropies: of the doubt, what comes from samples that disagree.

    Args:
        samples: (T, N, K), class probabilities of each of T samples (or members).

    >>> mutual_information([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]]).tolist()
    [-0.6931471805599453, 0.0]
    """
    p = check_samples(samples)
    # Rounding could leave it a hair above zero.
    return np.asarray(np.minimum(_negentropy(p.mean(axis=0)) - _negentropy(p).mean(axis=0), 0.0))


def variance(samples: Values) -> NDArray[np.float64]:
    """Minus the variance, over the samples, of the probability of the class that is answered, (N,).

    The class is that of the largest mean (of several, the first); the sum of squares is divided by T.  Geifman and
    El-Yaniv (2017) took such a variance for networks with dropout.

    Args:
        samples: (T, N, K), class probabilities of each of T samples (or members).

    >>> variance([[[1.0, 0.0]], [[0.5, 0.5]]]).tolist()
    [-0.0625]
    """
    p = check_samples(samples)
    answered = p.mean(axis=0).argmax(axis=1)
    return np.asarray(0.0 - p[:, np.arange(p.shape[1]), answered].var(axis=0))


def _negentropy(p: NDArray[np.float64]) -> NDArray[np.float64]:
    # Sorted, so that rows tie that have the same probabilities in another order: sums would differ in the last bit.
    p = np.sort(p, axis=-1)
    return np.asarray(np.minimum(xlogy(p, p).sum(axis=-1), 0.0))
