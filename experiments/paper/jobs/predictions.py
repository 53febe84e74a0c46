"""Predictions of trained networks: probabilities of every member, and variances over samples where they are needed."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiments.paper.jobs.plan import PredictionMode
from squad.models import Network, Sampler

__all__ = ["Predictions", "predict"]


class Predictions(NamedTuple):
    """Predictions of M members for N rows.

    Attributes:
        p: Mean probabilities over the samples, (M, N, classes).
        confidence: Confidence per member and row, (M, N); None for softmax response.
        ensemble: Mean of ``p`` over the members, (N, classes).
        ensemble_confidence: Confidence of the ensemble, (N,); None for softmax response.
    """

    p: NDArray[np.float64]
    confidence: NDArray[np.float64] | None
    ensemble: NDArray[np.float64]
    ensemble_confidence: NDArray[np.float64] | None


class _MomentSampler(Sampler):
    """A sampler that also accumulates the mean and the mean square of 1 - p for each class.

    The moments are of 1 - p, not p: where a network is confident, p is nearly 1 and its variance would be lost to
    rounding, and the confident rows are those that a ranking is about.
    """

    gaps: Tensor
    squares: Tensor

    def _add(self, y: Tensor, probabilities: Tensor, entropy: Tensor) -> None:
        super()._add(y, probabilities, entropy)
        p = y[:, :, : probabilities.shape[1]].double().softmax(-1)
        # The sum of the other classes' probabilities, which is exact where 1 - p is not.
        gap = p @ (1 - torch.eye(p.shape[-1], dtype=p.dtype, device=p.device))
        self.gaps += gap.sum(1) / self.num_samples
        self.squares += gap.square().sum(1) / self.num_samples

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Map x (N, in) to the mean of p, and the mean and mean square of 1 - p, (M, N, classes) each."""
        parts = []
        for start in range(0, len(x), self.rows):
            block = x[start : start + self.rows]
            shape = self.members, len(block), self.network.classes
            self.gaps, self.squares = (torch.zeros(shape, dtype=torch.float64, device=self.device) for _ in range(2))
            parts.append((self(block).probabilities, self.gaps, self.squares))
        mean, gap, square = (torch.cat(blocks, 1) for blocks in zip(*parts, strict=True))
        return mean, gap, square


def predict(network: Network, mode: PredictionMode, x: Tensor) -> Predictions:
    """Return the predictions of all members, and of their ensemble, for x (N, in)."""
    if mode.confidence == "response":
        p = Sampler(network, mode.sampling, mode.samples)(x).probabilities.cpu().numpy()
        return Predictions(p, None, p.mean(0), None)
    sampler = _MomentSampler(network, mode.sampling, mode.samples)
    mean, gap, square = (moment.cpu().numpy() for moment in sampler.moments(x))
    ensemble = mean.mean(0)
    return Predictions(
        mean,
        _negative_variance(mean, gap, square),
        ensemble,
        _negative_variance(ensemble, gap.mean(0), square.mean(0)),
    )


def _negative_variance(
    mean: NDArray[np.float64], gap: NDArray[np.float64], square: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return minus the variance, over the samples, of the probability of the most probable class."""
    best = mean.argmax(-1)[..., None]
    gap, square = (np.take_along_axis(moment, best, -1)[..., 0] for moment in (gap, square))
    return np.minimum(gap**2 - square, 0.0)
