"""Dropout in plain torch, and as a kernel in Triton's interpreter."""

import pytest
import torch
from torch import Tensor

from squad.core.noise import Key, make_key, uniform
from squad.ops import dropout, triton_dropout


def inputs(members: int = 3, rows: int = 5, features: int = 7) -> tuple[Tensor, Tensor, Key]:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(members, rows, features, generator=g, dtype=torch.float32)
    return x, torch.linspace(0, 0.8, members), make_key(torch.arange(members) + 2**40, 6)


@pytest.mark.parametrize(("members", "rows", "features"), [(1, 1, 1), (3, 5, 7), (2, 70, 100)])
def test_kernel_agrees_with_plain_code(members: int, rows: int, features: int) -> None:
    x, rate, key = inputs(members, rows, features)
    weights = torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    found = []
    for function in (dropout.drop, triton_dropout.drop):
        leaf = x.clone().requires_grad_()
        out = function(leaf, rate, key)
        (grad,) = torch.autograd.grad((out * weights).sum(), leaf)
        found.append((out.detach(), grad))
    for plain, fused in zip(*found, strict=True):
        assert torch.equal(plain, fused)


def test_input_shared_by_members_is_not_copied() -> None:
    x, rate, key = inputs()
    shared = x[:1].expand(3, -1, -1)
    assert torch.equal(triton_dropout.drop(shared, rate, key), dropout.drop(shared.contiguous(), rate, key))


def test_second_derivatives() -> None:
    x, rate, key = inputs()
    x = x.requires_grad_()
    (grad,) = torch.autograd.grad(triton_dropout.drop(x.square(), rate, key).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), x)
    kept = uniform(key, 5, 1, 7).squeeze(-2) >= rate.view(-1, 1, 1)
    torch.testing.assert_close(second, torch.where(kept, 2 / (1 - rate.view(-1, 1, 1)), 0.0).expand_as(second))


def test_vmap_equals_a_loop() -> None:
    x, rate, key = inputs()
    many = torch.stack([x, 2 * x])
    mapped = torch.func.vmap(lambda one: triton_dropout.drop(one, rate, key))(many)
    assert torch.equal(mapped, torch.stack([triton_dropout.drop(one, rate, key) for one in many]))


def test_jacobians() -> None:
    x, rate, key = inputs(2, 2, 3)

    def function(x: Tensor) -> Tensor:
        return triton_dropout.drop(x, rate, key)

    want = torch.autograd.functional.jacobian(function, x)
    assert torch.equal(torch.func.jacrev(function)(x), want)
    assert torch.equal(torch.autograd.functional.jacobian(function, x, vectorize=True), want)
