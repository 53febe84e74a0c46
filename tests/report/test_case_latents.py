"""Latents of a case are the posterior of the first layer."""

from typing import Any, cast

import numpy as np
import pytest
import torch

import squad
from squad.models import CONFIGS
from squad.predictor.row_pass import encode
from squad.report.case_latents import case_latents
from tests.report.builders import features, model


@pytest.mark.parametrize("values", ["per_layer", "per_neuron"])
@pytest.mark.parametrize("name", ["squad", "squad-factorized"])
def test_latents_are_the_posterior_of_the_first_member(name: str, values: str) -> None:
    predictor = model(name, "features", members=3, learn_values=values, hidden=(30, 5))
    first = cast(Any, next(iter(predictor.network.stages))).layer
    with torch.no_grad():
        first.values.mul_(-1)  # learned values need not ascend
    x = features(5)
    found = case_latents(predictor, x)
    assert found is not None
    layer = cast(Any, next(iter(squad.unstack(predictor.network)[0].stages))).layer
    with torch.no_grad():
        q = layer.posterior(torch.from_numpy(encode(predictor, x).x))
    for row, case in enumerate(found):
        assert len(case.units) == 24
        assert case.total == 30
        assert case.settled == int((q.probs[row].max(-1).values > 0.9).sum())
        shown = [unit - 1 for unit in case.units]
        np.testing.assert_allclose(np.sum(case.per_mille, 1), 1000, atol=q.probs.shape[-1] / 2)
        means = (np.array(case.per_mille) / 1000 * np.array(case.values)).sum(1)
        np.testing.assert_allclose(means, q.mean[row, shown].detach().numpy(), atol=0.05)
        assert (np.diff(case.values, axis=1) >= 0).all()
        entropy = q.entropy()[row].detach().numpy()
        assert entropy[shown].min() >= np.sort(entropy)[-24] - 1e-6
        assert (np.diff(entropy[shown]) <= 1e-6).all()


@pytest.mark.parametrize("name", [name for name in CONFIGS if not name.startswith("squad")])
def test_other_networks_have_no_latents(name: str) -> None:
    assert case_latents(model(name, "features"), features(3)) is None
