"""Sums over rows in a kernel, and the affine map that uses it, in Triton's interpreter."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from squad.ops import triton_sums
from squad.ops.affine import affine


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 70, 33), (2, 64, 4, 5), (2, 130, 100)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_are_summed_in_float32(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape).to(dtype)
    (out,) = triton_sums.sum_rows(x)
    assert out.dtype == torch.float32
    assert out.shape == (shape[0], *shape[2:])
    torch.testing.assert_close(out.double(), x.double().sum(1), atol=1e-5, rtol=1e-6)


def test_rows_in_another_memory_order() -> None:
    x = torch.randn(2, 7, 5, 3).transpose(1, 3)
    assert not x.is_contiguous()
    torch.testing.assert_close(triton_sums.sum_rows(x)[0], x.sum(1))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_several_tensors_in_one_call(count: int) -> None:
    """With different members, rows and widths, including one with too many rows and an empty one."""
    shapes = [(2, 300, 40), (3, 4, 7, 5), (1, 2000, 3), (2, 5, 0), (1, 3, 2000)]
    tensors = [torch.randn(shape) for shape in shapes[:count]]
    for out, x in zip(triton_sums.sum_rows(*tensors), tensors, strict=True):
        torch.testing.assert_close(out, x.sum(1), atol=1e-4, rtol=1e-5)


def plain(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.baddbmm(bias.unsqueeze(1), x, weight)


def leaves(members: int = 2, rows: int = 70, inputs: int = 4, outputs: int = 3) -> list[Tensor]:
    shapes = (members, rows, inputs), (members, inputs, outputs), (members, outputs)
    return [torch.randn(shape).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("function", [affine, triton_sums.affine], ids=["automatic", "kernel"])
@pytest.mark.parametrize("wanted", [(0, 1, 2), (2,), (0,), (1,)], ids=str)
def test_affine_and_its_gradients(function: Callable[..., Tensor], wanted: tuple[int, ...]) -> None:
    inputs = [x if index in wanted else x.detach() for index, x in enumerate(leaves())]
    weights = torch.randn(2, 70, 3)
    results = []
    for f in (function, plain):
        out = f(*inputs)
        results.append([out.detach(), *torch.autograd.grad(out, [inputs[i] for i in wanted], weights)])
    torch.testing.assert_close(*results, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 5])
def test_input_shared_by_members(rows: int) -> None:
    _, weight, bias = leaves(3, rows)
    x = torch.randn(1, rows, 4, requires_grad=True)
    results = []
    for f in (triton_sums.affine, plain):
        out = f(x.expand(3, -1, -1), weight, bias)
        results.append([out.detach(), *torch.autograd.grad(out.square().sum(), [x, weight, bias])])
    torch.testing.assert_close(*results, atol=1e-4, rtol=1e-5)


def test_second_derivatives_of_affine() -> None:
    inputs = leaves(rows=5)
    results = []
    for f in (triton_sums.affine, plain):
        grads = torch.autograd.grad(f(*inputs).pow(3).sum(), inputs, create_graph=True)
        results.append(torch.autograd.grad(torch.stack([g.square().sum() for g in grads]).sum(), inputs))
    torch.testing.assert_close(*results, atol=1e-2, rtol=1e-5)


def test_vmap_of_affine() -> None:
    x, weight, bias = (tensor.detach() for tensor in leaves(rows=5))
    many = torch.stack([x, 2 * x], 1)
    mapped = torch.func.vmap(lambda one: triton_sums.affine(one, weight, bias), in_dims=1)(many)
    torch.testing.assert_close(mapped, torch.stack([plain(x, weight, bias), plain(2 * x, weight, bias)]))


def test_jacobians_of_affine() -> None:
    inputs = tuple(tensor.detach() for tensor in leaves(rows=2))
    want = torch.autograd.functional.jacobian(triton_sums.affine, inputs)
    torch.testing.assert_close(torch.func.jacrev(triton_sums.affine, (0, 1, 2))(*inputs), want)
    torch.testing.assert_close(torch.autograd.functional.jacobian(triton_sums.affine, inputs, vectorize=True), want)
