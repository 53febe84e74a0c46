"""Losses and gradients of a small SQUAD network on a CPU, with a manually written backward pass instead of autograd.

A step of such a network consists of about a hundred short calls.  Autograd's graph, the layers' checks and their views
would add half of that time, which a second core cannot reduce.  Formulas and noise are those of the layers and of the
sampling operation.
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

__all__ = ["backward", "supports"]

#: Number of elements from which on a weight matrix is multiplied in two halves; see :func:`_is_split`.
SPLIT_ELEMENTS = 1 << 17


class _DropoutMask(NamedTuple):
    """Features that dropout keeps, (M, N, in), and their scale, (M, 1, 1)."""

    kept: Tensor
    scale: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """Apply dropout to x, or to a gradient, (M, N, in)."""
        return torch.where(self.kept, x * self.scale, 0)


class _Saved(NamedTuple):
    """Tensors of a layer saved by the forward pass: x (M, N, in), z and kl (M, N, K), y and dkl / da (M, N, C, K)."""

    layer: SquadLinear
    x: Tensor
    z: Tensor
    kl: Tensor
    y: Tensor
    slope: Tensor


def supports(network: Network, x: Tensor) -> bool:
    """Return whether :func:`backward` supports a network and its input; otherwise autograd must be used.

    Args:
        network: Network with M members.
        x: Rows of each member's batch, (M, N, in).

    Returns:
        False for layers, devices, dtypes or hooks that only autograd handles.
    """
    if type(network) is not Network or not x.is_cpu or x.dim() != 3 or not torch.is_grad_enabled():
        return False
    if torch.is_autocast_enabled("cpu") or _has_hooks(network):
        return False
    *hidden, last = network.stages
    if not _is_plain(last, Linear, x) or not hidden:
        return False
    if not all(_is_plain(stage, SquadLinear, x) and _is_small(cast(Stage, stage).layer, x) for stage in hidden):
        return False
    parameters = [each for stage in network.stages for each in cast(Stage, stage).layer.parameters()]
    # Gradients of a parameter shared by several layers would have to be summed.
    return len(set(map(id, parameters))) == len(parameters)


def _has_hooks(network: Network) -> bool:
    """Return whether any module has forward or backward hooks."""
    return any(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
        for module in network.modules()
    )


def _is_plain(stage: nn.Module, kind: type[nn.Module], x: Tensor) -> bool:
    """Return whether the layer of a stage is exactly a ``kind``, in training, of the dtype of x and not frozen."""
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


def _is_small(layer: nn.Module, x: Tensor) -> bool:
    """Return whether the layer uses the eager operation, with so few logits that they are not split into blocks."""
    assert isinstance(layer, SquadLinear)
    size = x.shape[0] * x.shape[1] * layer.bins * layer.out_features
    exact = x.dtype in (torch.float32, torch.float64)
    return exact and layer.backend in ("auto", "eager") and 0 < size <= 2 * eager.BLOCK_SIZE


@torch.no_grad()
def backward(network: Network, x: Tensor, y: Tensor, beta: Tensor, seed: Tensor, step: int | Tensor) -> Tensor:
    """Set the gradients of the members' losses on a batch.

    The results are those of ``squad.train.step.losses`` with autograd.  Existing gradients are replaced, not added to.

    Args:
        network: Network with M members that :func:`supports` accepts.
        x: Rows of each member's batch, (M, N, in).
        y: Their labels, (M, N).
        beta: KL multipliers, (M,).
        seed: Noise seeds, (M,).
        step: Number of the training step, which selects the noise together with the seeds.

    Returns:
        Losses and KLs, (2, M).
    """
    stages = [cast(Stage, stage) for stage in network.stages]
    key = make_key(seed, step, x.device)
    saved: list[_Saved] = []
    masks: list[_DropoutMask | None] = []  # of the dropout before each layer
    for index, stage in enumerate(stages):
        masks.append(_draw_mask(stage.dropout, x, Key(key.seed + 2 * index + 1, key.step)))
        x = _apply_mask(masks[-1], x)
        if index < len(stages) - 1:
            saved.append(_forward(cast(SquadLinear, stage.layer), x, Key(key.seed + 2 * index, key.step)))
            x = saved[-1].z
    kl = functools.reduce(torch.add, [one.kl.sum(-1) for one in saved]).mean(1)
    last = cast(Linear, stages[-1].layer)
    log_p = _affine(last, x).log_softmax(-1)
    labels = y.unsqueeze(-1)
    log_likelihood = log_p.gather(-1, labels)
    minus_one = log_likelihood.new_full((), -1).expand_as(labels)
    grad = log_p.exp_().scatter_add_(-1, labels, minus_one).div_(y.shape[1])
    kl_weight = (beta.to(grad.dtype) / y.shape[1]).view(-1, 1, 1)  # of one row's KL in the loss
    _set_gradients(last, x, grad)
    above: Linear | SquadLinear = last
    for one, mask in zip(reversed(saved), reversed(masks), strict=False):
        grad = _backward(one, _apply_mask(mask, torch.bmm(grad, above.weight.mT)), kl_weight)
        _set_gradients(one.layer, one.x, grad)
        above = one.layer
    return torch.stack([beta * kl - log_likelihood.mean((1, 2)), kl])


def _draw_mask(dropout: Dropout | None, x: Tensor, key: Key) -> _DropoutMask | None:
    """Draw the dropout mask for rows x (M, N, in); None without dropout."""
    if dropout is None:
        return None
    rate = dropout.rate.view(-1, 1, 1)
    return _DropoutMask(uniform(key, x.shape[1], 1, x.shape[2]).squeeze(-2) >= rate, (1 / (1 - rate)).to(x.dtype))


def _apply_mask(mask: _DropoutMask | None, x: Tensor) -> Tensor:
    return x if mask is None else mask.apply(x)


def _forward(layer: SquadLinear, x: Tensor, key: Key) -> _Saved:
    logits = _affine(layer, x).view(*x.shape[:2], layer.bins, layer.out_features)
    noise = gumbel(key, *logits.shape[1:], dtype=x.dtype)
    fixed = layer.op_log_prior(4), layer.temperature.view(-1, 1, 1, 1)
    return _Saved(layer, x, *eager.forward(logits, layer.op_values(4), *fixed, noise))


def _backward(one: _Saved, grad_z: Tensor, kl_weight: Tensor) -> Tensor:
    """Return the gradient of the logits, (M, N, C * K), and set that of the values."""
    values, temperature = one.layer.op_values(4), one.layer.temperature.view(-1, 1, 1, 1)
    weighted = one.y.mul_(grad_z.unsqueeze(-2))
    if isinstance(one.layer.values, nn.Parameter):
        one.layer.values.grad = eager.sum_to(weighted, values.shape).view_as(one.layer.values)
    return eager.grad_of_logits_(values, temperature, one.z, one.slope, weighted, kl_weight).flatten(2)


def _affine(layer: Linear | SquadLinear, x: Tensor) -> Tensor:
    """Compute x W + b, (M, N, out)."""
    assert layer.bias is not None
    if not _is_split(layer):
        return torch.baddbmm(layer.bias.unsqueeze(1), x, layer.weight)
    out = x.new_empty(*x.shape[:2], layer.weight.shape[-1])
    for rows, weight, bias, sums in zip(x, layer.weight, layer.bias, out, strict=True):
        two = torch.baddbmm(bias.div(2).view(1, 1, -1), _halves(rows), weight.view(2, -1, len(bias)))
        torch.add(two[0], two[1], out=sums)
    return out


def _set_gradients(layer: Linear | SquadLinear, x: Tensor, grad: Tensor) -> None:
    """Set the gradients of weight and bias from the gradient of x W + b."""
    assert layer.bias is not None
    layer.bias.grad = grad.sum(1)
    if not _is_split(layer):
        layer.weight.grad = torch.bmm(x.mT, grad)
        return
    weight_grad = grad.new_empty(layer.weight.shape)
    for rows, member_grad, member_out in zip(x, grad, weight_grad, strict=True):
        torch.bmm(_halves(rows).mT, member_grad.expand(2, -1, -1), out=member_out.view(2, -1, member_grad.shape[-1]))
    layer.weight.grad = weight_grad


def _is_split(layer: Linear | SquadLinear) -> bool:
    """Return whether products with a member's W are computed in two halves of its rows.

    This depends on W only, so that rounding is the same for all batches.  torch's Adam divides W between two cores in
    the same way.  If both cores read all of W in a product, each must fetch from the other's cache what Adam has
    written: up to an eighth of a step if they share no cache.
    """
    weight = layer.weight[0]
    return weight.numel() >= SPLIT_ELEMENTS and len(weight) % 2 == 0 and weight.is_contiguous()


def _halves(rows: Tensor) -> Tensor:
    """Return a member's rows (N, in) as (2, N, in / 2)."""
    return rows.reshape(len(rows), 2, -1).transpose(0, 1)
