"""Bias and sum over latents, which kernels compute themselves: on every backend equal to computing them outside."""

from typing import Any

import pytest
import torch
from torch import Tensor

from squad.errors import ArgumentError, SquadError
from squad.ops import BACKENDS, compiled, sample_with_kl, triton_sample

C = 5


@pytest.fixture(autouse=True)
def _no_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the functions of the backend "compile" without compiling them, which takes seconds."""
    monkeypatch.setattr(compiled, "_state", compiled._State())
    monkeypatch.setattr(compiled, "_torch_compile", lambda function: function)


def tensors(lead: tuple[int, ...], neurons: int, first: tuple[int, ...]) -> list[Tensor]:
    """Logits, bias and values in float64; ``first`` are the leading axes of bias and values."""
    g = torch.Generator().manual_seed(3)
    shapes = (*lead, C, neurons), (*first, C, neurons), (*first, C, 1)
    return [torch.randn(shape, generator=g, dtype=torch.float64) for shape in shapes]


def results(
    inputs: list[Tensor], dtype: torch.dtype, outside: bool, wanted: str = "both", **options: Any
) -> tuple[Tensor, ...]:
    """z, the KL per row, and the gradients of logits, bias and values; ``outside``: add and sum outside."""
    logits, bias, values = leaves = [x.to(dtype).requires_grad_() for x in inputs]
    prior = torch.linspace(-1, 1, C, dtype=dtype).log_softmax(0).unsqueeze(-1)
    if outside:
        z, kl = sample_with_kl(logits + bias, values, prior, 0.6, **options)
        kl = kl.sum(-1)
    else:
        z, kl = sample_with_kl(logits, values, prior, 0.6, bias=bias, total=True, **options)
    g = torch.Generator().manual_seed(4)
    loss = torch.zeros((), dtype=dtype)
    for name, out in (("z", z), ("kl", kl)):
        weights = torch.randn(out.shape, generator=g, dtype=torch.float64).to(dtype)
        loss = loss + (out * weights).sum() * (wanted in (name, "both"))
    grads = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
    return (z.detach(), kl.detach(), *grads)


def assert_agree(got: tuple[Tensor, ...], want: tuple[Tensor, ...]) -> None:
    for name, a, b in zip(("z", "kl", "logits", "bias", "values"), got, want, strict=True):
        assert a.shape == b.shape, name
        assert (a.double() - b).abs().max() <= 5e-6 * b.abs().max() + 1e-7, name


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("neurons", [1, 40])
@pytest.mark.parametrize(
    ("lead", "first", "seed"),
    [
        ((4,), (), 1),
        ((2, 3), (2, 1), torch.tensor([1, 2])),
        ((2, 3), (1, 1), torch.tensor([1, 2])),  # a bias shared by members
    ],
    ids=["no members", "members", "shared bias"],
)
def test_agrees_with_bias_and_sum_outside_the_operation(
    backend: str, neurons: int, lead: tuple[int, ...], first: tuple[int, ...], seed: Any
) -> None:
    inputs = tensors(lead, neurons, first)
    exact = results(inputs, torch.float64, True, seed=seed, backend="reference")
    assert_agree(results(inputs, torch.float32, False, seed=seed, backend=backend), exact)


@pytest.mark.parametrize("wanted", ["both"])  # tests/slow has each alone
def test_multiple_tiles_of_neurons(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    """As on a GPU: each tile sums the KL of its neurons, and the gradient of a row flows back to all tiles."""
    monkeypatch.setattr(triton_sample, "tile_shape", lambda *_: (2, 16))
    inputs, seed = tensors((2, 3), 40, (2, 1)), torch.tensor([1, 2])
    exact = results(inputs, torch.float64, True, wanted, seed=seed, backend="reference")
    assert_agree(results(inputs, torch.float32, False, wanted, seed=seed, backend="triton"), exact)


@pytest.mark.parametrize("tile", [(4, 64), (2, 16)], ids=["one tile", "several"])
def test_second_derivatives(monkeypatch: pytest.MonkeyPatch, tile: tuple[int, int]) -> None:
    """A gradient penalty, with a loss that is nonlinear in both outputs."""
    monkeypatch.setattr(triton_sample, "tile_shape", lambda *_: tile)
    found = []
    for backend, dtype in (("triton", torch.float32), ("reference", torch.float64)):
        logits, bias, values = leaves = [x.to(dtype).requires_grad_() for x in tensors((3,), 40, ())]
        prior = torch.zeros(C, 1, dtype=dtype).log_softmax(0)
        z, kl = sample_with_kl(logits, values, prior, 0.6, seed=1, bias=bias, total=True, backend=backend)  # type: ignore[arg-type]
        grads = torch.autograd.grad(z.square().sum() + kl.square().sum(), leaves, create_graph=True)
        penalty = torch.stack([grad.square().sum() for grad in grads]).sum()
        found.append([grad.double() for grad in torch.autograd.grad(penalty, leaves)])
    for got, want in zip(*found, strict=True):
        assert (got - want).abs().max() <= 1e-5 * want.abs().max()


@pytest.mark.parametrize("backend", BACKENDS)
def test_padding_by_the_bias(backend: str) -> None:
    """A bias of -inf removes a bin and gets no gradient; members with fewer bins are padded like this."""
    logits, bias, values = tensors((4,), 3, ())
    bias[-1] = -float("inf")
    z, kl, *grads = results([logits, bias, values], torch.float32, False, seed=1, backend=backend)
    assert z.isfinite().all()
    assert kl.isfinite().all()
    assert all(grad.isfinite().all() and not grad[..., -1, :].any() for grad in grads)


@pytest.mark.parametrize("shape", [(C,), (C, 2), (4, C + 1, 3)], ids=str)
def test_incompatible_bias_is_rejected(shape: tuple[int, ...]) -> None:
    with pytest.raises(SquadError, match=r"bias .*shape.*got shape"):
        sample_with_kl(torch.zeros(4, C, 3), torch.zeros(C, 1), torch.zeros(C, 1), 0.5, seed=1, bias=torch.zeros(shape))


@pytest.mark.parametrize("name", ["eager", "reference", "triton"])
def test_bias_of_one_number_per_bin(name: str) -> None:
    """Shape (C, 1), shared by all neurons: a kernel must not read beyond it."""
    logits, values, prior = torch.zeros(2, 3, 4), torch.tensor([[-1.0], [0.0], [1.0]]), torch.full((3, 1), -1.0986)
    bias = torch.tensor([[0.0], [5.0], [10.0]]).requires_grad_()
    noise = torch.zeros(3, 4)
    z, kl = sample_with_kl(logits, values, prior, 0.5, noise=noise, bias=bias, backend=name)  # type: ignore[arg-type]
    (grad,) = torch.autograd.grad(z.sum() + kl.sum(), bias)
    wide = bias.detach().expand(3, 4).clone().requires_grad_()
    z2, kl2 = sample_with_kl(logits, values, prior, 0.5, noise=noise, bias=wide, backend="reference")
    (grad2,) = torch.autograd.grad(z2.sum() + kl2.sum(), wide)
    torch.testing.assert_close((z, kl), (z2, kl2))
    torch.testing.assert_close(grad, grad2.sum(1, keepdim=True), atol=1e-4, rtol=1e-4)


def test_bias_must_be_a_tensor() -> None:
    zeros = torch.zeros(3, 1)
    with pytest.raises(ArgumentError, match=r"bias .*tensor, got float"):
        sample_with_kl(torch.zeros(2, 3, 4), zeros, zeros, 0.5, seed=1, bias=1.0)  # type: ignore[arg-type]
