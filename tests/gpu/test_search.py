"""Populations on a GPU: captured graphs whose members are exchanged, and groups on concurrent streams."""

import gc
from typing import Any, cast

import pytest
import torch

from squad.models import NetworkConfig, network_config
from squad.models.padding import padded_config
from squad.search.population import Population
from squad.train import TrainConfig, TrainingData, fit
from squad.train.slots import DeviceData, Run, Slots
from squad.train.step import KernelSteps
from tests.search.sources import Listed, clouds, problem
from tests.train.test_slots import MODELS, epoch

COUNT = 12


def runs_of(model: str, batch: int) -> list[Run]:
    made = []
    for index in range(COUNT):
        network, training = MODELS[model][index % len(MODELS[model])]
        config = network_config(model.partition(",")[0], {"hidden": (9, 5), **network})
        settings = {"max_epochs": 4 + index % 3, "anneal_epochs": 2, "batch_size": batch, "precision": "float32"}
        run = Run(config, TrainConfig(**{**training, **settings}).resolved(config, 180), seed=index)
        made.append(run)
    return made


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("batch", [16, 45])
def test_members_exchanged_in_a_captured_graph_equal_single_networks(model: str, batch: int) -> None:
    data, runs = clouds(), runs_of(model, batch)
    sizes = [getattr(run.network, name) for run in runs for name in ("bins", "pieces") if hasattr(run.network, name)]
    wide = padded_config(runs[0].network, max(sizes, default=None), dropping=True)
    slots, waiting, graphs = Slots(DeviceData(data, "cuda"), wide, 4, runs[0].config), list(runs), set()
    while waiting or slots.active:
        for slot, run in enumerate(slots.runs):
            if run is not None and run.ended:
                slots.clear(slot)
        for slot in slots.free[: len(waiting)]:
            slots.put(slot, waiting.pop(0))
        if slots.active:
            epoch(slots)
            graphs.add(tuple(id(graph.graph) for graph in cast(KernelSteps, slots.steps).graphs))
    assert len(graphs) == 1  # nothing was recaptured
    assert len(next(iter(graphs))) == (2 if batch == 16 else 1)  # eight steps and one, or one alone
    for run in runs:
        alone = fit(run.network, run.config, data, [run.seed], device="cuda")
        for got, expected in zip(run.state.history, alone.history, strict=True):
            assert got["loss"] == pytest.approx(expected["loss"], rel=2e-3)
            assert got["kl"] == pytest.approx(expected["kl"], rel=2e-3, abs=1e-6)


@pytest.mark.parametrize("large", [False, True])
def test_concurrent_groups_agree_with_a_cpu(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With four batch sizes, in models that grow and shrink, padded or not."""
    monkeypatch.setattr("squad.search.problem.LARGE", 1 if large else 1 << 40)
    settings: list[dict[str, Any]] = []
    for index in range(40):
        network, training = MODELS["squad"][index % 4]
        tables = {"network": network, "training": {**training, "batch_size": (16, 32, 45, 64)[index * index % 4]}}
        settings.append({f"{table}.{name}": value for table, own in tables.items() for name, value in own.items()})
    for own in settings:
        own.pop("training.anneal_epochs", None)
        own.pop("training.max_epochs", None)
        own.setdefault("network.dropout", 0.0)
    found = {}
    for device in ("cpu", "cuda"):
        source = Listed([dict(own) for own in settings])
        Population(problem(data=clouds(torch.float32), precision="float32"), source, 13, device).run()
        found[device] = source.told
    assert found["cuda"].keys() == found["cpu"].keys() == set(range(40))
    for number, outcome in found["cpu"].items():
        assert outcome.ended == found["cuda"][number].ended
        assert outcome.details["accuracy"] == pytest.approx(found["cuda"][number].details["accuracy"], abs=0.04)
        assert outcome.details["nll"] == pytest.approx(found["cuda"][number].details["nll"], abs=0.02)


def test_idle_models_are_released_when_memory_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU whose memory is always full, idle models are released, and the results do not change."""
    settings = [
        {"network.bins": 5, "network.dropout": 0.1, "training.lr": 0.01, "training.batch_size": (16, 32)[number // 12]}
        for number in range(24)
    ]
    found = []
    for full in (False, True):
        source, kept = Listed(settings), [0]
        population = Population(problem(precision="float32"), source, 11, "cuda")
        if full:  # after the rows have been loaded
            monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (-(1 << 50), 0))

        def count(population: Population = population, kept: list[int] = kept) -> None:
            kept.append(sum(len(group.made) for group in population.groups.values()))

        population.run(tell=count)
        found.append((source.told, max(kept)))
    (roomy, many), (narrow, few) = found
    assert few < many
    for number, outcome in roomy.items():
        assert outcome.details["accuracy"] == narrow[number].details["accuracy"]


WIDE = pytest.mark.parametrize(("model", "hidden"), [("squad", (32, 32)), ("squad", (512,)), ("mlp", (256, 256))])


def many_rows() -> DeviceData:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(10, (20_000,), generator=generator)
    x = torch.randn(len(y), 784, generator=generator) + torch.randn(10, 784, generator=generator)[y] / 10
    rows = torch.arange(len(y)).unsqueeze(0)
    return DeviceData(TrainingData(x, y, 10, rows[:, :16_384], rows[:, 16_384:]), "cuda")


def made(place: DeviceData, config: NetworkConfig, batch: int, count: int) -> Slots:
    training = TrainConfig(lr=1e-3, batch_size=batch).resolved(config, place.rows)
    slots = Slots(place, padded_config(config, dropping=True), count, training)
    for slot in range(count):
        slots.put(slot, Run(config, training, slot))
    return slots


def train(several: list[Slots]) -> list[torch.Tensor]:
    """Train all of them concurrently for three more epochs, and return their weights."""
    for _ in range(3):
        for slots in several:
            slots.launch()
        for slots in several:
            for slot, loss in slots.wait().items():
                slots.advance(slot, loss, None)
    return [slots.adam.flat.clone() for slots in several]


@WIDE
def test_concurrent_graphs_do_not_share_memory(model: str, hidden: tuple[int, ...]) -> None:
    """Models of several batch sizes, wide enough for products with workspace memory: bit-identical to single runs."""
    place, config = many_rows(), network_config(model, {"hidden": hidden, "dropout": 0.1})
    sizes = [(32, 4), (128, 8), (512, 16), (8192, 4)]
    alone = [train([made(place, config, *size)])[0] for size in sizes]
    together = train([made(place, config, *size) for size in sizes])
    for got, expected in zip(together, alone, strict=True):
        assert torch.equal(got, expected)


@WIDE
def test_more_graphs_than_torch_has_streams(model: str, hidden: tuple[int, ...]) -> None:
    """torch reuses 32 streams: several graphs are captured on one, and some are deleted before the others."""
    place, config = many_rows(), network_config(model, {"hidden": hidden, "dropout": 0.1})
    sizes = [(64, 1), (128, 2), (512, 1)]
    alone = []
    for size in sizes:
        slots = made(place, config, *size)
        alone.append((train([slots])[0], train([slots])[0]))
    many = [made(place, config, *size) for size in sizes * 13]
    for index, weights in enumerate(train(many)):
        assert torch.equal(weights, alone[index % 3][0]), index
    del many[1::2]
    gc.collect()
    torch.cuda.empty_cache()
    for index, weights in enumerate(train(many)):
        assert torch.equal(weights, alone[2 * index % 3][1]), index
