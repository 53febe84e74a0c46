"""Adam for networks with members: all parameters are stored in one matrix with one row per member."""

import itertools
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.adam import adam

__all__ = ["Adam", "flatten", "point_into"]


#: Alignment of each parameter within a row, in elements: matrix products on a GPU are twice as fast if weights start at
#: a sector of memory.
ALIGN = 32


def flatten(network: nn.Module) -> Tensor:
    """Copy all parameters (M, ...) of a network with members into one matrix (M, P), with zeros as padding."""
    return _concatenate([parameter.detach() for parameter in network.parameters()])


def _concatenate(tensors: list[Tensor]) -> Tensor:
    return torch.cat([F.pad(tensor.flatten(1), (0, -tensor[0].numel() % ALIGN)) for tensor in tensors], 1)


@torch.no_grad()
def point_into(network: nn.Module, flat: Tensor) -> None:
    """Make the parameters of a network views of one matrix, so that a change of one changes the other.

    Args:
        network: Network with M members.
        flat: All its parameters, (M, P), in the order of ``network.parameters()``.
    """
    for parameter, view in zip(network.parameters(), _parameter_views(network, flat), strict=True):
        parameter.data = view


def _parameter_views(network: nn.Module, flat: Tensor) -> Iterable[Tensor]:
    shapes = [parameter.shape for parameter in network.parameters()]
    sizes = [shape[1:].numel() for shape in shapes]
    parts = flat.split([size + -size % ALIGN for size in sizes], 1)
    for shape, size, part in zip(shapes, sizes, parts, strict=True):
        yield part[:, :size].view(shape)


def _member_view(x: Tensor, member: int) -> Tensor:
    """Return one member's part of x (M, ...); for M = 1 all of x, which saves the indexing."""
    return x if len(x) == 1 else x[member]


class _Group(NamedTuple):
    """Parameters of members with the same learning rate and weight decay, updated by one fused call.

    Attributes:
        lr, decay: Their learning rate and weight decay.
        indices: (index of the parameter, member) of each.
        flat, mean, square: The corresponding parts of the optimizer's matrices.
    """

    lr: float
    decay: float
    indices: list[tuple[int, int]]
    flat: list[Tensor]
    mean: list[Tensor]
    square: list[Tensor]


