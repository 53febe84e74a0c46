"""The kernel that computes output layer and loss, compared with torch."""

import pytest
import torch
import torch.nn.functional as F

from squad.train import triton_kernels


@pytest.mark.parametrize(
    ("members", "rows", "features", "classes", "layers"),
    [(1, 1, 1, 2, 0), (2, 9, 5, 3, 1), (3, 130, 32, 10, 2), (2, 70, 64, 32, 3)],
)
def test_gradients_and_totals(members: int, rows: int, features: int, classes: int, layers: int) -> None:
    g = torch.Generator().manual_seed(0)
    z = torch.randn(members, rows, features, generator=g).requires_grad_()
    # As in training, a part of a longer row for each member.
    flat = torch.randn(members, features * classes + classes + 5, generator=g)
    weight = flat[:, : features * classes].view(members, features, classes).requires_grad_()
    bias = flat[:, features * classes : features * classes + classes].requires_grad_()
    y = torch.randint(classes, (members, rows), generator=g)
    kls = [torch.rand(members, rows, generator=g) for _ in range(layers)]
    beta, before = torch.linspace(0.1, 2, members), torch.rand(2, members, generator=g)
    totals = before.clone()
    steps = torch.arange(members + 1.0)
    found = triton_kernels.head(
        z.detach(), weight.detach(), bias.detach(), y, kls, beta, totals, steps[:members], "float32"
    )
    assert torch.equal(steps, torch.tensor([*(m + 1.0 for m in range(members)), float(members)]))
    logits = z @ weight + bias.unsqueeze(1)
    nll = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view(members, rows).mean(1)
    for got, want in zip(found, torch.autograd.grad(nll.sum(), [z, weight, bias]), strict=True):
        torch.testing.assert_close(got, want, atol=1e-6, rtol=1e-5)
    mean = torch.stack(kls).sum(0).mean(1) if kls else torch.zeros(members)
    torch.testing.assert_close(totals, before + torch.stack([nll.detach() + beta * mean, mean]))


def test_large_output_layers_are_not_supported() -> None:
    assert triton_kernels.has_head(32, 10)
    assert not triton_kernels.has_head(256, 10)
    assert not triton_kernels.has_head(32, 100)
