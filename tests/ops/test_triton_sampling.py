"""The kernels of the sampling modes in Triton's interpreter on the CPU: the same source code as on a GPU."""

import os
from typing import Any

import pytest
import torch
from torch import Tensor

# Before Triton is imported: its functions are defined either for the interpreter or for a GPU.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

from squad.core.noise import gumbel, make_key
from squad.layers import sampling_modes
from squad.models import Sampler, build, network_config
from squad.models import sampler as sampler_module
from tests.contracts.answers import FEATURES, example, rows
from tests.needs import need_package

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
#: Members, samples, rows, bins, neurons: odd sizes, and the smallest of each.
SHAPES = [(1, 1, 1, 2, 1), (2, 5, 7, 3, 9), (1, 33, 2, 15, 3), (1, 2, 130, 37, 3), (2, 2, 2, 101, 33)]
#: The interpreter's time is proportional to samples and neurons: tests/slow has the other shapes.
CASES = [(SHAPES[0], torch.float32), (SHAPES[1], torch.float32), (SHAPES[1], torch.float64)]


@pytest.fixture
def kernels() -> Any:
    need_package("triton")
    from squad.ops import triton_sampling

    return triton_sampling


class Case:
    """Logits, values and noise of one shape; ``shared``: all samples share the logits."""

    def __init__(self, shape: tuple[int, ...], shared: bool, per_neuron: bool = False) -> None:
        self.members, self.samples, self.rows, self.bins, self.neurons = shape
        torch.manual_seed(sum(shape))
        size = (self.members, 1 if shared else self.samples, self.rows, self.bins, self.neurons)
        self.logits = torch.randn(size, dtype=torch.float64, device=DEVICE) * 3
        values = torch.randn(self.members, 1, 1, self.bins, self.neurons, dtype=torch.float64, device=DEVICE)
        self.values = values if per_neuron else values[..., :1]
        self.key = make_key(torch.arange(self.members, device=DEVICE))
        self.gumbels = gumbel(self.key, self.samples, self.bins, self.neurons, dtype=torch.float64).unsqueeze(2)

    def power(self, *temperatures: float, dtype: torch.dtype = torch.float64) -> sampling_modes.Power:
        repeated = (list(temperatures) * self.members)[: self.members]
        return sampling_modes.Power.of(torch.tensor(repeated, device=DEVICE), dtype)

    def strata(self, dtype: torch.dtype) -> sampling_modes.Strata:
        at = sampling_modes.levels(self.key, self.samples, self.neurons)
        return sampling_modes.strata(self.key, at, 0, self.bins, dtype)


def assert_close(found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-12 if dtype == torch.float64 else 1e-5)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_relaxed(kernels: Any, shape: tuple[int, ...], shared: bool, dtype: torch.dtype) -> None:
    case = Case(shape, shared, per_neuron=shared)
    for temperatures in ((0.1, 1.3), (0.9, 0.6)):
        exact = case.power(*temperatures)
        noise = sampling_modes.Gumbels(case.gumbels * exact.view(5), None)
        expected = sampling_modes.relaxed(case.logits, case.values, noise, exact)
        power = case.power(*temperatures, dtype=dtype)
        logits, values = case.logits.to(dtype), case.values.to(dtype)
        made = sampling_modes.Gumbels.of(case.gumbels.to(dtype), values, power, shared=shared)
        assert (made.factors is not None) == (shared and min(temperatures[: case.members]) > 0.4)
        factors = None if made.factors is None else made.factors[0]
        found = kernels.relaxed(logits, values, made.scaled, factors, power.inverse)
        assert found.dtype == dtype
        # As close to the result in float64 as the torch code: rounding errors grow at low temperatures.
        error = (sampling_modes.relaxed(logits, values, made, power).double() - expected).abs().max()
        atol = 1e-12 if dtype == torch.float64 else 2 * float(error) + 1e-6
        assert atol < 1e-4
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=atol)


