"""The training loop: members trained together equal members trained alone; early stopping; best weights."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import squad
from squad.core.noise import hashed_seeds, make_key
from squad.layers.quantized import SquadLayer
from squad.layers.stochastic import StochasticModule
from squad.models import CONFIGS, Network, Sampler, build, network_config
from squad.models.networks import Output
from squad.train import EpochReport, TrainConfig, TrainingData, TrainingError, fit, loop
from squad.train import step as steps_of
from squad.train.adam import Adam, flatten
from squad.train.state import Epoch, State
from squad.train.training_data import NOISE, SHUFFLE, shuffled
from tests.train.problems import blobs, precisions, small


def run(**settings: object) -> TrainConfig:
    return TrainConfig.of({"lr": 5e-3, "batch_size": 24, "max_epochs": 6, **settings})


def layers(network: Network) -> list[SquadLayer]:
    return [layer for layer in network.modules() if isinstance(layer, SquadLayer)]


def own_rows(data: TrainingData, member: int) -> TrainingData:
    """The data with the rows of one member only."""
    own = slice(member, member + 1)
    return dataclasses.replace(data, train=data.train[own], validation=data.validation[own])


class Listener:
    """Progress that records all reports and messages."""

    def __init__(self) -> None:
        self.reports: list[EpochReport] = []
        self.messages: list[str] = []
        self.closed = False

    def start(self, epoch: int, epochs: int) -> None:
        self.first = epoch

    def epoch(self, report: EpochReport) -> None:
        self.reports.append(report)

    def message(self, text: str) -> None:
        self.messages.append(text)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("name", CONFIGS)
def test_every_network_learns(name: str) -> None:
    data = blobs(noise=0.5)
    config = small(name)
    fitted = fit(config, run(max_epochs=20, anneal_epochs=5), data, [0])
    p = Sampler(fitted.network, config.sampling_modes[0], 8)(data.x[data.validation[0]]).probabilities[0]
    accuracy = (p.argmax(-1) == data.y[data.validation[0]]).double().mean().item()
    assert accuracy >= 0.95
    (member,) = fitted.members
    assert member.best_accuracy == pytest.approx(max(e["validation_accuracy"][0] for e in fitted.history[5:]))


@pytest.mark.parametrize(
    ("name", "dtype", "tolerance", "epochs"),
    [
        # tests/slow has the other networks, and more epochs
        ("squad", torch.float64, 1e-10, 8),
        ("maxout-dropout", torch.float32, 1e-5, 8),
    ],
)
def test_members_trained_together_equal_members_trained_alone(
    name: str, dtype: torch.dtype, tolerance: float, epochs: int
) -> None:
    """Each member has its own seed, learning rate, KL multiplier, dropout, scale, temperature, decay and rows.

    An epoch has 8 steps.
    """
    members = 3
    data = blobs(240, dtype=dtype, members=members)
    per_member = {
        "lr": (1e-3, 2e-3, 5e-4),
        "kl_multiplier": (1e-3, 5e-3, 0.0),
        "weight_decay": (0.0, 1e-5, 1e-3),
        "temperature_start": (1.0, 0.9, 1.2),
        "temperature_end": (0.5, 0.6, 0.7),
        "anneal_epochs": (3, 5, 0),
    }
    options = {"dropout": (0.1, 0.0, 0.3), "init_scale": (2.0, 1.0, 3.0)}
    together = fit(small(name, **options), run(max_epochs=epochs, **per_member), data, [7, 8, 9])
    for member in range(members):
        own = {name: values[member] for name, values in per_member.items()}
        rows = own_rows(data, member)
        config = small(name, **{key: values[member] for key, values in options.items()})
        alone = fit(config, run(max_epochs=epochs, **own), rows, [7 + member])
        assert together.members[member] == alone.members[0]
        ours, theirs = flatten(together.network)[member], flatten(alone.network)[0]
        if config.dropout == 0 and any(options["dropout"]):
            assert len(ours) == len(theirs)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


def test_a_member_does_not_depend_on_its_slot_or_on_other_members() -> None:
    data = blobs(dtype=torch.float64)
    first = fit(small("squad"), run(), data, [3, 4])
    second = fit(small("squad"), run(), data, [9, 4, 3])
    torch.testing.assert_close(flatten(first.network)[0], flatten(second.network)[2], rtol=0, atol=1e-12)


def test_nan_in_one_member_does_not_change_the_others() -> None:
    """Except for rounding, since matrix products of two members differ from those of three."""
    data = blobs(dtype=torch.float64)
    listener = Listener()
    healthy = fit(small("squad"), run(lr=(1e-3, 1e-3, 1e-3), max_epochs=8, anneal_epochs=2), data, [1, 2, 3])
    broken = fit(
        small("squad"),
        run(lr=(1e-3, 1e308, 1e-3), max_epochs=8, anneal_epochs=2),
        data,
        [1, 2, 3],
        progress=listener,
    )
    assert [member.ended for member in broken.members] == ["at max_epochs", "diverged", "at max_epochs"]
    assert broken.network.members == 2
    expected = flatten(healthy.network)[[0, 2]]
    torch.testing.assert_close(flatten(broken.network), expected, rtol=0, atol=1e-10)
    assert any("member 1" in message and "lower" in message for message in listener.messages)
    assert listener.closed


def test_weights_that_diverge_in_the_last_step_are_not_the_best() -> None:
    """The loss is computed before a step; divergence in the last step shows in the validation likelihood only."""
    config = run(max_epochs=3, batch_size=240)
    for lr in (1e38, 1e25):
        with pytest.raises(TrainingError):
            fit(small("mlp"), dataclasses.replace(config, lr=lr), blobs(), [0])


def test_divergence_of_all_members_is_an_error() -> None:
    with pytest.raises(TrainingError, match=r"epochs.*\(lr\)"):
        fit(small("mlp"), run(lr=1e308), blobs(dtype=torch.float64), [0])


def test_best_weights_survive_a_later_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that diverges later keeps its best weights."""
    steps = 0
    original = steps_of.losses

    def poisoned(*args: object) -> tuple[torch.Tensor, torch.Tensor]:
        nonlocal steps
        steps += 1
        loss, kl = original(*args)  # type: ignore[arg-type]
        return (loss * float("nan") if steps > 40 else loss), kl

    monkeypatch.setattr(steps_of, "losses", poisoned)
    fitted = fit(small("mlp"), run(max_epochs=20), blobs(noise=0.5), [0])
    (member,) = fitted.members
    assert member.ended == "diverged"
    assert member.best_epoch is not None
    assert bool(flatten(fitted.network).isfinite().all())
    assert fitted.history[-1]["loss"] == [None]


