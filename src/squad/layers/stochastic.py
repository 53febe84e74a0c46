"""Base class of stochastic layers: the source of their noise, and the collection of their KL terms."""

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
    """Sequence of the KL terms collected by :func:`collect_kl` so far, in the order of the calls.

    Stored as a linked list: torch.compile would recompile for every length of a Python list.
    """

    def __init__(self) -> None:
        self._last: _Link | None = None

    def add(self, kl: Tensor) -> None:
        """Append a KL term."""
        self._last = _Link(kl, self._last)

    def _all(self) -> list[Tensor]:
        kls, link = [], self._last
        while link is not None:
            kls.append(link.kl)
            link = link.previous
        return kls[::-1]

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
    def __init__(self, kl: Tensor, previous: "_Link | None") -> None:
        self.kl = kl
        self.previous = previous


class _Context(threading.local):
    """State of the enclosing ``with`` blocks, stored per thread so that threads do not affect each other.

    A ContextVar would be more usual, but torch.compile cannot trace it.
    """

    def __init__(self) -> None:
        # Set on the instance: torch.compile does not notice changes of a class attribute.
        self.collectors: tuple[CollectedKL, ...] = ()
        # A tensor, so that a compiled network is not recompiled for every sample.
        self.sample_index = torch.zeros((), dtype=torch.int64, device="cpu")


_context = _Context()


# Classes, not generators with contextlib: torch.compile before 2.7 cannot trace those.
class _CollectKL(AbstractContextManager[CollectedKL]):
    def __enter__(self) -> CollectedKL:
        kls = CollectedKL()
        self.outer = _context.collectors
        _context.collectors = (*self.outer, kls)
        return kls

    def __exit__(self, *_: object) -> None:
        _context.collectors = self.outer


class _SampleIndex(AbstractContextManager[None]):
    def __init__(self, index: int) -> None:
        self.index = index

    def __enter__(self) -> None:
        self.outer = _context.sample_index
        _context.sample_index = torch.tensor(self.index, dtype=torch.int64, device="cpu")

    def __exit__(self, *_: object) -> None:
        _context.sample_index = self.outer


def collect_kl() -> AbstractContextManager[CollectedKL]:
    """Collect the KL term of every latent layer called inside the ``with`` block.

    Each entry is the KL divergence to the layer's prior in nats, summed over its latents: one number per row, in the
    shape of the input without its last axis; with members (M, ...).  The paper's loss is then
    ``cross_entropy(net(x), y) + beta * sum(kl.mean() for kl in kls)``.  With members, add up their losses, so that
    gradients are not scaled by M: ``(cross_entropy_of_each + beta * sum(kl.mean(-1) for kl in kls)).sum()``.

    Returns:
        Context manager that yields a sequence of the KL terms, in the order of the calls.  Blocks can be nested; each
        thread has its own.

    See Also:
        SquadLinear.sample_with_kl: Returns the sample and the KL term of one layer.

    References:
        Veeling, van den Berg, Welling. "Predictive Uncertainty through Quantization", 2018. arXiv:1810.05500.

    Examples:
        >>> import torch
        >>> import squad
        >>> net = torch.nn.Sequential(squad.SquadLinear(4, 8), squad.SquadLinear(8, 2))
        >>> with squad.collect_kl() as kls:
        ...     y = net(torch.zeros(5, 4))
        >>> [tuple(kl.shape) for kl in kls]
        [(5,), (5,)]
    """
    return _CollectKL()


def report_kl(kl: Tensor) -> None:
    """Pass a layer's KL term, one number per row, to all enclosing :func:`collect_kl` blocks."""
    for kls in _context.collectors:
        kls.add(kl)


def sample_index(index: int) -> AbstractContextManager[None]:
    """Let layers in eval mode draw sample ``index`` inside the ``with`` block, instead of sample 0.

    In eval mode a layer's noise depends on its seed and on this index, never on the row: a prediction is a function of
    its input.  The mean over T samples is the paper's prediction.  Exported programs and captured CUDA graphs keep the
    index they were made with.

    Args:
        index: Index of the sample, from 0 to 999,999.

    Returns:
        Context manager; the setting is stored per thread.

    Raises:
        ArgumentError: If ``index`` is not an integer in that range.

    See Also:
        reseed: Gives layers new noise.

    Examples:
        >>> import torch
        >>> import squad
        >>> layer, x = squad.SquadLinear(4, 8).eval(), torch.zeros(5, 4)
        >>> with squad.sample_index(1):
        ...     second = layer(x)
        >>> torch.equal(layer(x), layer(x)), torch.equal(layer(x), second)
        (True, False)
    """
    return _SampleIndex(check_count("index", index, 0, 999_999))


