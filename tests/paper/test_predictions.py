"""Predictions of networks: probabilities equal the sampler's, variances equal those of a plain loop over samples."""

import numpy as np
import pytest
import torch
from torch import Tensor

import squad
from experiments.paper.jobs.plan import PredictionMode
from experiments.paper.jobs.predictions import Predictions, predict
from squad.models import Network, Sampler, build, network_config
from squad.models.sampler import BLOCK_ROWS, MAX_BLOCK_ELEMENTS

#: Networks and sampling modes that draw samples.
SAMPLED = [("squad", "relaxed"), ("squad", "hard"), ("maxout-dropout", "sample"), ("dlgm", "sample")]
#: More than two blocks of rows; the last is not full.
COUNT = 2 * BLOCK_ROWS["cpu"] + 7


def network_of(name: str, members: int = 3) -> Network:
    """Build a network with weights large enough for samples to differ."""
    own = {"dropout": 0.3} if "dropout" in name else {}
    made = build(network_config(name, {"hidden": (6, 5), **own}), 8, 3, list(range(members))).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(2.0)
    return made


def rows(count: int = COUNT) -> Tensor:
    return 2 * torch.randn(count, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def each_sample(network: Network, sampling: str, samples: int, x: Tensor) -> Tensor:
    """Return probabilities (samples, M, N, classes), computed by the layers in eval mode, sample by sample."""
    for layer in network.modules():
        if isinstance(layer, squad.SquadLinear):
            layer.sampling = sampling
    found = []
    with torch.no_grad():
        for index in range(samples):
            with squad.sample_index(index):
                found.append(network(x).logits.softmax(-1))
    return torch.stack(found)


def plain_confidence(p: Tensor) -> Tensor:
    """Return minus the variance over the samples (first axis) of the most probable class."""
    best = p.mean(0).argmax(-1)
    own = p.gather(-1, best.expand(len(p), *best.shape).unsqueeze(-1)).squeeze(-1)
    return -own.var(0, unbiased=False)


@pytest.mark.parametrize(("name", "sampling"), [*SAMPLED, ("squad", "stratified"), ("squad", "mean"), ("mlp", "mean")])
def test_probabilities_equal_the_samplers(name: str, sampling: str) -> None:
    network, x = network_of(name), rows()
    expected = Sampler(network, sampling, 5)(x).probabilities.numpy()
    for confidence in ("response", "variance"):
        found = predict(network, PredictionMode(sampling, 5, confidence), x)
        assert found.p.shape == (3, COUNT, 3)
        np.testing.assert_array_equal(found.p, expected)
        np.testing.assert_allclose(found.ensemble, sum(expected) / 3, rtol=0, atol=1e-15)
        np.testing.assert_allclose(found.ensemble.sum(-1), 1.0, rtol=0, atol=1e-12)


def test_softmax_response_has_no_separate_confidence() -> None:
    found = predict(network_of("squad"), PredictionMode("relaxed", 3), rows(4))
    assert (found.confidence, found.ensemble_confidence) == (None, None)


def check_variance(found: Predictions, p: Tensor, atol: float = 1e-9) -> None:
    """Compare with probabilities p (samples, M, N, classes)."""
    assert found.confidence is not None
    assert found.ensemble_confidence is not None
    np.testing.assert_allclose(found.confidence, plain_confidence(p).numpy(), rtol=0, atol=atol)
    # The samples of all members are the samples of the ensemble: its variance is the total variance.
    np.testing.assert_allclose(found.ensemble_confidence, plain_confidence(p.flatten(0, 1)).numpy(), rtol=0, atol=atol)
    assert (found.confidence <= 0).all()
    assert (found.ensemble_confidence <= 0).all()


@pytest.mark.parametrize(("name", "sampling"), SAMPLED)
def test_variance_equals_that_of_a_plain_loop(name: str, sampling: str) -> None:
    network, x = network_of(name), rows()
    p = each_sample(network, sampling, 6, x)
    assert plain_confidence(p).min() < -1e-3  # the variances are not negligible
    found = predict(network, PredictionMode(sampling, 6, "variance"), x)
    np.testing.assert_allclose(found.p, p.mean(0).numpy(), rtol=0, atol=1e-9)
    check_variance(found, p)


def test_variance_when_samples_are_drawn_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    network, x = network_of("maxout-dropout"), rows(9)
    p = each_sample(network, "sample", 7, x)
    monkeypatch.setitem(MAX_BLOCK_ELEMENTS, "cpu", 2 * 3 * BLOCK_ROWS["cpu"] * 20)
    assert 1 <= Sampler(network, "sample", 7).part < 7
    check_variance(predict(network, PredictionMode("sample", 7, "variance"), x), p)


def test_variance_of_one_member() -> None:
    network = network_of("squad", members=1)
    for count in (1, BLOCK_ROWS["cpu"], BLOCK_ROWS["cpu"] + 1):
        x = rows(count)
        found = predict(network, PredictionMode("relaxed", 4, "variance"), x)
        check_variance(found, each_sample(network, "relaxed", 4, x))
        assert found.confidence is not None
        assert found.ensemble_confidence is not None
        np.testing.assert_allclose(found.ensemble_confidence, found.confidence[0], rtol=0, atol=1e-15)


def test_a_prediction_does_not_depend_on_the_other_rows() -> None:
    network, x = network_of("squad"), rows()
    whole = predict(network, PredictionMode("hard", 5, "variance"), x)
    alone = predict(network, PredictionMode("hard", 5, "variance"), x[BLOCK_ROWS["cpu"] + 3 : BLOCK_ROWS["cpu"] + 4])
    assert whole.confidence is not None
    assert alone.confidence is not None
    np.testing.assert_allclose(alone.confidence[:, 0], whole.confidence[:, BLOCK_ROWS["cpu"] + 3], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "sampling"), [("mlp", "mean"), ("squad", "mean"), ("maxout-dropout", "mean")])
