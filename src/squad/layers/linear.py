"""A linear layer with members, and the initializer all layers share."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from squad.core.checks import extremes
from squad.errors import ArgumentError
from squad.layers.members import MemberModule

__all__ = ["Linear", "per_member", "scaled_normal_"]


def per_member(name: str, value: float | Sequence[float] | Tensor, members: int | None) -> Tensor:
    """A number, or one a member, as a float64 tensor () or (M,)."""
    try:
        tensor = torch.as_tensor(value, dtype=torch.float64, device="cpu").detach()
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError.of(name, repr(value), "a number, or one a member") from None
    if members is None and tensor.dim() != 0:
        raise ArgumentError.of(name, f"shape {tuple(tensor.shape)}", "one number, as this layer has no members")
    if tensor.dim() > 1 or (tensor.dim() == 1 and tensor.shape[0] != members):
        raise ArgumentError.of(
            name, f"shape {tuple(tensor.shape)}", f"one number, or one for each of {members} members"
        )
    return tensor if members is None else tensor.expand(members).clone()


@torch.no_grad()
def scaled_normal_(weight: Tensor, scale: float | Sequence[float] | Tensor, fan_in: int, members: int | None) -> Tensor:
    """Fill ``weight`` with normal numbers of std sqrt(scale / fan_in); a scale of 2 is He's initializer."""
    std = (per_member("init_scale", scale, members) / fan_in).sqrt()
    if not all(0 < number < float("inf") for number in extremes(std) or ()):
        raise ArgumentError.of("init_scale", scale, "positive and finite", "He's initializer is init_scale=2.")
    return weight.normal_().mul_(std.to(weight).view(-1, *(1,) * (weight.dim() - 1)) if std.dim() else std.to(weight))


class Linear(MemberModule):
    """x W + b, with members: the output layer of a network, or its plain baseline.

    Args:
        in_features, out_features: sizes of x and of the result.
        bias: whether there is a b.
        init_scale: scale of the fan-in initializer, W having std sqrt(init_scale / in_features); one number, or one a
            member.
        members: M layers at once, or None.
        device, dtype: as in torch's own layers.

    Shape:
        x (..., in) -> (..., out); with members (M or 1, ..., in) -> (M, ..., out).
        ``weight`` (in, out), ``bias`` (out,), both with M in front where there are members.
    """

    bias: nn.Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        init_scale: float | Sequence[float] | Tensor = 2.0,
        members: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, members)
        self.weight = nn.Parameter(torch.empty(*self.lead, in_features, out_features))
        scaled_normal_(self.weight, init_scale, in_features, members)
        if bias:
            self.bias = nn.Parameter(torch.zeros(*self.lead, out_features))
        else:
            self.register_parameter("bias", None)
        self.settle(device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return self.affine(self.check_input(x), self.weight, self.bias)
