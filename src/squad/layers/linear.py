"""Linear layer with members, and the weight initializer shared by all layers."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from squad.core.checks import extremes
from squad.errors import ArgumentError
from squad.layers.members import MemberModule

__all__ = ["Linear", "per_member", "scaled_normal_"]


def per_member(name: str, value: float | Sequence[float] | Tensor, members: int | None) -> Tensor:
    """Convert a number, or one number per member, to a float64 tensor of shape () or (M,).

    Args:
        name: Name of the argument, used in error messages.
        value: One number, or a sequence of M numbers.
        members: Number of members M; None for a layer without members.

    Returns:
        float64 tensor of shape () or (M,).

    Raises:
        ArgumentError: If the value is not a number, or not one number per member.
    """
    try:
        tensor = torch.as_tensor(value, dtype=torch.float64, device="cpu").detach()
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError.of(name, repr(value), "a number, or one number per member") from None
    if members is None and tensor.dim() != 0:
        raise ArgumentError.of(name, f"shape {tuple(tensor.shape)}", "a single number", "This layer has no members.")
    if tensor.dim() > 1 or (tensor.dim() == 1 and tensor.shape[0] != members):
        allowed = f"a single number, or one for each of the {members} members"
        raise ArgumentError.of(name, f"shape {tuple(tensor.shape)}", allowed)
    return tensor if members is None else tensor.expand(members).clone()


@torch.no_grad()
def scaled_normal_(weight: Tensor, scale: float | Sequence[float] | Tensor, fan_in: int, members: int | None) -> Tensor:
    """Fill a tensor in place with normal numbers of standard deviation sqrt(scale / fan_in).

    Args:
        weight: Tensor to fill; with members, the first axis is M.
        scale: Scale, one number or one per member; 2 is He's initializer.
        fan_in: Number of inputs of each unit.
        members: Number of members M; None for a layer without members.

    Returns:
        ``weight``.

    Raises:
        ArgumentError: If a scale is not positive and finite.
    """
    std = (per_member("init_scale", scale, members) / fan_in).sqrt()
    if not all(0 < number < float("inf") for number in extremes(std) or ()):
        raise ArgumentError.of("init_scale", scale, "positive and finite", "He's initializer is init_scale=2.")
    return weight.normal_().mul_(std.to(weight).view(-1, *(1,) * (weight.dim() - 1)) if std.dim() else std.to(weight))


class Linear(MemberModule):
    """Linear layer x W + b that supports members: the output layer of a network, or a plain hidden layer.

    Args:
        in_features: Number of input features.
        out_features: Number of output features.
        bias: Whether to add a learned bias b.
        init_scale: Scale of the initial weights, whose std is sqrt(init_scale / in_features); one number, or one per
            member.
        members: Number of members M, batched in one layer; None for a layer without members.
        device: Device of the parameters, as in torch's layers.
        dtype: Dtype of the parameters, as in torch's layers.

    Shape:
        x (..., in) -> (..., out); with members (M or 1, ..., in) -> (M, ..., out).
        ``weight`` (in, out), ``bias`` (out,); with members both have a leading axis M.

    Raises:
        ArgumentError: If an argument is invalid.

    See Also:
        SquadLinear: Linear layer of quantized latents.
        stack: Combines layers into one with members.

    References:
        He, Zhang, Ren, Sun. "Delving Deep into Rectifiers", 2015 (the initializer).

    Examples:
        >>> import torch
        >>> import squad
        >>> layer = squad.Linear(3, 2, members=4)
        >>> layer(torch.zeros(1, 5, 3)).shape  # all members get the same rows
        torch.Size([4, 5, 2])
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
        self._finish_init(device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Compute x W + b: (..., in) -> (..., out)."""
        return self.affine(self.check_input(x), self.weight, self.bias)
