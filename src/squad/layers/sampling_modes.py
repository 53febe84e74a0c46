"""Sampling modes at prediction time: values of quantized latents from their logits and given noise.

Axes: logits (M, S, N, C, K), bins before neurons, with S = T, or S = 1 if they do not depend on the sample; values of
the same rank, broadcastable; noise (M, T, ...) for T samples, shared by all rows.  :func:`mean` and :func:`hard` accept
any leading axes that broadcast.

Everything that depends only on the noise, the values and the temperature is computed once, before the first row
(:class:`Power`, :class:`Gumbels`, :class:`Strata`).  :mod:`squad.ops.triton_sampling` implements the same as kernels.
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
    "add_predictions",
    "hard",
    "levels",
    "mean",
    "relaxed",
    "strata",
    "stratified",
]

#: Lowest temperature at which exp((logits + noise) / temperature) can be computed in float32 as a product of two
#: factors: the largest Gumbel number is 16.64, and terms that underflow are below the rounding error of the others.
MIN_SEPARABLE_TEMPERATURE = 0.4


class Scratch:
    """Reusable memory for tensors of the size of a block's logits.

    Allocating such memory anew, page by page, can take longer than the computation in it.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[int, torch.dtype], Tensor] = {}

    def take(self, slot: int, shape: Sequence[int], like: Tensor) -> Tensor:
        """Return an uninitialized tensor of the dtype and device of ``like``, in the memory of this slot.

        Args:
            slot: Number of the slot; a later call for the same slot and dtype reuses its memory.
            shape: Shape of the tensor.
            like: Tensor with the wanted dtype and device.

        Returns:
            The tensor.
        """
        size = math.prod(shape)
        buffer = self._buffers.get((slot, like.dtype))
        if buffer is None or len(buffer) < size:
            buffer = self._buffers[slot, like.dtype] = like.new_empty(size)
        return buffer[:size].view(*shape)


class Power(NamedTuple):
    """Exponent 1 / temperature of relaxed samples, and facts about it that are read once: on a GPU, reading waits.

    Attributes:
        inverse: 1 / temperature, shape (M,).
        squares: Whether the exponent is 2 for all members.
        separable: Whether all temperatures are at least ``MIN_SEPARABLE_TEMPERATURE``.
    """

    inverse: Tensor
    squares: bool
    separable: bool

    @classmethod
    def of(cls, temperature: Tensor, dtype: torch.dtype) -> "Power":
        """Prepare a temperature of shape () or (M,) for computations in ``dtype``.

        Args:
            temperature: Temperature, shape () or (M,).
            dtype: Dtype of the computations.

        Returns:
            The prepared exponent.
        """
        temperature = temperature.detach().reshape(-1)
        lowest, highest = (float(edge) for edge in temperature.aminmax())
        inverse = temperature.to(dtype).reciprocal()
        return cls(inverse, lowest == highest == 0.5, lowest >= MIN_SEPARABLE_TEMPERATURE)

    def view(self, rank: int) -> Tensor:
        """Return ``inverse`` with shape (M, 1, ..., 1) of the given rank."""
        return self.inverse.view(-1, *(1,) * (rank - 1))


def mean(logits: Tensor, values: Tensor, scratch: Scratch | None = None) -> Tensor:
    """Compute the expectation of each latent.

    Args:
        logits: Logits, shape (..., C, K).
        values: Bin values, broadcastable to the shape of ``logits``.
        scratch: Memory to compute in, without gradients; None for new memory, with gradients.

    Returns:
        Expectations, shape (..., K).
    """
    if scratch is None:
        return (logits.softmax(-2) * values).sum(-2)
    return _expectation(logits, values, scratch)


def _expectation(scores: Tensor, values: Tensor, scratch: Scratch) -> Tensor:
    """Compute softmax(scores) . values over the bins, in scratch memory."""
    weights = torch.softmax(scores, -2, out=scratch.take(1, scores.shape, scores))
    return weights.mul_(values).sum(-2)


def hard(logits: Tensor, values: Tensor, gumbels: Tensor) -> Tensor:
    """Draw samples on the bin values by the Gumbel-max trick.

    Args:
        logits: Logits, shape (..., C, K).
        values: Bin values, broadcastable to the shape of ``logits``.
        gumbels: Gumbel numbers, broadcastable with ``logits``.

    Returns:
        Samples, shape (..., K).
    """
    noisy = logits + gumbels
    best = noisy.argmax(-2, keepdim=True)
    return values.expand_as(noisy).gather(-2, best).squeeze(-2)


