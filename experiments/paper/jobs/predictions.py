"""What networks answer: probabilities of every member, and their second moments where a confidence takes them."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiments.paper.jobs.plan import Way
from squad.models import Network, Sampler

__all__ = ["Answers", "ask"]


class Answers(NamedTuple):
    """Of M members about N rows.

    Attributes:
        p: (M, N, classes), mean probabilities.
        confidence: (M, N), or None for softmax response.
        ensemble: (N, classes), the mean over the members.
        ensemble_confidence: (N,), or None for softmax response.
    """

    p: NDArray[np.float64]
    confidence: NDArray[np.float64] | None
    ensemble: NDArray[np.float64]
    ensemble_confidence: NDArray[np.float64] | None


class _Moments(Sampler):
    """A sampler that also keeps the mean and the mean square of 1 - p, for each class.

    Not of p, which is nearly 1 where a network is sure: its variance would be lost to rounding, and sure rows are what
    a ranking is about.
    """

    gaps: Tensor
    squares: Tensor

    def _add(self, y: Tensor, probabilities: Tensor, entropy: Tensor) -> None:
        super()._add(y, probabilities, entropy)
        p = y[:, :, : probabilities.shape[1]].double().softmax(-1)
        gap = p @ (1 - torch.eye(p.shape[-1], dtype=p.dtype, device=p.device))  # what all other classes have
        self.gaps += gap.sum(1) / self.num_samples
        self.squares += gap.square().sum(1) / self.num_samples

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (N, in) -> mean of p, mean and mean square of 1 - p, (M, N, classes) each."""
        found = []
        for start in range(0, len(x), self.rows):
            block = x[start : start + self.rows]
            shape = self.members, len(block), self.network.classes
            self.gaps, self.squares = (torch.zeros(shape, dtype=torch.float64, device=self.device) for _ in range(2))
            found.append((self(block).probabilities, self.gaps, self.squares))
        mean, gap, square = (torch.cat(parts, 1) for parts in zip(*found, strict=True))
        return mean, gap, square


def ask(network: Network, way: Way, x: Tensor) -> Answers:
    """What all members say about x (N, in), and what they say together."""
    if way.confidence == "response":
        p = Sampler(network, way.sampling, way.samples)(x).probabilities.cpu().numpy()
        return Answers(p, None, p.mean(0), None)
    mean, gap, square = (each.cpu().numpy() for each in _Moments(network, way.sampling, way.samples).moments(x))
    together = mean.mean(0)
    return Answers(mean, _steadiness(mean, gap, square), together, _steadiness(together, gap.mean(0), square.mean(0)))


def _steadiness(
    mean: NDArray[np.float64], gap: NDArray[np.float64], square: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Minus the variance, over the samples, of the probability of the most probable class."""
    best = mean.argmax(-1)[..., None]
    gap, square = (np.take_along_axis(each, best, -1)[..., 0] for each in (gap, square))
    return np.minimum(gap**2 - square, 0.0)
