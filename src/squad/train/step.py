"""The steps of an epoch: one after the other, or on a GPU as a captured graph that the host only starts.

Both compute the same.  A graph has fixed addresses, so everything that changes from step to step is a tensor on the
device: the order of the rows, which batch is next, the number of the step that names its noise.
"""

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from squad.core.threads import threads_for
from squad.layers import Linear
from squad.models import Network
from squad.ops import has_triton
from squad.ops.matmul_precision import matmul_precision
from squad.ops.triton_launch import on
from squad.train import manual_backward
from squad.train.adam import ALIGN, Adam

__all__ = ["KernelSteps", "PlainSteps", "Steps", "make_steps"]

#: Parameters (M, C, K) with how each member learns them, (M, 1, 1).
Ties: TypeAlias = Sequence[tuple[nn.Parameter, Tensor]]
FIXED, PER_LAYER, PER_NEURON = 0, 1, 2
#: Of the noise: one a member, or what a network's ``streams`` made of them.
Seeds: TypeAlias = Tensor | list[Tensor | None]

#: Steps of a graph: the host then starts fewer, and the GPU need not wait for it.
UNROLLED = 8

#: Bytes of the block that tells the allocator how much of a step's memory to keep.
KEPT = 31 << 20


class Steps(Protocol):
    """What an epoch asks for."""

    def epoch(self, order: Tensor, first: int | Tensor) -> Tensor:
        """Take the steps of an epoch.

        Between two epochs members may be changed in place: parameters, moments, settings, beta and seed.

        Args:
            order: rows of each member's batches, (M, steps, batch).
            first: number of the first of them in the run, or in each member's own, (M,); it names the noise.

        Returns:
            Sums over the steps of the members' losses and KLs, (2, M).
        """


def make_steps(
    network: Network, adam: Adam, x: Tensor, y: Tensor, beta: Tensor, seed: Tensor, reach: Tensor | None,
    precision: str, ties: Ties | None = None,
) -> Steps:  # fmt: skip
    """The fastest kind of steps for these tensors.

    Args:
        network: with M members.
        adam: of its parameters.
        x: all rows, (N, in).
        y: their labels, (N,).
        beta: KL multipliers, (M,).
        seed: of the noise, (M,).
        reach: how far an adversarial example may be, (M or 1, 1, in), or None.
        precision: of matrix products on a GPU.
        ties: how members learn values that are held for each neuron; see :func:`tied`.
    """
    device = y.device
    if device.type == "cuda" and x.device == device and x.dtype == torch.float32 and has_triton():
        return KernelSteps(network, adam, x, y, beta, seed, precision, ties=ties, reach=reach)
    return PlainSteps(network, adam, x, y, beta, seed, reach, precision, ties)


def tied(grad: Tensor, ties: Tensor) -> Tensor:
    """The gradient of values held for each neuron, of members that do not all learn them so.

    Args:
        grad: (M, C, K).
        ties: (M, 1, 1): PER_NEURON leaves it; PER_LAYER gives all neurons their sum, so that values that begin alike
            stay alike; FIXED is none.
    """
    return torch.where(ties == PER_NEURON, grad, torch.where(ties == PER_LAYER, grad.sum(-1, keepdim=True), 0))


def _tie(ties: Ties | None) -> None:
    for parameter, how in ties or ():
        if parameter.grad is not None:
            parameter.grad = tied(parameter.grad, how)


