"""Members: several copies of a layer batched into one module, their weights stacked along a leading axis.

The rule that keeps the conversions short: with ``members=M`` every parameter and buffer of a layer has a leading axis
of size M, and nothing else changes.
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
    """Base class of layers that can hold M members.

    With ``members=None`` the input has shape (..., in_features).  With ``members=M`` it has shape
    (M, ..., in_features), or (1, ..., in_features) if all members share it, with at least one axis of rows in between.

    Args:
        in_features: Number of inputs.
        out_features: Number of outputs.
        members: Number of members M; None for a layer without members.
    """

    #: Attributes that must be equal for layers to be stacked; also shown by ``print(layer)``.
    structure: ClassVar[tuple[str, ...]] = ("in_features", "out_features")
    #: Buffers that stay in float32 or better when the layer is converted to half precision.
    float32_buffers: ClassVar[tuple[str, ...]] = ()

    in_features: int
    out_features: int

    def __init__(self, in_features: int, out_features: int, members: int | None) -> None:
        super().__init__()
        self.in_features = check_count("in_features", in_features, 1)
        self.out_features = check_count("out_features", out_features, 1)
        self.members = None if members is None else check_count("members", members, 1)

    def _finish_init(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """Move the layer to the requested device and dtype, or torch's defaults; the last step of a constructor."""
        self.to(
            # Not get_default_device(): before torch 2.7 it ignores an enclosing `with torch.device(...)`.
            device=torch.empty(0).device if device is None else device,
            dtype=torch.get_default_dtype() if dtype is None else dtype,
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Implement .to(), .half(), .cuda(); integers stay integers, ``float32_buffers`` stay in float32 or better."""
        before = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, old in before.items():
            new = self._buffers[name]
            if old is None or new is None:
                continue
            if not old.is_floating_point():
                self._buffers[name] = new if new.dtype == old.dtype else old.to(new.device)
            elif name in self.float32_buffers:
                wide = torch.promote_types(new.dtype, torch.float32)
                self._buffers[name] = new if new.dtype == wide else old.to(new.device, wide)
        return self

    @property
    def lead(self) -> tuple[int, ...]:
        """Leading axes of every parameter: () or (M,)."""
        return () if self.members is None else (self.members,)

    def member(self, index: int) -> Self:
        """Return a layer without members that holds a copy of one member's parameters and buffers."""
        if self.members is None:
            raise ArgumentError(f"This {type(self).__name__} has no members. Create it with `members=M`.")
        index = check_count("index", index, -self.members, self.members - 1)
        return cast(Self, _extract_member(index).layer([self], "layer"))

    def expand_rank(self, tensor: Tensor, rank: int) -> Tensor:
        """View a parameter (M, *tail) as (M, 1, ..., 1, *tail) of the given rank; unchanged without members.

        Args:
            tensor: Parameter, shape (M, ...) with members.
            rank: Number of axes of the result.

        Returns:
            View of the parameter.
        """
        if self.members is None:
            return tensor
        return tensor.view(self.members, *(1,) * (rank - tensor.dim()), *tensor.shape[1:])

    def check_per_member(self, name: str, tensor: Tensor) -> None:
        """Raise unless ``tensor`` is a single number or has one number per member.

        Args:
            name: Name of the argument, used in the error message.
            tensor: Tensor that must have shape () or (M,).
        """
        if tensor.dim() and tensor.shape != self.lead:
            allowed = "a single number" + (f", or one for each of the {self.members} members" if self.members else "")
            raise ArgumentError.of(name, f"shape {tuple(tensor.shape)}", allowed)

    def check_input(self, x: Tensor) -> Tensor:
        """Return ``x`` if its shape and dtype fit this layer; the error names the shape expected."""
        name = type(self).__name__
        if not isinstance(x, Tensor) or not x.is_floating_point():
            got = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise ArgumentError.of(
                "x", got, f"a floating-point tensor for this {name}", "Try torch.as_tensor(x).float()."
            )
        expected = "(..., {0})" if self.members is None else "({1}, rows, {0}), or (1, rows, {0}) shared by all members"
        expected = expected.format(self.in_features, self.members)
        if x.dim() == 0 or x.shape[-1] != self.in_features:
            raise ArgumentError.of("x", f"shape {tuple(x.shape)}", f"of shape {expected} for this {name}")
        if self.members is not None and (x.dim() < 3 or x.shape[0] not in (1, self.members)):
            hint = "Use x.unsqueeze(0) to give all members the same rows."
            raise ArgumentError.of(
                "x", f"shape {tuple(x.shape)}", f"of shape {expected} for {self.members} members", hint
            )
        return x

    def check_product(self, x: Tensor, weight: Tensor) -> None:
        """Raise if the dtypes of ``x`` and ``weight`` differ, which torch's matrix products do not support."""
        if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
            hint = f"Use x.to({weight.dtype}) or layer.to({x.dtype})."
            raise ArgumentError.of("x", x.dtype, f"of the dtype of this {type(self).__name__}'s weights", hint)

    def affine(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Compute x W + b.

        Args:
            x: Rows, shape (..., in); with members (M or 1, ..., in).
            weight: W, shape (in, out); with members (M, in, out).
            bias: b, shape (out,); with members (M, out); None for none.

        Returns:
            Tensor of shape (..., out); with members (M, ..., out).
        """
        self.check_product(x, weight)
        if self.members is None:
            return F.linear(x, weight.mT, bias)
        flat = x.reshape(x.shape[0], -1, x.shape[-1]).expand(self.members, -1, -1)
        out = torch.bmm(flat, weight) if bias is None else affine(flat, weight, bias)
        return out.view(self.members, *x.shape[1:-1], weight.shape[-1])

    def extra_repr(self) -> str:
        """Return the settings shown by ``print(layer)``."""
        parts = [f"{name}={getattr(self, name)!r}" for name in self.structure]
        return ", ".join([*parts, f"members={self.members}"] if self.members else parts)


def stack(modules: Sequence[AnyModule]) -> AnyModule:
    """Combine M modules of equal structure into one module with M members.

    Parameters and buffers are copied; parameters or layers shared within every module stay shared.  Modules between the
    layers (activations, containers) are taken from the first module.

    Args:
        modules: Layers of this library, or containers of them, all with the same structure and without members.

    Returns:
        A module of the same class whose layers have M members.

    Raises:
        ArgumentError: If the modules differ in structure, already have members, or contain a module with parameters
            that is not a layer of this library, such as ``nn.Linear``.

    See Also:
        unstack: The inverse operation.

    Examples:
        >>> import squad
        >>> squad.stack([squad.Linear(3, 2), squad.Linear(3, 2)])
        Linear(in_features=3, out_features=2, members=2)
    """
    if isinstance(modules, nn.Module):
        raise ArgumentError.of("modules", f"one {type(modules).__name__}", "a non-empty sequence of modules")
    modules = list(modules)
    if not modules or not all(isinstance(module, nn.Module) for module in modules):
        got = ", ".join(type(module).__name__ for module in modules) or "an empty sequence"
        raise ArgumentError.of("modules", got, "a non-empty sequence of modules")
    return cast(AnyModule, _Conversion(len(modules), torch.stack).module(modules, "module"))


def unstack(module: AnyModule) -> list[AnyModule]:
    """Split a module with M members into M modules without members; the inverse of :func:`stack`.

    Args:
        module: Layer or network whose layers all have M members.

    Returns:
        M modules with copies of the members' parameters and buffers.

    Raises:
        ArgumentError: If the module has no layers with members, or layers with different numbers of members.

    See Also:
        stack: The inverse operation.

    Examples:
        >>> import squad
        >>> len(squad.unstack(squad.Linear(3, 2, members=4)))
        4
    """
    counts = {layer.members for layer in module.modules() if isinstance(layer, MemberModule)}
    if len(counts) != 1 or None in counts:
        got = f"members: {', '.join(sorted(map(str, counts)))}" if counts else "no layer of this library"
        raise ArgumentError.of("module", got, "a module whose layers all have the same number of members")
    return [
        cast(AnyModule, _extract_member(index).module([module], "module")) for index in range(cast(int, counts.pop()))
    ]


def take(module: AnyModule, indices: Sequence[int]) -> AnyModule:
    """Select members of a module by index.

    Args:
        module: Module with members.
        indices: Indices of the members, in their new order.

    Returns:
        A module with these members, which holds copies.
    """
    index = torch.tensor(list(indices))
    conversion = _Conversion(len(index), lambda tensors: tensors[0][index.to(tensors[0].device)], stacking=False)
    return cast(AnyModule, conversion.module([module], "module"))


class _Conversion:
    """Builds one module from several of equal structure, by combining each parameter and buffer.

    Args:
        members: Number of members of the new module, or None.
        combine: Function that makes the new tensor from the tensors of all modules.
        stacking: Whether the modules become members, which requires that none of them has members.
    """

    def __init__(
        self, members: int | None, combine: Callable[[list[Tensor]], Tensor], *, stacking: bool = True
    ) -> None:
        self.members = members
        self.stacking = stacking
        self.combine = combine
        # Results by identity: a layer or parameter that is used twice in every module stays shared.
        self.modules: dict[tuple[int, ...], nn.Module] = {}
        self.parameters: dict[tuple[int, ...], nn.Parameter] = {}

    def module(self, modules: Sequence[nn.Module], path: str) -> nn.Module:
        identity = tuple(map(id, modules))
        if identity not in self.modules:
            if len({type(module) for module in modules}) > 1:
                kinds = ", ".join(sorted({type(module).__name__ for module in modules}))
                raise ArgumentError.of(path, kinds, "of the same class in all modules to be stacked")
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
            hint = "Use squad.Linear instead of nn.Linear: it supports members."
            raise ArgumentError.of(path, kind, "a layer of squad, or a module without parameters of its own", hint)
        outlines = {_outline(module) for module in modules}
        if len(outlines) > 1:
            got = " and ".join(sorted(outlines))
            raise ArgumentError.of(path, got, "of the same structure in all modules to be stacked")
        children = {
            name: self.module([cast(nn.Module, module._modules[name]) for module in modules], f"{path}.{name}")
            for name, child in first._modules.items()
            if child is not None
        }
        # With the children as memo, other references to them (in a list of layers, say) point to the new ones, too.
        memo = {id(first._modules[name]): child for name, child in children.items()}
        new = copy.deepcopy(first, memo)
        new._modules.update(children)
        return new


def _extract_member(index: int) -> _Conversion:
    """Return the conversion of a module with members to a single member."""
    return _Conversion(None, lambda tensors: tensors[0][index].clone(), stacking=False)


def _outline(module: nn.Module) -> str:
    """Describe a module of another library by its settings and submodules, which must agree for stacking."""
    children = ", ".join(name for name, child in module._modules.items() if child is not None)
    return f"{type(module).__name__}({module.extra_repr()})" + (f" with {children}" if children else "")


def _check_stackable(layers: Sequence[MemberModule], path: str) -> None:
    first = layers[0]
    for layer in layers:
        if layer.members is not None:
            raise ArgumentError.of(path, f"members={layer.members}", "without members", "Call unstack first.")
        traits = {name: (getattr(first, name), getattr(layer, name)) for name in (*first.structure, "training")}
        for name in (*first._parameters, *first._buffers):
            traits[name] = _describe(getattr(first, name)), _describe(getattr(layer, name))
        for name, (one, other) in traits.items():
            if one != other:
                allowed = "the same in all modules to be stacked"
                raise ArgumentError.of(f"{name} of {path}", f"{one} and {other}", allowed)


def _describe(tensor: Tensor | None) -> str:
    if tensor is None:
        return "none"
    return f"{tensor.dtype} on {tensor.device}" + (", frozen" if not tensor.requires_grad else "")
