"""Losses and gradients of a small SQUAD network on a CPU, by the chain rule and without autograd.

A step of such a network is some hundred short calls.  Autograd's graph, the layers' checks and their views would take
half as long again, and a second core cannot help with them.  Formulas and noise are those of the layers and of their
operation.
"""

import functools
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from squad.core.noise import Key, gumbel, make_key, uniform
from squad.layers import Dropout, Linear, SquadLinear
from squad.models import Network
from squad.models.networks import Stage
from squad.ops import eager

__all__ = ["backward", "serves"]

#: Numbers in a weight matrix from which on it is multiplied in halves; see :func:`_wide`.
WIDE = 1 << 17


class _Kept(NamedTuple):
    """What a dropout lets through: which features, (M, N, in), and by how much they are scaled, (M, 1, 1)."""

    which: Tensor
    scale: Tensor

    def of(self, x: Tensor) -> Tensor:
        """Of x, or of a gradient, (M, N, in)."""
        return torch.where(self.which, x * self.scale, 0)


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
    if type(network) is not Network or not x.is_cpu or x.dim() != 3 or not torch.is_grad_enabled():
        return False
    if torch.is_autocast_enabled("cpu") or _watched(network):
        return False
    *hidden, last = network.stages
    if not _plain(last, Linear, x) or not hidden:
        return False
    if not all(_plain(stage, SquadLinear, x) and _small(cast(Stage, stage).layer, x) for stage in hidden):
        return False
    parameters = [each for stage in network.stages for each in cast(Stage, stage).layer.parameters()]
    # Of one that layers share, gradients would have to be summed.
    return len(set(map(id, parameters))) == len(parameters)


def _watched(network: Network) -> bool:
    """Whether anybody wants to be called as the modules are."""
    return any(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
        for module in network.modules()
    )


def _plain(stage: nn.Module, kind: type[nn.Module], x: Tensor) -> bool:
    """Whether a stage in training is such a layer, in the dtype of x, and all of it is learned."""
    if type(stage) is not Stage or type(stage.layer) is not kind or not stage.layer.training:
        return False
    layer = stage.layer
    learned = {"weight", "bias"} | ({"values"} if isinstance(getattr(layer, "values", None), nn.Parameter) else set())
    if stage.dropout is not None and (type(stage.dropout) is not Dropout or not stage.dropout.training):
        return False
    if stage.relu or layer.members != len(x) or set(layer._parameters) != learned:
        return False
    values = getattr(layer, "values", x)
    return values.dtype == x.dtype and all(
        isinstance(each, Tensor) and each.requires_grad and each.dtype == x.dtype and not each._backward_hooks
        for each in layer._parameters.values()
    )


def _small(layer: nn.Module, x: Tensor) -> bool:
    """Whether the layer asks for the eager operation, which does not cut so few logits into blocks."""
    assert isinstance(layer, SquadLinear)
    size = x.shape[0] * x.shape[1] * layer.bins * layer.out_features
    exact = x.dtype in (torch.float32, torch.float64)
    return exact and layer.backend in ("auto", "eager") and 0 < size <= 2 * eager.BLOCK


@torch.no_grad()
def backward(network: Network, x: Tensor, y: Tensor, beta: Tensor, seed: Tensor, step: int | Tensor) -> Tensor:
    """Set the gradients of the members' losses on a batch, x (M, N, in) and y (M, N); their losses and KLs, (2, M).

    What ``squad.train.step.losses`` and autograd find.  Gradients that were there are replaced, not added to.
    """
    stages = [cast(Stage, stage) for stage in network.stages]
    key = make_key(seed, step, x.device)
    passed: list[_Passed] = []
    kept: list[_Kept | None] = []  # by the dropout before each layer
    for place, stage in enumerate(stages):
        kept.append(_kept(stage.dropout, x, Key(key.seed + 2 * place + 1, key.step)))
        x = _through(kept[-1], x)
        if place < len(stages) - 1:
            passed.append(_forward(cast(SquadLinear, stage.layer), x, Key(key.seed + 2 * place, key.step)))
            x = passed[-1].z
    kl = functools.reduce(torch.add, [one.kl.sum(-1) for one in passed]).mean(1)
    last = cast(Linear, stages[-1].layer)
    log_p = _affine(last, x).log_softmax(-1)
    index = y.unsqueeze(-1)
    right = log_p.gather(-1, index)
    grad = log_p.exp_().scatter_add_(-1, index, right.new_full((), -1).expand_as(index)).div_(y.shape[1])
    share = (beta.to(grad.dtype) / y.shape[1]).view(-1, 1, 1)  # of a row's KL in the loss
    _set_gradients(last, x, grad)
    above: Linear | SquadLinear = last
    for one, let in zip(reversed(passed), reversed(kept), strict=False):
        grad = _backward(one, _through(let, torch.bmm(grad, above.weight.mT)), share)
        _set_gradients(one.layer, one.x, grad)
        above = one.layer
    return torch.stack([beta * kl - right.mean((1, 2)), kl])


def _kept(dropout: Dropout | None, x: Tensor, key: Key) -> _Kept | None:
    """What is let through of rows x (M, N, in); None where there is no dropout."""
    if dropout is None:
        return None
    rate = dropout.rate.view(-1, 1, 1)
    return _Kept(uniform(key, x.shape[1], 1, x.shape[2]).squeeze(-2) >= rate, (1 / (1 - rate)).to(x.dtype))


def _through(kept: _Kept | None, x: Tensor) -> Tensor:
    return x if kept is None else kept.of(x)


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
    if not _wide(layer):
        return torch.baddbmm(layer.bias.unsqueeze(1), x, layer.weight)
    out = x.new_empty(*x.shape[:2], layer.weight.shape[-1])
    for rows, weight, bias, sums in zip(x, layer.weight, layer.bias, out, strict=True):
        two = torch.baddbmm(bias.div(2).view(1, 1, -1), _halves(rows), weight.view(2, -1, len(bias)))
        torch.add(two[0], two[1], out=sums)
    return out


def _set_gradients(layer: Linear | SquadLinear, x: Tensor, grad: Tensor) -> None:
    """Of weights and bias, by that of x W + b."""
    assert layer.bias is not None
    layer.bias.grad = grad.sum(1)
    if not _wide(layer):
        layer.weight.grad = torch.bmm(x.mT, grad)
        return
    found = grad.new_empty(layer.weight.shape)
    for rows, own, of_weight in zip(x, grad, found, strict=True):
        torch.bmm(_halves(rows).mT, own.expand(2, -1, -1), out=of_weight.view(2, -1, own.shape[-1]))
    layer.weight.grad = found


def _wide(layer: Linear | SquadLinear) -> bool:
    """Whether products with a member's W are made in two halves of its rows: by W alone, so that all round alike.

    torch's Adam divides W among two cores in the same way.  Where both read all of W in a product, each must take back
    from the other's cache what Adam writes: up to an eighth of a step, where they share no cache.
    """
    weight = layer.weight[0]
    return weight.numel() >= WIDE and len(weight) % 2 == 0 and weight.is_contiguous()


def _halves(rows: Tensor) -> Tensor:
    """A member's rows (N, in) as (2, N, in / 2)."""
    return rows.reshape(len(rows), 2, -1).transpose(0, 1)
