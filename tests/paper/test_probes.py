"""Probes of trained networks, compared with direct computations."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from experiments.paper.jobs import probes
from experiments.paper.jobs.probes import PROBES, TIMED_EPOCHS, WARM_UP_EPOCHS, ProbeContext
from squad.data.array_transform import ArrayTransform
from squad.data.images import ImageSet, load_images
from squad.fitting import prepare
from squad.models import Network, build
from squad.models.networks import Stage
from squad.settings import fit_settings
from squad.train.step import make_steps

ROWS, MEMBERS = 300, 2
#: Two layers; the first contains the unit that is shown in detail.
HIDDEN = [14, 6]


@pytest.fixture(scope="module")
def images() -> ImageSet:
    return load_images("digits")


def context_of(images: ImageSet, name: str, **network: Any) -> ProbeContext:
    """Build networks with large random weights, as if they had been trained."""
    settings = fit_settings(
        {
            "model": name,
            "members": MEMBERS,
            "validation": 0.2,
            "split_per_member": True,
            "network": {"hidden": HIDDEN, **network},
            "training": {"max_epochs": 2, "batch_size": 100},
        }
    )
    prepared = prepare(images.x_train[:ROWS], images.y_train[:ROWS], settings)
    network_of_members = build(settings.network, prepared.data.x.shape[1], 10, settings.seeds).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network_of_members.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
    transform = cast(ArrayTransform, prepared.transform)
    test = torch.from_numpy(transform.apply(images.x_test).x)
    return ProbeContext(network_of_members, settings, test, images, prepared.data, tuple(settings.seeds))


@pytest.fixture(scope="module")
def squad_context(images: ImageSet) -> ProbeContext:
    return context_of(images, "squad", bins=5)


@pytest.fixture(scope="module")
def mlp_context(images: ImageSet) -> ProbeContext:
    return context_of(images, "mlp")


def hooked(network: Network, x: Tensor) -> list[Tensor]:
    """Return the outputs of all stages in the network's own pass, (M, N, out) each."""
    found: list[Tensor] = []

    def keep(_: nn.Module, __: Any, out: Any) -> None:
        found.append(out[0])

    hooks = [stage.register_forward_hook(keep) for stage in network.stages]
    with torch.no_grad():
        network(x)
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize("which", ["mlp_context", "squad_context"])
def test_the_spread_equals_that_of_hooked_outputs(which: str, request: pytest.FixtureRequest) -> None:
    context = cast(ProbeContext, request.getfixturevalue(which))
    found = probes.spread(context)
    fresh = build(context.settings.network, 64, 10, context.settings.seeds).eval()
    for when, network in (("before", fresh), ("after", context.network)):
        outputs = hooked(network, context.x)
        assert len(found[when]) == len(outputs) == 3
        for layer, out in zip(found[when], outputs, strict=True):
            values = out.double().numpy().reshape(MEMBERS, -1)
            np.testing.assert_allclose(layer["mean"], values.mean(1), rtol=1e-5, atol=1e-7)
            np.testing.assert_allclose(layer["std"], values.std(1, ddof=1), rtol=1e-5)
    assert found["before"] != found["after"]


def test_the_spread_of_an_mlp_is_measured_after_the_relu(mlp_context: ProbeContext) -> None:
    outputs = hooked(mlp_context.network, mlp_context.x)
    assert (outputs[0] >= 0).all()
    assert not (outputs[-1] >= 0).all()