def test_the_loss_is_cross_entropy_plus_beta_times_kl() -> None:
    network = build(small("squad"), 6, 3, [0, 1])
    torch.manual_seed(0)
    x, y = torch.randn(2, 10, 6), torch.randint(3, (2, 10))
    beta, seed = torch.tensor([0.5, 0.0]), torch.tensor([11, 12])
    loss, kl = steps_of.losses(network, x, y, beta, seed, 3)
    out = network(x, seed=seed, step=3)
    for member in range(2):
        expected = F.cross_entropy(out.logits[member], y[member]) + beta[member] * out.kl[member].mean()
        torch.testing.assert_close(loss[member], expected)
        torch.testing.assert_close(kl[member], out.kl[member].mean())
    # The KL is summed over latents and layers.
    first, second = layers(network)[:2]
    z, one = first.sample_with_kl(x, seed=seed, step=3)
    _, two = second.sample_with_kl(z, seed=seed + 2, step=3)
    torch.testing.assert_close(out.kl, one + two)


def test_the_temperature_is_annealed_linearly_and_patience_counts_afterwards() -> None:
    listener = Listener()
    config = run(max_epochs=12, anneal_epochs=4, stop_patience=3, lr_patience=2)
    fitted = fit(small("squad"), config, blobs(noise=0.1), [0], progress=listener)
    temperatures = [entry["temperature"][0] for entry in fitted.history]
    assert temperatures[:6] == pytest.approx([1.0, 0.875, 0.75, 0.625, 0.5, 0.5])
    (member,) = fitted.members
    # Easy data: perfect from the first epoch that counts, the fifth; then three without improvement.
    assert member.best_accuracy == 1.0
    assert member.epochs == 8
    assert member.ended == "stopped early"
    assert layers(fitted.network)[0].temperature.tolist() == [0.5]
    assert [report.temperature for report in listener.reports] == pytest.approx(temperatures)


