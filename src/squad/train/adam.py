"""Adam over members: all parameters of a network as one matrix with a row for each member."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

__all__ = ["Adam", "flatten", "point_into"]


def flatten(network: nn.Module) -> Tensor:
    """A copy of all parameters (M, ...) of a network with members, side by side: (M, P)."""
    return torch.cat([parameter.detach().flatten(1) for parameter in network.parameters()], 1)


@torch.no_grad()
def point_into(network: nn.Module, flat: Tensor) -> None:
    """Make the parameters of ``network`` views of ``flat`` (M, P): what changes one changes the other."""
    for parameter, part in zip(network.parameters(), _parts(network, flat), strict=True):
        parameter.data = part


def _parts(network: nn.Module, flat: Tensor) -> Iterable[Tensor]:
    shapes = [parameter.shape for parameter in network.parameters()]
    for shape, part in zip(shapes, flat.split([shape[1:].numel() for shape in shapes], 1), strict=True):
        yield part.view(shape)


class Adam:
    """Adam (Kingma and Ba, 2015) as in torch.optim, with a learning rate, a weight decay and a step count a member.

    Weight decay is added to the gradient, and is for weight matrices alone (parameters named ``weight...``).
    What it works on is one matrix, so a step is a handful of operations however many parameters a network has.

    Attributes:
        flat, mean, square: (M, P): the parameters and the running moments of their gradients.
        lr, decay: (M,).
        steps: (M,), how many were taken.
    """

    betas = 0.9, 0.999
    epsilon = 1e-8

    def __init__(self, network: nn.Module, lr: Tensor, decay: Tensor) -> None:
        self.flat = flatten(network)
        self.lr = lr.to(self.flat)
        self.decay = decay.to(self.flat)
        self.steps = torch.zeros_like(self.lr)
        self.mean = torch.zeros_like(self.flat)
        self.square = torch.zeros_like(self.flat)
        self.attach(network)

    def attach(self, network: nn.Module) -> None:
        """Serve ``network``, whose parameters become views of ``flat``."""
        point_into(network, self.flat)
        self.parameters = list(network.parameters())
        weights = [
            torch.full((parameter[0].numel(),), name.rpartition(".")[2].startswith("weight"), device=self.flat.device)
            for name, parameter in network.named_parameters()
        ]
        self._decays = self.decay.unsqueeze(1) * torch.cat(weights)

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

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Take a step along the gradients."""
        grad = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten(1) for p in self.parameters], 1)
        grad.addcmul_(self.flat, self._decays)
        first, second = self.betas
        self.steps += 1
        self.mean.lerp_(grad, 1 - first)
        self.square.mul_(second).addcmul_(grad, grad, value=1 - second)
        steps = self.steps.double()  # 1 - .999 has few digits left in single precision
        size = (self.lr / (1 - first**steps)).to(self.flat)
        root = (1 - second**steps).sqrt().to(self.flat)
        spread = self.square.sqrt().div_(root.unsqueeze(1)).add_(self.epsilon)
        self.flat.sub_(self.mean.mul(size.unsqueeze(1)).div_(spread))