class Adam:
    """Adam as in torch.optim, with a learning rate, a weight decay and a step count per member.

    Weight decay is added to the gradient of weight matrices only (parameters named ``weight...``).  The parameters are
    one matrix, so a step is a handful of operations for any number of parameters.  On the CPU each of these would be a
    pass through memory; there torch's fused step is used, which makes a single pass.

    Args:
        network: Network with M members; its parameters become views of ``flat``.
        lr: Learning rates, (M,).
        decay: Weight decays, (M,).

    Attributes:
        flat: Parameters of all members, (M, P).
        mean: Running mean of the gradients, (M, P).
        square: Running mean of the squared gradients, (M, P).
        lr: Learning rates, (M,).
        decay: Weight decays, (M,).
        steps: Number of steps taken, (M,).
        parameters: Parameters of the attached network.
        decaying: Whether weight decay applies to each of ``parameters``.

    References:
        Kingma and Ba, "Adam: A method for stochastic optimization", ICLR 2015.
    """

    betas = 0.9, 0.999
    epsilon = 1e-8
    #: Device types with torch's fused step.  It reads learning rates on the host, for which a GPU would have to wait.
    fused_on: ClassVar[tuple[str, ...]] = ("cpu",)

    def __init__(self, network: nn.Module, lr: Tensor, decay: Tensor) -> None:
        self.flat = flatten(network)
        self.lr = lr.to(self.flat, copy=True)  # changed in place
        self.decay = decay.to(self.flat, copy=True)
        self.steps = torch.zeros_like(self.lr)
        self.mean = torch.zeros_like(self.flat)
        self.square = torch.zeros_like(self.flat)
        self.attach(network)

    def attach(self, network: nn.Module) -> None:
        """Attach to ``network``, whose parameters become views of ``flat``."""
        point_into(network, self.flat)
        self.parameters = list(network.parameters())
        self.decaying = [name.rpartition(".")[2].startswith("weight") for name, _ in network.named_parameters()]
        masks = [
            torch.full_like(parameter[:1], decays, dtype=torch.bool)
            for parameter, decays in zip(self.parameters, self.decaying, strict=True)
        ]
        self._decay_mask = _concatenate(masks)
        self._views = [list(_parameter_views(network, matrix)) for matrix in (self.flat, self.mean, self.square)]
        self._group()

    def _group(self) -> None:
        """Group the parameters by learning rate and decay, if the fused step is used."""
        self._groups: list[_Group] = []
        if self.flat.device.type not in self.fused_on:
            return
        settings = list(zip(self.lr.tolist(), self.decay.tolist(), strict=True))
        grouped: dict[tuple[float, float], list[tuple[int, int]]] = {}
        for (index, decays), (member, (lr, decay)) in itertools.product(enumerate(self.decaying), enumerate(settings)):
            grouped.setdefault((lr, decay if decays else 0.0), []).append((index, member))
        for shared, indices in grouped.items():
            views = ([_member_view(parts[index], member) for index, member in indices] for parts in self._views)
            self._groups.append(_Group(*shared, indices, *views))

    def keep(self, network: nn.Module, rows: list[int]) -> None:
        """Drop all members except some, and attach to a network that has only these.

        Args:
            network: Network of the remaining members.
            rows: Rows of the remaining members, in their new order.
        """
        index = torch.tensor(rows, device=self.flat.device)
        self.restore(network, {name: tensor[index] for name, tensor in self.state().items()})

    def state(self) -> dict[str, Tensor]:
        """Return all tensors of the optimizer, by name."""
        return {name: getattr(self, name) for name in ("flat", "mean", "square", "steps", "lr", "decay")}

    def restore(self, network: nn.Module, state: dict[str, Tensor]) -> None:
        """Continue from a :meth:`state`, attached to ``network``.

        Args:
            network: Network to attach to.
            state: Tensors by name.
        """
        for name, tensor in state.items():
            setattr(self, name, tensor.to(self.flat))
        self.attach(network)

    def set_lr(self, lr: list[float]) -> None:
        """Set the learning rate of each member."""
        self.lr.copy_(torch.tensor(lr, dtype=torch.float64))
        self._group()

    def restart(self, row: int, lr: float, decay: float) -> None:
        """Reset the moments and the step count of a row, in place, and set its learning rate and decay.

        Args:
            row: Index of the member.
            lr: New learning rate.
            decay: New weight decay.
        """
        for tensor in (self.mean, self.square, self.steps):
            tensor[row].zero_()
        self.lr[row], self.decay[row] = lr, decay
        self._group()

    def adopt(self, row: int, other: "Adam", source: int) -> None:
        """Copy the state of a member of another optimizer.

        Args:
            row: Index of the member to overwrite.
            other: Optimizer to copy from.
            source: Index of the member in ``other``.
        """
        for name, tensor in self.state().items():
            tensor[row].copy_(other.state()[name][source])
        self._group()

    def zero_grad(self) -> None:
        """Reset the gradients to None."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update the parameters along their gradients."""
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        if self._groups:
            self._fused_step(grads)
        else:
            self._step(grads)

    def _fused_step(self, grads: list[Tensor]) -> None:
        members = len(self.steps)
        # torch counts steps per tensor, in place and in float32; here they are counted once per member.
        counts = self.steps.float().repeat(len(grads)).unbind()
        for group in self._groups:
            adam(
                group.flat,
                [_member_view(grads[index], member).contiguous() for index, member in group.indices],
                group.mean,
                group.square,
                [],
                [counts[index * members + member] for index, member in group.indices],
                fused=True,
                amsgrad=False,
                beta1=self.betas[0],
                beta2=self.betas[1],
                lr=group.lr,
                weight_decay=group.decay,
                eps=self.epsilon,
                maximize=False,
            )
        self.steps += 1

    def _step(self, grads: list[Tensor]) -> None:
        grad = _concatenate(grads)
        # Not a product with 0 where nothing decays: a bias may be -inf (a padding bin).
        grad.add_(torch.where(self._decay_mask, self.flat * self.decay.unsqueeze(1), 0))
        first, second = self.betas
        self.steps += 1
        self.mean.lerp_(grad, 1 - first)
        self.square.mul_(second).addcmul_(grad, grad, value=1 - second)
        steps = self.steps.double()  # 1 - .999 has few digits left in single precision
        step_size = (self.lr / (1 - first**steps)).to(self.flat)
        root = (1 - second**steps).sqrt().to(self.flat)
        scale = self.square.sqrt().div_(root.unsqueeze(1)).add_(self.epsilon)
        self.flat.sub_(self.mean.mul(step_size.unsqueeze(1)).div_(scale))
