"""Each kernel of a training step compared with torch, in Triton's interpreter."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from squad.train import triton_kernels


@pytest.mark.parametrize(("features", "steps", "index"), [(1, 1, 0), (7, 3, 2), (1500, 2, 1)])
def test_a_batch_is_gathered(features: int, steps: int, index: int) -> None:
    x, y = torch.randn(20, features), torch.randint(10, (20,))
    order = torch.randint(20, (2, steps, 3))
    x_out, y_out = torch.full((2, 3, features), float("nan")), torch.full((2, 3), -1)
    triton_kernels.gather(x, y, order, torch.tensor(index), x_out, y_out)
    assert torch.equal(x_out, x[order[:, index]])
    assert torch.equal(y_out, y[order[:, index]])


#: Rows and classes; tests/slow has many of both, which take the interpreter longest.
SIZES = [(rows, classes) for classes in (2, 3, 300) for rows in (1, 9, 300) if rows * classes < 300**2]


@pytest.mark.parametrize(
    ("layers", "rows", "classes"), [*((2, *size) for size in SIZES), (2, 40, 300), (0, 9, 3), (1, 9, 3), (4, 9, 3)]
)
def test_the_loss_and_its_gradient(layers: int, rows: int, classes: int) -> None:
    members = 2
    logits = (5 * torch.randn(members, rows, classes)).requires_grad_()
    y, kls = torch.randint(classes, (members, rows)), [torch.rand(members, rows) for _ in range(layers)]
    beta, before = torch.tensor([0.1, 2.0]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    slope, totals = torch.full_like(logits, float("nan")), before.clone()
    steps = torch.tensor([4.0, 7.0, -5.0])  # the last element is beyond the members
    triton_kernels.loss(logits.detach(), y, kls, beta, slope, totals, steps[:members])
    assert steps.tolist() == [5, 8, -5]
    nll = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view(members, rows).mean(1)
    (grad,) = torch.autograd.grad(nll.sum(), logits)
    mean = torch.stack(kls).sum(0).mean(1) if kls else torch.zeros(members)
    torch.testing.assert_close(slope, grad, atol=1e-7, rtol=1e-5)
    torch.testing.assert_close(totals, before + torch.stack([nll.detach() + beta * mean, mean]))


def test_the_loss_of_large_logits_is_finite() -> None:
    logits = torch.tensor([[[1e4, -1e4, 0.0], [-1e30, 1e30, 1e30]]])
    slope, totals = torch.empty_like(logits), torch.zeros(2, 1)
    triton_kernels.loss(logits, torch.tensor([[1, 1]]), [], torch.ones(1), slope, totals, torch.zeros(1))
    assert totals[0].item() == pytest.approx((2e4 + math.log(2)) / 2)
    torch.testing.assert_close(slope, torch.tensor([[[0.5, -0.5, 0.0], [0.0, -0.25, 0.25]]]))


def test_nan_does_not_spread_to_other_members() -> None:
    logits = torch.randn(2, 5, 3)
    logits[0, 2, 1] = float("nan")
    slope, totals = torch.empty_like(logits), torch.zeros(2, 2)
    y, kl = torch.zeros(2, 5, dtype=torch.int64), torch.rand(2, 5)
    triton_kernels.loss(logits, y, [kl], torch.ones(2), slope, totals, torch.zeros(2))
    assert totals[0].isnan().tolist() == [True, False]
    assert slope[1].isfinite().all()


#: Shapes of parameters: one that fills a chunk, one that needs three, a single number.
SHAPES = (triton_kernels.ADAM_BLOCK,), (5, 450), (1,)
DECAYED = [True, True, False]
ALIGN = 32


def aligned(parts: list[Tensor], fill: float) -> Tensor:
    """Concatenate tensors (M, ...), each padded to a multiple of ALIGN."""
    flat = [part.flatten(1) for part in parts]
    return torch.cat([F.pad(part, (0, -part.shape[1] % ALIGN), value=fill) for part in flat], 1)


def test_steps_of_adam() -> None:
    """They equal torch.optim's for each member with its own settings; padding stays unchanged."""
    members, lr, decay = 2, [1e-3, 2e-2], [0.1, 0.0]
    start = [torch.randn(members, *shape) for shape in SHAPES]
    chunks = triton_kernels.adam_chunks([part[0].numel() for part in start], DECAYED, ALIGN)
    assert len(chunks) == 1 + 3 + 1
    flat, mean, square = (
        aligned(start, 7.0),
        aligned([0 * part for part in start], 7.0),
        aligned([0 * p for p in start], 7.0),
    )
    steps, index, step = torch.zeros(members), torch.tensor(4), torch.tensor([2**33, 5])
    leaves = [[part[m].clone().requires_grad_() for part in start] for m in range(members)]
    torch_adams = [
        torch.optim.Adam(
            [{"params": [leaf], "weight_decay": decay[m] * decays} for leaf, decays in zip(own, DECAYED, strict=True)],
            lr[m],
        )
        for m, own in enumerate(leaves)
    ]
    for _ in range(3):
        grads = [torch.randn_like(part) for part in start]
        addresses = torch.tensor([grad.data_ptr() for grad in grads])
        steps += 1
        triton_kernels.adam(
            flat, mean, square, addresses, chunks, torch.tensor(lr), torch.tensor(decay), steps, index, step,
            (0.9, 0.999), 1e-8,
        )  # fmt: skip
        for m, adam in enumerate(torch_adams):
            for leaf, grad in zip(leaves[m], grads, strict=True):
                leaf.grad = grad[m].clone()
            adam.step()
    want = aligned([torch.stack([own[i].detach() for own in leaves]) for i in range(len(SHAPES))], 7.0)
    torch.testing.assert_close(flat, want, atol=1e-6, rtol=1e-6)
    padding = aligned([0 * part for part in start], 7.0) == 7
    assert padding.any()
    for matrix in (flat, mean, square):
        assert torch.equal(matrix == 7, padding)
    assert (steps.tolist(), index.item(), step.tolist()) == ([3, 3], 4 + 3, [2**33 + 3, 5 + 3])


