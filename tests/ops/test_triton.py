"""The fused kernels in Triton's interpreter on the CPU: the same source code as on a GPU."""

import pytest
import torch
from torch import Tensor

from squad.core.noise import Key
from squad.ops import reference, sample_with_kl, triton_sample
from tests.contracts.backends import BackendContract, problem

#: A subset of the contract's shapes, all of which would take the interpreter a minute: tests/slow has larger ones,
#: tests/gpu all.
SMALL_CASES = [
    ((1,), 2, 1, False, False),
    ((5,), 3, 7, False, True),
    ((2, 3, 5), 15, 13, True, True),
    ((17, 2), 15, 32, False, False),
]


class TestTriton(BackendContract):
    name = "triton"
    double = False

    # The interpreter does not use torch's threads.
    test_result_does_not_depend_on_the_number_of_threads = None  # type: ignore[assignment]

    @pytest.mark.parametrize(("lead", "bins", "neurons", "members", "per_neuron"), SMALL_CASES)
    def test_is_as_accurate_as_the_reference(
        self, lead: tuple[int, ...], bins: int, neurons: int, members: bool, per_neuron: bool
    ) -> None:
        super().test_is_as_accurate_as_the_reference(lead, bins, neurons, members, per_neuron)


# Beyond the last bin -1e30 is read, which is -inf in float16: equivalent, but numpy warns.
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_inputs_are_computed_in_float32(dtype: torch.dtype) -> None:
    """Against float64 for the same rounded logits: z and the gradient of logits differ by their own rounding."""
    p = problem((2, 5), 6, 7, members=True, per_neuron=True)
    assert isinstance(p.temperature, Tensor)
    assert isinstance(p.noise, Key)
    temperature, seed, step = p.temperature.view(-1), p.noise.seed, p.noise.step
    weights = [torch.randn(2, 5, 7).to(dtype) for _ in range(2)]
    results = []
    for logits, wide, backend in ((p.logits.to(dtype), torch.float32, "triton"), (None, torch.float64, "reference")):
        a = (p.logits.to(dtype).to(wide) if logits is None else logits).requires_grad_()
        v = p.values.to(wide, copy=True).requires_grad_()
        z, kl = sample_with_kl(a, v, p.log_prior, temperature, seed=seed, step=step, backend=backend)  # type: ignore[arg-type]
        grads = torch.autograd.grad([z, kl], [a, v], [weights[0].to(z.dtype), weights[1].to(kl.dtype)])
        results.append([z.detach(), grads[0], kl.detach(), grads[1]])
    for index, (name, got, want) in enumerate(zip(("z", "grad logits", "kl", "grad values"), *results, strict=True)):
        narrow = index < 2
        assert got.dtype == (dtype if narrow else torch.float32), name
        # A whole unit in the last place: the interpreter truncates to bfloat16 where a GPU rounds.
        unit = torch.finfo(dtype).eps if narrow else 0.0
        assert ((got.double() - want).abs() <= unit * want.abs() + 1e-5 * want.abs().max()).all(), name


@pytest.mark.parametrize(  # tests/slow has the others
    ("members", "per_neuron", "programs"), [(False, True, 1), (True, False, 100)]
)
def test_multiple_tiles(monkeypatch: pytest.MonkeyPatch, members: bool, per_neuron: bool, programs: int) -> None:
    """As on a GPU, where neurons, rows and, in the backward pass, bins are split; the interpreter splits nothing."""
    monkeypatch.setattr(triton_sample, "PROGRAMS", programs)
    p = problem((2, 3), 6, 20, members=members, per_neuron=per_neuron)
    monkeypatch.setattr(triton_sample, "tile_shape", lambda *_: (4, 16))
    want = p.run(reference.sample_with_kl, torch.float64)
    for got, exact in zip(p.run(triton_sample.sample_with_kl, torch.float32), want, strict=True):
        torch.testing.assert_close(got.double(), exact, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": torch.float64},
        {"values": (3, 4, 5, 1)},
        {"log_prior": (3, 4, 5, 7)},
        {"logits": (3, 0, 5, 7)},
    ],
    ids=str,
)
def test_unsupported_inputs_fall_back_to_eager(monkeypatch: pytest.MonkeyPatch, change: dict[str, object]) -> None:
    """Double precision, values or priors per row, no rows."""
    dtype = change.pop("dtype", torch.float32)
    shapes = {"logits": (3, 4, 5, 7), "values": (1, 1, 5, 1), "log_prior": (1, 1, 5, 1)} | change
    tensors = {name: torch.randn(shape, dtype=dtype) for name, shape in shapes.items()}  # type: ignore[call-overload]
    monkeypatch.setattr(triton_sample._SampleWithKL, "apply", None)
    want = sample_with_kl(**tensors, temperature=0.5, seed=1, backend="eager")
    torch.testing.assert_close(sample_with_kl(**tensors, temperature=0.5, seed=1, backend="triton"), want)


def test_backward_tiles_may_differ_from_forward_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of the KL summed over a tile's neurons does not depend on the tiles of either pass."""
    tiles = iter([(2, 16), (4, 32)])
    monkeypatch.setattr(triton_sample, "tile_shape", lambda *_: next(tiles))
    logits, values = torch.randn(5, 3, 40).requires_grad_(), torch.randn(3, 1)
    rest = {"log_prior": torch.zeros(3, 1).log_softmax(0), "temperature": 0.5, "seed": 1, "total": True}
    weights, found = torch.linspace(-1, 1, 5), []
    for backend in ("triton", "reference"):
        _, kl = sample_with_kl(logits, values, **rest, backend=backend)  # type: ignore[arg-type]
        found.append([kl.detach(), *torch.autograd.grad((kl * weights).sum(), logits)])
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-5)