class PlainSteps:
    """Step after step, on any device."""

    def __init__(
        self, network: Network, adam: Adam, x: Tensor, y: Tensor, beta: Tensor, seed: Tensor, reach: Tensor | None,
        precision: str = "float32", ties: Ties | None = None,
    ) -> None:  # fmt: skip
        self.network, self.adam = network, adam
        self.x, self.y = x, y
        self.ties = ties
        self.beta, self.seed, self.reach = beta, seed, reach
        self.precision = precision
        if y.device.type == "cpu":
            # glibc keeps freed memory at hand up to twice the largest block it has seen come and go, 32 MiB at most.
            # Without this one, which is never touched, each step would give its memory back and take it anew, page by
            # page; elsewhere it does nothing.
            torch.empty(KEPT, dtype=torch.uint8)

    def epoch(self, order: Tensor, first: int | Tensor) -> Tensor:
        """As Steps says."""
        totals = torch.zeros(2, len(self.seed), dtype=self.x.dtype, device=self.y.device)
        with threads_for(self.adam.flat.numel() * order.shape[-1], self.y.device):
            for index, rows in enumerate(order.unbind(1)):  # (M, batch)
                totals += self._step(rows, first + index)
        return totals

    def _step(self, rows: Tensor, number: int | Tensor) -> Tensor:
        self.adam.zero_grad()
        # Not self.x[rows], which takes several times as long on the CPU.
        batch = self.x.index_select(0, rows.flatten().to(self.x.device)).to(self.y.device)
        batch = batch.view(*rows.shape, *batch.shape[1:])
        with matmul_precision(self.precision, self.y.device):
            found = backward(self.network, batch, self.y[rows], self.beta, self.seed, number, self.reach)
        _tie(self.ties)
        self.adam.step()
        return found


def backward(
    network: Network, x: Tensor, y: Tensor, beta: Tensor, seed: Tensor, step: int | Tensor, reach: Tensor | None
) -> Tensor:
    """Gradients of the members' losses on a batch, where there were none before; their losses and KLs, (2, M).

    With ``reach`` each row counts half, and half an adversarial neighbour: the fast gradient sign of Goodfellow et
    al. (2015), as in deep ensembles.
    """
    if reach is None and manual_backward.serves(network, x):
        return manual_backward.backward(network, x, y, beta, seed, step)
    if reach is None:
        loss, kl = losses(network, x, y, beta, seed, step)
        loss.backward(torch.ones_like(loss))
        return torch.stack([loss.detach(), kl.detach()])
    return beside_neighbours(network, x, y, beta, seed, step, reach)


def beside_neighbours(
    network: Network, x: Tensor, y: Tensor, beta: Tensor, seed: Seeds, step: int | Tensor, reach: Tensor
) -> Tensor:
    """The same of each row and its adversarial neighbour."""
    x = x.detach().requires_grad_()
    loss, kl = losses(network, x, y, beta, seed, step)
    (loss.sum() / 2).backward()
    assert x.grad is not None
    other, _ = losses(network, x.detach() + reach * x.grad.sign(), y, beta, seed, step)
    (other.sum() / 2).backward()
    return torch.stack([(loss.detach() + other.detach()) / 2, kl.detach()])


