"""Spaces: what Optuna gets, that nothing is lost on the way to settings and back, and what is refused."""

import copy
import json
import math
import pickle
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from squad.errors import ArgumentError, SquadError
from squad.models import network_config
from squad.models.config import CONFIGS
from squad.search.space import Choices, Fixed, Integers, Octaves, Reals, Space, SpaceError
from squad.settings import fit_settings, to_toml
from squad.train import TrainConfig

BATCHES = (16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512)
SHARED = {
    "network.dropout": FloatDistribution(0.01, 0.95),
    "training.lr": FloatDistribution(1e-4, 1e-2, log=True),
    "training.log2_batch_size": FloatDistribution(5, 9, step=0.5),
}
LATENT = {
    "network.init_scale": FloatDistribution(1e-3, 20, log=True),
    "training.kl_multiplier": FloatDistribution(1e-6, 1e-2, log=True),
}
VALUES = {
    "network.prior": CategoricalDistribution(("uniform", "gaussian")),
    "network.spacing": CategoricalDistribution(("gaussian", "linear")),
    "network.learn_values": CategoricalDistribution(("per_neuron", "per_layer", "fixed")),
    "network.limit": FloatDistribution(0.7, 3.5),
}
#: Of the paper's appendix, and what the factorized network and the limit add.
PAPER: dict[str, Mapping[str, BaseDistribution]] = {
    "squad": {**SHARED, **LATENT, **VALUES, "network.bins": IntDistribution(5, 21, step=2)},
    "squad-factorized": {
        **SHARED,
        **LATENT,
        **VALUES,
        "network.bins": IntDistribution(5, 63, step=2),
        "network.rank": CategoricalDistribution((1, 2, 4, 8)),
        "network.shared": CategoricalDistribution((True, False)),
    },
    "maxout-dropout": {**SHARED, "network.pieces": IntDistribution(5, 21, step=2)},
    "relu-dropout": SHARED,
    "mlp": SHARED,
    "dlgm": {**SHARED, **LATENT},
}


