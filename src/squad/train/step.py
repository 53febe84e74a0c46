"""The training steps of an epoch: one by one on any device, or on a GPU as a captured CUDA graph.

Both compute the same.  A graph has fixed memory addresses, so everything that changes from step to step is a tensor on
the device: the order of the rows, the index of the batch, the number of the step, which selects the noise.
"""

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from squad.core.threads import limit_threads
from squad.layers import Linear
from squad.models import Network
from squad.ops import has_triton
from squad.ops.matmul_precision import matmul_precision
from squad.ops.triton_launch import on_device
from squad.train import manual_backward
from squad.train.adam import ALIGN, Adam

__all__ = ["KernelSteps", "PlainSteps", "Steps", "make_steps"]

#: Values of latents, (M, C, K), with a code of how each member learns them, (M, 1, 1).
Ties: TypeAlias = Sequence[tuple[nn.Parameter, Tensor]]
#: Codes of how a member learns its values; see :func:`tied`.
FIXED, PER_LAYER, PER_NEURON = 0, 1, 2
#: Noise seeds: one per member, (M,), or the result of a network's ``streams``.
Seeds: TypeAlias = Tensor | list[Tensor | None]

#: Steps per captured graph: with fewer graphs to launch, the GPU does not wait for the host.
UNROLLED = 8

#: Size in bytes of the block whose release makes the C allocator keep a step's freed memory.
ALLOCATOR_HINT_BYTES = 31 << 20


class Steps(Protocol):
    """Protocol of the training steps of an epoch."""

    def epoch(self, order: Tensor, first: int | Tensor) -> Tensor:
        """Take the steps of an epoch.

        Between two epochs members may be changed in place: parameters, moments, settings, beta and seed.

        Args:
            order: Rows of each member's batches, (M, steps, batch).
            first: Number of the first step in the run, of all members or of each, (M,); it selects the noise.

        Returns:
            Losses and KLs of the members, summed over the steps, (2, M).
        """


def make_steps(
    network: Network, adam: Adam, x: Tensor, y: Tensor, beta: Tensor, seed: Tensor, reach: Tensor | None,
    precision: str, ties: Ties | None = None,
) -> Steps:  # fmt: skip
    """Create the fastest kind of steps for these tensors.

    Args:
        network: Network with M members.
        adam: Optimizer of its parameters.
        x: All rows, (N, in).
        y: Their labels, (N,).
        beta: KL multipliers, (M,).
        seed: Noise seeds, (M,).
        reach: Size of adversarial perturbations, (M or 1, 1, in); None without adversarial training.
        precision: Precision of matrix products on a GPU.
        ties: How members learn values that are stored per neuron; see :func:`tied`.

    Returns:
        Steps that run on the device of ``y``.
    """
    device = y.device
    if device.type == "cuda" and x.device == device and x.dtype == torch.float32 and has_triton():
        return KernelSteps(network, adam, x, y, beta, seed, precision, ties=ties, reach=reach)
    return PlainSteps(network, adam, x, y, beta, seed, reach, precision, ties)


def tied(grad: Tensor, ties: Tensor) -> Tensor:
    """Return the gradient of values that are stored per neuron but may be learned per layer, or not at all.

    Args:
        grad: Gradient of each neuron's values, (M, C, K).
        ties: Code of each member, (M, 1, 1): PER_NEURON keeps the gradient; PER_LAYER gives all neurons the sum of
            their gradients, so that values that start equal stay equal; FIXED sets it to zero.
    """
    return torch.where(ties == PER_NEURON, grad, torch.where(ties == PER_LAYER, grad.sum(-1, keepdim=True), 0))


def _tie_gradients(ties: Ties | None) -> None:
    for parameter, codes in ties or ():
        if parameter.grad is not None:
            parameter.grad = tied(parameter.grad, codes)


