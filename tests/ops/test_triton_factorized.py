"""The kernels of factorized layers in Triton's interpreter on the CPU, called directly and by the layer."""

from typing import Any

import pytest
import torch
from torch import Tensor

from squad.core.noise import make_key
from squad.errors import ArgumentError
from squad.layers import FactorizedSquadLinear
from squad.ops import sample_factorized, sample_with_kl, serves_factorized, triton_factorized
from tests.contracts.factorized import FactorizedContract, materialized_logits

#: A subset of the contract's cases, with few members and neurons, to which the interpreter's time is proportional;
#: tests/slow has cases with many bins, tests/gpu all.
SMALL_CASES = [
    (1, 1, 2, 1, 1, False, False),
    (1, 5, 3, 7, 2, False, True),
    (2, 3, 6, 3, 8, True, True),
]


class TestFactorized(FactorizedContract):
    @pytest.mark.parametrize(("members", "rows", "bins", "neurons", "rank", "shared", "per_neuron"), SMALL_CASES)
    def test_is_as_accurate_as_the_reference(
        self, members: int, rows: int, bins: int, neurons: int, rank: int, shared: bool, per_neuron: bool
    ) -> None:
        super().test_is_as_accurate_as_the_reference(members, rows, bins, neurons, rank, shared, per_neuron)

    def test_multiple_blocks_of_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As on a GPU, where tiles are small: each has its own sums, and the last one is not full."""
        monkeypatch.setattr(triton_factorized, "TILES", (32, 32))
        super().test_is_as_accurate_as_the_reference(1, 35, 3, 2, 2, False, True)

    def test_values_summed_over_rows_and_then_over_neurons(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(triton_factorized, "MAX_ROWS", 1)
        super().test_is_as_accurate_as_the_reference(2, 5, 4, 3, 2, False, False)

    @pytest.mark.parametrize("value", [-float("inf"), float("nan")])  # tests/slow has the others
    def test_bins_without_mass_and_extreme_logits(self, value: float) -> None:
        super().test_bins_without_mass_and_extreme_logits(value)

    @pytest.mark.parametrize("case", [(1, 5, 15, 2, 2, False, False)])  # tests/slow has a larger one
    def test_bins_split_into_parts(self, monkeypatch: pytest.MonkeyPatch, case: tuple[Any, ...]) -> None:
        """As on a GPU with few rows and neurons; the last part is not full."""
        monkeypatch.setattr(triton_factorized, "TILES", (32, 32))
        monkeypatch.setattr(triton_factorized, "PROGRAMS", 100)
        super().test_is_as_accurate_as_the_reference(*case)


def operands(
    rank: int = 2, neurons: int = 3, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """inner, b', W'', b'', values and log prior of 2 members, 4 rows and 5 bins."""
    shapes = (2, 4, neurons, rank), (2, neurons, rank), (2, neurons, rank, 5), (2, neurons, 5), (2, 5, 1), (1, 5, 1)
    inner, inner_bias, weight, bias, values, prior = (torch.randn(shape, dtype=dtype) for shape in shapes)
    return inner, inner_bias, weight, bias, values, prior.log_softmax(-2)


def assert_close(got: Any, want: Any) -> None:
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        assert (a.double() - b).abs().max() <= 1e-5 * b.abs().max()