def nested(settings: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Settings by dotted names as the tables of a fit."""
    tables: dict[str, Any] = {"model": model}
    for name, value in settings.items():
        table, key = name.split(".")
        tables.setdefault(table, {})[key] = value
    return tables


def drawn(space: Space, seed: int, count: int = 20) -> list[dict[str, Any]]:
    """Parameters as Optuna's own sampler draws them."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed))
    return [study.ask(space.distributions()).params for _ in range(count)]


# --- what Optuna gets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", CONFIGS)
def test_the_papers_space(model: str) -> None:
    space = Space.paper(model)
    assert space.model == model
    assert space.distributions() == PAPER[model]
    assert Space.read(Path("paper"), model) == space


@pytest.mark.parametrize("model", CONFIGS)
def test_the_default_space_contains_the_defaults(model: str) -> None:
    space = Space.default(model)
    assert set(space.distributions()) == {*PAPER[model], "network.hidden"}
    for rows in (600, 3_000, 50_000):  # the learning rate and the batch size depend on them
        network = network_config(model)
        parts = {"network": network, "training": TrainConfig().resolved(network, rows)}
        names = [name.split(".") for name in space.entries]
        params, outside = space.nearest({f"{table}.{key}": getattr(parts[table], key) for table, key in names})
        assert outside == []
        nearest = space.settings(params)
        for table, key in names:
            value, name = getattr(parts[table], key), f"{table}.{key}"
            if name == "training.batch_size":
                assert abs(math.log2(nearest[name] / value)) <= 0.26
            else:
                assert nearest[name] == (list(value) if key == "hidden" else value)


def test_what_is_outside_a_space() -> None:
    tables = {
        "network": {"bins": {"low": 5, "high": 9, "step": 2}, "dropout": 0.25, "hidden": {"choices": [[3], [5]]}},
        "training": {"lr": {"low": 0.1, "high": 0.2, "step": 0.1}, "batch_size": {"low": 8, "high": 32, "octaves": 1}},
    }
    space = Space.of("squad", tables)
    settings = {"network.bins": 8, "network.dropout": 0.25, "network.hidden": (5,)}
    settings |= {"training.lr": 0.13, "training.batch_size": 30}
    params = {"network.bins": 9, "network.hidden": "[5]", "training.lr": 0.1, "training.log2_batch_size": 5.0}
    assert space.nearest(settings) == (params, [])
    for name, value in {
        "network.bins": 11,
        "network.dropout": 0.0,
        "network.hidden": (4,),
        "training.lr": 0.01,
        "training.batch_size": 33,
    }.items():
        assert space.nearest({**settings, name: value})[1] == [name]


def test_batch_sizes_are_half_octaves() -> None:
    space = Space.default("squad")
    entry = space.entries["training.batch_size"]
    assert isinstance(entry, Octaves)
    assert entry.values == BATCHES
    found = {entry.setting(4 + place / 2) for place in range(11)}
    assert found == set(BATCHES)
    assert {settings["training.batch_size"] for settings in map(space.settings, drawn(space, 0, 200))} == set(BATCHES)


@pytest.mark.parametrize("model", CONFIGS)
def test_every_point_of_a_default_space_can_be_fitted(model: str) -> None:
    space = Space.default(model)
    for params in drawn(space, 1):
        settings = space.settings(params)
        assert {name: type(value) for name, value in settings.items()} == {
            name: list if name == "network.hidden" else type(entry.ends[0]) for name, entry in space.entries.items()
        }
        # By the way a user's file of settings goes.
        found = fit_settings(tomllib.loads(to_toml(nested(settings, model))))
        for name, value in settings.items():
            table, key = name.split(".")
            assert getattr(getattr(found, table), key) == (tuple(value) if key == "hidden" else value)


@pytest.mark.parametrize("model", CONFIGS)
def test_what_is_set_is_left_out(model: str) -> None:
    fixed = {"training.lr", "network.bins", "seed", "training.precision"}
    left = Space.default(model, fixed)
    assert set(left.distributions()) == {*PAPER[model], "network.hidden"} - fixed
    assert Space.default(model, ["training.batch_size"]).most("training.batch_size") is None


@pytest.mark.parametrize("model", CONFIGS)
def test_the_file_of_a_space_can_be_copied_and_edited(model: str, tmp_path: Path) -> None:
    text = (files("squad.search") / "spaces" / f"{model}.toml").read_text(encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(text)
    assert Space.read(path, model) == Space.default(model)
    path.write_text(text.replace("high = 1e-2", "high = 1"))
    assert Space.read(path, model).entries["training.lr"] == Reals(1e-4, 1.0, log=True)


# --- there and back --------------------------------------------------------------------------------------------------

WHOLE = {"squad": "network.bins", "mlp": "training.max_epochs", "dlgm": "training.stop_patience"}
REAL = {"squad": "network.limit", "mlp": "training.weight_decay", "dlgm": "network.init_scale"}


@st.composite
def whole(draw: st.DrawFn) -> dict[str, Any]:
    low, step, count = draw(st.integers(2, 500)), draw(st.integers(1, 9)), draw(st.integers(1, 40))
    if draw(st.booleans()):
        return {"low": low, "high": low + count, "log": True}
    return {"low": low, "high": low + step * count, "step": step}


@st.composite
def real(draw: st.DrawFn) -> dict[str, Any]:
    if draw(st.booleans()):
        # Written in decimals, as people do; 0.1 + 0.2 is not 0.3 in binary.
        low, step, count = draw(st.integers(1, 300)), draw(st.integers(1, 70)), draw(st.integers(1, 50))
        return {"low": low / 100, "high": (low + step * count) / 100, "step": step / 100}
    low_real, high_real = sorted(draw(st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=2, unique=True)))
    return {"low": low_real, "high": high_real, "log": draw(st.booleans())}


@st.composite
def octaves(draw: st.DrawFn) -> dict[str, Any]:
    low, size = draw(st.integers(2, 700)), draw(st.sampled_from([0.25, 0.5, 1.0, 2.0, 1 / 3]))
    count = draw(st.integers(1, 9))
    values = [round(low * 2 ** (place * size)) for place in range(count + 1)]
    assume(len(set(values)) == len(values) and values[-1] < 1_000_000)
    return {"low": low, "high": values[-1], "octaves": size}


@st.composite
def spaces(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A user's own, with whatever there is."""
    model = draw(st.sampled_from(["squad", "mlp", "dlgm"]))
    flat: dict[str, Any] = {WHOLE[model]: draw(st.one_of(whole(), octaves())), REAL[model]: draw(real())}
    flat["training.batch_size"] = draw(octaves())
    flat["network.test_dropout"] = draw(st.sampled_from([True, {"choices": [True, False]}, {"choices": [False]}]))
    layers = st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=3), min_size=1, max_size=3, unique_by=tuple)
    flat["network.hidden"] = draw(st.one_of(st.just([8]), layers.map(lambda some: {"choices": some})))
    rates = st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=4, unique=True)
    flat["network.dropout"] = draw(st.one_of(st.just(0), rates.map(lambda some: {"choices": some})))
    kept = draw(st.lists(st.sampled_from(sorted(flat)), min_size=1, unique=True))
    tables = nested({name: flat[name] for name in kept}, model)
    assume(any(isinstance(flat[name], dict) and len(flat[name].get("choices", "ab")) > 1 for name in kept))
    return model, tables


