"""The activation function of a unit is its layer's posterior along a line."""

from typing import Any

import numpy as np
import pytest
import torch

from squad.analysis import activation, posteriors
from squad.errors import ArgumentError
from squad.layers import FactorizedSquadLinear
from tests.analysis.networks import KINDS, inputs_of, layer_of, network, rows

RANK_1 = [(name, settings) for name, settings in KINDS if settings.get("rank") == 1]


@pytest.mark.parametrize("layer", [1, 2])
@pytest.mark.parametrize(("name", "settings"), RANK_1)
def test_it_is_exact_for_scalar_inputs(name: str, settings: dict[str, Any], layer: int) -> None:
    made, x = network(name, **settings), rows(400)
    own = layer_of(made, layer, 1)
    assert isinstance(own, FactorizedSquadLinear)
    inputs = inputs_of(made, x, layer, 1)
    everything = posteriors(made, x, layer, 1)
    for unit in (1, 5):
        found = activation(made, x, layer, unit, 1, points=400)
        assert found.explained == 1.0
        assert found.exact
        sign = -1 if "-u" in found.axis else 1
        with torch.no_grad():
            u = sign * own.inner(inputs)[:, 0 if own.shared else unit - 1, 0].double().numpy()
        # At a row's own position, it equals the layer's prediction for that row.
        for index in range(len(found.values)):
            at = np.interp(u, found.position, found.probs[:, index])
            within = (u >= found.position[0]) & (u <= found.position[-1])
            np.testing.assert_allclose(at[within], everything.probs[within, unit - 1, index], atol=2e-3)
        np.testing.assert_allclose(found.position[[0, -1]], np.quantile(u, [0.001, 0.999]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "settings"), KINDS)
def test_properties_of_every_unit(name: str, settings: dict[str, Any]) -> None:
    made, x = network(name, **settings), rows(300)
    for unit in (1, 6):
        found = activation(made, x, 1, unit, points=51)
        assert found.probs.shape == (51, 7)
        np.testing.assert_allclose(found.probs.sum(1), 1)
        assert (np.diff(found.values) >= 0).all()
        assert (np.diff(found.position) > 0).all()
        np.testing.assert_allclose(found.mean, found.probs @ found.values)
        np.testing.assert_allclose(found.likely_probability, found.probs.max(1))
        assert set(found.likely.tolist()) <= set(found.values.tolist())
        assert set(found.sample.tolist()) <= set(found.values.tolist())
        assert found.sample.shape == found.sample_position.shape == (153,)
        # It increases overall.
        assert np.polyfit(found.position, found.mean, 1)[0] >= 0
        assert 0 < found.explained <= 1
        assert 0.98 * 300 <= found.counts.sum() <= 300
        assert activation(made, x, 1, unit, points=51).to_dict() == found.to_dict()


def test_logits_on_a_line_are_fully_explained_despite_a_common_offset() -> None:
    made, x = network("squad"), rows(300)
    layer: Any = made.stages[0].layer
    direction = torch.randn(8)
    with torch.no_grad():  # logits depend on one direction of the input, plus an offset common to all bins
        own = direction[:, None, None] * torch.randn(2, 1, layer.bins, layer.out_features)
        common = 5 * torch.randn(2, 8, 1, layer.out_features)
        layer.weight.copy_((own + common).flatten(-2))
    found = activation(made, x, 1, 2, points=400)
    assert found.explained == pytest.approx(1, abs=1e-9)
    assert not found.exact
    everything = posteriors(made, x, 1)
    along = (x @ direction).double().numpy()
    worst = []
    for sign in (1, -1):  # the function increases in one of the two directions
        low, high = np.quantile(sign * along, [0.001, 0.999])
        inside = (sign * along > low) & (sign * along < high)
        at = found.position[0] + (sign * along - low) / (high - low) * np.ptp(found.position)
        shown = [np.interp(at, found.position, found.probs[:, index]) for index in range(7)]
        worst.append(np.abs(np.transpose(shown) - everything.probs[:, 1])[inside].max())
    assert min(worst) < 5e-3


def test_the_line_goes_through_the_mean_of_the_logits() -> None:
    made, x = network("squad"), rows(300)
    found = activation(made, x, 1, 1, points=401)
    own = layer_of(made, 1, 0)
    with torch.no_grad():
        logits = own.logits(x)[:, :, 0].double().numpy()
    logits -= logits.mean(1, keepdims=True)
    order = np.argsort(own.values.detach().numpy(), kind="stable")
    middle = np.exp(logits.mean(0)[order])
    at_zero = [np.interp(0.0, found.position, found.probs[:, index]) for index in range(7)]
    np.testing.assert_allclose(at_zero, middle / middle.sum(), atol=1e-3)
    variances = np.linalg.svd(logits - logits.mean(0), compute_uv=False) ** 2
    assert found.explained == pytest.approx(variances[0] / variances.sum(), abs=1e-6)
    assert found.explained < 0.9


def test_samples_have_the_frequencies_of_their_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squad.analysis.activations.SAMPLES", 4000)
    found = activation(network("squad"), rows(100), 1, 3, points=3)
    for index in range(3):
        drawn = found.sample[found.sample_position == found.position[index]]
        shares = [(drawn == value).mean() for value in found.values]
        np.testing.assert_allclose(shares, found.probs[index], atol=0.04)


def test_identical_rows() -> None:
    for name, settings in (("squad", {}), ("squad-factorized", {"rank": 1})):
        found = activation(network(name, **settings), torch.ones(5, 8), 1, 1)
        assert found.position[0] < found.position[-1]
        assert np.isfinite(found.probs).all()
        assert found.counts.sum() == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"unit": 0}, r"unit.*1.*6.*got 0"),
        ({"unit": 7}, r"unit.*1.*6.*got 7"),
        ({"layer": 3}, r"layer.*got 3"),
        ({"points": 1}, r"points.*got 1"),
    ],
)
def test_errors(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        activation(network(), rows(), **{"layer": 1, "unit": 1, **arguments})
