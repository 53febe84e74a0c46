"""Guarantees that hold despite rounding: perturbed matrix products, ties, confidences near 1."""

from typing import cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from squad.data.array_transform import ArrayTransform
from squad.layers import Linear
from squad.models import CONFIGS, network_config
from squad.models.networks import Stage
from squad.predictor import Predictor
from squad.predictor.answer import STEPS, on_grid, settled
from tests.contracts.answers import FEATURES, WAYS, example
from tests.contracts.guaranteed import assert_guaranteed
from tests.predictor.examples import points
from tests.rounding import OtherRounding

CLASSES = ("a", "b", "c", "d", "e")


def rows(count: int = 150) -> NDArray[np.float64]:
    return np.random.default_rng(5).normal(size=(count, FEATURES))


def made(name: str, sampling: str, factor: float = 1.0) -> Predictor:
    network = example(name)
    with torch.no_grad():
        for parameter in list(network.parameters())[-2:]:  # the last layer
            parameter.mul_(factor)
    config = network_config(name, {"hidden": (12, 9)})
    return Predictor(network, config, ArrayTransform.fit(rows()), CLASSES, sampling=sampling, num_samples=8)


@pytest.mark.parametrize("factor", [1.0, 8.0])  # the latter is confident about nearly everything
@pytest.mark.parametrize(("name", "sampling"), WAYS)
def test_products_that_round_differently(name: str, sampling: str, factor: float) -> None:
    predictor, x = made(name, sampling, factor), rows()
    expected = predictor.answer(x)
    with OtherRounding(0) as fault:
        found = predictor.answer(x)
    assert sum(fault.moved.values())
    assert_guaranteed(found, expected)
    order = np.random.default_rng(1).permutation(len(x))
    with OtherRounding(1):
        assert_guaranteed(predictor.answer(x[order]), expected, order)
        for row in (0, 63, 64, 149):
            assert_guaranteed(predictor.answer(x[row : row + 1]), expected, slice(row, row + 1))


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_decisions_after_recalibration(fitted: Predictor, method: str) -> None:
    safe = fitted.recalibrate(*points(700, 7), method=method).certify(*points(2000, 1), risk=0.1, delta=0.05)
    x, _ = points(3000, 8)
    expected = safe.answer(x)
    assert set(expected.decision) == {"accepted", "referred"}
    for seed in range(3):
        with OtherRounding(seed):
            assert_guaranteed(safe.answer(x), expected)
    np.testing.assert_allclose(expected.confidence, expected.probabilities.max(1), rtol=0, atol=1.6e-5)


@pytest.mark.parametrize("name", CONFIGS)
def test_equally_likely_classes(name: str) -> None:
    """The first of them is predicted, whichever rounding puts ahead; probabilities agree with the label."""
    predictor, x = made(name, CONFIGS[name].samplings[0]), rows()
    with torch.no_grad():
        layer = cast(Linear, cast(Stage, predictor.network.stages[-1]).layer)
        assert layer.bias is not None
        for parameter in (layer.weight, layer.bias):
            parameter[..., 3] = parameter[..., 1]
        layer.bias[..., [1, 3]] += 60
    expected = predictor.answer(x)
    assert "b" in expected.label
    assert "d" not in expected.label
    for seed in range(3):
        with OtherRounding(seed):
            found = predictor.answer(x)
        assert_guaranteed(found, expected)
        assert (np.array(CLASSES)[found.probabilities.argmax(1)] == found.label).all()


def test_ties_go_to_the_first() -> None:
    p = np.array([[0.2, 0.4 - 1e-14, 0.4], [0.1, 0.8, 0.1], [0.4, 0.2, 0.4], [0.3, 0.3, 0.4], [np.nan] * 3])
    before = p.copy()
    found, confidence = settled(p)
    np.testing.assert_array_equal(p, before)
    assert found[:4].argmax(1).tolist() == [1, 1, 0, 2]
    np.testing.assert_array_equal(np.sort(found[:4]), np.sort(p[:4]))
    assert confidence[0] == confidence[2]
    assert np.isnan(confidence[4])


def test_log_odds_near_one_come_from_the_other_classes() -> None:
    """1 - 1e-13 has three digits left; the sum of the other classes has all of them."""
    rest = np.logspace(-30, -1, 400)
    p = np.stack([1 - rest, rest * 0.75, rest * 0.25], 1)
    other = p * (1 + np.random.default_rng(0).uniform(-4e-16, 4e-16, p.shape))
    np.testing.assert_array_equal(settled(p)[1], settled(other)[1])
    # Moved by at most half a step, where there are enough digits to see it.
    found = settled(p)[1]
    seen = rest > 1e-10
    moved = np.log(found[seen] / (1 - found[seen])) - np.log((1 - rest[seen]) / rest[seen])
    assert np.abs(moved).max() < 0.52 / STEPS
    assert (np.diff(found) <= 0).all()
    assert (on_grid(found) == found)[seen].all()


@pytest.mark.parametrize(("name", "sampling"), WAYS)
def test_changed_weights_change_predictions(name: str, sampling: str) -> None:
    """A predictor holds a float64 copy of its weights, which must not be stale."""
    predictor, x = made(name, sampling), rows(20)
    before = predictor.answer(x).probabilities
    with torch.no_grad():
        for parameter in predictor.network.parameters():
            parameter.mul_(0.7)
    changed = predictor.answer(x)
    assert np.abs(changed.probabilities - before).max() > 1e-3
    predictor._sampler = None
    assert_guaranteed(predictor.answer(x), changed)
