"""Posteriors equal those of the layer, with bins in the order of their values."""

from typing import Any

import numpy as np
import pytest
import torch

import squad
from squad.analysis import Posteriors, information, latent_layers, posteriors
from squad.errors import ArgumentError
from squad.models import CONFIGS
from tests.analysis.networks import KINDS, inputs_of, layer_of, network, rows


@pytest.mark.parametrize("layer", [1, 2])
@pytest.mark.parametrize(("name", "settings"), KINDS)
@torch.no_grad()
def test_posteriors_equal_those_of_the_layer(name: str, settings: dict[str, Any], layer: int) -> None:
    made, x = network(name, members=3, **settings), rows()
    for member in range(3):
        found = posteriors(made, x, layer, member)
        q = layer_of(made, layer, member).posterior(inputs_of(made, x, layer, member))
        assert found.layer == layer
        assert (np.diff(found.values, axis=1) >= 0).all()
        np.testing.assert_allclose(found.probs.sum(-1), 1, atol=1e-12)
        # The same distribution regardless of the order of bins: its mean, probabilities and cdf.
        np.testing.assert_allclose((found.probs * found.values).sum(-1), q.mean, atol=2e-5)
        np.testing.assert_allclose(np.sort(found.probs), np.sort(q.probs), atol=2e-5)
        for index in range(found.values.shape[1]):
            edge = torch.from_numpy(found.values[:, index]).float() + 1e-6
            np.testing.assert_allclose(found.probs[..., : index + 1].sum(-1), q.cdf(edge), atol=2e-5)


def test_blocks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    made, x = network(), rows(23)
    whole = [posteriors(made, x, layer).probs for layer in (1, 2)]
    monkeypatch.setattr("squad.analysis.layer_view.MAX_BLOCK_ELEMENTS", 42 * 5)  # five rows of 6 x 7 numbers
    for layer in (1, 2):
        np.testing.assert_allclose(posteriors(made, x, layer).probs, whole[layer - 1], atol=1e-12)


def test_the_network_is_not_modified() -> None:
    made = network()
    made.train()
    before = {name: tensor.clone() for name, tensor in made.state_dict().items()}
    posteriors(made, rows(), 2)
    assert made.training
    assert all(layer.training for layer in made.modules())
    for name, tensor in made.state_dict().items():
        assert torch.equal(tensor, before[name])
        assert tensor.dtype == before[name].dtype


def test_a_network_without_members() -> None:
    made = network(members=2)
    alone = squad.unstack(made)[1]
    expected = posteriors(made, rows(), 2, 1).probs
    np.testing.assert_allclose(posteriors(alone, rows(), 2).probs, expected, rtol=0, atol=1e-6)


def test_the_sample_index_of_the_caller_is_ignored() -> None:
    made = network()
    with squad.sample_index(3):
        inside = posteriors(made, rows(), 2).probs
    np.testing.assert_array_equal(inside, posteriors(made, rows(), 2).probs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layer": 0}, r"layer.*1.*2.*got 0"),
        ({"layer": 3}, r"layer.*1.*2.*got 3"),
        ({"member": 2}, r"member.*0.*1.*got 2"),
        ({"x": torch.zeros(4, 7)}, r"x .*\(rows, 8\).*\(4, 7\)"),
        ({"x": torch.zeros(0, 8)}, r"x .*at least one row.*\(0, 8\)"),
    ],
)
def test_errors(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        posteriors(network(), **{"x": rows(), "layer": 1, **arguments})


@pytest.mark.parametrize("name", [name for name in CONFIGS if not name.startswith("squad")])
def test_networks_without_latents_are_rejected(name: str) -> None:
    made = squad.models.build(squad.models.network_config(name, {"hidden": (4,)}), 8, 3, [0])
    with pytest.raises(ArgumentError, match="quantized latents"):
        posteriors(made, rows())
    with pytest.raises(ArgumentError, match="quantized latents"):
        latent_layers(made)
    assert latent_layers(network()) == (6, 5)


def test_information_is_the_mutual_information_in_bits() -> None:
    found = posteriors(network(), rows(300))
    q = squad.Quantized(torch.from_numpy(found.probs).log(), torch.from_numpy(found.values))
    np.testing.assert_allclose(information(found.probs), squad.mutual_information(q).numpy() / np.log(2), atol=1e-12)
    hard = np.eye(4)[np.arange(8) % 4][:, None]
    np.testing.assert_allclose(information(hard), [2.0])
    np.testing.assert_allclose(information(np.full((5, 2, 4), 0.25)), [0.0, 0.0])


def test_shapes_are_checked() -> None:
    with pytest.raises(ArgumentError, match=r"\(N, K, C\)"):
        Posteriors(1, np.ones((3, 2)), np.ones((3, 2)))
