"""The weights of a unit's bins reproduce its logits."""

from typing import Any

import numpy as np
import pytest
import torch

from squad.analysis import bin_weights, feature_names, posteriors
from squad.data.array_transform import ArrayTransform
from squad.data.tables import Table
from squad.data.transforms import TableTransform
from squad.errors import ArgumentError
from tests.analysis.networks import KINDS, inputs_of, layer_of, network, rows
from tests.report.builders import frame, images


@pytest.mark.parametrize("layer", [1, 2])
@pytest.mark.parametrize(("name", "settings"), KINDS)
def test_weights_reproduce_the_logits(name: str, settings: dict[str, Any], layer: int) -> None:
    made, x = network(name, **settings), rows()
    for member in range(2):
        inputs = inputs_of(made, x, layer, member).detach()
        own = layer_of(made, layer, member)
        everything = posteriors(made, x, layer, member)
        for unit in (1, 5):
            found = bin_weights(made, layer, unit, member)
            np.testing.assert_array_equal(found.values, everything.values[unit - 1])
            logits = inputs.double().numpy() @ found.weights.T + found.bias
            with torch.no_grad():
                expected = own.logits(inputs)[:, :, unit - 1].numpy()
            # The logits regardless of their order, and their order by the probabilities.
            np.testing.assert_allclose(np.sort(logits), np.sort(expected), atol=1e-4)
            weights = np.exp(logits - logits.max(1, keepdims=True))
            np.testing.assert_allclose(
                weights / weights.sum(1, keepdims=True), everything.probs[:, unit - 1], atol=2e-5
            )


def test_errors() -> None:
    with pytest.raises(ArgumentError, match=r"unit.*1.*5.*got 6"):
        bin_weights(network(), 2, 6)


def test_feature_names() -> None:
    table = frame(60)
    table.loc[3, "dose"] = np.nan
    table.loc[4, "color"] = None
    transform = TableTransform.fit(Table.of(table), "label")
    names = feature_names(transform)
    assert names == (
        "age", "color = blue", "color = green", "color = red", "color missing", "dose", "dose missing",
    )  # fmt: skip
    # Each name belongs to its feature.
    x = transform.apply(Table.of(table)).x
    np.testing.assert_array_equal(x[:, names.index("color = red")], table["color"] == "red")
    np.testing.assert_array_equal(x[:, names.index("dose missing")], table["dose"].isna())
    flat = ArrayTransform.fit(images(5))
    assert len(feature_names(flat)) == flat.features == 64
    assert feature_names(flat)[:2] == ("feature 1", "feature 2")