class Gumbels(NamedTuple):
    """Prepared Gumbel noise g of T relaxed samples; exactly one of the attributes is set.

    Attributes:
        scaled: g / temperature, shape (M, T, 1, C, K).
        factors: exp(g / temperature), and the same times the values, stacked as (2, M, T, 1, C, K).  Used if all
            samples share the logits and the temperature is high enough to separate noise and logits.
    """

    scaled: Tensor | None
    factors: Tensor | None

    @classmethod
    def of(cls, gumbels: Tensor, values: Tensor, power: Power, *, shared: bool) -> "Gumbels":
        """Prepare Gumbel noise.

        Args:
            gumbels: Gumbel numbers, shape (M, T, 1, C, K).
            values: Bin values, broadcastable.
            power: Prepared temperature.
            shared: Whether all samples share the logits.

        Returns:
            The prepared noise.
        """
        scaled = gumbels * power.view(5)
        if not (shared and power.separable):
            return cls(scaled, None)
        factors = scaled.exp_()
        stacked = torch.stack([factors, factors * values])
        if factors.device.type == "cpu":
            # The memory layout that the matrix product in _relaxed_shared needs: a (C, 2 T) matrix per neuron.
            stacked = stacked.permute(1, 5, 4, 0, 2, 3).contiguous().permute(3, 0, 4, 5, 2, 1)
        return cls(None, stacked)


def relaxed(logits: Tensor, values: Tensor, noise: Gumbels, power: Power, scratch: Scratch | None = None) -> Tensor:
    """Draw T relaxed samples of N rows: softmax((logits + g) / temperature) . values.

    Args:
        logits: Logits, shape (M, S, N, C, K), where S is 1 or T.
        values: Bin values, shape (M, 1, 1, C, 1 or K).
        noise: Prepared Gumbel noise.
        power: Prepared temperature.
        scratch: Memory to compute in; None for new memory.

    Returns:
        Samples, shape (M, T, N, K).
    """
    if noise.factors is not None:
        return _relaxed_shared(logits, noise.factors, power)
    assert noise.scaled is not None
    scratch = scratch or Scratch()
    shape = torch.broadcast_shapes(logits.shape, noise.scaled.shape)
    # Slot 0 may hold the logits themselves: each number is read before it is overwritten.
    noisy = torch.addcmul(noise.scaled, logits, power.view(5), out=scratch.take(0, shape, logits))
    return _expectation(noisy, values, scratch)


def _relaxed_shared(logits: Tensor, factors: Tensor, power: Power) -> Tensor:
    """Draw relaxed samples from logits (M, 1, N, C, K) that all samples share.

    exp((a + g) / t) = exp(a / t) exp(g / t): one exponential per row and one per sample, and the sums over the bins are
    one matrix product per neuron.
    """
    members, _, rows, bins, neurons = logits.shape
    samples = factors.shape[2]
    # The softmax equals exp(a / t) up to a factor, which cancels below.
    row_factors = (logits * power.view(5)).softmax(-2).permute(0, 4, 1, 2, 3).contiguous().view(-1, rows, bins)
    sample_factors = factors.permute(1, 5, 4, 0, 2, 3).reshape(members * neurons, bins, 2 * samples)
    products = torch.bmm(row_factors, sample_factors)
    z = products[..., samples:] / products[..., :samples]
    return z.view(members, neurons, rows, samples).permute(0, 3, 2, 1).contiguous()


class Strata(NamedTuple):
    """Noise of T stratified samples; every tensor has a leading axis M.

    The winner of a sample is the bin with the largest noisy logit.

    Attributes:
        levels: Quantile levels in [0, 1] at which the inverse distribution function selects the winners, shape (T, K).
            For each latent, each of the T strata [t / T, (t + 1) / T) contains one level, in a random order: a Latin
            hypercube sample.
        first: Exponential numbers that determine the winner's noisy logit, shape (T, K).
        others: Exponential numbers that determine the other bins' noisy logits, shape (T, C, K).
    """

    levels: Tensor
    first: Tensor
    others: Tensor


def levels(key: Key, samples: int, neurons: int) -> Tensor:
    """Generate the quantile levels of T stratified samples; see :class:`Strata`.

    Args:
        key: Key of the noise, shape () or (M,).
        samples: Number of samples T.
        neurons: Number of neurons K.

    Returns:
        float64 tensor of shape (T, K) or (M, T, K).
    """
    # Bins 1 and 2 of each sample; bin 0 is Strata.first and the other bins follow, so that padding a layer to more
    # bins does not change its noise.
    jitter, order = uniform(key, samples, 3, neurons, dtype=torch.float64)[..., 1:, :].unbind(-2)
    return (order.argsort(dim=-2, stable=True).argsort(-2) + jitter) / samples


