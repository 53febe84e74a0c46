"""Networks: their structure, members equal to networks built alone, noise selected by seed and step."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import squad
from squad.core.noise import hashed_seeds, make_key
from squad.errors import ArgumentError
from squad.layers.members import MemberModule
from squad.layers.quantized import SquadLayer
from squad.layers.stochastic import StochasticModule
from squad.models import CONFIGS, Network, Output, build, network_config, restore
from squad.models.networks import Stage, blank

NAMES = tuple(CONFIGS)
each = pytest.mark.parametrize("name", NAMES)
IN, CLASSES = 6, 3

#: Number of parameters of a hidden layer, from its input and output sizes; 15 and 37 values per layer for SQUAD.
WEIGHTS = {
    "squad": lambda i, o: (i + 1) * 15 * o + 15,
    "squad-factorized": lambda i, o: (i + 1) * o * 4 + o * (4 + 1) * 37 + 37,
    "mlp": lambda i, o: (i + 1) * o,
    "maxout-dropout": lambda i, o: (i + 1) * 11 * o,
    "relu-dropout": lambda i, o: (i + 1) * o,
    "dlgm": lambda i, o: (i + 1) * 2 * o,
}
LAYERS = {
    "squad": squad.SquadLinear,
    "squad-factorized": squad.FactorizedSquadLinear,
    "mlp": squad.Linear,
    "maxout-dropout": squad.MaxoutLinear,
    "relu-dropout": squad.Linear,
    "dlgm": squad.GaussianLinear,
}


def make(name: str, seeds: tuple[int, ...] = (5, 6, 7), **settings: Any) -> Network:
    return build(network_config(name, {"hidden": (5, 4), **settings}), IN, CLASSES, seeds)


def stages(network: Network) -> list[Stage]:
    return [stage for stage in network.stages if isinstance(stage, Stage)]


def rows(*shape: int) -> Tensor:
    return torch.randn(*shape, IN, generator=torch.Generator().manual_seed(1))


def same(one: nn.Module, other: nn.Module) -> bool:
    a, b = one.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


# ---- structure


@each
@pytest.mark.parametrize("hidden", [(7,), (5, 4), (3, 9, 2), (4, 4, 1, 5)])
def test_layers_and_number_of_weights(name: str, hidden: tuple[int, ...]) -> None:
    network = Network(network_config(name, {"hidden": hidden}), IN, CLASSES)
    sizes = [IN, *hidden]
    found = stages(network)
    assert [(s.layer.in_features, s.layer.out_features) for s in found] == list(
        zip(sizes, [*hidden, CLASSES], strict=True)
    )
    assert [type(s.layer) for s in found] == [LAYERS[name]] * len(hidden) + [squad.Linear]
    assert [s.relu for s in found] == [name in ("mlp", "relu-dropout")] * len(hidden) + [False]
    expected = sum(WEIGHTS[name](i, o) for i, o in zip(sizes, hidden, strict=False)) + (hidden[-1] + 1) * CLASSES
    assert sum(parameter.numel() for parameter in network.parameters()) == expected
    out = network.eval()(rows(8))
    assert isinstance(out, Output)
    assert (out.logits.shape, out.kl.shape) == ((8, CLASSES), (8,))


@each
def test_dropout_precedes_each_layer(name: str) -> None:
    network = Network(network_config(name, {"hidden": (5, 4), "dropout": 0.25}), IN, CLASSES)
    drops = [stage.dropout for stage in stages(network)]
    assert [drop.in_features for drop in drops if drop is not None] == [IN, 5, 4]
    sampling = "sample" if name in ("relu-dropout", "maxout-dropout") else "mean"
    for drop in drops:
        assert drop is not None
        assert drop.rate == 0.25
        assert drop.sampling == sampling
    none = Network(network_config(name, {"dropout": 0.0}), IN, CLASSES)
    assert [stage.dropout for stage in stages(none)] == [None] * 3


@pytest.mark.parametrize("index", [0, 1, 2])
def test_every_dropout_is_applied(index: int) -> None:
    network = make("mlp", dropout=0.5)
    for at, stage in enumerate(stages(network)):
        assert stage.dropout is not None
        stage.dropout.rate.fill_(0.5 if at == index else 0.0)
    x = rows(40)
    assert not torch.equal(network(x).logits, network(x).logits)
    before = network.eval()(x).logits
    assert torch.equal(before, network(x).logits)
    network.stages[index].dropout.sampling = "sample"  # type: ignore[union-attr]
    assert not torch.equal(before, network(x).logits)


@each
def test_only_latents_have_a_kl_and_a_temperature(name: str) -> None:
    network = make(name).eval()
    latent = name in ("squad", "squad-factorized", "dlgm")
    kl = network(rows(8)).kl
    assert network.has_latents == latent
    assert network.has_temperature == name.startswith("squad")
    assert bool((kl > 0).all()) == latent
    assert latent or not kl.any()


def test_kl_is_the_sum_over_layers() -> None:
    network, x = make("squad").eval(), rows(8)
    total, z = torch.zeros(3, 8), x.unsqueeze(0)
    for stage in stages(network)[:-1]:
        assert isinstance(stage.layer, SquadLayer)
        z, kl = stage.layer.predict_with_kl(z)
        total = total + kl
    torch.testing.assert_close(network(x).kl, total)


def test_settings_reach_the_layers() -> None:
    network = make("squad", bins=7, limit=2.0, prior="gaussian", spacing="linear", learn_values="fixed")
    layer = stages(network)[0].layer
    assert isinstance(layer, SquadLayer)
    assert layer.values.shape == (3, 7)
    assert layer.values.max() == 2
    assert not layer.values.requires_grad
    assert layer.log_prior[0].argmax() == 3
    shared = stages(make("squad-factorized", rank=2, shared=True, learn_values="per_neuron"))[0].layer
    assert tuple(shared.get_parameter("weight1").shape) == (3, IN, 1, 2)
    assert tuple(shared.get_parameter("values").shape) == (3, 37, 5)
    assert tuple(stages(make("maxout-dropout", pieces=2))[0].layer.get_parameter("weight").shape) == (3, IN, 10)


@each
def test_init_scale_per_member(name: str) -> None:
    network = build(network_config(name, {"hidden": (200,), "init_scale": (0.5, 8.0)}), IN, CLASSES, [0, 1])
    layer = stages(network)[0].layer
    weight = layer.get_parameter("weight2" if name == "squad-factorized" else "weight")
    ratio = weight[1].std() / weight[0].std()
    assert 3.5 < ratio < 4.5
    output = stages(network)[1].layer.get_parameter("weight")
    assert 0.8 < output[1].std() / output[0].std() < 1.25  # the output layer is not scaled


# ---- members


@each
@pytest.mark.parametrize("settings", [{}, {"dropout": (0.5, 0.0, 0.2), "init_scale": (1.0, 2.0, 3.0)}], ids=str)
def test_a_member_equals_the_network_built_alone(name: str, settings: dict[str, Any]) -> None:
    together = make(name, **settings)
    assert together.members == 3
    for index, member in enumerate(squad.unstack(together)):
        own = {key: value[index] for key, value in settings.items()}
        alone = make(name, (5 + index,), **own)
        assert alone.members == 1
        (single,) = squad.unstack(alone)
        assert member.state_dict().keys() >= single.state_dict().keys()
        for key, tensor in single.state_dict().items():
            assert torch.equal(member.state_dict()[key], tensor), key
        x = rows(9)
        torch.testing.assert_close(together.eval()(x).logits[index], alone.eval()(x).logits[0])
        torch.testing.assert_close(together(x).kl[index], alone(x).kl[0])


def test_a_member_with_dropout_rate_zero_among_others_drops_nothing() -> None:
    network = make("mlp", dropout=(0.0, 0.5, 0.5))
    x = rows(9)
    logits = network(x).logits
    assert torch.equal(logits[0], network.eval()(x).logits[0])
    assert not torch.equal(logits[1], network(x).logits[1])


@each
def test_members_with_different_seeds_differ(name: str) -> None:
    network = make(name, (1, 2, 1), dropout=0.5)
    one, two, again = squad.unstack(network)
    assert same(one, again)
    assert not same(one, two)
    seeds = [buffer for key, buffer in network.named_buffers() if key.endswith("seed")]
    found = torch.stack(seeds).flatten().tolist()
    assert len(set(found)) == len(found) * 2 // 3  # one for each module and seed


@each
def test_stack_and_unstack(name: str) -> None:
    network = make(name)
    members = squad.unstack(network)
    assert [member.members for member in members] == [None] * 3
    assert same(squad.stack(members), network)
    reordered = squad.stack(members[::-1])
    x = rows(4)
    torch.testing.assert_close(reordered.eval()(x).logits, network.eval()(x).logits.flip(0))
    for member, logits in zip(members, network(x).logits, strict=True):
        torch.testing.assert_close(member.eval()(x).logits, logits)


def test_networks_of_different_sizes_cannot_be_stacked() -> None:
    one, two = (Network(network_config("mlp", {"hidden": (size,)}), IN, CLASSES) for size in (4, 5))
    with pytest.raises(ArgumentError, match="out_features"):
        squad.stack([one, two])


def test_invalid_sizes_are_rejected() -> None:
    with pytest.raises(ArgumentError, match=r"dropout.* 3 members.*got 2"):
        make("mlp", dropout=(0.1, 0.2))
    with pytest.raises(ArgumentError, match=r"classes.*2.*got 1"):
        build(network_config("mlp"), IN, 1, [0])
    with pytest.raises(ArgumentError, match=r"in_features.*1.*got 0"):
        build(network_config("mlp"), 0, CLASSES, [0])


# ---- forward


@each
def test_rows_shared_by_members_or_one_set_per_member(name: str) -> None:
    network, x = make(name).eval(), rows(3, 8)
    own = network(x)
    assert (own.logits.shape, own.kl.shape) == ((3, 8, CLASSES), (3, 8))
    for index in range(3):
        for shared in (x[index], x[index : index + 1]):
            out = network(shared)
            assert out.logits.shape == (3, 8, CLASSES)
            torch.testing.assert_close(out.logits[index], own.logits[index])
            torch.testing.assert_close(out.kl[index], own.kl[index])
    single = squad.unstack(network)[1].eval()
    torch.testing.assert_close(single(x[1]).logits, own.logits[1])


def test_rows_of_the_wrong_shape_are_rejected() -> None:
    network = make("squad")
    with pytest.raises(ArgumentError, match=r"x .*\(3, rows, 6\).*\(1, rows, 6\).*\(2, 8, 6\)"):
        network(torch.zeros(2, 8, IN))
    with pytest.raises(ArgumentError, match=r"x .*got .*\(1, 8, 5\)"):
        network(torch.zeros(8, 5))


@each
def test_eval_mode_is_deterministic(name: str) -> None:
    network, x = make(name).eval(), rows(8)
    first = network(x)
    torch.manual_seed(123)
    again = network(x, seed=torch.tensor(9), step=4)
    assert torch.equal(first.logits, again.logits)
    assert torch.equal(first.kl, again.kl)
    with squad.sample_index(1):
        other = network(x).logits
    random = name not in ("mlp",)
    assert torch.equal(first.logits, other) != random


# ---- noise in training

RANDOM = pytest.mark.parametrize("name", [name for name in NAMES if name != "mlp"])


def noise_seeds(*seeds: int) -> Tensor:
    return hashed_seeds(make_key(torch.tensor(seeds), 1)).squeeze(-1)


@RANDOM
def test_seed_and_step_determine_the_training_noise(name: str) -> None:
    network, x = make(name, (5, 5, 5)), rows(30)
    seeds = noise_seeds(1, 1, 2)
    first = network(x, seed=seeds, step=3).logits
    torch.manual_seed(99)
    assert torch.equal(first, network(x, seed=seeds, step=3).logits)
    assert not torch.equal(first, network(x, seed=seeds, step=4).logits)
    torch.testing.assert_close(first[0], first[1])
    assert not torch.allclose(first[0], first[2], atol=1e-4)
    drawn = network(x).logits  # no seed: torch's generator, each member its own
    assert not torch.allclose(drawn[0], drawn[1], atol=1e-4)
    torch.manual_seed(99)
    assert torch.equal(drawn, network(x).logits)


def test_training_noise_of_layers_and_dropouts_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    sample, drop = squad.SquadLinear.sample_with_kl, squad.Dropout.drop

    def spy_sample(self: Any, x: Tensor, *, seed: Tensor, step: int) -> Any:
        seen.append(int(seed))
        return sample(self, x, seed=seed, step=step)

    def spy_drop(self: Any, x: Tensor, *, seed: Tensor, step: int) -> Any:
        seen.append(int(seed))
        return drop(self, x, seed=seed, step=step)

    monkeypatch.setattr(squad.SquadLinear, "sample_with_kl", spy_sample)
    monkeypatch.setattr(squad.Dropout, "drop", spy_drop)
    make("squad", (5,), dropout=0.5)(rows(4), seed=torch.tensor(1000), step=0)
    assert len(seen) == 5
    assert len(set(seen)) == 5


# ---- torch's generators


@each
def test_build_does_not_change_torchs_generators(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seeded: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    before = torch.get_rng_state()
    one = make(name, dropout=(0.0, 0.5, 0.1))
    assert torch.equal(before, torch.get_rng_state())
    assert not seeded
    torch.manual_seed(77)
    assert same(one, make(name, dropout=(0.0, 0.5, 0.1)))


def test_build_creates_on_the_cpu_whatever_the_default_device() -> None:
    with torch.device("meta"):
        network = make("squad", dropout=0.1)
    assert {tensor.device.type for tensor in network.state_dict().values()} == {"cpu"}
    assert same(network, make("squad", dropout=0.1))


# ---- blank networks and restored ones


@each
@pytest.mark.parametrize("settings", [{}, {"dropout": (0.0, 0.5, 0.1)}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_restore_from_tensors(name: str, settings: dict[str, Any], dtype: torch.dtype) -> None:
    network = make(name, **settings).to(dtype)
    config = network_config(name, {"hidden": (5, 4), **settings})
    before = torch.get_rng_state()
    again = restore(config, IN, CLASSES, 3, network.state_dict())
    assert torch.equal(before, torch.get_rng_state())
    assert same(network, again)
    assert str(network) == str(again)
    assert [p.requires_grad for p in again.parameters()] == [p.requires_grad for p in network.parameters()]
    x = rows(9).to(dtype)
    assert torch.equal(network.eval()(x).logits, again.eval()(x).logits)
    with torch.no_grad():
        next(network.parameters()).zero_()
    assert not same(network, again)  # a copy


@each
def test_blank_has_the_shapes_of_build(name: str) -> None:
    empty = blank(network_config(name, {"hidden": (5, 4), "dropout": (0.0, 0.5, 0.1)}), IN, CLASSES, 3)
    full = make(name, dropout=(0.0, 0.5, 0.1))
    assert {key: (v.shape, v.dtype) for key, v in empty.state_dict().items()} == {
        key: (v.shape, v.dtype) for key, v in full.state_dict().items()
    }
    assert {tensor.device.type for tensor in empty.state_dict().values()} == {"meta"}
    assert all(layer.members == 3 for layer in empty.modules() if isinstance(layer, MemberModule))
    huge = blank(network_config(name, {"hidden": (10_000,)}), 10_000_000, 1000, 2)
    assert max(tensor.numel() for tensor in huge.state_dict().values()) > 10**7


def test_a_stochastic_layer_that_cannot_be_sampled_is_refused() -> None:
    """Its KL and its seed would be ignored without a word."""

    class Noisy(StochasticModule):
        samplings = ("sample",)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    with pytest.raises(ArgumentError, match=r"Noisy.*LATENT_LAYERS"):
        Stage(None, Noisy(3, 3, None, None))