def epoch(accuracy: float, nll: float = 1.0, loss: float = 1.0, arrived: bool = True) -> Epoch:
    return Epoch([loss], [0.0], [accuracy], [nll], [], [arrived])


def test_learning_rate_and_early_stopping_depend_on_accuracy() -> None:
    config = TrainConfig(lr=1.0, lr_patience=10, stop_patience=20)
    state = State.start([1.0])
    assert state.advance(epoch(0.5, arrived=False), config) == []
    assert state.best_epoch == [None]
    assert state.advance(epoch(0.5), config) == [0]
    for count in range(1, 20):
        # Better likelihood at the same accuracy: these weights are kept, but patience still counts.
        assert state.advance(epoch(0.5, nll=1.0 - 0.01 * count), config) == [0]
        assert state.lr == [1.0 if count < 10 else 0.1]
        assert state.ended == [None]
    assert state.advance(epoch(0.5, nll=2.0), config) == []
    assert state.ended == ["stopped early"]
    assert state.best_epoch == [21]


def test_better_accuracy_resets_patience_and_not_the_learning_rate() -> None:
    config = TrainConfig(lr=1.0, lr_patience=2, stop_patience=4)
    state = State.start([1.0])
    for accuracy in (0.5, 0.4, 0.4, 0.6, 0.6, 0.6, 0.5):
        state.advance(epoch(accuracy, nll=3.0), config)
    assert state.lr == pytest.approx([0.01])
    assert state.best_epoch == [4]
    assert state.ended == [None]
    state.advance(epoch(0.5, nll=3.0), config)
    assert state.ended == ["stopped early"]


def test_the_optimizer_uses_the_reduced_learning_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[float]] = []
    original = Adam.step

    def spy(self: Adam) -> None:
        seen.append(self.lr.tolist())
        original(self)

    monkeypatch.setattr(Adam, "step", spy)
    settings = run(max_epochs=12, anneal_epochs=1, lr_patience=2, stop_patience=12)
    fitted = fit(small("squad"), settings, blobs(noise=0.3, dtype=torch.float64), [0])
    after = [entry["lr"][0] for entry in fitted.history]
    steps = len(seen) // len(after)
    assert min(after) <= 5e-4, "the test needs a plateau"
    for epoch, lr in enumerate([5e-3, *after[:-1]]):
        assert [used[0] for used in seen[epoch * steps : (epoch + 1) * steps]] == pytest.approx([lr] * steps)


