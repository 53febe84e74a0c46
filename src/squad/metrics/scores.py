"""Confidence scores from class probabilities, one per row; higher means more confident, so uncertainties are negated.

A threshold can be put on any of them.  They are float64 arrays, in which near-certain predictions keep their order: in
float32 the largest probability is exactly 1 once the gap between the logits reaches 18.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from squad.errors import ArgumentError
from squad.metrics.checks import Values, check_samples, check_simplex

__all__ = ["entropy", "margin", "mutual_information", "softmax_response", "variance"]


def softmax_response(probabilities: Values) -> NDArray[np.float64]:
    """Probability of the most probable class: the default confidence score.

    Args:
        probabilities: (N, K), class probabilities; each row sums to 1.

    Returns:
        (N,), from 1 / K to 1.

    See Also:
        margin: Difference between the two largest probabilities.

    References:
        Y. Geifman and R. El-Yaniv, Selective classification for deep neural networks, NeurIPS 2017.

    Examples:
        >>> softmax_response([[0.5, 0.25, 0.25]]).tolist()
        [0.5]
    """
    return np.asarray(check_simplex(probabilities).max(axis=1))


def margin(probabilities: Values) -> NDArray[np.float64]:
    """Difference between the two largest class probabilities.

    Args:
        probabilities: (N, K), class probabilities of at least two classes; each row sums to 1.

    Returns:
        (N,), from 0 to 1.

    See Also:
        softmax_response: The largest probability alone.

    Examples:
        >>> margin([[0.5, 0.25, 0.25]]).tolist()
        [0.25]
    """
    p = check_simplex(probabilities)
    if p.shape[1] < 2:
        raise ArgumentError(f"The margin needs at least two classes, but probabilities have shape {p.shape}.")
    p.partition(p.shape[1] - 2, axis=1)
    return np.asarray(p[:, -1] - p[:, -2])


def entropy(probabilities: Values) -> NDArray[np.float64]:
    """Negative entropy of the class probabilities, in nats.

    Args:
        probabilities: (N, K), class probabilities; each row sums to 1.

    Returns:
        (N,), from -log K (all classes equally probable) to 0 (one class is certain).

    See Also:
        mutual_information: The part of the entropy that is due to disagreement between samples.

    Examples:
        >>> entropy([[0.0, 1.0], [0.5, 0.5]]).tolist()
        [0.0, -0.6931471805599453]
    """
    return _negentropy(check_simplex(probabilities))


def mutual_information(samples: Values) -> NDArray[np.float64]:
    """Negative mutual information between the class and the sample index, in nats.

    The entropy of the mean prediction minus the mean entropy: the part of the uncertainty that is due to disagreement
    between samples (epistemic uncertainty).

    Args:
        samples: (T, N, K), class probabilities from each of T samples (or ensemble members).

    Returns:
        (N,), at most 0; 0 where all samples agree.

    See Also:
        entropy: Total uncertainty.
        variance: Another measure of disagreement.

    References:
        N. Houlsby, F. Huszár, Z. Ghahramani and M. Lengyel, Bayesian active learning for classification and preference
        learning, 2011.

    Examples:
        >>> mutual_information([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]]).tolist()
        [-0.6931471805599453, 0.0]
    """
    p = check_samples(samples)
    # Rounding errors could make it slightly positive.
    return np.asarray(np.minimum(_negentropy(p.mean(axis=0)) - _negentropy(p).mean(axis=0), 0.0))


def variance(samples: Values) -> NDArray[np.float64]:
    """Negative variance, over samples, of the probability of the predicted class.

    The predicted class is the one with the largest mean probability (the first one among ties); the sum of squares is
    divided by T.  Geifman and El-Yaniv (2017) use this variance for networks with Monte-Carlo dropout.

    Args:
        samples: (T, N, K), class probabilities from each of T samples (or ensemble members).

    Returns:
        (N,), at most 0; 0 where all samples agree.

    See Also:
        mutual_information: Another measure of disagreement.

    References:
        Y. Geifman and R. El-Yaniv, Selective classification for deep neural networks, NeurIPS 2017.

    Examples:
        >>> variance([[[1.0, 0.0]], [[0.5, 0.5]]]).tolist()
        [-0.0625]
    """
    p = check_samples(samples)
    predicted = p.mean(axis=0).argmax(axis=1)
    return np.asarray(0.0 - p[:, np.arange(p.shape[1]), predicted].var(axis=0))


def _negentropy(p: NDArray[np.float64]) -> NDArray[np.float64]:
    # Sort, so that rows with the same probabilities in another order tie: sums would differ in the last bit.
    p = np.sort(p, axis=-1)
    return np.asarray(np.minimum(xlogy(p, p).sum(axis=-1), 0.0))