def test_without_sampling_only_the_members_vary(name: str, sampling: str) -> None:
    network, x = network_of(name), rows()
    found = predict(network, PredictionMode(sampling, 6, "variance"), x)
    assert found.confidence is not None
    assert found.ensemble_confidence is not None
    np.testing.assert_allclose(found.confidence, 0.0, rtol=0, atol=1e-15)
    expected = plain_confidence(Sampler(network, sampling, 1)(x).probabilities)
    np.testing.assert_allclose(found.ensemble_confidence, expected.numpy(), rtol=0, atol=1e-12)


def test_one_sample_has_no_variance() -> None:
    found = predict(network_of("maxout-dropout"), PredictionMode("sample", 1, "variance"), rows())
    assert found.confidence is not None
    assert not found.confidence.any()  # exactly 0: rounding errors would rank the rows


def test_the_variance_of_confident_predictions_is_not_lost_to_rounding() -> None:
    """Where p is 1 up to rounding, the variance must come from 1 - p: confident rows decide a ranking."""
    network, x = network_of("maxout-dropout", members=1), rows()
    with torch.no_grad():
        for parameter in network.stages[-1].parameters():
            parameter.mul_(4.0)
    logits = []
    with torch.no_grad():
        for index in range(6):
            with squad.sample_index(index):
                logits.append(network(x).logits)
    p = torch.stack(logits).softmax(-1)  # (samples, M, N, classes)
    others = p.mean(0).argmax(-1, keepdim=True) != torch.arange(3)
    expected = (p * others).sum(-1).var(0, unbiased=False).numpy()
    found = predict(network, PredictionMode("sample", 6, "variance"), x).confidence
    assert found is not None
    confident = (expected > 1e-60) & (expected < 1e-24)
    assert confident.sum() > 3
    np.testing.assert_allclose(-found[confident], expected[confident], rtol=1e-6)
