"""Losses and gradients of a small SQUAD network on a CPU, by the chain rule and without autograd.

A step of such a network is some hundred short calls.  Autograd's graph, the layers' checks and their views would take
half as long again, and a second core cannot help with them.  Formulas and noise are those of the layers and of their
operation.
"""

import functools
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from squad.core.noise import Key, gumbel, make_key
from squad.layers import Linear, SquadLinear
from squad.models import Network
from squad.models.networks import Stage
from squad.ops import eager

__all__ = ["backward", "serves"]

#: Numbers in a weight matrix from which on two cores take a half of it each; see :func:`_halves`.
WIDE = 1 << 17


class _Passed(NamedTuple):
    """What is known of a layer after the way there: x (M, N, in), z and kl (M, N, K), y and dkl / da (M, N, C, K)."""

    layer: SquadLinear
    x: Tensor
    z: Tensor
    kl: Tensor
    y: Tensor
    slope: Tensor


def serves(network: Network, x: Tensor) -> bool:
    """Whether :func:`backward` can be taken for rows x (M, N, in): else autograd is to be asked."""
    if not x.is_cpu or x.dim() != 3 or not network.training or torch.is_autocast_enabled("cpu"):
        return False
    *hidden, last = (cast(Stage, stage) for stage in network.stages)
    if type(last.layer) is not Linear or last.layer.bias is None or not _plain(last, x):
        return False
    latent = all(type(stage.layer) is SquadLinear and _plain(stage, x) and _small(stage.layer, x) for stage in hidden)
    return latent and bool(hidden)


def _plain(stage: Stage, x: Tensor) -> bool:
    """Whether a stage is its layer alone, in the dtype of x, and all of it is learned."""
    alone = stage.dropout is None and not stage.relu and stage.layer.members == len(x)
    return alone and all(each.requires_grad and each.dtype == x.dtype for each in stage.layer.parameters())


def _small(layer: SquadLinear, x: Tensor) -> bool:
    """Whether the layer asks for the eager operation, which does not cut so few logits into blocks."""
    size = x.shape[0] * x.shape[1] * layer.bins * layer.out_features
    exact = x.dtype in (torch.float32, torch.float64)
    return exact and layer.backend in ("auto", "eager") and 0 < size <= 2 * eager.BLOCK


@torch.no_grad()
def backward(network: Network, x: Tensor, y: Tensor, beta: Tensor, seed: Tensor, step: int) -> Tensor:
    """Set the gradients of the members' losses on a batch, x (M, N, in) and y (M, N); their losses and KLs, (2, M).

    What ``squad.train.step.losses`` and autograd find.  Gradients that were there are replaced, not added to.
    """
    *hidden, last = (cast(Stage, stage).layer for stage in network.stages)
    key = make_key(seed, step, x.device)
    passed: list[_Passed] = []
    for place, layer in enumerate(hidden):
        passed.append(_forward(cast(SquadLinear, layer), x, Key(key.seed + 2 * place, key.step)))
        x = passed[-1].z
    kl = functools.reduce(torch.add, [one.kl.sum(-1) for one in passed]).mean(1)
    last = cast(Linear, last)
    log_p = _affine(last, x).log_softmax(-1)
    index = y.unsqueeze(-1)
    right = log_p.gather(-1, index)
    grad = log_p.exp_().scatter_add_(-1, index, right.new_full((), -1).expand_as(index)).div_(y.shape[1])
    share = (beta.to(grad.dtype) / y.shape[1]).view(-1, 1, 1)  # of a row's KL in the loss
    _set_gradients(last, x, grad)
    above: Linear | SquadLinear = last
    for one in reversed(passed):
        grad = _backward(one, torch.bmm(grad, above.weight.mT), share)
        _set_gradients(one.layer, one.x, grad)
        above = one.layer
    return torch.stack([beta * kl - right.mean((1, 2)), kl])


def _forward(layer: SquadLinear, x: Tensor, key: Key) -> _Passed:
    logits = _affine(layer, x).view(*x.shape[:2], layer.bins, layer.out_features)
    noise = gumbel(key, *logits.shape[1:], dtype=x.dtype)
    fixed = layer.op_log_prior(4), layer.temperature.view(-1, 1, 1, 1)
    return _Passed(layer, x, *eager.forward(logits, layer.op_values(4), *fixed, noise))


def _backward(one: _Passed, grad_z: Tensor, share: Tensor) -> Tensor:
    """The gradient of the logits, (M, N, C * K); that of the values is set."""
    values, temperature = one.layer.op_values(4), one.layer.temperature.view(-1, 1, 1, 1)
    weighted = one.y.mul_(grad_z.unsqueeze(-2))
    if isinstance(one.layer.values, nn.Parameter):
        one.layer.values.grad = eager.sum_to(weighted, values.shape).view_as(one.layer.values)
    return eager.grad_of_logits_(values, temperature, one.z, one.slope, weighted, share).flatten(2)


def _affine(layer: Linear | SquadLinear, x: Tensor) -> Tensor:
    """x W + b, (M, N, out)."""
    assert layer.bias is not None
    halves = _halves(layer, x)
    if halves is None:
        return torch.baddbmm(layer.bias.unsqueeze(1), x, layer.weight)
    sums = torch.baddbmm(layer.bias.div(2).unsqueeze(1), halves, layer.weight.view(2, -1, layer.weight.shape[-1]))
    return sums[:1].add_(sums[1:])


def _set_gradients(layer: Linear | SquadLinear, x: Tensor, grad: Tensor) -> None:
    """Of weights and bias, by that of x W + b."""
    assert layer.bias is not None
    halves = _halves(layer, x)
    rows, grads = (x, grad) if halves is None else (halves, grad.expand(2, -1, -1))
    layer.weight.grad = torch.bmm(rows.mT, grads).view_as(layer.weight)
    layer.bias.grad = grad.sum(1)


def _halves(layer: Linear | SquadLinear, x: Tensor) -> Tensor | None:
    """x (1, N, in) as (2, N, in / 2), for products in which each of two cores has a half of the rows of W; else None.

    torch's Adam divides W among them in the same way.  Where both cores read all of W, each must take back from the
    other's cache what Adam writes: up to an eighth of a step, where they share no cache.
    """
    wide = len(x) == 1 and layer.weight.numel() >= WIDE and torch.get_num_threads() == 2
    if not wide or x.shape[-1] % 2 or not x.is_contiguous():
        return None
    return x[0].view(x.shape[1], 2, -1).transpose(0, 1)