def test_the_number_of_rows_is_limited(squad_context: ProbeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(squad_context, x=squad_context.x[:40])
    expected = probes.spread(few), probes.information(few)
    monkeypatch.setattr(probes, "MAX_ROWS", 40)
    assert (probes.spread(squad_context), probes.information(squad_context)) == expected


def test_information_equals_its_definition(squad_context: ProbeContext) -> None:
    found = probes.information(squad_context)
    assert len(found) == len(HIDDEN)
    for member in range(MEMBERS):
        layer: Any = cast(Stage, squad_context.network.stages[0]).layer
        with torch.no_grad():
            p = layer.double().member(member).posterior(squad_context.x.double()).probs.numpy()  # (N, K, C)
        layer.float()
        mean = p.mean(0)
        bits = (p * (np.log2(p) - np.log2(mean))).sum(-1).mean(0)
        assert found[0]["mean"][member] == pytest.approx(bits.mean(), rel=1e-5)
        assert found[0]["largest"][member] == pytest.approx(bits.max(), rel=1e-5)
        assert found[0]["sum"][member] == pytest.approx(bits.sum(), rel=1e-5)


def test_properties_of_information(squad_context: ProbeContext) -> None:
    for units, layer in zip(HIDDEN, probes.information(squad_context), strict=True):
        assert len(layer["mean"]) == MEMBERS
        for mean, largest, total in zip(layer["mean"], layer["largest"], layer["sum"], strict=True):
            assert 0 < mean <= largest <= math.log2(5) + 1e-9
            assert total == pytest.approx(units * mean)


def test_a_network_that_ignores_its_input_has_no_information(images: ImageSet) -> None:
    context = context_of(images, "squad", bins=5)
    with torch.no_grad():
        for name, parameter in context.network.named_parameters():
            if name.endswith("weight"):
                parameter.zero_()
    for layer in probes.information(context):
        assert max(layer["sum"]) < 1e-9


def test_the_time_of_an_epoch(squad_context: ProbeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[tuple[int, ...], int]] = []

    def spy(network: Network, *others: Any) -> Any:
        assert network.members == 1
        assert network.training
        steps = make_steps(network, *others)
        epoch = steps.epoch

        def counted(order: Tensor, first: Any) -> Tensor:
            calls.append((tuple(order.shape), first))
            return epoch(order, first)

        steps.epoch = counted  # type: ignore[method-assign]
        return steps

    monkeypatch.setattr(probes, "make_steps", spy)
    before = [parameter.clone() for parameter in squad_context.network.parameters()]
    found = probes.epoch(squad_context)
    assert (found["steps"], found["batch_size"]) == (3, 100)  # for 240 rows
    assert 0 < found["q25"] <= found["median"] <= found["q75"]
    # Every epoch has all steps and its own noise.
    assert calls == [((1, 3, 100), 3 * place) for place in range(WARM_UP_EPOCHS + TIMED_EPOCHS)]
    assert all(map(torch.equal, before, squad_context.network.parameters()))  # a separate network was trained


def test_warm_up_epochs_are_not_timed(mlp_context: ProbeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    warm = [float(100 * place) for place in range(2 * WARM_UP_EPOCHS)]
    clock = iter([*warm, *(1000.0 * place + end for place in range(TIMED_EPOCHS) for end in (0, place))])
    monkeypatch.setattr(probes, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    found = probes.epoch(mlp_context)
    assert (found["q25"], found["median"], found["q75"]) == (1.5, 3.0, 4.5)  # of 0, 1, ... 6


def test_shapes_and_weights(squad_context: ProbeContext, images: ImageSet) -> None:
    kinds = probes.stereotypes(squad_context)
    assert [one["layer"] for one in kinds] == [1, 2]
    for one in kinds:
        assert sum(one["modes"]) == pytest.approx(1.0, abs=1e-4)
        assert one["nearest"]
    unit = probes.weights(squad_context)
    assert (unit["weights"]["layer"], unit["weights"]["unit"]) == (1, 12)
    assert np.shape(unit["weights"]["weights"]) == (5, 64)
    assert unit["shape"] == [8, 8]
    assert len(unit["cases"]) == len(unit["pictures"]) == len(unit["classes"]) <= 5
    for case, picture, label in zip(unit["cases"], unit["pictures"], unit["classes"], strict=True):
        np.testing.assert_array_equal(picture, images.x_test[case["row"]])
        assert label == images.classes[images.y_test[case["row"]]]


def test_activations(images: ImageSet) -> None:
    found = probes.activation(context_of(images, "squad-factorized", rank=1, bins=5))
    assert (found["unit"]["layer"], found["unit"]["unit"]) == (1, 12)
    assert len(found["others"]) == HIDDEN[0]
    # Unit 12 is also among the others, with every fifth of its positions.
    assert found["others"][11]["position"] == found["unit"]["position"][::5]
    assert found["others"][11]["mean"] == found["unit"]["mean"][::5]


@pytest.mark.parametrize("name", PROBES)
def test_results_are_plain_json(name: str, squad_context: ProbeContext) -> None:
    found = PROBES[name](squad_context)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
