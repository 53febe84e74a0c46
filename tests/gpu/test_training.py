"""Training on a GPU: it learns, members equal single networks, and data that does not fit stays on the host."""

from pathlib import Path

import pytest
import torch

from squad.models import CONFIGS, build
from squad.train import TrainConfig, fit
from squad.train.adam import Adam, flatten
from squad.train.step import KernelSteps, PlainSteps, Steps
from tests.needs import need_gpu
from tests.train.problems import blobs, small
from tests.train.test_checkpoint import Interrupt

SETTINGS = TrainConfig(lr=3e-3, batch_size=24, max_epochs=25, anneal_epochs=5)


@pytest.fixture(autouse=True)
def _gpu() -> None:
    need_gpu()


@pytest.mark.parametrize("name", CONFIGS)
def test_members_equal_single_networks(name: str) -> None:
    data = blobs(240, dtype=torch.float64)
    together = fit(small(name), SETTINGS, data, [7, 8, 9], device="cuda")
    for member, seed in enumerate((7, 8, 9)):
        alone = fit(small(name), SETTINGS, data, [seed], device="cuda")
        torch.testing.assert_close(flatten(together.network)[member], flatten(alone.network)[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", CONFIGS)
def test_training_agrees_with_a_cpu(name: str) -> None:
    """The same shuffles, noise and steps: in float64 the weights agree up to rounding."""
    data = blobs(240, dtype=torch.float64)
    here, there = (fit(small(name), SETTINGS, data, [7], device=device) for device in ("cpu", "cuda"))
    assert here.members == there.members
    torch.testing.assert_close(flatten(there.network).cpu(), flatten(here.network), rtol=0, atol=1e-8)


def test_data_that_does_not_fit_stays_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    data = blobs(240, dtype=torch.float64)
    expected = fit(small("squad"), SETTINGS, data, [7], device="cuda")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (1000, 1000))
    found = fit(small("squad"), SETTINGS, data, [7], device="cuda")
    assert torch.equal(flatten(found.network), flatten(expected.network))


def _steps(name: str, kind: str, members: int, reach: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses of two epochs, and the weights after them, by plain steps or a captured graph, in full precision."""
    data = blobs(240)
    x, y = data.x.cuda(), data.y.cuda()
    network = build(small(name), x.shape[1], data.classes, list(range(members))).cuda().train()
    adam = Adam(network, torch.linspace(0.001, 0.01, members), torch.linspace(0, 0.1, members))
    beta, seed = torch.linspace(0.1, 1, members).cuda(), torch.arange(members).cuda() + 2**40
    order = torch.randint(240, (members, 6, 24), generator=torch.Generator().manual_seed(3)).cuda()
    near = torch.full((1, 1, x.shape[1]), reach, device="cuda") if reach else None
    steps: Steps = (
        KernelSteps(network, adam, x, y, beta, seed, reach=near)
        if kind == "graph"
        else PlainSteps(network, adam, x, y, beta, seed, near)
    )
    first = steps.epoch(order, 0)
    adam.set_lr([0.002] * members)  # a tensor on the device, which the graph reads
    return torch.stack([first, steps.epoch(order.flip(1), 6)]), adam.flat.clone()


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("name", CONFIGS)
def test_captured_graph_equals_plain_steps(name: str, members: int) -> None:
    for plain, graph in zip(_steps(name, "plain", members), _steps(name, "graph", members), strict=True):
        torch.testing.assert_close(graph, plain, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("name", CONFIGS)
def test_captured_graph_equals_plain_steps_of_adversarial_training(name: str) -> None:
    found = (_steps(name, kind, 3, reach=0.1) for kind in ("plain", "graph"))
    for plain, graph in zip(*found, strict=True):
        torch.testing.assert_close(graph, plain, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("name", CONFIGS)
def test_members_can_leave_a_graph_during_training(name: str) -> None:
    """Learning rates so different that members end in different epochs: each time the graph is recaptured."""
    settings = TrainConfig(
        lr=(3e-3, 1e30, 3e-3), batch_size=24, max_epochs=40, anneal_epochs=3, stop_patience=4, lr_patience=2
    )
    found = fit(small(name), settings, blobs(240), [7, 8, 9], device="cuda")
    assert found.members[1].ended == "diverged"
    for member in (0, 2):
        accuracy = found.members[member].best_accuracy
        assert accuracy is not None
        assert accuracy > 0.4  # of three classes; patience is short here


@pytest.mark.parametrize("name", CONFIGS)
def test_members_equal_single_networks_in_a_graph(name: str) -> None:
    """In float32, by the kernels; only a few epochs, because rounding differences grow from step to step."""
    settings = TrainConfig(lr=3e-3, batch_size=24, max_epochs=3, anneal_epochs=2, precision="float32")
    data = blobs(240)
    together = fit(small(name), settings, data, [7, 8, 9], device="cuda")
    for member, seed in enumerate((7, 8, 9)):
        alone = fit(small(name), settings, data, [seed], device="cuda")
        torch.testing.assert_close(flatten(together.network)[member], flatten(alone.network)[0], rtol=1e-4, atol=1e-4)


def test_training_in_a_graph_resumes_from_a_checkpoint(tmp_path: Path) -> None:
    """Interrupted between two epochs and resumed: the same steps, and the same weights to the bit."""
    data = blobs(240)
    settings = TrainConfig(lr=3e-3, batch_size=24, max_epochs=12, anneal_epochs=3)
    expected = fit(small("squad"), settings, data, [7, 8], device="cuda")
    path = tmp_path / "run.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        fit(
            small("squad"), settings, data, [7, 8], device="cuda", checkpoint=path, checkpoint_seconds=0,
            progress=Interrupt(5),
        )  # fmt: skip
    found = fit(small("squad"), settings, data, [7, 8], device="cuda", checkpoint=path)
    assert torch.equal(flatten(found.network), flatten(expected.network))


def test_tf32_training_is_as_accurate_as_float32() -> None:
    for precision in ("tf32", "float32"):
        settings = TrainConfig(lr=3e-3, batch_size=24, max_epochs=25, anneal_epochs=5, precision=precision)
        found = fit(small("squad"), settings, blobs(240), [7], device="cuda")
        assert (found.members[0].best_accuracy or 0) > 0.85
    assert not torch.backends.cuda.matmul.allow_tf32