def check_there_and_back(space: Space, seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Optuna's, about a range that it has changed
        distributions = space.distributions()
        trials = drawn(space, seed, 5)
    for params in trials:
        settings = space.settings(params)
        assert set(settings) == set(space.entries)
        back = space.params(settings)
        assert list(back) == list(distributions)
        for name, value in back.items():
            distribution = distributions[name]
            assert type(value) is type(params[name])
            assert distribution._contains(distribution.to_internal_repr(value))
            if isinstance(distribution, FloatDistribution) and distribution.step is not None:
                assert value == pytest.approx(params[name], rel=1e-12, abs=1e-12)
            else:
                assert value == params[name]
        assert space.settings(back) == settings
        # As plain data, which no type is lost from.
        again = json.loads(json.dumps(settings))
        assert again == settings
        assert [type(value) for value in again.values()] == [type(value) for value in settings.values()]
        assert space.params(again) == back
        fit_settings(nested(settings, space.model))


@pytest.mark.parametrize("model", CONFIGS)
@given(seed=st.integers(0, 10_000))
def test_default_parameters_come_back(model: str, seed: int) -> None:
    check_there_and_back(Space.default(model), seed)


@given(spaces(), st.integers(0, 10_000))
def test_parameters_of_any_space_come_back(given_space: tuple[str, dict[str, Any]], seed: int) -> None:
    check_there_and_back(Space.of(*given_space), seed)


@given(spaces())
def test_any_space_is_plain_data(given_space: tuple[str, dict[str, Any]]) -> None:
    model, tables = given_space
    before = copy.deepcopy(tables)
    space = Space.of(model, tables)
    assert tables == before
    data = json.loads(json.dumps(space.to_dict()))
    again = Space.of(model, data)
    assert again == space
    assert again.to_dict() == data
    assert pickle.loads(pickle.dumps(space)) == space
    # In whatever order it was written: the sampler sees the same.
    turned = {key: dict(reversed(rows.items())) if key != "model" else rows for key, rows in reversed(tables.items())}
    assert Space.of(model, turned) == space
    assert list(Space.of(model, turned).distributions()) == list(space.distributions())


def test_every_value_of_a_grid_can_be_drawn() -> None:
    """Optuna drops the last value of a grid that it finds not divisible, and says so in a warning only."""
    for low in range(1, 400):
        for size, count in ((0.5, 8), (1 / 3, 12), (1.0, 5)):
            values = [round(low * 2 ** (place * size)) for place in range(count + 1)]
            if len(set(values)) < len(values):
                continue
            entry = Octaves(low, values[-1], size)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                distribution = entry.distribution()
            assert isinstance(distribution, FloatDistribution)
            assert distribution.step is not None
            assert round((distribution.high - distribution.low) / distribution.step) == count
            assert [entry.setting(entry.param(value)) for value in values] == values == list(entry.values)


def test_trials_live_through_a_database(tmp_path: Path) -> None:
    tables = {
        "network": {"hidden": {"choices": [[32, 32], [64]]}, "shared": {"choices": [True, False]}, "rank": 2},
        "training": {
            "batch_size": {"low": 48, "high": 384, "octaves": 0.5},
            "lr": {"low": 0.1, "high": 0.7, "step": 0.1},
        },
    }
    space = Space.of("squad-factorized", tables)
    study = optuna.create_study(storage=f"sqlite:///{tmp_path}/study.db", sampler=optuna.samplers.RandomSampler(0))
    told = []
    for _ in range(12):
        trial = study.ask(space.distributions())
        told.append(space.settings(trial.params))
        study.tell(trial, 0.0)
    stored = optuna.load_study(study_name=None, storage=f"sqlite:///{tmp_path}/study.db").trials
    assert [space.settings(trial.params) for trial in stored] == told
    assert {type(settings["network.shared"]) for settings in told} == {bool}
    assert {tuple(settings["network.hidden"]) for settings in told} == {(32, 32), (64,)}
    assert {settings["training.batch_size"] for settings in told} <= {48, 68, 96, 136, 192, 272, 384}
    assert {settings["training.lr"] for settings in told} <= {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7}
    assert {settings["network.rank"] for settings in told} == {2}
    # What is put into the queue by hand is what comes out of it.
    study.enqueue_trial(space.params(told[3]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert space.settings(study.ask(space.distributions()).params) == told[3]


def test_lists_are_text_for_optuna_and_lists_for_us() -> None:
    space = Space.of("mlp", {"network": {"hidden": {"choices": [[32, 32], [64, 64]]}}})
    assert space.distributions() == {"network.hidden": CategoricalDistribution(("[32, 32]", "[64, 64]"))}
    assert space.settings({"network.hidden": "[64, 64]"}) == {"network.hidden": [64, 64]}
    assert space.params({"network.hidden": [64, 64]}) == space.params({"network.hidden": (64, 64)})


def test_numbers_of_numpys_become_pythons() -> None:
    space = Space.of("squad", {"network": {"bins": {"choices": [np.int64(5), 7]}, "limit": {"low": 1, "high": 3}}})
    found = space.settings({"network.bins": np.int64(7), "network.limit": np.float32(1.5)})
    assert found == {"network.bins": 7, "network.limit": 1.5}
    assert [type(value) for value in found.values()] == [int, float]


# --- what a space holds ----------------------------------------------------------------------------------------------


def test_kinds_of_entries() -> None:
    tables = {
        "model": "squad",
        "network": {
            "hidden": [16],
            "bins": {"low": 5, "high": 21, "step": 2},
            "dropout": {"low": 0, "high": 0.5, "step": 0.25},
            "init_scale": {"low": 1, "high": 3},  # a real number, whatever its bounds look like
            "limit": {"low": 2.0, "high": 2},
            "prior": {"choices": ["uniform"]},
            "spacing": {"choices": ["linear", "gaussian"]},
        },
        "training": {
            "batch_size": {"low": 16, "high": 64, "octaves": 1},
            "lr": {"low": 1e-4, "high": 1, "log": True},
            "max_epochs": {"low": 20, "high": 90, "log": True},
            "stop_patience": {"choices": [5, 20]},
            "weight_decay": 0,
        },
    }
    space = Space.of("squad", tables)
    assert space.entries == {
        "network.hidden": Fixed((16,)),
        "network.dropout": Reals(0.0, 0.5, step=0.25),
        "network.init_scale": Reals(1.0, 3.0),
        "network.bins": Integers(5, 21, 2),
        "network.spacing": Choices(("linear", "gaussian")),
        "network.limit": Fixed(2.0),
        "network.prior": Fixed("uniform"),
        "training.lr": Reals(1e-4, 1.0, log=True),
        "training.weight_decay": Fixed(0.0),
        "training.batch_size": Octaves(16, 64, 1.0),
        "training.max_epochs": Integers(20, 90, log=True),
        "training.stop_patience": Choices((5, 20)),
    }
    most = {"bins": 21, "dropout": 0.5, "limit": 2.0}
    assert {key: space.most(f"network.{key}") for key in most} == most
    assert [space.most(f"training.{key}") for key in ("batch_size", "stop_patience", "lr_patience")] == [64, 20, None]
    for name in ("network.prior", "network.spacing", "network.hidden"):
        with pytest.raises(ArgumentError, match="without an order"):
            space.most(name)
    assert not {"network.hidden", "network.limit", "network.prior"} & set(space.distributions())


def test_entries_can_be_given_as_such() -> None:
    space = Space("squad", {"training.lr": Reals(1e-4, 1e-2, log=True), "network.bins": Integers(5, 21, 2)})
    assert space == Space.of("squad", space.to_dict())
    assert list(space.entries) == ["network.bins", "training.lr"]
    for entries, word in (
        (
            {"network.bins": Reals(5.0, 21.0)},
            "network.bins must be one of Choices, Fixed, Integers, Octaves, got Reals",
        ),
        ({"network.limit": Integers(1, 3)}, "network.limit must be one of"),
        ({"network.bins": Integers(1, 3)}, "network.bins: bins must be"),
        ({"network.dropout": Choices(((0.1,), (0.2,)))}, "one network"),
        ({"network.shared": Choices((True, False))}, "It is one of squad-factorized."),
        ({}, "one setting at least"),
    ):
        with pytest.raises(ArgumentError) as told:
            Space("squad", entries)
        assert word in str(told.value)


def test_other_parameters_and_settings_are_refused() -> None:
    space = Space.of(
        "squad-factorized",
        {
            "network": {"bins": {"low": 5, "high": 21, "step": 2}, "shared": {"choices": [True, False]}, "rank": 2},
            "training": {"batch_size": {"low": 32, "high": 512, "octaves": 0.5}, "lr": {"low": 0.1, "high": 0.7}},
        },
    )
    params = {"network.bins": 5, "network.shared": True, "training.log2_batch_size": 5.0, "training.lr": 0.1}
    settings = space.settings(params)
    for change, word in (
        ({"network.bins": 6}, "network.bins: it must be one of 5, 7, ... 21, got 6"),
        ({"network.bins": 23}, "network.bins: it must be a number at least 5 and at most 21"),
        ({"training.log2_batch_size": 5.2}, "training.batch_size: it must be one of 5, 5.5, 6"),
        ({"training.lr": math.nan}, "training.lr: it must be a number"),
        ({"network.shared": "yes"}, "network.shared: it must be one of True, False"),
        ({"network.rank": 2}, "network.rank is not among the parameters"),
    ):
        with pytest.raises(ArgumentError) as told:
            space.settings({**params, **change})
        assert word in str(told.value)
    for change, word in (
        ({"training.batch_size": 244}, "one of 32, 45, 64, 91, 128, 181, 256, 362, 512, got 244"),
        ({"network.shared": 1}, "one of True, False, got 1"),
        ({"network.rank": 4}, "network.rank must be 2, as in all trials"),
        ({"network.limit": 1.0}, "network.limit is not among the settings"),
    ):
        with pytest.raises(ArgumentError) as told:
            space.params({**settings, **change})
        assert word in str(told.value)
    with pytest.raises(ArgumentError, match=r"training\.lr is missing among the settings"):
        space.params({name: value for name, value in settings.items() if name != "training.lr"})
    with pytest.raises(ArgumentError, match=r"network\.bins is missing among the parameters"):
        space.settings({})
    assert space.params({name: value for name, value in settings.items() if name != "network.rank"}) == params


# --- what is refused -------------------------------------------------------------------------------------------------

#: Lines of a file for squad, and what must be said.
BAD = {
    "[network]\nbin = {low = 5, high = 9}": "network.bin is not a setting of the network squad that can be searched."
    " Did you mean bins?",
    "[network]\npieces = {low = 5, high = 9}": "It is one of maxout-dropout.",
    "[network]\nlr = {low = 1e-4, high = 1e-2}": "It belongs under [training].",
    "[training]\nbins = {low = 5, high = 9}": "It belongs under [network].",
    "[training]\nlearning_rate = 1": "There are lr, kl_multiplier,",
    "[training]\nprecision = {choices = ['tf32', 'float32']}": "training.precision cannot be searched",
    "[training]\nbackend = 'eager'": "--set training.backend=",
    "[training]\nadversarial = {low = 0.0, high = 0.1}": "train together",
    "[prediction]\nnum_samples = {low = 1, high = 9}": "prediction is not a table of a space.",
    "[nework]\nbins = 5": "Did you mean network?",
    "bins = {low = 5, high = 9}": "bins is not a table of a space",
    "network = 3": "network must be a table",
    "model = 'mlp'\n[training]\nlr = {low = 0.1, high = 0.2}": "model must be 'squad'",
    "model = 3": "model must be 'squad'",
    "": "one setting at least",
    "[network]\nbins = 5": "one setting at least",
    "[network]\nbins = {low = 5, high = 5}": "one setting at least",
    "[network]\nbins = {low = 9, high = 5}": "network.bins: low must be below high, 5, got 9. The range is empty.",
    "[training]\nlr = {low = 0.01, high = 0.001, log = true}": "training.lr: low must be below high, 0.001, got 0.01.",
    "[training]\nbatch_size = {low = 512, high = 32, octaves = 0.5}": "The range is empty.",
    "[training]\nlr = {low = 0, high = 0.1, log = true}": "training.lr: low must be above 0 where log = true, got 0.",
    "[training]\nlr = {low = 0.0, high = 0.1, log = true}": "There is no logarithm of 0.",
    "[training]\nlr = {low = -1.5, high = 0.1, log = true}": "There is no logarithm of -1.5.",
    "[training]\nanneal_epochs = {low = 0, high = 9, log = true}": "There is no logarithm of 0.",
    "[network]\nbins = {low = 5, high = 9, log = true, step = 2}": "step must be left out where log = true, got 2",
    "[network]\nlimit = {low = 1.0, high = 2.0, log = true, step = 0.5}": "step must be left out where log = true",
    "[network]\nbins = {low = 5, high = 10, step = 2}": "network.bins: high must be a whole number of steps of 2 above"
    " 5, got 10. Write high = 9.",
    "[network]\nlimit = {low = 1.0, high = 2.0, step = 0.3}": "Write high = 1.9.",
    "[network]\nbins = {low = 5, high = 9, step = 20}": "Write a smaller step.",
    "[network]\nbins = {low = 5, high = 9, step = 0}": "step must be 1 at least, got 0",
    "[network]\nbins = {low = 5, high = 9, step = 1.0}": "step must be a whole number, without a point",
    "[network]\nlimit = {low = 1.0, high = 2.0, step = -0.5}": "step must be a number above 0, got -0.5",
    "[network]\nlimit = {low = 1.0, high = 2.0, log = 1}": "log must be true or false, got 1",
    "[network]\nbins = {low = 5.0, high = 9}": "network.bins: low must be a whole number, without a point, got 5.0",
    "[network]\nbins = {low = true, high = 9}": "low must be a whole number, got True",
    "[network]\nbins = {low = true, high = true}": "low must be a whole number, got True",
    "[network]\nbins = {low = '5', high = 9}": "low must be a whole number, got '5'",
    "[network]\nbins = {low = 5, high = 99999999999999999}": "high must be at most",
    "[network]\nlimit = {low = nan, high = 9.0}": "low must be a number, got nan",
    "[network]\nlimit = {low = 1.0, high = inf}": "high must be a number, got inf",
    "[network]\nlimit = nan": "network.limit: it must be a number, got nan",
    "[network]\nlimit = {low = [1], high = 2}": "low must be a number, got [1]",
    "[network]\nlimit = {choices = [1.0, nan]}": "it must be a number, got nan",
    "[network]\nbins = {low = 5}": "network.bins: high is missing.",
    "[network]\nbins = {step = 5}": "low and high are missing.",
    "[network]\nbins = {}": "low and high are missing.",
    "[network]\nbins = {low = 5, hi = 9}": "network.bins: hi is not a setting of a range. Did you mean high?",
    "[network]\nbins = {low = 5, high = 9, q = 2}": "There are low, high, log, step, octaves, choices.",
    "[network]\nbins = {choices = [5, 7], low = 3}": "choices must be alone, got low beside them",
    "[network]\nbins = {choices = []}": "network.bins: choices must be a list of values",
    "[network]\nprior = {choices = 'uniform'}": "choices must be a list of values",
    "[network]\nbins = {choices = [5, 7, 5]}": "choices must be different from each other, got 5 twice",
    "[network]\nlimit = {choices = [1, 1.0]}": "got 1.0 twice",
    "[network]\nhidden = {choices = [[8], [8]]}": "got [8] twice",
    "[network]\nprior = {choices = ['uniform', 'cauchy']}": "network.prior: prior must be one of 'uniform', 'gaussian';"
    " got 'cauchy'",
    "[network]\nprior = {low = 1, high = 2}": "network.prior: it is not a number, so it has no range.",
    "[network]\nhidden = {low = 8, high = 64}": "network.hidden: it is not a number",
    "[network]\nhidden = {choices = [8, 16]}": "hidden must be a list of layer sizes",
    "[network]\nhidden = [[8], [16]]": "network.hidden: hidden must be a whole number",
    "[network]\nhidden = {choices = [[8], [0]]}": "hidden must be an integer >= 1, got 0",
    "[network]\ndropout = [0.1, 0.2]": "network.dropout: it must be one value, since a trial is one network, got [0.1,"
    " 0.2]. To try several, write {choices = [...]}.",
    "[training]\nlr = {choices = [[0.1, 0.2], [0.3]]}": "one value, since a trial is one network",
    "[network]\ntest_dropout = {choices = [0, 1]}": "test_dropout must be true or false, got 0",
    "[network]\nbins = {choices = [5, true]}": "bins must be an integer >= 2, got True",
    "[network]\nbins = {choices = [5, {low = 3}]}": "network.bins: it must be a number, text, true, false or a list",
    "[network]\nbins = {low = 1, high = 9}": "network.bins: bins must be an integer >= 2, got 1",
    "[network]\ndropout = {low = 0.1, high = 1.0}": "network.dropout: dropout must be a number at least 0 and below 1",
    "[network]\ndropout = 'half'": "network.dropout: it must be a number, got 'half'",
    "[network]\nbins = 'many'": "network.bins: bins must be a whole number",
    "[network]\nspacing = 1979-05-27": "network.spacing: it must be a number, text, true, false or a list",
    "[training]\nlr = {low = -0.1, high = 0.1}": "training.lr: lr must be a number above 0, got -0.1",
    "[training]\nbatch_size = {low = 0, high = 8}": "training.batch_size: batch_size must be a whole number",
    "[training]\nbatch_size = {low = 0, high = 8, octaves = 1}": "low must be 1 at least",
    "[training]\nbatch_size = {low = 32, high = 512, octaves = 0}": "octaves must be a number at least 0.001",
    "[training]\nbatch_size = {low = 32, high = 512, octaves = -0.5}": "octaves must be a number",
    "[training]\nbatch_size = {low = 32, high = 500, octaves = 0.5}": "a whole number of steps of 0.5 octaves above 32;"
    " got 500. The nearest are 362 and 512.",
    "[training]\nbatch_size = {low = 32, high = 40, octaves = 1}": "The nearest are 32 and 64.",
    "[training]\nbatch_size = {low = 1, high = 16, octaves = 0.5}": "gives 1, 1, 2, 3, 4, 6, 8, 11, ...",
    "[training]\nbatch_size = {low = 1000, high = 32000, octaves = 0.005}": "at most 1,000 values",
    "[training]\nbatch_size = {low = 32, high = 512, octaves = 0.5, log = true}": "octaves must be alone",
    "[training]\nlr = {low = 0.25, high = 1.0, octaves = 0.5}": "training.lr: octaves are for whole numbers",
    "[training]\nanneal_epochs = {low = 5, high = 50}\nmax_epochs = {low = 50, high = 90}": "training.anneal_epochs"
    " must be below the least max_epochs, 50, got up to 50.",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_spaces_are_told_with_the_files_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    path.write_text(text)
    with pytest.raises(SpaceError) as told:
        Space.read(path, "squad")
    message = str(told.value)
    assert message.startswith(f"{path}: ")
    assert BAD[text] in message
    with pytest.raises(ArgumentError) as plain:
        Space.of("squad", tomllib.loads(text))
    assert message == f"{path}: {plain.value}"


@pytest.mark.parametrize(
    ("model", "name", "word"),
    [
        ("mlp", "network.bins", "It is one of squad, squad-factorized."),
        ("mlp", "training.kl_multiplier", "mlp has no KL"),
        ("dlgm", "training.anneal_epochs", "dlgm has no temperature"),
        ("maxout-dropout", "training.temperature_end", "no temperature"),
        ("squad", "network.rank", "It is one of squad-factorized."),
    ],
)
def test_settings_that_a_network_does_not_have(model: str, name: str, word: str) -> None:
    tables = nested({name: {"low": 1, "high": 2}, "training.lr": {"low": 0.1, "high": 0.2}}, model)
    with pytest.raises(ArgumentError) as told:
        Space.of(model, tables)
    assert str(told.value).startswith(name)
    assert word in str(told.value)


@pytest.mark.parametrize("model", ["squadd", "", None, "../squad"])
def test_an_unknown_network(model: Any) -> None:
    for make in (Space.default, lambda name: Space.of(name, {}), lambda name: Space(name, {})):
        with pytest.raises(ArgumentError, match="model must be one of 'squad'"):
            make(model)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    for content, word in ((None, "cannot be read"), (b"[network\n", "is not TOML"), (b"\xff", "is not TOML")):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(SpaceError, match=word) as told:
            Space.read(path, "squad")
        assert str(path) in str(told.value)
        assert isinstance(told.value, SquadError)


@pytest.mark.parametrize("tables", [[], "network", {"network": {1: 5}}, {"network": {"bins": None}}, {3: {}}])
def test_what_no_file_could_say(tables: Any) -> None:
    with pytest.raises(ArgumentError):
        Space.of("squad", tables)


def test_nothing_left_to_search() -> None:
    names = ["network.dropout", "training.lr", "training.batch_size"]
    with pytest.raises(ArgumentError, match=r"Nothing is left to search: you have set network\.dropout, training\.lr,"):
        Space.paper("mlp", names)
    assert Space.paper("mlp", names[:2]).distributions().keys() == {"training.log2_batch_size"}


def test_what_is_set_is_checked_all_the_same_but_for_pairs() -> None:
    tables = {"training": {"lr": {"low": 1, "high": 0}, "weight_decay": {"low": 0.0, "high": 0.1}}}
    with pytest.raises(ArgumentError, match=r"training\.lr: low"):
        Space.of("squad", tables, ["training.lr"])
    tables = {"training": {"anneal_epochs": {"low": 5, "high": 500}, "max_epochs": 100}}
    with pytest.raises(ArgumentError, match="below the least max_epochs"):
        Space.of("squad", tables)
    # Set elsewhere, the number of epochs may be any.
    space = Space.of("squad", tables, ["training.max_epochs"])
    assert Space.of("squad", space.to_dict()) == space


def test_optuna_is_not_imported_until_it_is_asked_for() -> None:
    code = (
        "import sys, squad.search.space as s, squad.search.objective\n"
        "s.Space.default('squad').most('network.bins')\nassert 'optuna' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("tables", "points"),
    [
        ({"network": {"bins": {"choices": [3, 5]}, "hidden": [4]}}, 2),
        ({"network": {"bins": {"low": 5, "high": 21, "step": 2}}}, 9),
        ({"network": {"dropout": {"low": 0.1, "high": 0.4, "step": 0.1}, "bins": {"choices": [3, 5]}}}, 8),
        ({"training": {"batch_size": {"low": 32, "high": 512, "octaves": 0.5}}}, 9),
        ({"training": {"batch_size": {"low": 8, "high": 64, "log": True}}}, 57),
        ({"training": {"lr": {"low": 0.1, "high": 0.2}}, "network": {"bins": {"choices": [3, 5]}}}, None),
    ],
)
def test_points(tables: dict[str, Any], points: int | None) -> None:
    assert Space.of("squad", tables).points() == points