class PlainSteps:
    """Training steps taken one by one, on any device; for the arguments see :func:`make_steps`."""

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
            # glibc keeps freed memory up to twice the size of the largest block freed so far, 32 MiB at most.  Without
            # this block, which is never touched, each step would return its memory to the system and request it again,
            # page by page.  With other C libraries it has no effect.
            torch.empty(ALLOCATOR_HINT_BYTES, dtype=torch.uint8)

    def epoch(self, order: Tensor, first: int | Tensor) -> Tensor:
        """Take the steps of an epoch; see :meth:`Steps.epoch`."""
        totals = torch.zeros(2, len(self.seed), dtype=self.x.dtype, device=self.y.device)
        with limit_threads(self.adam.flat.numel() * order.shape[-1], self.y.device):
            for index, rows in enumerate(order.unbind(1)):  # (M, batch)
                totals += self._step(rows, first + index)
        return totals

    def _step(self, rows: Tensor, number: int | Tensor) -> Tensor:
        self.adam.zero_grad()
        # Not self.x[rows], which is several times slower on the CPU.
        batch = self.x.index_select(0, rows.flatten().to(self.x.device)).to(self.y.device)
        batch = batch.view(*rows.shape, *batch.shape[1:])
        with matmul_precision(self.precision, self.y.device):
            totals = backward(self.network, batch, self.y[rows], self.beta, self.seed, number, self.reach)
        _tie_gradients(self.ties)
        self.adam.step()
        return totals


def backward(
    network: Network, x: Tensor, y: Tensor, beta: Tensor, seed: Tensor, step: int | Tensor, reach: Tensor | None
) -> Tensor:
    """Set the gradients of the members' losses on a batch, and return losses and KLs, (2, M).

    The parameters must not have gradients before.  With ``reach``, the loss is averaged over each row and its
    adversarial example by the fast gradient sign method, as in deep ensembles.

    References:
        Goodfellow, Shlens and Szegedy, "Explaining and harnessing adversarial examples", ICLR 2015.
    """
    if reach is None and manual_backward.supports(network, x):
        return manual_backward.backward(network, x, y, beta, seed, step)
    if reach is None:
        loss, kl = losses(network, x, y, beta, seed, step)
        loss.backward(torch.ones_like(loss))
        return torch.stack([loss.detach(), kl.detach()])
    return adversarial_backward(network, x, y, beta, seed, step, reach)


def adversarial_backward(
    network: Network, x: Tensor, y: Tensor, beta: Tensor, seed: Seeds, step: int | Tensor, reach: Tensor
) -> Tensor:
    """Do the same as :func:`backward` for each row and its adversarial example, with equal weights."""
    x = x.detach().requires_grad_()
    loss, kl = losses(network, x, y, beta, seed, step)
    (loss.sum() / 2).backward()
    assert x.grad is not None
    adversarial, _ = losses(network, x.detach() + reach * x.grad.sign(), y, beta, seed, step)
    (adversarial.sum() / 2).backward()
    return torch.stack([(loss.detach() + adversarial.detach()) / 2, kl.detach()])


def losses(
    network: Network, x: Tensor, y: Tensor, beta: Tensor, seed: Seeds, step: int | Tensor
) -> tuple[Tensor, Tensor]:
    """Return mean cross-entropy + beta x mean KL, and the mean KL, of each member: (M,), (M,)."""
    logits, kls = network.run(x, seed=seed, step=step)
    per_row = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view(y.shape)
    if not kls:
        return per_row.mean(1), per_row.new_zeros(len(per_row))
    kl = sum(kls[1:], kls[0]).mean(1).to(per_row.dtype)
    return per_row.mean(1) + beta * kl, kl