def losses(
    network: Network, x: Tensor, y: Tensor, beta: Tensor, seed: Seeds, step: int | Tensor
) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy + beta x mean KL, and that mean KL, of each member: (M,), (M,)."""
    logits, kls = network.run(x, seed=seed, step=step)
    each = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view(y.shape)
    if not kls:
        return each.mean(1), each.new_zeros(len(each))
    kl = sum(kls[1:], kls[0]).mean(1).to(each.dtype)
    return each.mean(1) + beta * kl, kl


class KernelSteps:
    """Steps of few kernels, captured as a CUDA graph; ``captured=False`` launches them one by one, as tests do."""

    def __init__(
        self, network: Network, adam: Adam, x: Tensor, y: Tensor, beta: Tensor, seed: Tensor,
        precision: str = "float32", *, captured: bool = True, ties: Ties | None = None, reach: Tensor | None = None,
    ) -> None:  # fmt: skip
        from squad.train import triton_kernels  # needs Triton

        self.kernels = triton_kernels
        self.network, self.adam = network, adam
        self.x, self.y = x.contiguous(), y.contiguous()
        self.beta, self.seed, self.ties, self.reach = beta, seed, ties, reach
        # Tensors of its own, that a graph reads.
        self.streams = [None if stream is None else stream.clone() for stream in network.streams(seed)]
        self.precision, self.captured = precision, captured
        self.graphs: list[_Graph] = []  # the longest first
        device, members = y.device, len(seed)
        self.index = torch.zeros((), dtype=torch.int64, device=device)
        self.step = torch.zeros(members, dtype=torch.int64, device=device)
        self.totals = torch.zeros(2, members, device=device)
        # The output layer, if a kernel takes it together with the loss.
        last = network.stages[-1].layer
        assert isinstance(last, Linear)
        small = last.bias is not None and triton_kernels.has_head(last.in_features, last.out_features)
        self.last = last if small else None
        sizes = [parameter[0].numel() for parameter in adam.parameters]
        self.chunks = triton_kernels.adam_chunks(sizes, adam.decaying, ALIGN).to(device)
        self.addresses = torch.zeros(len(sizes), dtype=torch.int64, device=device)  # of the gradients
        self.allocated = False

    def epoch(self, order: Tensor, first: int | Tensor) -> Tensor:
        """As Steps says."""
        with on(self.y.device):
            return self._epoch(order, first)

    def _epoch(self, order: Tensor, first: int | Tensor) -> Tensor:
        if not self.allocated:
            self._allocate(order)
            if self.captured:
                self._capture()
        self.order.copy_(order)
        self.index.zero_()
        self.step.copy_(first) if isinstance(first, Tensor) else self.step.fill_(first)
        self._refresh()
        self.totals.zero_()
        left = order.shape[1]
        for graph in self.graphs:
            while left >= graph.steps:
                graph.replay()
                left -= graph.steps
        for _ in range(left):
            self._step()
        return self.totals.clone()

    def _allocate(self, order: Tensor) -> None:
        """What stays at its address: the order of rows, and a batch."""
        self.allocated = True
        members, _, batch = order.shape
        self.order = order.clone(memory_format=torch.contiguous_format)
        self.batch = self.x.new_empty(members, batch, self.x.shape[1])
        self.labels = self.y.new_empty(members, batch)
        # The KL's share in the gradient: beta / N for each row.
        self.each_share = torch.empty_like(self.beta)
        self.share = self.each_share.unsqueeze(1).expand(members, batch)
        self._refresh()

    def _refresh(self) -> None:
        """Bring up to date what was made of beta and seed."""
        torch.div(self.beta, self.labels.shape[1], out=self.each_share)
        for stream, new in zip(self.streams, self.network.streams(self.seed), strict=True):
            if stream is not None and new is not None:
                stream.copy_(new)

    def _capture(self) -> None:
        """Take a few steps, which compiles kernels and fills caches, undo them, and record one.

        What cannot be captured is launched step by step, with a warning.
        """
        self.side = torch.cuda.Stream()
        changing = [*self.adam.state().values(), self.index, self.step, self.totals]
        before = [tensor.clone() for tensor in changing]
        try:
            # Warm-up and capture are torch's recipe: on a stream of their own.
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                for _ in range(2):
                    self.index.zero_()  # an epoch may have a single batch
                    self._step()
            torch.cuda.current_stream().wait_stream(self.side)
            for steps in (UNROLLED, 1):
                if steps <= self.order.shape[1]:
                    self.graphs.append(self._captured(steps))
        except RuntimeError as error:
            self.captured = False
            self.graphs.clear()
            warnings.warn(
                f"A training step could not be captured as a CUDA graph ({error}); steps are launched one by one.",
                RuntimeWarning,
                stacklevel=4,
            )
        finally:
            torch.cuda.current_stream().wait_stream(self.side)  # whatever it was that failed
            for tensor, old in zip(changing, before, strict=True):
                tensor.copy_(old)

    def _captured(self, steps: int) -> "_Graph":
        """So many steps as one graph.

        In a graph gradients lie where they lay when it was captured: each of its steps has a list of addresses.
        """
        graph, held = torch.cuda.CUDAGraph(), self.addresses
        lists = held.new_zeros(steps, len(held) + len(held) % 2)[:, : len(held)]  # each begins at 16 bytes
        found: list[list[int]] = []
        self.adam.zero_grad()
        pool = self.graphs[0].graph.pool() if self.graphs else None  # never replayed at once
        try:
            with (
                _own_workspace(),
                torch.cuda.graph(graph, pool=pool, stream=self.side, capture_error_mode="thread_local"),
            ):
                for own in lists:
                    self.addresses = own
                    self._step(recording=True)
                    found.append(self._pointers())
        finally:
            self.addresses = held
        lists.copy_(torch.tensor(found))
        return _Graph(graph, steps, lists)

    def _step(self, recording: bool = False) -> None:
        triton_kernels, adam = self.kernels, self.adam
        adam.zero_grad()
        triton_kernels.gather(self.x, self.y, self.order, self.index, self.batch, self.labels)
        with matmul_precision(self.precision, self.y.device):
            if self.reach is None:
                self._gradients()
            else:  # of two passes, each with a loss of its own
                rest = self.labels, self.beta, self.streams, self.step, self.reach
                self.totals += beside_neighbours(self.network, self.batch, *rest)
                adam.steps += 1
        _tie(self.ties)
        for parameter in adam.parameters:
            if parameter.grad is None or not parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
            parameter.grad = parameter.grad.contiguous()
        if not recording:
            self.addresses.copy_(torch.tensor(self._pointers()))
        triton_kernels.adam(
            adam.flat, adam.mean, adam.square, self.addresses, self.chunks, adam.lr, adam.decay, adam.steps, self.index,
            self.step, adam.betas, adam.epsilon,
        )  # fmt: skip

    def _gradients(self) -> None:
        """Those of the batch, by kernels that also add to the totals and count the step."""
        triton_kernels, adam = self.kernels, self.adam
        found, kls = self.network.run(self.batch, seed=self.streams, step=self.step, head=self.last is None)
        found, kls = found.contiguous(), [kl.contiguous() for kl in kls]
        rest = self.labels, [kl.detach() for kl in kls], self.beta
        if self.last is None:
            slope = torch.empty_like(found)
            triton_kernels.loss(found.detach(), *rest, slope, self.totals, adam.steps)
        else:
            weight, bias = self.last.weight, self.last.bias
            assert bias is not None
            slope, weight.grad, bias.grad = triton_kernels.head(
                found.detach(), weight.detach(), bias.detach(), *rest, self.totals, adam.steps, self.precision
            )
        by = [slope, *[self.share] * len(kls)]
        ends = [(end, grad) for end, grad in zip([found, *kls], by, strict=True) if end.requires_grad]
        if ends:  # not everything is frozen
            torch.autograd.backward([end for end, _ in ends], [grad for _, grad in ends])

    def _pointers(self) -> list[int]:
        """Where the gradients are."""
        return [parameter.grad.data_ptr() for parameter in self.adam.parameters if parameter.grad is not None]


@contextlib.contextmanager
def _own_workspace() -> Iterator[None]:
    """Inside, a graph is captured whose matrix products share no memory with those of others.

    torch keeps a workspace of cuBLAS for each stream, and graphs that are captured on one stream have its address in
    them: replayed at once, as populations do, they would write over each other's sums, and when one is deleted it
    takes the memory along (pytorch#193402).  Streams of their own are no way out: torch gives out the same 32 again and
    again.  Where none is kept, a workspace is made while capturing, in the graph's own pool, and forgotten afterwards;
    so does torch's compiler (``clear_cublas_manager``).  Workspaces are the process's: no other thread may multiply
    matrices on a GPU meanwhile.
    """
    torch.cuda.synchronize()  # whatever still uses one
    torch._C._cuda_clearCublasWorkspaces()
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()


class _Graph(NamedTuple):
    """A captured graph.

    Attributes:
        graph: of CUDA.
        steps: how many it takes.
        addresses: of their gradients, (steps, parameters), which its kernels read.
    """

    graph: torch.cuda.CUDAGraph
    steps: int
    addresses: Tensor

    def replay(self) -> None:
        """Take its steps."""
        self.graph.replay()
