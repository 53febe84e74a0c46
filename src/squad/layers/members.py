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
from squad.ops.affine import affine

__all__ = ["MemberModule", "stack", "take", "unstack"]

AnyModule = TypeVar("AnyModule", bound=nn.Module)


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
            # Not get_default_device(): before torch 2.7 that does not know of a `with torch.device(...)` around.
            device=torch.empty(0).device if device is None else device,
            dtype=torch.get_default_dtype() if dtype is None else dtype,
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What .to(), .half() and .cuda() come down to; whole numbers stay so, exact buffers in float32 at least."""
        before = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, old in before.items():
            new = self._buffers[name]
            if old is None or new is None:
                continue
            if not old.is_floating_point():
                self._buffers[name] = new if new.dtype == old.dtype else old.to(new.device)
            elif name in self.exact:
                wide = torch.promote_types(new.dtype, torch.float32)
                self._buffers[name] = new if new.dtype == wide else old.to(new.device, wide)
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
        return cast(Self, _one_of(index).layer([self], "layer"))

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

    def check_product(self, x: Tensor, weight: Tensor) -> None:
        """Raise unless x W is a product torch makes."""
        if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
            hint = f"x.to({weight.dtype}), or layer.to({x.dtype})."
            raise ArgumentError.of("x", x.dtype, f"of the dtype of this {type(self).__name__}'s weights", hint)

    def affine(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """x W + b with W (in, out) or (M, in, out); the result starts with M even where x starts with 1."""
        self.check_product(x, weight)
        if self.members is None:
            return F.linear(x, weight.mT, bias)
        flat = x.reshape(x.shape[0], -1, x.shape[-1]).expand(self.members, -1, -1)
        out = torch.bmm(flat, weight) if bias is None else affine(flat, weight, bias)
        return out.view(self.members, *x.shape[1:-1], weight.shape[-1])

    def extra_repr(self) -> str:
        """What ``print(layer)`` shows."""
        parts = [f"{name}={getattr(self, name)!r}" for name in self.structure]
        return ", ".join([*parts, f"members={self.members}"] if self.members else parts)


def stack(modules: Sequence[AnyModule]) -> AnyModule:
    """One module with members out of M alike: layers of this library, or containers of them.

    Parameters and buffers are copied; what is shared between layers in all of them stays shared.  Modules between the
    layers (activations, containers) are taken from the first; one with parameters of its own that is not of this
    library has no members, and is refused.

    >>> import squad
    >>> squad.stack([squad.Linear(3, 2), squad.Linear(3, 2)])
    Linear(in_features=3, out_features=2, members=2)
    """
    modules = [] if isinstance(modules, nn.Module) else list(modules)
    if not modules or not all(isinstance(module, nn.Module) for module in modules):
        raise ArgumentError.of("modules", "something else", "a sequence of at least one module")
    return cast(AnyModule, _Conversion(len(modules), torch.stack).module(modules, "module"))


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
    return [cast(AnyModule, _one_of(index).module([module], "module")) for index in range(cast(int, counts.pop()))]


def take(module: AnyModule, indices: Sequence[int]) -> AnyModule:
    """The members with these indices of a module with members, as a module with members of its own; copies."""
    index = torch.tensor(list(indices))
    conversion = _Conversion(len(index), lambda tensors: tensors[0][index.to(tensors[0].device)], stacking=False)
    return cast(AnyModule, conversion.module([module], "module"))


class _Conversion:
    """One module out of several alike: parameter by parameter and buffer by buffer, whatever holds them."""

    def __init__(
        self, members: int | None, combine: Callable[[list[Tensor]], Tensor], *, stacking: bool = True
    ) -> None:
        self.members = members
        self.stacking = stacking
        self.combine = combine
        # What was converted already: a layer or parameter that is used twice in all of them is so afterwards.
        self.modules: dict[tuple[int, ...], nn.Module] = {}
        self.parameters: dict[tuple[int, ...], nn.Parameter] = {}

    def module(self, modules: Sequence[nn.Module], path: str) -> nn.Module:
        identity = tuple(map(id, modules))
        if identity not in self.modules:
            if len({type(module) for module in modules}) > 1:
                kinds = ", ".join(sorted({type(module).__name__ for module in modules}))
                raise ArgumentError.of(path, kinds, "of one class in all modules to be stacked")
            if isinstance(modules[0], MemberModule):
                self.modules[identity] = self.layer(cast(list[MemberModule], list(modules)), path)
            else:
                self.modules[identity] = self.container(modules, path)
        return self.modules[identity]

    def layer(self, layers: Sequence[MemberModule], path: str) -> MemberModule:
        if self.stacking:
            _check_stackable(layers, path)
        new = copy.deepcopy(layers[0])
        new.members = self.members
        for name, old in layers[0]._parameters.items():
            if old is not None:
                new._parameters[name] = self.parameter([cast(Tensor, layer._parameters[name]) for layer in layers])
        for name in layers[0]._buffers:
            new._buffers[name] = self.combine([cast(Tensor, layer._buffers[name]) for layer in layers])
        return new

    def parameter(self, parameters: list[Tensor]) -> nn.Parameter:
        identity = tuple(map(id, parameters))
        if identity not in self.parameters:
            tensor = self.combine([parameter.detach() for parameter in parameters])
            self.parameters[identity] = nn.Parameter(tensor, parameters[0].requires_grad)
        return self.parameters[identity]

    def container(self, modules: Sequence[nn.Module], path: str) -> nn.Module:
        first = modules[0]
        own = [name for name, tensor in (*first._parameters.items(), *first._buffers.items()) if tensor is not None]
        if own:
            kind = f"{type(first).__name__} with {', '.join(own)}"
            hint = "squad.Linear takes members where nn.Linear does not."
            raise ArgumentError.of(path, kind, "a layer of squad, or a module without parameters of its own", hint)
        shapes = {_outline(module) for module in modules}
        if len(shapes) > 1:
            raise ArgumentError.of(path, " and ".join(sorted(shapes)), "built alike in all modules to be stacked")
        children = {
            name: self.module([cast(nn.Module, module._modules[name]) for module in modules], f"{path}.{name}")
            for name, child in first._modules.items()
            if child is not None
        }
        # With the children as memo, other references to them (a list of layers, say) lead to the new ones too.
        memo = {id(first._modules[name]): child for name, child in children.items()}
        new = copy.deepcopy(first, memo)
        new._modules.update(children)
        return new


def _one_of(index: int) -> _Conversion:
    """The conversion to a single member."""
    return _Conversion(None, lambda tensors: tensors[0][index].clone(), stacking=False)


def _outline(module: nn.Module) -> str:
    """What must agree of modules that are not ours: their settings, and which submodules they have."""
    has = ", ".join(name for name, child in module._modules.items() if child is not None)
    return f"{type(module).__name__}({module.extra_repr()})" + (f" with {has}" if has else "")


def _check_stackable(layers: Sequence[MemberModule], path: str) -> None:
    first = layers[0]
    for layer in layers:
        if layer.members is not None:
            raise ArgumentError.of(path, f"members={layer.members}", "without members", "Use unstack first.")
        traits = {name: (getattr(first, name), getattr(layer, name)) for name in (*first.structure, "training")}
        for name in (*first._parameters, *first._buffers):
            traits[name] = _trait(getattr(first, name)), _trait(getattr(layer, name))
        for name, (one, other) in traits.items():
            if one != other:
                allowed = "the same in all modules to be stacked"
                raise ArgumentError.of(f"{name} of {path}", f"{one} and {other}", allowed)


def _trait(tensor: Tensor | None) -> str:
    if tensor is None:
        return "none"
    return f"{tensor.dtype} on {tensor.device}" + (", frozen" if not tensor.requires_grad else "")
