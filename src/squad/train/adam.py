"""Adam over members: all parameters of a network as one matrix with a row for each member."""

import itertools
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.adam import adam

__all__ = ["Adam", "flatten", "point_into"]


#: Numbers that a parameter's place in a row is a multiple of: a GPU's matrix products are twice as fast on weights that
#: begin at whole sectors of memory.
ALIGN = 32


def flatten(network: nn.Module) -> Tensor:
    """A copy of all parameters (M, ...) of a network with members, side by side: (M, P), zeros between them."""
    return _side_by_side([parameter.detach() for parameter in network.parameters()])


def _side_by_side(tensors: list[Tensor]) -> Tensor:
    return torch.cat([F.pad(tensor.flatten(1), (0, -tensor[0].numel() % ALIGN)) for tensor in tensors], 1)


@torch.no_grad()
def point_into(network: nn.Module, flat: Tensor) -> None:
    """Make the parameters of ``network`` views of ``flat`` (M, P): what changes one changes the other."""
    for parameter, part in zip(network.parameters(), _parts(network, flat), strict=True):
        parameter.data = part


def _parts(network: nn.Module, flat: Tensor) -> Iterable[Tensor]:
    shapes = [parameter.shape for parameter in network.parameters()]
    sizes = [shape[1:].numel() for shape in shapes]
    parts = flat.split([size + -size % ALIGN for size in sizes], 1)
    for shape, size, part in zip(shapes, sizes, parts, strict=True):
        yield part[:, :size].view(shape)


def _of(x: Tensor, member: int) -> Tensor:
    """A member's part of ``x`` (M, ...); all of it where there is one, which spares the indexing."""
    return x if len(x) == 1 else x[member]


class _Group(NamedTuple):
    """What is stepped at once: parameters of members that share a learning rate and a decay.

    Attributes:
        lr, decay: what they share.
        places: (index of the parameter, member) of each.
        flat, mean, square: the parts of the optimizer's matrices at these places.
    """

    lr: float
    decay: float
    places: list[tuple[int, int]]
    flat: list[Tensor]
    mean: list[Tensor]
    square: list[Tensor]


class Adam:
    """Adam (Kingma and Ba, 2015) as in torch.optim, with a learning rate, a weight decay and a step count a member.

    Weight decay is added to the gradient, and is for weight matrices alone (parameters named ``weight...``).
    What it works on is one matrix, so a step is a handful of operations however many parameters a network has.  On the
    CPU each of them would be a pass through memory: there torch's fused step serves, one pass in all.

    Attributes:
        flat, mean, square: (M, P): the parameters and the running moments of their gradients.
        lr, decay: (M,).
        steps: (M,), how many were taken.
        parameters, decaying: those of the network that is served, and whether decay is for them.
    """

    betas = 0.9, 0.999
    epsilon = 1e-8
    #: Where torch's fused step serves.  It takes learning rates from the host: on a GPU each step would wait for them.
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
        """Serve ``network``, whose parameters become views of ``flat``."""
        point_into(network, self.flat)
        self.parameters = list(network.parameters())
        self.decaying = [name.rpartition(".")[2].startswith("weight") for name, _ in network.named_parameters()]
        weights = [
            torch.full_like(parameter[:1], decays, dtype=torch.bool)
            for parameter, decays in zip(self.parameters, self.decaying, strict=True)
        ]
        self._decayed = _side_by_side(weights)
        self._held = [list(_parts(network, matrix)) for matrix in (self.flat, self.mean, self.square)]
        self._group()

    def _group(self) -> None:
        """Sort the parameters by the settings they share, where the fused step serves."""
        self._groups: list[_Group] = []
        if self.flat.device.type not in self.fused_on:
            return
        settings = list(zip(self.lr.tolist(), self.decay.tolist(), strict=True))
        places: dict[tuple[float, float], list[tuple[int, int]]] = {}
        for (index, decays), (member, (lr, decay)) in itertools.product(enumerate(self.decaying), enumerate(settings)):
            places.setdefault((lr, decay if decays else 0.0), []).append((index, member))
        for shared, found in places.items():
            held = ([_of(parts[index], member) for index, member in found] for parts in self._held)
            self._groups.append(_Group(*shared, found, *held))

    def keep(self, network: nn.Module, places: list[int]) -> None:
        """Go on with these members only, in ``network``."""
        index = torch.tensor(places, device=self.flat.device)
        self.restore(network, {name: tensor[index] for name, tensor in self.state().items()})

    def state(self) -> dict[str, Tensor]:
        """All it holds, by name."""
        return {name: getattr(self, name) for name in ("flat", "mean", "square", "steps", "lr", "decay")}

    def restore(self, network: nn.Module, state: dict[str, Tensor]) -> None:
        """Go on in ``network`` from what :meth:`state` gave."""
        for name, tensor in state.items():
            setattr(self, name, tensor.to(self.flat))
        self.attach(network)

    def set_lr(self, lr: list[float]) -> None:
        """Another learning rate for each member."""
        self.lr.copy_(torch.tensor(lr, dtype=torch.float64))
        self._group()

    def restart(self, row: int, lr: float, decay: float) -> None:
        """Begin anew in a row, in place: with other settings, and nothing known of gradients."""
        for tensor in (self.mean, self.square, self.steps):
            tensor[row].zero_()
        self.lr[row], self.decay[row] = lr, decay
        self._group()

    def adopt(self, row: int, other: "Adam", place: int) -> None:
        """Go on in a row with what ``other`` holds in its row ``place``."""
        for name, tensor in self.state().items():
            tensor[row].copy_(other.state()[name][place])
        self._group()

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Take a step along the gradients."""
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        if self._groups:
            self._fused_step(grads)
        else:
            self._step(grads)

    def _fused_step(self, grads: list[Tensor]) -> None:
        members = len(self.steps)
        # torch counts for each tensor by itself, in place and in float32; ours are counted once.
        counts = self.steps.float().repeat(len(grads)).unbind()
        for group in self._groups:
            adam(
                group.flat,
                [_of(grads[index], member).contiguous() for index, member in group.places],
                group.mean,
                group.square,
                [],
                [counts[index * members + member] for index, member in group.places],
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
        grad = _side_by_side(grads)
        # Not a product with 0 where nothing decays: a bias may be -inf (a bin that a member does not have).
        grad.add_(torch.where(self._decayed, self.flat * self.decay.unsqueeze(1), 0))
        first, second = self.betas
        self.steps += 1
        self.mean.lerp_(grad, 1 - first)
        self.square.mul_(second).addcmul_(grad, grad, value=1 - second)
        steps = self.steps.double()  # 1 - .999 has few digits left in single precision
        size = (self.lr / (1 - first**steps)).to(self.flat)
        root = (1 - second**steps).sqrt().to(self.flat)
        spread = self.square.sqrt().div_(root.unsqueeze(1)).add_(self.epsilon)
        self.flat.sub_(self.mean.mul(size.unsqueeze(1)).div_(spread))
