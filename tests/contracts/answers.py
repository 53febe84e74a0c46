"""Contract of predictions: on every device, the prediction of every network is a function of its input."""

from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from squad.models import CONFIGS, Draws, Network, Sampler, build, network_config

#: Every network with each of its sampling modes.
WAYS = [(name, sampling) for name, config in CONFIGS.items() for sampling in config.samplings]
SAMPLES = 8
FEATURES = 20


def example(name: str, members: int = 2, dtype: torch.dtype = torch.float32) -> Network:
    """A network whose predictions are neither certain nor equal: its weights are larger than initial weights."""
    network = build(network_config(name, {"hidden": (12, 9)}), FEATURES, 5, list(range(3, 3 + members))).to(dtype)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.5)
    return network.eval()


def rows(count: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(count, FEATURES))).float()


@pytest.mark.parametrize(("name", "sampling"), WAYS)
class AnswerContract:
    device: ClassVar[str]
    #: Tolerance of probabilities and entropies.
    within: ClassVar[float] = 1e-6

    def sampler(self, name: str, sampling: str) -> Sampler:
        return Sampler(example(name).to(self.device), sampling, SAMPLES)

    def test_single_rows_equal_batches(self, name: str, sampling: str) -> None:
        sampler, x = self.sampler(name, sampling), rows(150)
        together = sampler(x).probabilities
        for row in (0, 63, 64, 149):
            alone = sampler(x[row : row + 1]).probabilities
            self.assert_same(alone, together[:, row : row + 1])

    def test_order_and_chunks_do_not_matter(self, name: str, sampling: str) -> None:
        sampler, x = self.sampler(name, sampling), rows(600)
        expected = sampler(x)
        order = torch.from_numpy(np.random.default_rng(1).permutation(600))
        for found in (sampler(x[order]), *(self._in_chunks(sampler, x, order, size) for size in (599, 7))):
            self.assert_same(found.probabilities, expected.probabilities[:, order.to(self.device)])
            self.assert_same(found.entropy, expected.entropy[:, order.to(self.device)])

    def _in_chunks(self, sampler: Sampler, x: Tensor, order: Tensor, size: int) -> Draws:
        parts = [sampler(x[part]) for part in order.split(size)]
        return Draws(*(torch.cat(tensors, 1) for tensors in zip(*parts, strict=True)))

    def test_equal_rows_get_equal_predictions(self, name: str, sampling: str) -> None:
        sampler = self.sampler(name, sampling)
        x = rows(1).expand(200, -1)
        found = sampler(x).probabilities
        torch.testing.assert_close(found, found[:, :1].expand_as(found), rtol=0, atol=1e-6)

    def test_predictions_do_not_depend_on_the_block_size(self, name: str, sampling: str) -> None:
        network, x = example(name).to(self.device), rows(100)
        expected = Sampler(network, sampling, SAMPLES)(x)
        for size in (1, 33, 400):
            found = Sampler(network, sampling, SAMPLES, rows=size)(x)
            self.assert_same(found.probabilities, expected.probabilities)

    def assert_same(self, found: Tensor, expected: Tensor) -> None:
        torch.testing.assert_close(found, expected, rtol=0, atol=self.within)