@torch.no_grad()
def reseed(module: nn.Module, seed: int | Tensor | None = None) -> None:
    """Give every stochastic layer of ``module`` a new seed for its noise in eval mode.

    A copy of a layer has the same seed, and therefore the same noise, as its original: reseed a network that contains
    copies.  A layer that is called twice in a network uses the same noise both times.

    Args:
        module: Layer or network.
        seed: Makes the new seeds reproducible: they are hashes of ``seed``, the layer's position in the network and the
            member's index.  An integer tensor with one seed per member gives each member the seeds it would have in a
            network without members.  If None, seeds are drawn from torch's generator.

    Raises:
        ArgumentError: If the module has no stochastic layer.

    See Also:
        sample_index: Selects a sample for a given seed.

    Examples:
        >>> import torch
        >>> import squad
        >>> net = torch.nn.Sequential(squad.SquadLinear(4, 4), squad.SquadLinear(4, 4))
        >>> squad.reseed(net, seed=1)
        >>> bool(net[0].seed == net[1].seed)
        False
    """
    layers = [layer for layer in module.modules() if isinstance(layer, StochasticModule)]
    if not layers:
        raise ArgumentError.of("module", type(module).__name__, "a network with at least one stochastic layer")
    seeds = [
        draw_seed(layer.lead) if seed is None else layer.hashed_seed(seed, position)
        for position, layer in enumerate(layers)
    ]
    for layer, new in zip(layers, seeds, strict=True):
        layer.seed.copy_(new)


class StochasticModule(MemberModule):
    """Base class of layers with noise: new noise in every training step, fixed by ``seed`` in eval mode.

    Args:
        in_features: Number of inputs.
        out_features: Number of outputs.
        members: Number of members M; None for a layer without members.
        sampling: Sampling mode in eval mode; None for the first of ``samplings``.

    Attributes:
        seed: int64 tensor of shape () or (M,), saved with the layer; drawn from torch's generator at construction.
        sampling: Sampling mode in eval mode, one of ``samplings``.
    """

    #: Sampling modes of the layer; the first is the default.
    samplings: ClassVar[tuple[str, ...]] = ("sample", "mean")
    structure = (*MemberModule.structure, "sampling")

    seed: Tensor

    def __init__(self, in_features: int, out_features: int, members: int | None, sampling: str | None) -> None:
        super().__init__(in_features, out_features, members)
        self.sampling = self.samplings[0] if sampling is None else sampling
        self.register_buffer("seed", draw_seed(self.lead))

    @property
    def sampling(self) -> str:
        """Sampling mode in eval mode."""
        return self._sampling

    @sampling.setter
    def sampling(self, value: str) -> None:
        self._sampling = check_choice("sampling", value, self.samplings)

    def row_key(self, x: Tensor, seed: int | Tensor | None = None, step: int | Tensor = 0) -> Key:
        """Return the key of noise that is independent for every row.

        Args:
            x: Rows; their device is that of the key.
            seed: Integer, or integer tensor of shape () or (M,); a single seed gives all members the same noise.  None
                draws a new seed per member from torch's generator.
            step: Counter combined with the seed, same shapes as ``seed``.

        Returns:
            Key of shape () or (M,).
        """
        key = make_key(draw_seed(self.lead, x.device) if seed is None else seed, step, x.device)
        self.check_per_member("seed", key.seed)
        return key if key.seed.shape == self.lead else Key(*(part.expand(self.lead) for part in key))

    def hashed_seed(self, seed: int | Tensor, position: int) -> Tensor:
        """Derive a 62-bit seed per member from a seed and the layer's position.

        Args:
            seed: Integer, or integer tensor of shape () or (M,).
            position: Index of the layer in the network.

        Returns:
            int64 tensor of the shape of ``self.seed``.
        """
        key = make_key(seed, position, self.seed.device)
        self.check_per_member("seed", key.seed)
        rows = 1 if key.seed.dim() else self.members or 1
        return hashed_seeds(key, rows).view(self.lead)

    def eval_key(self) -> tuple[Key, Tensor]:
        """Return the key of the layer's noise in eval mode, shared by all rows, and the current sample index."""
        return Key(self.seed, torch.zeros_like(self.seed)), _context.sample_index
