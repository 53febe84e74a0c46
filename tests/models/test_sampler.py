"""Prediction with T samples: equal to a plain loop, computed in blocks, with shared work done once."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import squad
from squad.core.noise import make_key
from squad.errors import ArgumentError
from squad.layers import sampling_modes
from squad.models import Network, Sampler, build, network_config
from squad.models.sampler import MAX_NOISE_ELEMENTS
from tests.contracts.answers import FEATURES, WAYS, AnswerContract, example, rows


class TestAnswersOnACpu(AnswerContract):
    device = "cpu"


def strata(seeds: list[int], samples: int, bins: int, neurons: int, dtype: torch.dtype) -> sampling_modes.Strata:
    key = make_key(torch.tensor(seeds))
    return sampling_modes.strata(key, sampling_modes.levels(key, samples, neurons), 0, bins, dtype)


def power(*temperatures: float, dtype: torch.dtype = torch.float64) -> sampling_modes.Power:
    return sampling_modes.Power.of(torch.tensor(temperatures), dtype)


def plain_loop(network: Network, x: Tensor, samples: int) -> tuple[Tensor, Tensor]:
    """Average the predictions of the layers' own eval mode, sample by sample."""
    total, entropy = torch.zeros(()), torch.zeros(())
    with torch.no_grad():
        for index in range(samples):
            with squad.sample_index(index):
                log_p = network(x).logits.double().log_softmax(-1)
            total = total + log_p.exp() / samples
            entropy = entropy - (log_p.exp() * log_p).sum(-1) / samples
    return total, entropy


@pytest.mark.parametrize(
    ("name", "sampling"),
    [
        ("squad", "relaxed"),
        ("squad", "hard"),
        ("squad-factorized", "relaxed"),
        ("maxout-dropout", "sample"),
        ("relu-dropout", "sample"),
        ("dlgm", "sample"),
        ("mlp", "mean"),
        ("squad", "mean"),
        ("dlgm", "mean"),
    ],
)
def test_equals_a_plain_loop_over_the_layers(name: str, sampling: str) -> None:
    network = example(name, dtype=torch.float64)
    for layer in network.modules():
        if isinstance(layer, squad.SquadLinear | squad.FactorizedSquadLinear | squad.GaussianLinear):
            layer.sampling = sampling
    x = rows(70).double()
    found = Sampler(network, sampling, 6)(x)
    p, h = plain_loop(network, x, 6)
    torch.testing.assert_close(found.probabilities, p, rtol=0, atol=1e-9)
    torch.testing.assert_close(found.entropy, h, rtol=0, atol=1e-9)


def test_relaxed_samples_at_low_temperature_equal_the_plain_loop() -> None:
    network = example("squad", dtype=torch.float64)
    x = rows(40).double()
    for temperature in (0.05, 0.39, 0.41, 2.0):
        squad.set_temperature(network, temperature)
        found = Sampler(network, "relaxed", 5)(x).probabilities
        torch.testing.assert_close(found, plain_loop(network, x, 5)[0], rtol=0, atol=1e-9)


def test_dropout_of_squad_is_inactive_unless_test_dropout_is_set() -> None:
    x = rows(50)
    settings = {"hidden": (8, 8), "dropout": 0.4}
    off = build(network_config("squad", settings), FEATURES, 3, [1])
    on = build(network_config("squad", {**settings, "test_dropout": True}), FEATURES, 3, [1])
    without = build(network_config("squad", {"hidden": (8, 8)}), FEATURES, 3, [1])
    same, other = (
        dict(zip(without.state_dict(), [n.state_dict()[k] for k in without.state_dict()], strict=True))
        for n in (off, on)
    )
    without.load_state_dict(same)
    expected = Sampler(without, "stratified", 8)(x).probabilities
    torch.testing.assert_close(Sampler(off, "stratified", 8)(x).probabilities, expected, rtol=0, atol=1e-6)
    without.load_state_dict(other)
    dropped = Sampler(on, "stratified", 8)(x).probabilities
    assert (dropped - Sampler(without, "stratified", 8)(x).probabilities).abs().max() > 1e-2
    # Nothing is random with sampling "mean".
    torch.testing.assert_close(
        Sampler(on, "mean", 8)(x).probabilities, Sampler(without, "mean", 8)(x).probabilities, rtol=0, atol=1e-6
    )