@pytest.mark.parametrize("taken", [0.0, 999.0, 1e6])
def test_late_steps_of_adam_are_precise(taken: float) -> None:
    """1 - .999^t, compared with float64 from given moments; from 0, so that the step itself is compared."""
    flat, (mean, square, grad) = torch.zeros(1, 64), torch.rand(3, 1, 64) + 0.5
    lr, decay, steps = torch.tensor([0.1]), torch.tensor([0.0]), torch.tensor([taken + 1])
    m = 0.9 * mean.double() + 0.1 * grad.double()
    s = 0.999 * square.double() + 0.001 * grad.double().square()
    t = taken + 1
    want = -0.1 * (m / (1 - 0.9**t)) / ((s / (1 - 0.999**t)).sqrt() + 1e-8)
    chunks = triton_kernels.adam_chunks([64], [False], ALIGN)
    triton_kernels.adam(
        flat, mean, square, torch.tensor([grad.data_ptr()]), chunks, lr, decay, steps, torch.tensor(0),
        torch.tensor([0]), (0.9, 0.999), 1e-8,
    )  # fmt: skip
    for got, exact in ((flat, want), (mean, m), (square, s)):
        torch.testing.assert_close(got.double(), exact, atol=0, rtol=1e-6)


def test_adam_leaves_infinite_parameters_and_members_with_learning_rate_zero_unchanged() -> None:
    """A bias of -inf belongs to a padding bin, a learning rate of 0 to an empty slot."""
    flat, mean, square = torch.randn(2, 64), torch.zeros(2, 64), torch.zeros(2, 64)
    flat[0, :3] = -float("inf")
    before, grad = flat.clone(), torch.randn(2, 64)
    grad[0, :3] = 0.0
    index, step = torch.tensor(0), torch.tensor([7, 9])
    triton_kernels.adam(
        flat, mean, square, torch.tensor([grad.data_ptr()]), triton_kernels.adam_chunks([64], [False], ALIGN),
        torch.tensor([0.1, 0.0]), torch.tensor([0.3, 0.3]), torch.ones(2), index, step, (0.9, 0.999), 1e-8,
    )  # fmt: skip
    assert torch.equal(flat[0, :3], before[0, :3])
    assert bool((flat[0, 3:] - before[0, 3:]).abs().ge(0.099).all())
    assert torch.equal(flat[1], before[1])
    assert not mean[1].any()
    assert (index.item(), step.tolist()) == (1, [8, 10])
