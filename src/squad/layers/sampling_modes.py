"""Values of quantized latents from their logits and given noise: what prediction is made of.

Axes: logits (M, S, N, C, K), bins before neurons, with S = T, or S = 1 for what does not depend on the sample; values
of the same rank, broadcastable; noise (M, T, ...) for T samples, the same for all rows.  :func:`mean` and :func:`hard`
take any leading axes that broadcast.

What depends on the noise, the values and the temperature alone is computed once, before the first row is seen
(:class:`Power`, :class:`Gumbels`, :class:`Strata`).  :mod:`squad.ops.triton_sampling` is the same in kernels.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from squad.core.noise import Key, uniform

__all__ = [
    "Gumbels",
    "Power",
    "Scratch",
    "Strata",
    "add_answers",
    "hard",
    "levels",
    "mean",
    "relaxed",
    "strata",
    "stratified",
]

#: The coldest temperature at which exp(noise / temperature) and exp(logits / temperature) can be taken apart in
#: float32: the largest Gumbel number is 16.64, and what underflows stays below the rounding error of what does not.
APART = 0.4


class Scratch:
    """Memory for tensors of the size of a part's logits, used again from part to part.

    Asked of the system anew, a page at a time, it can take longer than all that is computed in it.
    """

    def __init__(self) -> None:
        self.kept: dict[tuple[int, torch.dtype], Tensor] = {}

    def take(self, place: int, shape: Sequence[int], like: Tensor) -> Tensor:
        """An empty tensor of the dtype and device of ``like``, in the memory of the last one at this place."""
        numbers = math.prod(shape)
        kept = self.kept.get((place, like.dtype))
        if kept is None or len(kept) < numbers:
            kept = self.kept[place, like.dtype] = like.new_empty(numbers)
        return kept[:numbers].view(*shape)


class Power(NamedTuple):
    """What is asked of a temperature (M,), so that no call has to look at it again: on a GPU a look is a wait.

    Attributes:
        inverse: 1 / temperature, (M,).
        squares: whether it is 2 for all members.
        apart: whether no member is colder than ``APART``.
    """

    inverse: Tensor
    squares: bool
    apart: bool

    @classmethod
    def of(cls, temperature: Tensor, dtype: torch.dtype) -> "Power":
        """Of a temperature () or (M,), for arithmetic in ``dtype``."""
        temperature = temperature.detach().reshape(-1)
        coldest, hottest = (float(edge) for edge in temperature.aminmax())
        return cls(temperature.to(dtype).reciprocal(), coldest == hottest == 0.5, coldest >= APART)

    def view(self, rank: int) -> Tensor:
        """``inverse`` as (M, 1, ..., 1)."""
        return self.inverse.view(-1, *(1,) * (rank - 1))


def mean(logits: Tensor, values: Tensor, scratch: Scratch | None = None) -> Tensor:
    """The expectation of each latent, (..., K); with ``scratch`` without gradients."""
    if scratch is None:
        return (logits.softmax(-2) * values).sum(-2)
    return _expectation(logits, values, scratch)


def _expectation(scores: Tensor, values: Tensor, scratch: Scratch) -> Tensor:
    weights = torch.softmax(scores, -2, out=scratch.take(1, scores.shape, scores))
    return weights.mul_(values).sum(-2)


def hard(logits: Tensor, values: Tensor, gumbels: Tensor) -> Tensor:
    """Samples on the values: the Gumbel-max trick, (..., K)."""
    noisy = logits + gumbels
    best = noisy.argmax(-2, keepdim=True)
    return values.expand_as(noisy).gather(-2, best).squeeze(-2)


class Gumbels(NamedTuple):
    """Noise of T relaxed samples g, made ready, (M, T, 1, C, K); one of the two.

    Attributes:
        scaled: g / temperature.
        factors: exp(g / temperature) and exp(g / temperature) times the values, stacked in front (2, M, T, 1, C, K):
            where logits are shared by the samples, and warm enough to be taken apart from their noise.
    """

    scaled: Tensor | None
    factors: Tensor | None

    @classmethod
    def of(cls, gumbels: Tensor, values: Tensor, power: Power, *, shared: bool) -> "Gumbels":
        """Of numbers (M, T, 1, C, K); ``shared``: for logits that do not depend on the sample."""
        scaled = gumbels * power.view(5)
        if not (shared and power.apart):
            return cls(scaled, None)
        factors = scaled.exp_()
        stacked = torch.stack([factors, factors * values])
        if factors.device.type == "cpu":
            # In memory as the matrix product of _together wants it: a (C, 2 T) matrix for each neuron.
            stacked = stacked.permute(1, 5, 4, 0, 2, 3).contiguous().permute(3, 0, 4, 5, 2, 1)
        return cls(None, stacked)


def relaxed(logits: Tensor, values: Tensor, noise: Gumbels, power: Power, scratch: Scratch | None = None) -> Tensor:
    """T relaxed samples of N rows each, softmax((logits + g) / temperature) . values: (M, T, N, K)."""
    if noise.factors is not None:
        return _together(logits, noise.factors, power)
    assert noise.scaled is not None
    scratch = scratch or Scratch()
    shape = torch.broadcast_shapes(logits.shape, noise.scaled.shape)
    # Place 0 may hold the logits themselves: each number is read before it is written.
    noisy = torch.addcmul(noise.scaled, logits, power.view(5), out=scratch.take(0, shape, logits))
    return _expectation(noisy, values, scratch)


def _together(logits: Tensor, factors: Tensor, power: Power) -> Tensor:
    """Relaxed samples from logits (M, 1, N, C, K) that all share.

    exp((a + g) / t) = exp(a / t) exp(g / t): one exponential a row and one a sample, and the sums over the bins are one
    matrix product for each neuron.
    """
    members, _, rows, bins, neurons = logits.shape
    samples = factors.shape[2]
    # The softmax is exp(a / t) but for a factor, which cancels below.
    each = (logits * power.view(5)).softmax(-2).permute(0, 4, 1, 2, 3).contiguous().view(-1, rows, bins)
    table = factors.permute(1, 5, 4, 0, 2, 3).reshape(members * neurons, bins, 2 * samples)
    products = torch.bmm(each, table)
    z = products[..., samples:] / products[..., :samples]
    return z.view(members, neurons, rows, samples).permute(0, 3, 2, 1).contiguous()


class Strata(NamedTuple):
    """Noise of T stratified samples, members first.

    Attributes:
        levels: (T, K), where each sample's winner is looked up in the distribution function.  For each latent the T
            levels lie in the T strata [t / T, (t + 1) / T), one in each, in an order of its own: a Latin hypercube.
        first: (T, K), exponential: how far ahead the winner is.
        others: (T, C, K), exponential: how far behind the others are.
    """

    levels: Tensor
    first: Tensor
    others: Tensor


def levels(key: Key, samples: int, neurons: int) -> Tensor:
    """Where the winners of T stratified samples are looked up, (T, K) in float64, members first; see Strata."""
    # Bins 1 and 2 of each sample; bin 0 is Strata.first and the others follow, so that a layer that is padded to more
    # bins draws what it drew.
    jitter, order = uniform(key, samples, 3, neurons, dtype=torch.float64)[..., 1:, :].unbind(-2)
    return (order.argsort(dim=-2, stable=True).argsort(-2) + jitter) / samples


def strata(key: Key, at: Tensor, first_sample: int, bins: int, dtype: torch.dtype) -> Strata:
    """The noise of samples ``first_sample``, ... whose levels are ``at`` (T, K), members first."""
    samples, neurons = at.shape[-2:]
    u = uniform(key, samples, bins + 3, neurons, first_row=first_sample, dtype=torch.float64)
    first, _, others = u.log_().neg_().to(dtype).split([1, 2, bins], -2)
    return Strata(at, first.squeeze(-2), others)


def stratified(logits: Tensor, values: Tensor, noise: Strata, power: Power, scratch: Scratch | None = None) -> Tensor:
    """T relaxed samples of N rows each whose winners are stratified, (M, T, N, K), in the dtype of the noise.

    A relaxed sample is softmax(G / t) with G_c = logit_c + Gumbel noise.  Its largest entry is a draw from p; here it
    is taken through the inverse distribution function instead, at ``noise.levels``, and the other G are drawn given
    the winner: exp(-G_w) = E_0 / Z and exp(-G_c) = E_0 / Z + E_c / exp(logit_c) with E_0, E_c exponential and
    Z = sum_c exp(logit_c) (Maddison, Tarlow and Minka, 2014, "A* sampling").  Over levels that are uniform the law of
    a sample is that of :func:`relaxed`.

    Args:
        logits: (M, S, N, C, K), with S = T or S = 1; in float64, or the same row may get another winner elsewhere.
        values: of the same rank, broadcastable.
        noise: (M, T, ...).
        power: of the temperature, in the dtype of the noise.
        scratch: memory to work in.
    """
    scratch = scratch or Scratch()
    p = logits.softmax(-2)
    # The first winner whose distribution function exceeds the level.  The last bin's is 1, whatever rounding says.
    below = p.cumsum(-2)[..., :-1, :]
    winner = (below <= noise.levels.unsqueeze(-2).unsqueeze(-2)).sum(-2, keepdim=True)
    first, others = noise.first.unsqueeze(-2).unsqueeze(-2), noise.others.unsqueeze(-3)
    shape = torch.broadcast_shapes(p.shape, others.shape)
    # exp(-G) in units of the winner's: E_0 p_c / (E_0 p_c + E_c), and 0 for a bin without mass.
    ahead = torch.mul(first, p.to(first.dtype), out=scratch.take(1, shape, first))
    weights = torch.add(ahead, others, out=scratch.take(2, shape, first)).reciprocal_().mul_(ahead)
    weights.scatter_(-2, winner, 1.0)
    weights = weights.square_() if power.squares else weights.log_().mul_(power.view(5)).exp_()
    total = weights.sum(-2)
    return weights.mul_(values.to(first.dtype)).sum(-2) / total


def add_answers(logits: Tensor, probabilities: Tensor, entropy: Tensor, all_samples: int) -> None:
    """Add what T of ``all_samples`` samples say, probabilities and entropies, to the means of all, in float64.

    Args:
        logits: (M, T, rows, classes) of the network's output; the last rows may be padding.
        probabilities: (M, N, classes) with N <= rows.
        entropy: (M, N), in nats.
        all_samples: of how many the means are.
    """
    count = probabilities.shape[1]
    # Classes before rows: reductions then run along memory.
    y = logits[:, :, :count].permute(0, 1, 3, 2).to(torch.float64, memory_format=torch.contiguous_format)
    y = y - y.amax(2, keepdim=True)
    e = y.exp()
    total = e.sum(2, keepdim=True)
    p = e.div_(total)
    probabilities.add_(p.sum(1).mT, alpha=1 / all_samples)
    # -sum p log p with log p = y - log(total).
    entropy.add_((total.log_().squeeze(2) - p.mul_(y).sum(2)).sum(1), alpha=1 / all_samples)