def strata(key: Key, at: Tensor, first_sample: int, bins: int, dtype: torch.dtype) -> Strata:
    """Generate the noise of stratified samples.

    Args:
        key: Key of the noise, shape () or (M,).
        at: Quantile levels of the samples, shape (T, K) or (M, T, K).
        first_sample: Index of the first of these samples.
        bins: Number of bins C.
        dtype: Dtype of the exponential numbers.

    Returns:
        The noise of these samples.
    """
    samples, neurons = at.shape[-2:]
    u = uniform(key, samples, bins + 3, neurons, first_row=first_sample, dtype=torch.float64)
    first, _, others = u.log_().neg_().to(dtype).split([1, 2, bins], -2)
    return Strata(at, first.squeeze(-2), others)


def stratified(logits: Tensor, values: Tensor, noise: Strata, power: Power, scratch: Scratch | None = None) -> Tensor:
    """Draw T stratified relaxed samples of N rows.

    A relaxed sample is softmax(G / t) with G_c = logit_c + Gumbel noise.  The bin w of the largest G is distributed as
    p; here it is selected by the inverse distribution function at ``noise.levels``, and the other G are drawn
    conditionally on it: exp(-G_w) = E_0 / Z and exp(-G_c) = E_0 / Z + E_c / exp(logit_c) with E_0, E_c exponential and
    Z = sum_c exp(logit_c).  If a level is uniform, the sample has the same distribution as in :func:`relaxed`.

    Args:
        logits: Logits of shape (M, S, N, C, K), with S = T or S = 1; in float64, because in float32 rounding may select
            a different winner on another machine.
        values: Bin values of the same rank, broadcastable.
        noise: Noise of shape (M, T, ...).
        power: Prepared temperature, in the dtype of the noise.
        scratch: Memory to reuse.

    Returns:
        Samples of shape (M, T, N, K), in the dtype of the noise.

    References:
        Maddison, Tarlow, Minka. "A* Sampling", 2014.
    """
    scratch = scratch or Scratch()
    p = logits.softmax(-2)
    # The winner is the first bin whose distribution function exceeds the level; for the last bin it is 1, exactly.
    below = p.cumsum(-2)[..., :-1, :]
    winner = (below <= noise.levels.unsqueeze(-2).unsqueeze(-2)).sum(-2, keepdim=True)
    first, others = noise.first.unsqueeze(-2).unsqueeze(-2), noise.others.unsqueeze(-3)
    shape = torch.broadcast_shapes(p.shape, others.shape)
    # exp(G) relative to the winner's: E_0 p_c / (E_0 p_c + E_c), and 0 for a bin without mass.
    ahead = torch.mul(first, p.to(first.dtype), out=scratch.take(1, shape, first))
    weights = torch.add(ahead, others, out=scratch.take(2, shape, first)).reciprocal_().mul_(ahead)
    weights.scatter_(-2, winner, 1.0)
    weights = weights.square_() if power.squares else weights.log_().mul_(power.view(5)).exp_()
    total = weights.sum(-2)
    return weights.mul_(values.to(first.dtype)).sum(-2) / total


def add_predictions(logits: Tensor, probabilities: Tensor, entropy: Tensor, all_samples: int) -> None:
    """Add the predictions of T samples to running means over ``all_samples`` samples, in place and in float64.

    Args:
        logits: Output of the network, shape (M, T, rows, classes); the last rows may be padding.
        probabilities: Mean class probabilities, shape (M, N, classes) with N <= rows.
        entropy: Mean entropies in nats, shape (M, N).
        all_samples: Total number of samples in the means.
    """
    count = probabilities.shape[1]
    # Classes before rows: reductions then run along contiguous memory.
    y = logits[:, :, :count].permute(0, 1, 3, 2).to(torch.float64, memory_format=torch.contiguous_format)
    y = y - y.amax(2, keepdim=True)
    e = y.exp()
    total = e.sum(2, keepdim=True)
    p = e.div_(total)
    probabilities.add_(p.sum(1).mT, alpha=1 / all_samples)
    # -sum p log p with log p = y - log(total).
    entropy.add_((total.log_().squeeze(2) - p.mul_(y).sum(2)).sum(1), alpha=1 / all_samples)
