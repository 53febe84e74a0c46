"""What random layers share: where their noise comes from, and where their KL goes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import torch
from torch import Tensor

from squad.core.checks import check_choice, check_count
from squad.core.noise import Key, draw_seed, make_key
from squad.errors import ArgumentError
from squad.layers.members import MemberModule

__all__ = ["StochasticModule", "collect_kl", "report_kl", "sample_index"]


class _Surroundings(threading.local):
    """What the ``with`` blocks around a call say, one a thread: threads that serve one network stay apart.

    (A ContextVar would be the usual thing; torch.compile cannot trace one.)
    """

    collectors: tuple[list[Tensor], ...] = ()
    sample_index: int = 0


_around = _Surroundings()


@contextmanager
def collect_kl() -> Iterator[list[Tensor]]:
    """Collect the KL of every latent layer that is called inside, in the order of the calls.

    Each entry is the KL to the layer's prior in nats, summed over its latents, one number a row: the input's shape
    without its last axis, members first.  The bound of the paper is then
    ``cross_entropy(net(x), y) + beta * sum(kl.mean() for kl in kls)``.

    >>> import squad
    >>> net = torch.nn.Sequential(squad.SquadLinear(4, 8), squad.SquadLinear(8, 2))
    >>> with collect_kl() as kls:
    ...     y = net(torch.zeros(5, 4))
    >>> [tuple(kl.shape) for kl in kls]
    [(5,), (5,)]
    """
    found: list[Tensor] = []
    outer = _around.collectors
    _around.collectors = (*outer, found)
    try:
        yield found
    finally:
        _around.collectors = outer


def report_kl(kl: Tensor) -> None:
    """Hand a layer's KL, one number a row, to whoever collects."""
    for found in _around.collectors:
        found.append(kl)


@contextmanager
def sample_index(index: int) -> Iterator[None]:
    """Inside, layers in eval mode take their ``index``-th sample instead of the first (0).

    In eval mode a layer's noise depends on its seed and on this index, never on the row: an answer is a function of
    its input.  The mean of T such answers is the paper's prediction.

    >>> import squad
    >>> layer, x = squad.SquadLinear(4, 8).eval(), torch.zeros(5, 4)
    >>> with sample_index(1):
    ...     second = layer(x)
    >>> torch.equal(layer(x), layer(x)), torch.equal(layer(x), second)
    (True, False)
    """
    outer = _around.sample_index
    _around.sample_index = check_count("index", index, 0)
    try:
        yield
    finally:
        _around.sample_index = outer


class StochasticModule(MemberModule):
    """A layer that draws random numbers: anew in training, by its own fixed ``seed`` in eval mode.

    Attributes:
        seed: int64 () or (M,), saved with the layer; drawn from torch's generator when the layer is made.
        sampling: what the layer returns in eval mode, one of ``samplings``.
    """

    #: What ``sampling`` may be; the first is the default.
    samplings: ClassVar[tuple[str, ...]] = ("sample", "mean")
    structure = (*MemberModule.structure, "sampling")

    seed: Tensor

    def __init__(self, in_features: int, out_features: int, members: int | None, sampling: str | None) -> None:
        super().__init__(in_features, out_features, members)
        self.sampling = self.samplings[0] if sampling is None else sampling
        self.register_buffer("seed", draw_seed(self.lead))

    @property
    def sampling(self) -> str:
        """What the layer returns in eval mode."""
        return self._sampling

    @sampling.setter
    def sampling(self, value: str) -> None:
        self._sampling = check_choice("sampling", value, self.samplings)

    def row_key(self, x: Tensor, seed: int | Tensor | None = None, step: int | Tensor = 0) -> Key:
        """The key of noise that is independent for every row, () or one a member.

        Without a seed each member gets a new one from torch's generator; one seed for several members gives them all
        the same noise.
        """
        key = make_key(draw_seed(self.lead, x.device) if seed is None else seed, step, x.device)
        if key.seed.dim() and key.seed.shape != self.lead:
            allowed = "one number" + (f", or one for each of {self.members} members" if self.members else "")
            raise ArgumentError.of("seed", f"shape {tuple(key.seed.shape)}", allowed)
        return Key(*(part.expand(self.lead) for part in key))

    def fixed_key(self) -> tuple[Key, int]:
        """The layer's own seed and the index of the sample asked for, for noise that all rows share."""
        return Key(self.seed, torch.zeros_like(self.seed)), _around.sample_index
