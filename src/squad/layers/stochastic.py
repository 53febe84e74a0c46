"""What random layers share: where their noise comes from, and where their KL goes."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, overload

import torch
from torch import Tensor, nn

from squad.core.checks import check_choice, check_count
from squad.core.noise import Key, draw_seed, hashed_seeds, make_key
from squad.errors import ArgumentError
from squad.layers.members import MemberModule

__all__ = ["StochasticModule", "collect_kl", "report_kl", "reseed", "sample_index"]


class CollectedKL(Sequence[Tensor]):
    """The KLs that :func:`collect_kl` found so far, in the order of the calls; read as a list.

    Kept as a chain, not as a list: torch.compile would compile anew for every length of a list.
    """

    def __init__(self) -> None:
        self._last: _Link | None = None

    def add(self, kl: Tensor) -> None:
        """Take one more."""
        self._last = _Link(kl, self._last)

    def _all(self) -> list[Tensor]:
        found, link = [], self._last
        while link is not None:
            found.append(link.kl)
            link = link.before
        return found[::-1]

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> list[Tensor]: ...
    def __getitem__(self, index: int | slice) -> Tensor | list[Tensor]:
        return self._all()[index]

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._all())

    def __repr__(self) -> str:
        return f"CollectedKL({self._all()})"


class _Link:
    def __init__(self, kl: Tensor, before: "_Link | None") -> None:
        self.kl = kl
        self.before = before


class _Surroundings(threading.local):
    """What the ``with`` blocks around a call say, one a thread: threads that serve one network stay apart.

    (A ContextVar would be the usual thing; torch.compile cannot trace one.)
    """

    def __init__(self) -> None:
        # Set on the instance: torch.compile does not notice a change of what it first found on the class.
        self.collectors: tuple[CollectedKL, ...] = ()
        # A tensor, so that a compiled network is not compiled anew for every sample.
        self.sample_index = torch.zeros((), dtype=torch.int64, device="cpu")


_around = _Surroundings()


# Classes, not generators with contextlib: torch.compile before 2.7 cannot trace those.
class _Collecting(AbstractContextManager[CollectedKL]):
    def __enter__(self) -> CollectedKL:
        found = CollectedKL()
        self.outer = _around.collectors
        _around.collectors = (*self.outer, found)
        return found

    def __exit__(self, *_: object) -> None:
        _around.collectors = self.outer


class _Sampling(AbstractContextManager[None]):
    def __init__(self, index: int) -> None:
        self.index = index

    def __enter__(self) -> None:
        self.outer = _around.sample_index
        _around.sample_index = torch.tensor(self.index, dtype=torch.int64, device="cpu")

    def __exit__(self, *_: object) -> None:
        _around.sample_index = self.outer


def collect_kl() -> AbstractContextManager[CollectedKL]:
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
    return _Collecting()


def report_kl(kl: Tensor) -> None:
    """Hand a layer's KL, one number a row, to whoever collects."""
    for found in _around.collectors:
        found.add(kl)


def sample_index(index: int) -> AbstractContextManager[None]:
    """Inside, layers in eval mode take their ``index``-th sample instead of the first (0).

    In eval mode a layer's noise depends on its seed and on this index, never on the row: an answer is a function of
    its input.  The mean of T such answers is the paper's prediction.  An exported program and a captured CUDA graph
    keep the index they were made with.

    >>> import squad
    >>> layer, x = squad.SquadLinear(4, 8).eval(), torch.zeros(5, 4)
    >>> with sample_index(1):
    ...     second = layer(x)
    >>> torch.equal(layer(x), layer(x)), torch.equal(layer(x), second)
    (True, False)
    """
    return _Sampling(check_count("index", index, 0, 999_999))


@torch.no_grad()
def reseed(module: nn.Module, seed: int | Tensor | None = None) -> None:
    """Give every random layer of ``module`` a noise of its own for eval mode.

    A copy of a layer draws what its original draws; put into one network, the two would not be independent.  So does
    a layer that is called twice.

    Args:
        module: a layer or a network.
        seed: makes the new seeds reproducible: they are hashes of it, of the layer's place in the network and of the
            member.  An integer tensor with one a member instead gives each what it would get alone.  Without a seed
            they come from torch's generator.

    >>> import squad
    >>> net = torch.nn.Sequential(squad.SquadLinear(4, 4), squad.SquadLinear(4, 4))
    >>> reseed(net, seed=1)
    >>> bool(net[0].seed == net[1].seed)
    False
    """
    layers = [layer for layer in module.modules() if isinstance(layer, StochasticModule)]
    if not layers:
        raise ArgumentError.of("module", type(module).__name__, "a network with at least one random layer")
    seeds = [
        draw_seed(layer.lead) if seed is None else layer.hashed_seed(seed, place) for place, layer in enumerate(layers)
    ]
    for layer, new in zip(layers, seeds, strict=True):
        layer.seed.copy_(new)


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
        return key if key.seed.shape == self.lead else Key(*(part.expand(self.lead) for part in key))

    def hashed_seed(self, seed: int | Tensor, place: int) -> Tensor:
        """62 bits for each member, from a seed and a place; shaped as ``self.seed``."""
        key = make_key(seed, place, self.seed.device)
        self.check_one_a_member("seed", key.seed)
        rows = 1 if key.seed.dim() else self.members or 1
        return hashed_seeds(key, rows).view(self.lead)

    def fixed_key(self) -> tuple[Key, Tensor]:
        """The layer's own seed and the index of the sample asked for, for noise that all rows share."""
        return Key(self.seed, torch.zeros_like(self.seed)), _around.sample_index