@pytest.fixture
def matmul_inputs(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Inputs of all matrix products that compute logits, (M, S, rows, in)."""
    inputs: list[Tensor] = []
    original = Sampler._distribution_parameters

    def spy(self: Sampler, index: int, x: Tensor, *rest: sampling_modes.Scratch) -> Tensor:
        inputs.append(x)
        return original(self, index, x, *rest)

    monkeypatch.setattr(Sampler, "_distribution_parameters", spy)
    return inputs


def test_the_first_layer_is_computed_once_for_all_samples(matmul_inputs: list[Tensor]) -> None:
    for sampling in ("relaxed", "stratified", "hard"):
        matmul_inputs.clear()
        Sampler(example("squad"), sampling, 16, rows=64)(rows(64))
        shapes = [tuple(x.shape) for x in matmul_inputs]
        assert shapes[0] == (1, 1, 64, FEATURES), sampling
        assert all(shape[-1] != FEATURES for shape in shapes[1:])
        assert sum(shape[1] for shape in shapes[1:]) == 16


@pytest.mark.parametrize("sampling", ["stratified"])  # tests/slow has "hard"
def test_memory_is_bounded_for_any_number_of_samples_and_rows(sampling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.harness import peak_memory

    monkeypatch.setitem(MAX_NOISE_ELEMENTS, "cpu", 1 << 20)
    network = build(network_config("squad", {"hidden": (8, 8)}), FEATURES, 3, [0])
    peaks = []
    for samples, count in ((10_000, 8), (30_000, 8), (10_000, 32)):
        sampler = Sampler(network, sampling, samples, rows=8)
        assert sampler.noise is None
        # Levels, one number per sample and latent, are stored for all samples; reading them counts as memory.
        known = count * 4 * 8 + sum(0 if levels is None else levels.nbytes for levels in sampler.levels)
        x = rows(count)
        peaks.append(peak_memory(lambda sampler=sampler, x=x: sampler(x), "cpu") - known)  # type: ignore[misc]
    assert max(peaks) < 1.1 * peaks[0]


@pytest.mark.parametrize(("name", "sampling"), WAYS)
def test_noise_is_the_same_when_drawn_in_parts(name: str, sampling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network, x = example(name), rows(10)
    whole = Sampler(network, sampling, 50)(x)
    monkeypatch.setattr(Sampler, "_max_stored_samples", lambda self: 0)
    drawn = Sampler(network, sampling, 50)
    drawn.part = 7
    torch.testing.assert_close(drawn(x), whole, rtol=0, atol=1e-6)


def test_padding_a_layer_with_bins_changes_no_noise() -> None:
    few, many = (strata([4], 6, bins, 3, torch.float32) for bins in (5, 9))
    assert torch.equal(few.levels, many.levels)
    assert torch.equal(few.first, many.first)
    assert torch.equal(few.others, many.others[..., :5, :])


def test_autocast_does_not_change_predictions() -> None:
    sampler, x = Sampler(example("squad"), "mean", 1), rows(50)
    expected = sampler(x).probabilities
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(sampler(x).probabilities, expected, rtol=0, atol=0)


def test_cold_samples_do_not_overflow_in_single_precision() -> None:
    network = example("squad")
    squad.set_temperature(network, 0.02)
    relaxed = Sampler(network, "relaxed", 6)(rows(40)).probabilities
    network.double()
    expected = Sampler(network, "relaxed", 6)(rows(40).double()).probabilities
    assert bool(relaxed.isfinite().all())
    assert float((relaxed - expected).abs().median()) < 1e-4


def test_a_single_pass_if_nothing_is_random() -> None:
    assert Sampler(example("squad"), "mean", 32).num_samples == 1
    assert Sampler(example("mlp"), "mean", 32).num_samples == 1
    assert Sampler(example("maxout-dropout"), "sample", 32).num_samples == 32


def test_stratified_samples_the_only_latent_layer() -> None:
    network = build(network_config("squad", {"hidden": (8,)}), FEATURES, 3, [0])
    x = rows(30)
    few, many = (Sampler(network, "stratified", t)(x).probabilities for t in (4, 4000))
    mean = Sampler(network, "mean", 1)(x).probabilities
    assert (few - many).abs().max() > 1e-4
    assert (many - mean).abs().max() > 1e-4


@given(st.integers(2, 12), st.integers(1, 40))
def test_levels_are_a_latin_hypercube(neurons: int, samples: int) -> None:
    found = strata([5, 6], samples, 4, neurons, torch.float32)
    assert found.levels.shape == (2, samples, neurons)
    stratum = (found.levels * samples).floor().sort(1).values
    expected = torch.arange(samples, dtype=torch.float64).view(1, -1, 1)
    assert torch.equal(stratum, expected.expand_as(stratum))
    assert bool((found.first > 0).all())
    assert bool((found.others > 0).all())


def test_stratified_winning_bins_have_exact_frequencies() -> None:
    """At a low temperature a sample equals its winning bin: over T samples each bin wins T p times, rounded."""
    torch.manual_seed(0)
    logits = torch.randn(1, 1, 3, 5, 4, dtype=torch.float64) * 1.5
    values = torch.arange(5.0, dtype=torch.float64).view(1, 1, 1, 5, 1)
    samples = 400
    noise = strata([1], samples, 5, 4, torch.float64)
    z = sampling_modes.stratified(logits, values, noise, power(1e-6))
    p = logits.softmax(-2).squeeze(1)
    for value in range(5):
        fraction = (z.round() == value).double().mean(1)
        assert float((fraction - p[..., value, :]).abs().max()) < 2 / samples


@pytest.mark.parametrize("temperatures", [(0.5, 0.5), (0.5, 0.7), (0.05, 2.0)])
def test_stratified_follows_its_definition(temperatures: tuple[float, float]) -> None:
    """softmax(G / τ), with exp(-G) of the winning bin and of the others as in the docstring."""
    torch.manual_seed(0)
    logits = torch.randn(2, 1, 3, 5, 4, dtype=torch.float64)
    values = torch.randn(2, 1, 1, 5, 1, dtype=torch.float64)
    noise = strata([1, 2], 7, 5, 4, torch.float64)
    found = sampling_modes.stratified(logits, values, noise, power(*temperatures))
    mass = logits.exp()
    below = logits.softmax(-2).cumsum(-2)
    level = noise.levels[:, :, None, None]
    won = (below > level) & (below - logits.softmax(-2) <= level)
    assert bool((won.sum(-2) == 1).all())
    ahead = noise.first[:, :, None, None] / mass.sum(-2, keepdim=True)
    g = -torch.where(won, ahead, ahead + noise.others.unsqueeze(2) / mass).log()
    scale = torch.tensor(temperatures).double().view(2, 1, 1, 1, 1)
    torch.testing.assert_close(found, ((g / scale).softmax(-2) * values).sum(-2), rtol=0, atol=1e-12)


def test_stratified_has_the_distribution_of_relaxed_samples() -> None:
    """Moments and quantiles agree over uniform levels."""
    torch.manual_seed(0)
    logits = torch.tensor([0.3, -1.0, 1.2, 0.0], dtype=torch.float64).view(1, 1, 1, 4, 1).expand(1, 1, 1, 4, 64)
    values = torch.tensor([-2.0, -0.5, 0.7, 2.0], dtype=torch.float64).view(1, 1, 1, 4, 1)
    samples = 4000
    ours = sampling_modes.stratified(logits, values, strata([3], samples, 4, 64, torch.float64), power(0.5)).flatten()
    q = squad.Quantized(logits[0, 0, 0, :, 0], values.flatten())
    plain = q.relaxed((len(ours),), temperature=0.5)
    error = 4 / math.sqrt(len(ours))
    assert abs(float(ours.mean() - plain.mean())) < error * float(plain.std())
    assert abs(float(ours.std() - plain.std())) < error * float(plain.std())
    levels = torch.linspace(0.05, 0.95, 19, dtype=torch.float64)
    sorted_ours, sorted_plain = ours.sort().values, plain.double().sort().values
    ranks = (levels * len(ours)).long()
    fraction = torch.searchsorted(sorted_ours, sorted_plain[ranks]).double() / len(ours)
    assert float((fraction - levels).abs().max()) < 2 * error


def test_a_bin_without_mass_is_never_drawn() -> None:
    logits = torch.tensor([0.0, -math.inf, 0.0], dtype=torch.float64).view(1, 1, 1, 3, 1)
    values = torch.tensor([-1.0, 50.0, 1.0], dtype=torch.float64).view(1, 1, 1, 3, 1)
    noise = strata([2], 500, 3, 1, torch.float64)
    z = sampling_modes.stratified(logits, values, noise, power(0.5))
    assert bool(z.isfinite().all())
    assert float(z.abs().max()) <= 1


def test_stratified_needs_fewer_samples() -> None:
    """The error of 8 stratified samples of one layer is well below that of 8 relaxed ones."""
    network = build(network_config("squad", {"hidden": (16,)}), FEATURES, 4, list(range(20)))
    x = rows(50)
    truth = Sampler(network, "relaxed", 500)(x).probabilities
    errors = {}
    for sampling in ("relaxed", "stratified"):
        errors[sampling] = (Sampler(network, sampling, 8)(x).probabilities - truth).square().mean().sqrt().item()
    assert errors["stratified"] < 0.8 * errors["relaxed"]


def test_invalid_settings_are_rejected() -> None:
    for sampling, samples, words in (("gumbel", 4, "sampling.*got 'gumbel'"), ("relaxed", 0, "num_samples.*got 0")):
        with pytest.raises(ArgumentError, match=words):
            Sampler(example("squad"), sampling, samples)
    with pytest.raises(ArgumentError, match=r"sampling.*'sample', 'mean'.*dlgm"):
        network_config("dlgm").check_sampling("relaxed", None)
    with pytest.raises(ArgumentError, match="num_samples"):
        network_config("squad").check_sampling("relaxed", 0)


def test_long_sums_in_single_precision_are_computed_in_full_blocks(matmul_inputs: list[Tensor]) -> None:
    """Later layers, and anything computed in float64, are computed for the actual rows only."""
    for sampling, first, rest in (
        ("relaxed", {32}, {8, 32}),
        ("stratified", {8, 32}, {8, 32}),
        ("mean", {32}, {32}),
    ):
        matmul_inputs.clear()
        sampler = Sampler(example("squad"), sampling, 4, rows=32, exact=False)
        for count in (1, 7, 31, 32, 33, 100):
            assert sampler(rows(count)).probabilities.shape == (2, count, 5)
        assert {x.shape[2] for x in matmul_inputs if x.shape[-1] == FEATURES} == first, sampling
        assert {x.shape[2] for x in matmul_inputs if x.shape[-1] != FEATURES} == rest, sampling


@pytest.mark.parametrize(
    ("sampling", "layers", "exact"),
    [
        ("stratified", 1, 1),
        ("stratified", 2, 1),
        ("stratified", 3, 2),
        ("hard", 2, 2),
        ("relaxed", 2, 0),
        ("mean", 2, 0),
    ],
)
def test_choices_are_made_in_float64(monkeypatch: pytest.MonkeyPatch, sampling: str, layers: int, exact: int) -> None:
    """A validation pass computes nothing after the last choice in float64, prediction everything."""
    found: list[torch.dtype] = []
    original = Sampler._distribution_parameters

    def spy(self: Sampler, index: int, x: Tensor, *rest: sampling_modes.Scratch) -> Tensor:
        out = original(self, index, x, *rest)
        found.append(out.dtype)
        return out

    monkeypatch.setattr(Sampler, "_distribution_parameters", spy)
    network = build(network_config("squad", {"hidden": (6,) * layers}), FEATURES, 3, [0])
    Sampler(network, sampling, 4, exact=False)(rows(3))
    assert found == [torch.float64] * exact + [torch.float32] * (layers - exact)
    found.clear()
    Sampler(network, sampling, 4)(rows(3))
    assert found == [torch.float64] * layers


@pytest.mark.parametrize(("name", "sampling"), WAYS)
def test_prediction_is_computed_in_float64(name: str, sampling: str) -> None:
    """A network in single precision predicts exactly as if it were converted to float64."""
    network, x = example(name), rows(70)
    found = Sampler(network, sampling, 6)(x)
    expected = Sampler(network.double(), sampling, 6)(x.double())
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_a_few_rows_are_not_padded_to_a_block_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    heights = []
    original = Sampler._stage

    def spy(self: Sampler, index: int, x: Tensor, *rest: Any) -> Tensor:
        heights.append(x.shape[2])
        return original(self, index, x, *rest)

    monkeypatch.setattr(Sampler, "_stage", spy)
    for name, sampling in WAYS:
        Sampler(example(name), sampling, 4)(rows(3))
    assert set(heights) == {8}


@pytest.mark.parametrize(("name", "sampling"), WAYS)
def test_overflow_of_single_precision_gives_nan(name: str, sampling: str) -> None:
    """The model abstains on such an extreme input, as on a GPU, and no other row is affected."""
    network, x = example(name), rows(20)
    expected = Sampler(network, sampling, 4)(x).probabilities
    x[3] = 3e38
    found = Sampler(network, sampling, 4)(x).probabilities
    assert bool(found[:, 3].isnan().all())
    others = [row for row in range(20) if row != 3]
    torch.testing.assert_close(found[:, others], expected[:, others], rtol=0, atol=1e-12)


def test_levels_are_uniform_within_their_strata() -> None:
    samples = 50
    levels = strata([5], samples, 4, 200, torch.float32).levels
    within = (levels * samples) % 1
    assert abs(float(within.mean()) - 0.5) < 0.015
    assert abs(float(within.std()) - 12**-0.5) < 0.01
    # The order of the strata differs between neighbouring latents.
    order = (levels[0] * samples).floor()
    correlation = torch.corrcoef(order.T) - torch.eye(200, dtype=torch.float64)
    assert float(correlation.abs().max()) < 0.75
    assert abs(float(correlation.mean())) < 0.005


def test_more_members_compute_fewer_samples_at_once() -> None:
    config = network_config("squad", {"hidden": (64, 64)})
    one, four = (Sampler(build(config, FEATURES, 3, list(range(count))), "relaxed", 8) for count in (1, 4))
    assert 1 <= four.part == one.part // 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("sampling", ["relaxed", "stratified", "hard", "mean"])
def test_a_network_in_half_precision_predicts_in_single_precision(sampling: str, dtype: torch.dtype) -> None:
    network = build(network_config("squad", {"hidden": (8, 6), "bins": 5}), 7, 3, [0]).eval().to(dtype)
    x = torch.randn(9, 7, generator=torch.Generator().manual_seed(0))
    found = Sampler(network, sampling, 8)(x).probabilities
    assert found.isfinite().all()
    torch.testing.assert_close(found, Sampler(network.float(), sampling, 8)(x).probabilities, atol=1e-6, rtol=1e-6)
