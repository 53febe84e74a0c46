"""What random layers share: where their noise comes from, and where their KL goes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import torch
from torch import Tensor, nn

from squad.core.checks import check_choice, check_count
from squad.core.noise import Key, bits, draw_seed, make_key
from squad.errors import ArgumentError
from squad.layers.members import MemberModule

__all__ = ["StochasticModule", "collect_kl", "report_kl", "reseed", "sample_index"]


class _Surroundings(threading.local):
    """What the ``with`` blocks around a call say, one a thread: threads that serve one network stay apart.

    (A ContextVar would be the usual thing; torch.compile cannot trace one.)
    """

    def __init__(self) -> None:
        # Set on the instance: torch.compile does not notice a change of what it first found on the class.
        self.collectors: tuple[list[Tensor], ...] = ()
        # A tensor, so that a compiled network is not compiled anew for every sample.
        self.sample_index = torch.zeros((), dtype=torch.int64, device="cpu")


_around = _Surroundings()


@contextmanager
def collect_kl() -> Iterator[list[Tensor]]:
    """Collect the KL of every latent layer that is called inside, in the order of the calls.

    Each entry is the KL to the layer's prior in nats, summed over its latents, one number a row: the input's shape
    without its last axis, members first.  The paper's loss is then
    ``cross_entropy(net(x), y) + beta * sum(kl.mean() for kl in kls)``.  With members it is the sum of their losses, so
    that none is scaled by their number: ``(cross_entropy_of_each + beta * sum(kl.mean(-1) for kl in kls)).sum()``.

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
    checked = check_count("index", index, 0, 999_999)
    _around.sample_index = torch.tensor(checked, dtype=torch.int64, device="cpu")
    try:
        yield
    finally:
        _around.sample_index = outer


@torch.no_grad()
def reseed(module: nn.Module, seed: int | Tensor | None = None) -> None:
    """Give every random layer of ``module`` a noise of its own for eval mode.

    A copy of a layer draws what its original draws; put into one network, the two would not be independent.  So does
    a layer that is called twice.

    Args:
        module: a layer or a network.
        seed: makes the new seeds reproducible: they are hashes of it and of the layer's place in the network.  A whole
            number, or an integer tensor with one a member.  Without it they come from torch's generator.

    >>> import squad
    >>> net = torch.nn.Sequential(squad.SquadLinear(4, 4), squad.SquadLinear(4, 4))
    >>> reseed(net, seed=1)
    >>> bool(net[0].seed == net[1].seed)
    False
    """
    layers = [layer for layer in module.modules() if isinstance(layer, StochasticModule)]
    if not layers:
        raise ArgumentError.of("module", type(module).__name__, "a network with at least one random layer")
    for place, layer in enumerate(layers):
        if seed is None:
            layer.seed.copy_(draw_seed(layer.lead))
        else:
            low, high = bits(layer.row_key(layer.seed, seed, place), 1, 2, 1).long()[..., 0, :, 0].unbind(-1)
            layer.seed.copy_((high & 0x3FFFFFFF) << 32 | low & 0xFFFFFFFF)


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
        self.check_one_a_member("seed", key.seed)
        return Key(*(part.expand(self.lead) for part in key))

    def fixed_key(self) -> tuple[Key, Tensor]:
        """The layer's own seed and the index of the sample asked for, for noise that all rows share."""
        return Key(self.seed, torch.zeros_like(self.seed)), _around.sample_index