class KernelSteps:
    """Training steps of few Triton kernels, captured as a CUDA graph; for the arguments see :func:`make_steps`.

    ``captured=False`` launches the kernels one by one, as tests do.
    """

    def __init__(
        self, network: Network, adam: Adam, x: Tensor, y: Tensor, beta: Tensor, seed: Tensor,
        precision: str = "float32", *, captured: bool = True, ties: Ties | None = None, reach: Tensor | None = None,
    ) -> None:  # fmt: skip
        from squad.train import triton_kernels  # needs Triton

        self.kernels = triton_kernels
        self.network, self.adam = network, adam
        self.x, self.y = x.contiguous(), y.contiguous()
        self.beta, self.seed, self.ties, self.reach = beta, seed, ties, reach
        # Copies with fixed addresses, which a graph reads.
        self.streams = [None if stream is None else stream.clone() for stream in network.streams(seed)]
        self.precision, self.captured = precision, captured
        self.graphs: list[_Graph] = []  # longest first
        device, members = y.device, len(seed)
        self.index = torch.zeros((), dtype=torch.int64, device=device)
        self.step = torch.zeros(members, dtype=torch.int64, device=device)
        self.totals = torch.zeros(2, members, device=device)
        # The output layer, if it is small enough for the kernel that computes it together with the loss.
        last = network.stages[-1].layer
        assert isinstance(last, Linear)
        small = last.bias is not None and triton_kernels.has_head(last.in_features, last.out_features)
        self.last = last if small else None
        sizes = [parameter[0].numel() for parameter in adam.parameters]
        self.chunks = triton_kernels.adam_chunks(sizes, adam.decaying, ALIGN).to(device)
        self.addresses = torch.zeros(len(sizes), dtype=torch.int64, device=device)  # of the gradients
        self.allocated = False

    def epoch(self, order: Tensor, first: int | Tensor) -> Tensor:
        """Take the steps of an epoch; see :meth:`Steps.epoch`."""
        with on_device(self.y.device):
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
        """Allocate the tensors with fixed addresses: the order of rows, and a batch."""
        self.allocated = True
        members, _, batch = order.shape
        self.order = order.clone(memory_format=torch.contiguous_format)
        self.batch = self.x.new_empty(members, batch, self.x.shape[1])
        self.labels = self.y.new_empty(members, batch)
        # The gradient of the loss with respect to each row's KL: beta / N.
        self.member_kl_weight = torch.empty_like(self.beta)
        self.kl_weight = self.member_kl_weight.unsqueeze(1).expand(members, batch)
        self._refresh()

    def _refresh(self) -> None:
        """Recompute the tensors that depend on beta and seed."""
        torch.div(self.beta, self.labels.shape[1], out=self.member_kl_weight)
        for stream, new in zip(self.streams, self.network.streams(self.seed), strict=True):
            if stream is not None and new is not None:
                stream.copy_(new)

    def _capture(self) -> None:
        """Take a few steps, which compiles kernels and fills caches, undo them, and capture graphs.

        If capturing fails, steps are launched one by one, with a warning.
        """
        self.side = torch.cuda.Stream()
        changing = [*self.adam.state().values(), self.index, self.step, self.totals]
        before = [tensor.clone() for tensor in changing]
        try:
            # Warm-up and capture on a separate stream, as torch's documentation recommends.
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                for _ in range(2):
                    self.index.zero_()  # an epoch may have a single batch
                    self._step()
            torch.cuda.current_stream().wait_stream(self.side)
            for steps in (UNROLLED, 1):
                if steps <= self.order.shape[1]:
                    self.graphs.append(self._capture_graph(steps))
        except RuntimeError as error:
            self.captured = False
            self.graphs.clear()
            warnings.warn(
                f"A training step could not be captured as a CUDA graph ({error}). Training is slower without it: "
                "steps are launched one by one.",
                RuntimeWarning,
                stacklevel=4,
            )
        finally:
            torch.cuda.current_stream().wait_stream(self.side)  # also after an error
            for tensor, old in zip(changing, before, strict=True):
                tensor.copy_(old)

    def _capture_graph(self, steps: int) -> "_Graph":
        """Capture several steps as one graph.

        In a graph, gradients stay at the addresses they had during capture: each step has its own list of addresses.
        """
        graph, eager_addresses = torch.cuda.CUDAGraph(), self.addresses
        count = len(eager_addresses)
        addresses = eager_addresses.new_zeros(steps, count + count % 2)[:, :count]  # rows are aligned to 16 bytes
        pointers: list[list[int]] = []
        self.adam.zero_grad()
        pool = self.graphs[0].graph.pool() if self.graphs else None  # graphs are never replayed concurrently
        try:
            with (
                _own_workspace(),
                torch.cuda.graph(graph, pool=pool, stream=self.side, capture_error_mode="thread_local"),
            ):
                for row in addresses:
                    self.addresses = row
                    self._step(recording=True)
                    pointers.append(self._pointers())
        finally:
            self.addresses = eager_addresses
        addresses.copy_(torch.tensor(pointers))
        return _Graph(graph, steps, addresses)

    def _step(self, recording: bool = False) -> None:
        triton_kernels, adam = self.kernels, self.adam
        adam.zero_grad()
        triton_kernels.gather(self.x, self.y, self.order, self.index, self.batch, self.labels)
        with matmul_precision(self.precision, self.y.device):
            if self.reach is None:
                self._gradients()
            else:  # two passes, each with its own loss
                rest = self.labels, self.beta, self.streams, self.step, self.reach
                self.totals += adversarial_backward(self.network, self.batch, *rest)
                adam.steps += 1
        _tie_gradients(self.ties)
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
        """Set the gradients of the batch, with kernels that also add to the totals and count the step."""
        triton_kernels, adam = self.kernels, self.adam
        # The logits, or the input of the output layer if a kernel computes it.
        output, kls = self.network.run(self.batch, seed=self.streams, step=self.step, head=self.last is None)
        output, kls = output.contiguous(), [kl.contiguous() for kl in kls]
        rest = self.labels, [kl.detach() for kl in kls], self.beta
        if self.last is None:
            output_grad = torch.empty_like(output)
            triton_kernels.loss(output.detach(), *rest, output_grad, self.totals, adam.steps)
        else:
            weight, bias = self.last.weight, self.last.bias
            assert bias is not None
            output_grad, weight.grad, bias.grad = triton_kernels.head(
                output.detach(), weight.detach(), bias.detach(), *rest, self.totals, adam.steps, self.precision
            )
        grads = [output_grad, *[self.kl_weight] * len(kls)]
        pairs = [(tensor, grad) for tensor, grad in zip([output, *kls], grads, strict=True) if tensor.requires_grad]
        if pairs:  # not everything is frozen
            torch.autograd.backward([tensor for tensor, _ in pairs], [grad for _, grad in pairs])

    def _pointers(self) -> list[int]:
        """Return the addresses of the gradients."""
        return [parameter.grad.data_ptr() for parameter in self.adam.parameters if parameter.grad is not None]


@contextlib.contextmanager
def _own_workspace() -> Iterator[None]:
    """Context in which a captured graph gets its own cuBLAS workspace.

    torch keeps one cuBLAS workspace per stream, and graphs captured on the same stream contain its address.  Replayed
    concurrently, as populations do, they would overwrite each other's sums, and the deletion of one would free the
    memory of all (pytorch#193402).  Separate streams do not help, because torch hands out the same 32 streams
    repeatedly.  If no workspace is kept, one is created during capture, in the graph's own memory pool, and forgotten
    afterwards; torch's compiler does the same (``clear_cublas_manager``).  Workspaces belong to the process: no other
    thread may compute matrix products on a GPU meanwhile.
    """
    torch.cuda.synchronize()  # until no workspace is in use
    torch._C._cuda_clearCublasWorkspaces()
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()


class _Graph(NamedTuple):
    """A captured CUDA graph.

    Attributes:
        graph: The graph.
        steps: Number of training steps it takes.
        addresses: Addresses of the gradients, (steps, parameters), which its kernels read.
    """

    graph: torch.cuda.CUDAGraph
    steps: int
    addresses: Tensor

    def replay(self) -> None:
        """Take the steps of the graph."""
        self.graph.replay()
