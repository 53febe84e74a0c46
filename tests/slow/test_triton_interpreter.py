"""Kernels in Triton's interpreter: shapes, dtypes and networks that take too long for the fast suite."""

from typing import Any

import pytest
import torch

from squad.layers import FactorizedSquadLinear
from squad.models.config import FactorizedSquadConfig, SquadConfig
from tests.needs import need_package
from tests.ops import test_bias_and_total as totals
from tests.ops import test_triton as sample
from tests.ops import test_triton_factorized as factorized
from tests.ops import test_triton_sampling as sampling_tests
from tests.ops.test_triton_factorized import assert_close
from tests.train import test_step, test_triton_kernels

SHAPES = sampling_tests.SHAPES[2:]
CASES = [*((shape, torch.float32) for shape in SHAPES), (sampling_tests.SHAPES[3], torch.float64)]


@pytest.fixture
def kernels() -> Any:
    need_package("triton")
    from squad.ops import triton_sampling

    return triton_sampling


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_relaxed(kernels: Any, shape: tuple[int, ...], shared: bool, dtype: torch.dtype) -> None:
    sampling_tests.test_relaxed(kernels, shape, shared, dtype)


@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_means(kernels: Any, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    sampling_tests.test_means(kernels, shape, dtype)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_stratified(kernels: Any, shape: tuple[int, ...], shared: bool, dtype: torch.dtype) -> None:
    sampling_tests.test_stratified(kernels, shape, shared, dtype)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_hard(kernels: Any, shape: tuple[int, ...], shared: bool) -> None:
    sampling_tests.test_hard(kernels, shape, shared)


@pytest.mark.parametrize(("inputs", "shape"), [*zip((64, 7), SHAPES, strict=False)])
def test_linear_layer_in_one_kernel(kernels: Any, shape: tuple[int, ...], inputs: int) -> None:
    sampling_tests.test_linear_layer_in_one_kernel(kernels, shape, inputs)


@pytest.mark.parametrize(
    ("name", "sampling", "dtype"),
    [
        ("squad", "relaxed", torch.float64),
        ("squad", "stratified", torch.float32),
        ("squad", "hard", torch.float32),
        ("squad-factorized", "relaxed", torch.float32),
        ("squad-factorized", "stratified", torch.float32),
    ],
)
def test_sampler_agrees_with_and_without_kernels(
    kernels: Any, name: str, sampling: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling_tests.test_sampler_agrees_with_and_without_kernels(kernels, name, sampling, dtype, monkeypatch)


@pytest.mark.parametrize(
    ("lead", "bins", "neurons", "members", "per_neuron"),
    [((2, 4), 37, 33, True, False), ((1,), 101, 1, False, False)],
)
def test_samples_are_as_accurate_as_the_reference(
    lead: tuple[int, ...], bins: int, neurons: int, members: bool, per_neuron: bool
) -> None:
    sample.TestTriton().test_is_as_accurate_as_the_reference(lead, bins, neurons, members, per_neuron)


@pytest.mark.parametrize(
    ("members", "rows", "bins", "neurons", "rank", "shared", "per_neuron"),
    [
        (2, 9, 15, 2, 3, False, False),
        (1, 40, 37, 2, 4, False, True),
        (2, 7, 37, 1, 4, True, False),
        (1, 6, 101, 1, 5, False, False),
    ],
)
def test_factorized_layers_are_as_accurate_as_the_reference(
    members: int, rows: int, bins: int, neurons: int, rank: int, shared: bool, per_neuron: bool
) -> None:
    contract = factorized.TestFactorized()
    contract.test_is_as_accurate_as_the_reference(members, rows, bins, neurons, rank, shared, per_neuron)


@pytest.mark.parametrize("layers", [0, 1, 4])
def test_the_loss_and_its_gradient(layers: int) -> None:
    test_triton_kernels.test_the_loss_and_its_gradient(layers, 300, 300)


def test_both_kinds_of_steps_agree() -> None:
    test_step.test_both_kinds_of_steps_agree(FactorizedSquadConfig(hidden=(5,), bins=4, rank=2))


def test_both_kinds_agree_on_adversarial_neighbours() -> None:
    test_step.test_both_kinds_agree_on_adversarial_neighbours(FactorizedSquadConfig(hidden=(5,), bins=4, rank=2))


@pytest.mark.parametrize("wanted", ["z", "kl"])
def test_multiple_tiles_of_neurons(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    totals.test_multiple_tiles_of_neurons(monkeypatch, wanted)


@pytest.mark.parametrize("value", [1e4, -1e4])
def test_bins_without_mass_and_extreme_logits(value: float) -> None:
    factorized.TestFactorized().test_bins_without_mass_and_extreme_logits(value)


def test_bins_split_into_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    factorized.TestFactorized().test_bins_split_into_parts(monkeypatch, (2, 35, 9, 2, 2, True, True))


@pytest.mark.parametrize(
    ("members", "shared", "learn_values"),
    [(None, True, "per_neuron"), (2, False, "per_neuron"), (2, True, "per_layer")],
)
def test_layer_agrees_with_the_reference(
    monkeypatch: pytest.MonkeyPatch, members: int | None, shared: bool, learn_values: str
) -> None:
    factorized.test_layer_agrees_with_the_reference(monkeypatch, members, shared, learn_values)


def test_inputs_by_vmap(monkeypatch: pytest.MonkeyPatch) -> None:
    factorized.test_inputs_by_vmap(monkeypatch, 2, False)


@pytest.mark.parametrize("frozen", [(0,), (2,), (0, 1)], ids=str)
def test_what_is_frozen_is_not_trained(frozen: tuple[int, ...]) -> None:
    test_step.test_what_is_frozen_is_not_trained(frozen)


def test_many_layers() -> None:
    test_step.test_one_layer_and_many((3, 2, 2, 3))


def test_large_batches_and_many_classes() -> None:
    test_step.test_large_batches_and_many_classes(SquadConfig(hidden=(4,), bins=3))


def test_many_bins() -> None:
    layer, x = FactorizedSquadLinear(4, 1, bins=300, rank=1), torch.randn(1, 4)
    layer.backend = "triton"
    found = layer.sample_with_kl(x, seed=1)
    layer.backend = "reference"
    assert_close(found, layer.double().sample_with_kl(x.double(), seed=1))


@pytest.mark.parametrize(("members", "per_neuron", "programs"), [(False, True, 100), (True, False, 1)])
def test_multiple_tiles(monkeypatch: pytest.MonkeyPatch, members: bool, per_neuron: bool, programs: int) -> None:
    sample.test_multiple_tiles(monkeypatch, members, per_neuron, programs)