def layers(monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[FactorizedSquadLinear, FactorizedSquadLinear]:
    """A layer with fused kernels, which must not compute its logits, and a float64 copy with the reference."""
    options = {"bins": 5, "rank": 2} | options
    fused = FactorizedSquadLinear(4, 3, **options)
    with torch.no_grad():  # biases of 0 would hide errors
        for bias in (fused.bias1, fused.bias2):
            bias.normal_()
    plain = FactorizedSquadLinear(4, 3, **options).double()
    plain.load_state_dict(fused.state_dict())
    fused.backend, plain.backend = "triton", "reference"
    monkeypatch.setattr(fused, "_logits", None)
    return fused, plain


def inputs(members: int | None) -> tuple[Tensor, Any]:
    """x and a seed, one per member."""
    return (torch.randn(6, 4), 1) if members is None else (torch.randn(members, 6, 4), torch.arange(members) + 2**40)


@pytest.mark.parametrize(
    ("members", "shared", "learn_values"),
    [(None, False, "per_layer"), (2, True, "per_neuron")],  # tests/slow has the others
)
def test_layer_agrees_with_the_reference(
    monkeypatch: pytest.MonkeyPatch, members: int | None, shared: bool, learn_values: str
) -> None:
    x, seed = inputs(members)
    results = []
    for layer in layers(monkeypatch, members=members, shared=shared, learn_values=learn_values):
        leaf = x.to(layer.weight1.dtype).requires_grad_()
        z, kl = layer.sample_with_kl(leaf, seed=seed, step=3)
        loss = z.square().sum() + (kl * torch.linspace(-1, 1, 6, dtype=kl.dtype)).sum()
        results.append([z, kl, *torch.autograd.grad(loss, [leaf, *layer.parameters()])])
        assert z.dtype == leaf.dtype
        x = x.detach()
    assert_close(*results)


def test_rows_shared_by_members(monkeypatch: pytest.MonkeyPatch) -> None:
    fused, plain = layers(monkeypatch, members=2)
    x, seed = torch.randn(1, 6, 4), torch.tensor([1, 2])
    assert_close(fused.sample_with_kl(x, seed=seed), plain.sample_with_kl(x.double(), seed=seed))


@pytest.mark.parametrize(("members", "shared"), [(None, True), (2, False)])
def test_second_derivatives(monkeypatch: pytest.MonkeyPatch, members: int | None, shared: bool) -> None:
    x, seed = inputs(members)
    found = []
    for layer in layers(monkeypatch, members=members, shared=shared):
        leaves = [x.to(layer.weight1.dtype).clone().requires_grad_(), *layer.parameters()]
        z, kl = layer.sample_with_kl(leaves[0], seed=seed)
        grads = torch.autograd.grad(z.square().sum() + kl.square().sum(), leaves, create_graph=True)
        found.append(torch.autograd.grad(torch.stack([grad.square().sum() for grad in grads]).sum(), leaves))
    assert_close(*found)


@pytest.mark.parametrize(("members", "shared"), [(None, True)])  # tests/slow has members
def test_inputs_by_vmap(monkeypatch: pytest.MonkeyPatch, members: int | None, shared: bool) -> None:
    x, seed = inputs(members)
    fused, plain = layers(monkeypatch, members=members, shared=shared)
    many = torch.stack([x, -x, 2 * x], 1)
    mapped = torch.func.vmap(lambda one: fused.sample_with_kl(one, seed=seed), in_dims=1)(many)
    for index, one in enumerate((x, -x, 2 * x)):
        assert_close([out[index] for out in mapped], plain.sample_with_kl(one.double(), seed=seed))


@pytest.mark.parametrize(
    "temperature", [0.5, torch.tensor(0.5), torch.tensor([0.5, 0.9])], ids=["number", "()", "(M,)"]
)
def test_a_single_seed_numbers_the_rows_of_all_members(temperature: float | Tensor) -> None:
    inner, inner_bias, weight, bias, values, prior = operands()
    found = sample_factorized(inner, inner_bias, weight, bias, values, prior, temperature, make_key(7, 2))
    logits = materialized_logits(inner + inner_bias.unsqueeze(1), weight, bias)
    assert_close(
        found,
        sample_with_kl(
            logits.double(), values.unsqueeze(1), prior.unsqueeze(1), temperature, seed=7, step=2, backend="reference"
        ),
    )


def test_half_precision_inner_numbers() -> None:
    inner, inner_bias, weight, bias, values, prior = operands()
    half, key = inner.bfloat16().requires_grad_(), make_key(torch.tensor([7, 8]))
    found = sample_factorized(half, inner_bias, weight, bias, values, prior, 0.5, key)
    assert [out.dtype for out in found] == [torch.float32] * 2
    assert torch.autograd.grad(found[0].sum() + found[1].sum(), half)[0].dtype == torch.bfloat16
    logits = materialized_logits(half.detach().double() + inner_bias.unsqueeze(1), weight.double(), bias.double())
    assert_close(
        found,
        sample_with_kl(logits, values.unsqueeze(1), prior.unsqueeze(1), 0.5, seed=key.seed, backend="reference"),
    )


@pytest.mark.parametrize(
    ("change", "backend"),
    [({"rank": 9}, "triton"), ({"dtype": torch.float64}, "triton"), ({}, "eager"), ({}, "auto")],
    ids=["rank 9", "double", "eager", "auto on a CPU"],
)
def test_unsupported_layers_are_reported(change: dict[str, Any], backend: Any) -> None:
    inner, _, weight, _, values, _ = operands(**change)
    assert not serves_factorized(inner, weight, values, backend)


@pytest.mark.parametrize("change", [{"rank": 9}, {"dtype": torch.float64}, {"members": 3}], ids=str)
def test_unsupported_inputs_are_rejected(change: dict[str, Any]) -> None:
    members = change.pop("members", 2)
    inner, inner_bias, weight, bias, values, prior = operands(**change)
    inner = inner[:1].expand(members, -1, -1, -1)
    with pytest.raises(ArgumentError, match=r"inner .*serves_factorized.*got torch\."):
        sample_factorized(inner, inner_bias, weight, bias, values, prior, 0.5, make_key(7))


def test_larger_ranks_fall_back_to_the_logits() -> None:
    layer, x = FactorizedSquadLinear(4, 3, bins=5, rank=9), torch.randn(6, 4)
    layer.backend = "triton"
    found = layer.sample_with_kl(x, seed=1)
    layer.backend = "reference"
    assert_close(found, layer.double().sample_with_kl(x.double(), seed=1))


@pytest.mark.parametrize("lead", [(), (1,), (2, 3)])
def test_any_leading_axes(lead: tuple[int, ...]) -> None:
    layer, x = FactorizedSquadLinear(4, 3, bins=5), torch.randn(*lead, 4)
    layer.backend = "triton"
    found = layer.sample_with_kl(x, seed=1)
    layer.backend = "reference"
    assert_close(found, layer.double().sample_with_kl(x.double(), seed=1))


def test_no_rows() -> None:
    layer = FactorizedSquadLinear(4, 3, bins=5)
    layer.backend = "triton"
    z, kl = layer.sample_with_kl(torch.randn(0, 4), seed=1)
    assert z.shape == (0, 3)
    assert kl.shape == (0,)