@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_means(kernels: Any, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    for shared in (True, False):
        case = Case(shape, shared, per_neuron=not shared)
        ones = torch.ones(case.members, dtype=dtype, device=DEVICE)
        found = kernels.mean(case.logits.to(dtype), case.values.to(dtype), ones)
        assert_close(found, sampling_modes.mean(case.logits, case.values), dtype)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_stratified(kernels: Any, shape: tuple[int, ...], shared: bool, dtype: torch.dtype) -> None:
    case = Case(shape, shared, per_neuron=shared)
    for temperatures in ((0.5,), (0.2, 1.3)):
        expected = sampling_modes.stratified(
            case.logits, case.values, case.strata(torch.float64), case.power(*temperatures)
        )
        power = case.power(*temperatures, dtype=dtype)
        values = case.values.to(dtype)
        noise = case.strata(dtype)
        found = kernels.stratified(case.logits, values, *noise, power.inverse, power.squares)
        assert_close(found, expected, dtype)
        # The torch code has the same tolerance.
        assert_close(sampling_modes.stratified(case.logits, values, noise, power), expected, dtype)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("shape", SHAPES[:2])
def test_hard(kernels: Any, shape: tuple[int, ...], shared: bool) -> None:
    case = Case(shape, shared, per_neuron=shared)
    found = kernels.hard(case.logits, case.values, case.gumbels)
    assert torch.equal(found, sampling_modes.hard(case.logits, case.values, case.gumbels))


def test_multiple_tiles_of_lanes(kernels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where tiles are small; the last tile is not full."""
    monkeypatch.setattr(kernels, "LANES", 8)
    case = Case((2, 3, 5, 3, 5), shared=False)
    power = case.power(0.7)
    for found, expected in (
        (
            kernels.mean(case.logits, case.values, torch.ones_like(power.inverse)),
            sampling_modes.mean(case.logits, case.values),
        ),
        (
            kernels.hard(case.logits, case.values, case.gumbels),
            sampling_modes.hard(case.logits, case.values, case.gumbels),
        ),
        (
            kernels.stratified(case.logits, case.values, *case.strata(torch.float64), power.inverse, power.squares),
            sampling_modes.stratified(case.logits, case.values, case.strata(torch.float64), power),
        ),
    ):
        assert_close(found, expected, torch.float64)


def test_level_above_all_bins_selects_the_last_bin(kernels: Any) -> None:
    case = Case((1, 2, 4, 5, 3), shared=True)
    noise = case.strata(torch.float64)
    # The other bins are so far behind that the sample is the winner's value.
    noise = noise._replace(levels=torch.full_like(noise.levels, 1.0), others=noise.others * 1e12)
    power = case.power(0.3)
    found = kernels.stratified(case.logits, case.values, *noise, power.inverse, power.squares)
    assert_close(found, case.values[..., -1, :].expand_as(found), torch.float64)
    assert_close(sampling_modes.stratified(case.logits, case.values, noise, power), found, torch.float64)


@pytest.mark.parametrize(("inputs", "shape"), [*zip((1, 20), SHAPES, strict=False)])
def test_linear_layer_in_one_kernel(kernels: Any, shape: tuple[int, ...], inputs: int) -> None:
    case = Case(shape, shared=False, per_neuron=inputs == 20)
    x = torch.randn(1 if inputs == 20 else case.members, case.samples, case.rows, inputs, device=DEVICE).double()
    weight = torch.randn(case.members, inputs, case.bins * case.neurons, device=DEVICE).double() / inputs**0.5
    bias = torch.randn(case.members, case.bins * case.neurons, device=DEVICE).double()
    logits = (x @ weight.unsqueeze(1) + bias[:, None, None]).unflatten(-1, (case.bins, case.neurons))
    single = [tensor.float() for tensor in (x, weight, bias, case.values)]
    assert kernels.supports_linear(inputs, torch.float32)
    found = kernels.linear(*single, None, torch.ones(case.members, device=DEVICE))
    assert_close(found, sampling_modes.mean(logits, case.values), torch.float32)
    exact, power = case.power(0.3, 0.8), case.power(0.3, 0.8, dtype=torch.float32)
    expected = sampling_modes.relaxed(
        logits, case.values, sampling_modes.Gumbels(case.gumbels * exact.view(5), None), exact
    )
    scaled = case.gumbels.float() * power.view(5)
    assert_close(kernels.linear(*single, scaled, power.inverse), expected, torch.float32)


@pytest.mark.parametrize("classes", [2, 3, 10, 16])
def test_answers(kernels: Any, classes: int) -> None:
    torch.manual_seed(classes)
    logits = torch.randn(2, 7, 40, classes, device=DEVICE) * 5
    for count in (1, 33, 40):
        # The sums are a slice of larger tensors, which must not change elsewhere.
        probabilities = torch.rand(2, 60, classes, dtype=torch.float64, device=DEVICE)
        entropies = torch.rand(2, 60, dtype=torch.float64, device=DEVICE)
        expected, expected_entropies = probabilities.clone(), entropies.clone()
        part = slice(10, 10 + count)
        log_p = logits[:, :, :count].double().log_softmax(-1)
        expected[:, part] += log_p.exp().sum(1) / 21
        expected_entropies[:, part] -= (log_p.exp() * log_p).sum((1, -1)) / 21
        for add in (kernels.add_predictions, sampling_modes.add_predictions):
            p, h = probabilities.clone(), entropies.clone()
            add(logits, p[:, part], h[:, part], 21)
            torch.testing.assert_close(p, expected, rtol=0, atol=1e-12)
            torch.testing.assert_close(h, expected_entropies, rtol=0, atol=1e-12)


def test_bins_without_mass_contribute_nothing(kernels: Any) -> None:
    case = Case((2, 6, 5, 4, 3), shared=True)
    case.values[:, :, :, 1] = 1e6
    case.logits[..., 1, :] = -torch.inf
    power = case.power(0.5)
    made = sampling_modes.Gumbels.of(case.gumbels, case.values, power, shared=True)
    assert made.factors is not None
    for found in (
        kernels.relaxed(case.logits, case.values, None, made.factors[0], power.inverse),
        kernels.relaxed(case.logits, case.values, case.gumbels * 2, None, power.inverse),
        kernels.stratified(case.logits, case.values, *case.strata(torch.float64), power.inverse, True),
        kernels.mean(case.logits, case.values, torch.ones_like(power.inverse)),
        kernels.hard(case.logits, case.values, case.gumbels),
    ):
        assert float(found.abs().max()) < 100


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter warns about NaN
def test_nan_does_not_spread_to_other_rows(kernels: Any) -> None:
    case = Case((1, 6, 5, 4, 3), shared=True)
    expected = kernels.stratified(case.logits, case.values, *case.strata(torch.float64), case.power(0.5).inverse, True)
    case.logits[:, :, 2] = torch.nan
    found = kernels.stratified(case.logits, case.values, *case.strata(torch.float64), case.power(0.5).inverse, True)
    others = [0, 1, 3, 4]
    assert torch.equal(found[:, :, others], expected[:, :, others])
    assert bool(found[:, :, 2].isnan().all())


@pytest.mark.parametrize(
    ("name", "sampling", "dtype"),
    [
        ("squad", "relaxed", torch.float32),
        ("squad", "stratified", torch.float64),
        ("squad", "mean", torch.float32),
        ("maxout-dropout", "sample", torch.float32),
        ("dlgm", "sample", torch.float32),
    ],
)
def test_sampler_agrees_with_and_without_kernels(
    kernels: Any, name: str, sampling: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, x = example(name, dtype=dtype).to(DEVICE), rows(21).to(DEVICE, dtype)
    monkeypatch.setattr(sampler_module, "_kernels", lambda device: None)
    expected = Sampler(network, sampling, 5, exact=False)(x)  # as on a GPU
    monkeypatch.setattr(sampler_module, "_kernels", lambda device: kernels)
    for part in (100, 4):
        monkeypatch.setitem(sampler_module.MAX_BLOCK_ELEMENTS, DEVICE, part * 2 * 32 * 200)
        sampler = Sampler(network, sampling, 5, rows=32, exact=False)
        found = sampler(x)
        # Both round in single precision, in different orders: they differ by 2e-6 with the SSE kernels of a CPU.
        # Different noise would differ by a thousand times that.
        atol = 1e-12 if dtype == torch.float64 else 1e-5
        torch.testing.assert_close(found.probabilities, expected.probabilities, rtol=0, atol=atol)
        torch.testing.assert_close(found.entropy, expected.entropy, rtol=0, atol=10 * atol)


@pytest.mark.parametrize(("sampling", "fused"), [("relaxed", 1), ("stratified", 1), ("hard", 0), ("mean", 2)])
def test_later_layers_use_the_fused_kernel(
    kernels: Any, sampling: str, fused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler_module, "_kernels", lambda device: kernels)
    calls = []
    original = kernels.linear
    monkeypatch.setattr(kernels, "linear", lambda *args: calls.append(1) or original(*args))  # type: ignore[func-returns-value]
    network = build(network_config("squad", {"hidden": (8, 8)}), FEATURES, 3, [0]).to(DEVICE)
    Sampler(network, sampling, 3, exact=False)(rows(5).to(DEVICE))
    assert len(calls) == fused