def test_noise_and_order_of_rows_differ_between_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, tuple[float, ...]]] = []
    original = steps_of.losses

    def spy(network: Network, x: torch.Tensor, *rest: object) -> tuple[torch.Tensor, torch.Tensor]:
        seen.append((rest[-1], tuple(x[0, :, 0].tolist())))  # type: ignore[arg-type]
        return original(network, x, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(steps_of, "losses", spy)
    fit(small("mlp"), run(max_epochs=3), blobs(), [0])
    steps, batches = zip(*seen, strict=True)
    assert steps == tuple(range(30))
    assert len(set(batches)) == 30


def test_members_stop_at_different_epochs_and_keep_their_best_weights() -> None:
    """Each has the weights of its best epoch, as if trained alone."""
    data = blobs(dtype=torch.float64, members=3)
    settings = run(max_epochs=40, anneal_epochs=3, stop_patience=4, lr_patience=2)
    together = fit(small("squad"), settings, data, [1, 2, 3])
    assert len({member.epochs for member in together.members}) > 1, (
        "the test needs members that stop at different epochs"
    )
    for member in range(3):
        rows = own_rows(data, member)
        alone = fit(small("squad"), settings, rows, [1 + member])
        assert alone.members[0] == together.members[member]
        torch.testing.assert_close(flatten(together.network)[member], flatten(alone.network)[0], rtol=0, atol=1e-10)


def test_validation_uses_the_sampling_mode_of_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[tuple[str, int]] = []

    class Spy(Sampler):
        def __init__(self, network: squad.models.Network, sampling: str, num_samples: int, **rest: Any) -> None:
            used.append((sampling, num_samples))
            super().__init__(network, sampling, num_samples, **rest)

    monkeypatch.setattr(loop, "Sampler", Spy)
    fit(small("squad"), run(max_epochs=2), blobs(), [0], sampling="hard", num_samples=3)
    fit(small("squad"), run(max_epochs=1), blobs(), [0])
    assert used == [("hard", 3), ("hard", 3), ("stratified", 8)]


@pytest.mark.parametrize("precision", ["tf32", "float32"])
def test_validation_has_the_precision_of_training_and_prediction_full_precision(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = precisions(monkeypatch)
    fitted = fit(small("maxout-dropout"), run(max_epochs=2, precision=precision), blobs(), [0])
    assert used == [precision] * 2
    used.clear()
    Sampler(fitted.network, "sample", 2)(blobs().x)
    assert used == ["float32"]


def test_every_purpose_has_its_own_seed() -> None:
    """Training noise, shuffling and the eval-mode noise of every layer all have different seeds."""
    seeds = torch.tensor([5])
    purposes = [hashed_seeds(make_key(seeds, purpose)).item() for purpose in (NOISE, SHUFFLE)]
    network = build(small("squad", dropout=0.1), 6, 3, [5])
    layer_seeds = [layer.seed.item() for layer in network.modules() if isinstance(layer, StochasticModule)]
    assert len(layer_seeds) == 5
    assert len({*purposes, *layer_seeds}) == 7


def test_each_member_shuffles_all_rows_in_its_own_order() -> None:
    rows = torch.arange(100, 123).unsqueeze(0)
    first = shuffled(rows, torch.tensor([1, 2]), 0, 5)
    assert first.shape == (2, 5, 5)
    flat = first.view(2, -1)
    for member in flat:
        assert set(member.tolist()) == set(range(100, 123))
        assert torch.equal(member[23:], member[:2])
    assert not torch.equal(flat[0], flat[1])
    assert not torch.equal(shuffled(rows, torch.tensor([1]), 1, 5)[0], first[0])
    assert torch.equal(shuffled(rows, torch.tensor([2]), 0, 5)[0], first[1])


def test_adversarial_examples_are_the_fast_gradient_sign() -> None:
    torch.manual_seed(0)
    network = build(small("mlp"), 6, 3, [0]).double()
    x, y = torch.randn(1, 12, 6, dtype=torch.float64), torch.randint(3, (1, 12))
    perturbation = torch.linspace(0, 0.2, 6, dtype=torch.float64)
    beta, seed = torch.zeros(1, dtype=torch.float64), torch.tensor([1])
    found = steps_of.backward(network, x.clone(), y, beta, seed, 0, perturbation)
    ours = [parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None]

    network.zero_grad()
    leaf = x.clone().requires_grad_()
    clean = F.cross_entropy(network(leaf).logits[0], y[0])
    (gradient,) = torch.autograd.grad(clean, leaf, retain_graph=True)
    adversarial = F.cross_entropy(network(x + perturbation * gradient.sign()).logits[0], y[0])
    assert adversarial > clean
    ((clean + adversarial) / 2).backward()
    for mine, parameter in zip(ours, network.parameters(), strict=True):
        torch.testing.assert_close(mine, parameter.grad)
    torch.testing.assert_close(found[0], ((clean + adversarial) / 2).detach().view(1))


def test_adversarial_members_equal_members_trained_alone() -> None:
    """Each uses the feature ranges of its own training rows, also after another has stopped."""
    data = blobs(100, dtype=torch.float64, members=3)
    settings = run(max_epochs=12, anneal_epochs=1, stop_patience=3, lr_patience=1, adversarial=0.3)
    together = fit(small("squad"), settings, data, [1, 2, 3])
    for member in range(3):
        rows = own_rows(data, member)
        alone = fit(small("squad"), settings, rows, [1 + member])
        assert alone.members[0] == together.members[member]
        torch.testing.assert_close(flatten(together.network)[member], flatten(alone.network)[0], rtol=0, atol=1e-10)


def test_adversarial_perturbations_depend_on_the_training_rows_only() -> None:
    data = blobs(100, dtype=torch.float64)
    unused = int(data.train[0, -1])
    data = dataclasses.replace(data, train=data.train[:, :-1])
    expected = fit(small("mlp"), run(adversarial=0.1), data, [0])
    data.x[unused] = 1e3
    assert torch.equal(flatten(fit(small("mlp"), run(adversarial=0.1), data, [0]).network), flatten(expected.network))


def test_adversarial_training_changes_the_weights() -> None:
    fitted = fit(small("squad"), run(max_epochs=1, anneal_epochs=0, adversarial=0.01), blobs(), [0, 1])
    plain = fit(small("squad"), run(max_epochs=1, anneal_epochs=0), blobs(), [0, 1])
    assert not torch.equal(flatten(fitted.network), flatten(plain.network))


def test_defaults_depend_on_the_network_and_the_data() -> None:
    squad_config, mlp = network_config("squad"), network_config("mlp")
    large = TrainConfig().resolved(squad_config, 50_000)
    assert (large.lr, large.kl_multiplier, large.batch_size, large.anneal_epochs) == (8e-4, 0.0027, 244, 60)
    few = TrainConfig(max_epochs=30).resolved(squad_config, 1000)
    assert (few.lr, few.batch_size, few.anneal_epochs) == (3e-3, 31, 20)
    tiny = TrainConfig().resolved(mlp, 9)
    assert (tiny.batch_size, tiny.anneal_epochs, tiny.kl_multiplier) == (9, 0, 0.0)
    assert TrainConfig(anneal_epochs=7).resolved(mlp, 100).anneal_epochs == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lr": 0.0}, "^lr.*got 0"),
        ({"lr": math.nan}, "^lr.*got nan"),
        ({"lr": "fast"}, "^lr.*got 'fast'"),
        ({"max_epochs": 0}, "^max_epochs.*got 0"),
        ({"batch_size": 2.5}, r"^batch_size.*got 2\.5"),
        ({"anneal_epochs": 200}, "^anneal_epochs.*max_epochs.*got 200"),
        ({"weight_decay": -1.0}, r"^weight_decay.*got -1\.0"),
        ({"leraning_rate": 1.0}, "leraning_rate.*training"),
        ({"stop_patient": 3}, "stop_patient.*stop_patience"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, object], words: str) -> None:
    with pytest.raises(squad.ArgumentError, match=words):
        TrainConfig.of(settings)


def test_settings_per_member_need_one_number_for_each() -> None:
    with pytest.raises(squad.ArgumentError, match=r"(lr|dropout).*3 members.*got 2"):
        fit(small("squad"), run(lr=(1e-3, 1e-3)), blobs(), [0, 1, 2])
    with pytest.raises(squad.ArgumentError, match=r"(lr|dropout).*3 members.*got 2"):
        fit(small("squad", dropout=(0.1, 0.2)), run(), blobs(), [0, 1, 2])


def test_output_of_networks_with_and_without_latents() -> None:
    out = build(small("dlgm"), 6, 3, [0])(torch.zeros(4, 6))
    assert isinstance(out, Output)
    assert out.logits.shape == (1, 4, 3)
    assert out.kl.shape == (1, 4)
    assert build(small("mlp"), 6, 3, [0])(torch.zeros(4, 6)).kl.tolist() == [[0.0] * 4]


def test_a_run_without_a_checkpoint_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fit(small("mlp"), run(), blobs(), [0])
    assert not list(tmp_path.iterdir())
