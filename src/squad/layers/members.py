"""Members: several copies of a layer that run as one, their weights stacked along a leading axis.

The rule that makes the conversions short: with ``members=M`` every parameter and every buffer of a layer carries a
leading axis of size M, and nothing else changes.
"""

import copy
from collections.abc import Callable, Sequence
from typing import ClassVar, Self, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from squad.core.checks import check_count
from squad.errors import ArgumentError

__all__ = ["MemberModule", "stack", "unstack"]

AnyModule = TypeVar("AnyModule", bound=nn.Module)
AnyMember = TypeVar("AnyMember", bound="MemberModule")


class MemberModule(nn.Module):
    """A layer that can be M layers at once.

    With ``members=None`` it takes (..., in_features).  With ``members=M`` it takes (M, ..., in_features), or
    (1, ..., in_features) for an input that all members share, with at least one axis of rows in between.
    """

    #: Attributes that must be equal for layers to be stacked.
    structure: ClassVar[tuple[str, ...]] = ("in_features", "out_features")
    #: Buffers that stay in float32 at least when the layer is moved to half precision: arithmetic with them is.
    exact: ClassVar[tuple[str, ...]] = ()

    in_features: int
    out_features: int

    def __init__(self, in_features: int, out_features: int, members: int | None) -> None:
        super().__init__()
        self.in_features = check_count("in_features", in_features, 1)
        self.out_features = check_count("out_features", out_features, 1)
        self.members = None if members is None else check_count("members", members, 1)

    def settle(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """The end of a constructor: move to where and what was asked for, or to torch's defaults."""
        self.to(
            device=torch.get_default_device() if device is None else device,
            dtype=torch.get_default_dtype() if dtype is None else dtype,
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What .to(), .half() and .cuda() come down to."""
        before = {name: self._buffers[name] for name in self.exact}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, old in before.items():
            new = self._buffers[name]
            if old is not None and new is not None and new.dtype.itemsize < 4:
                self._buffers[name] = old.to(new.device)
        return self

    @property
    def lead(self) -> tuple[int, ...]:
        """The leading axes of every parameter: () or (M,)."""
        return () if self.members is None else (self.members,)

    def member(self, index: int) -> Self:
        """A layer of its own with a copy of one member's parameters and buffers."""
        if self.members is None:
            raise ArgumentError.of(
                "member", f"a {type(self).__name__} without members", "asked of a layer with members"
            )
        index = check_count("index", index, -self.members, self.members - 1)
        return _rebuilt(self, None, lambda name: self.get_tensor(name)[index].clone())

    def get_tensor(self, name: str) -> Tensor:
        """A parameter or buffer by name, detached."""
        return cast(Tensor, getattr(self, name)).detach()

    def spread(self, tensor: Tensor, rank: int) -> Tensor:
        """A parameter (M, *tail), seen as (M, 1, ..., 1, *tail) of the given rank; unchanged without members."""
        if self.members is None:
            return tensor
        return tensor.view(self.members, *(1,) * (rank - tensor.dim()), *tensor.shape[1:])

    def check_one_a_member(self, name: str, tensor: Tensor) -> None:
        """A tensor that must be one number, or one a member."""
        if tensor.dim() and tensor.shape != self.lead:
            allowed = "one number" + (f", or one for each of {self.members} members" if self.members else "")
            raise ArgumentError.of(name, f"shape {tuple(tensor.shape)}", allowed)

    def check_input(self, x: Tensor) -> Tensor:
        """``x`` if its shape fits this layer, and an error that says which shape would."""
        name = type(self).__name__
        if not isinstance(x, Tensor) or not x.is_floating_point():
            got = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise ArgumentError.of(
                "x", got, f"a floating-point tensor for this {name}", "Try torch.as_tensor(x).float()."
            )
        wanted = "(..., {0})" if self.members is None else "({1}, rows, {0}), or (1, rows, {0}) shared by all members"
        wanted = wanted.format(self.in_features, self.members)
        if x.dim() == 0 or x.shape[-1] != self.in_features:
            raise ArgumentError.of("x", f"shape {tuple(x.shape)}", f"of shape {wanted} for this {name}")
        if self.members is not None and (x.dim() < 3 or x.shape[0] not in (1, self.members)):
            hint = "x.unsqueeze(0) gives all members the same rows."
            raise ArgumentError.of(
                "x", f"shape {tuple(x.shape)}", f"of shape {wanted} for {self.members} members", hint
            )
        return x

    def affine(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """X W + b with W (in, out) or (M, in, out); the result starts with M even where x starts with 1."""
        if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
            hint = f"x.to({weight.dtype}), or layer.to({x.dtype})."
            raise ArgumentError.of("x", x.dtype, f"of the dtype of this {type(self).__name__}'s weights", hint)
        if self.members is None:
            return F.linear(x, weight.mT, bias)
        flat = x.reshape(x.shape[0], -1, x.shape[-1]).expand(self.members, -1, -1)
        out = torch.bmm(flat, weight) if bias is None else torch.baddbmm(bias.unsqueeze(1), flat, weight)
        return out.view(self.members, *x.shape[1:-1], weight.shape[-1])

    def extra_repr(self) -> str:
        """What ``print(layer)`` shows."""
        parts = [f"{name}={getattr(self, name)!r}" for name in self.structure]
        return ", ".join([*parts, f"members={self.members}"] if self.members else parts)


def stack(modules: Sequence[AnyModule]) -> AnyModule:
    """One module with members out of M alike: layers of this library, or containers of them.

    Parameters and buffers are copied.  Modules between the layers (activations, containers) are taken from the first;
    one with parameters of its own that is not of this library has no members, and is refused.

    >>> import squad
    >>> squad.stack([squad.Linear(3, 2), squad.Linear(3, 2)])
    Linear(in_features=3, out_features=2, members=2)
    """
    modules = [] if isinstance(modules, nn.Module) else list(modules)
    if not modules or not all(isinstance(module, nn.Module) for module in modules):
        raise ArgumentError.of("modules", "something else", "a sequence of at least one module")
    return cast(AnyModule, _converted(modules, "module", _stacked, {}))


def unstack(module: AnyModule) -> list[AnyModule]:
    """The M modules without members that make up ``module``, as copies: the inverse of :func:`stack`.

    >>> import squad
    >>> len(squad.unstack(squad.Linear(3, 2, members=4)))
    4
    """
    counts = {layer.members for layer in module.modules() if isinstance(layer, MemberModule)}
    if len(counts) != 1 or None in counts:
        found = ", ".join(sorted(map(str, counts))) or "no layer of this library"
        raise ArgumentError.of("module", f"members: {found}", "made of layers with one number of members")

    def only(index: int) -> AnyModule:
        return cast(AnyModule, _converted([module], "module", lambda layers, _: layers[0].member(index), {}))

    return [only(index) for index in range(cast(int, counts.pop()))]


def _converted(
    modules: Sequence[nn.Module],
    path: str,
    convert: Callable[[list[MemberModule], str], MemberModule],
    done: dict[tuple[int, ...], nn.Module],
) -> nn.Module:
    """One module out of several alike: our layers by ``convert``, containers by their children.

    ``done`` keeps a layer that is used twice, in all of them, the same layer afterwards.
    """
    first = modules[0]
    identity = tuple(map(id, modules))
    if identity in done:
        return done[identity]
    if any(type(module) is not type(first) for module in modules):
        kinds = ", ".join(sorted({type(module).__name__ for module in modules}))
        raise ArgumentError.of(path, kinds, "of one class in all modules to be stacked")
    if isinstance(first, MemberModule):
        new: nn.Module = convert(cast(list[MemberModule], list(modules)), path)
    else:
        own = [name for name, tensor in (*first._parameters.items(), *first._buffers.items()) if tensor is not None]
        if own:
            kind = f"{type(first).__name__} with {', '.join(own)}"
            hint = "squad.Linear takes members where nn.Linear does not."
            raise ArgumentError.of(path, kind, "a layer of squad, or a module without parameters of its own", hint)
        for module in modules:
            if module._modules.keys() != first._modules.keys() or module.extra_repr() != first.extra_repr():
                got = f"{type(first).__name__}({first.extra_repr()}) and ({module.extra_repr()}) with other submodules"
                raise ArgumentError.of(path, got.replace("()", ""), "built alike in all modules to be stacked")
        new = copy.deepcopy(first)
        for name in first._modules:
            children = [child for module in modules if (child := module._modules[name]) is not None]
            if children:
                new._modules[name] = _converted(children, f"{path}.{name}", convert, done)
    done[identity] = new
    return new


def _stacked(layers: list[MemberModule], path: str) -> MemberModule:
    first = layers[0]
    for layer in layers:
        if layer.members is not None:
            raise ArgumentError.of(path, f"members={layer.members}", "without members", "Use unstack first.")
        for name in first.structure:
            if getattr(layer, name) != getattr(first, name):
                got = f"{getattr(first, name)} and {getattr(layer, name)}"
                raise ArgumentError.of(f"{name} of {path}", got, "the same in all modules to be stacked")
        tensors = (*first._parameters, *first._buffers)
        for name in tensors:
            one, other = (getattr(each, name) for each in (first, layer))
            if (one is None) != (other is None) or (one is not None and one.dtype != other.dtype):
                got = " and ".join("none" if each is None else str(each.dtype) for each in (one, other))
                raise ArgumentError.of(f"{name} of {path}", got, "the same in all modules to be stacked")
    return _rebuilt(first, len(layers), lambda name: torch.stack([layer.get_tensor(name) for layer in layers]))


def _rebuilt(layer: AnyMember, members: int | None, tensor_of: Callable[[str], Tensor]) -> AnyMember:
    """A copy of ``layer`` with other members; ``tensor_of`` gives its parameters and buffers by name."""
    new = copy.deepcopy(layer)
    new.members = members
    for name, parameter in layer._parameters.items():
        if parameter is not None:
            new._parameters[name] = nn.Parameter(tensor_of(name), parameter.requires_grad)
    for name in layer._buffers:
        new._buffers[name] = tensor_of(name)
    return new
