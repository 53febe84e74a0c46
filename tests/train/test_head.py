"""The output layer and the loss in one kernel, against torch."""

import pytest
import torch
import torch.nn.functional as F

from squad.train import kernels


@pytest.mark.parametrize(
    ("members", "rows", "features", "classes", "has_kl"),
    [(1, 1, 1, 2, False), (2, 9, 5, 3, True), (3, 130, 32, 10, True), (2, 70, 64, 32, False)],
)
def test_gradients_and_totals(members: int, rows: int, features: int, classes: int, has_kl: bool) -> None:
    g = torch.Generator().manual_seed(0)
    z = torch.randn(members, rows, features, generator=g).requires_grad_()
    # As in training: a part of a longer row for each member.
    flat = torch.randn(members, features * classes + classes + 5, generator=g)
    weight = flat[:, : features * classes].view(members, features, classes).requires_grad_()
    bias = flat[:, features * classes : features * classes + classes].requires_grad_()
    y, kl = torch.randint(classes, (members, rows), generator=g), torch.rand(members, rows, generator=g)
    beta, before = torch.linspace(0.1, 2, members), torch.rand(2, members, generator=g)
    totals = before.clone()
    steps = torch.arange(members + 1.0)
    found = kernels.head(
        z.detach(), weight.detach(), bias.detach(), y, kl if has_kl else None, beta, totals, steps[:members], "float32"
    )
    assert torch.equal(steps, torch.tensor([*(m + 1.0 for m in range(members)), float(members)]))
    logits = z @ weight + bias.unsqueeze(1)
    nll = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view(members, rows).mean(1)
    for got, want in zip(found, torch.autograd.grad(nll.sum(), [z, weight, bias]), strict=True):
        torch.testing.assert_close(got, want, atol=1e-6, rtol=1e-5)
    mean = kl.mean(1) if has_kl else torch.zeros(members)
    torch.testing.assert_close(totals, before + torch.stack([nll.detach() + beta * mean, mean]))


def test_what_is_too_large_is_left_to_torch() -> None:
    assert kernels.has_head(32, 10)
    assert not kernels.has_head(256, 10)
    assert not kernels.has_head(32, 100)
