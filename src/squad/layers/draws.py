"""Values of quantized latents from their logits and given noise: what prediction is made of.

Axes: logits (..., C, K), bins before neurons; noise broadcasts against them, so that a table (T, 1, C, K) and logits
(N, C, K) give T samples of N rows at once.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from squad.core.categorical import relaxed_one_hot
from squad.core.noise import Key, uniform

__all__ = ["Strata", "hard", "levels", "mean", "relaxed", "strata", "stratified"]

#: The coldest temperature at which exp(noise / temperature) and exp(logits / temperature) can be taken apart in
#: float32: the largest Gumbel number is 16.64, and what underflows stays below the rounding error of what does not.
APART = 0.4


def mean(logits: Tensor, values: Tensor) -> Tensor:
    """The expectation of each latent, (..., K)."""
    return (logits.softmax(-2) * values).sum(-2)


def hard(logits: Tensor, values: Tensor, gumbels: Tensor) -> Tensor:
    """Samples on the values: the Gumbel-max trick, (..., K)."""
    noisy = logits + gumbels
    best = noisy.argmax(-2, keepdim=True)
    return values.expand_as(noisy).gather(-2, best).squeeze(-2)


def relaxed(logits: Tensor, values: Tensor, gumbels: Tensor, temperature: Tensor) -> Tensor:
    """T relaxed samples of N rows each, (M, T, N, K).

    Args:
        logits: (M, S, N, C, K), with S = T, or S = 1 for what does not depend on the sample.
        values: of the same rank, broadcastable.
        gumbels: (M, T, 1, C, K).
        temperature: (M,).
    """
    rank, samples = logits.dim(), gumbels.shape[1]
    temperature = temperature.to(logits.dtype)
    scale = temperature.view(-1, *(1,) * (rank - 1))
    if logits.shape[1] == samples or bool((temperature < APART).any()):
        return (relaxed_one_hot(logits, gumbels, scale, -2) * values).sum(-2)
    # exp((a + g) / t) = exp(a / t) exp(g / t): one exponential a row and one a sample, and the sum over the bins is a
    # matrix product for each neuron.
    rows = (logits - logits.amax(-2, keepdim=True)).div(scale).exp().squeeze(1)
    table = gumbels.div(scale).exp().squeeze(2)
    weights = torch.einsum("mnck,mtck->mtnk", rows, table)
    sums = torch.einsum("mnck,mtck->mtnk", rows, table * values.squeeze(1))
    return sums / weights


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


def stratified(logits: Tensor, values: Tensor, noise: Strata, temperature: Tensor) -> Tensor:
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
        temperature: (M,).
    """
    p = logits.softmax(-2)
    below = p.cumsum(-2)[..., :-1, :]
    # The first winner whose distribution function exceeds the level.  The last bin's is 1, whatever rounding says.
    winner = (below <= noise.levels.unsqueeze(-2).unsqueeze(-2)).sum(-2, keepdim=True)
    first, others = noise.first.unsqueeze(-2).unsqueeze(-2), noise.others.unsqueeze(-3)
    power = temperature.to(first.dtype).reciprocal().view(-1, *(1,) * (logits.dim() - 1))
    # exp(-G) in units of the winner's; a bin without mass is infinitely far behind.
    weights = first / (first + others / p.to(first.dtype))
    weights = weights.scatter(-2, winner, 1.0)
    weights = weights.square() if bool((temperature == 0.5).all()) else weights.pow(power)
    return (weights * values.to(first.dtype)).sum(-2) / weights.sum(-2)
