"""Search spaces: distributions for Optuna, conversion to settings and back, and errors."""

import copy
import json
import math
import pickle
import re
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
#: Spaces of the paper's appendix, with the additions for the factorized network and the limit.
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
    """Convert settings by dotted name to tables of a fit."""
    tables: dict[str, Any] = {"model": model}
    for name, value in settings.items():
        table, key = name.split(".")
        tables.setdefault(table, {})[key] = value
    return tables


def drawn(space: Space, seed: int, count: int = 20) -> list[dict[str, Any]]:
    """Draw parameters with Optuna's random sampler."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed))
    return [study.ask(space.distributions()).params for _ in range(count)]


# --- distributions -----------------------------------------------------------------------------------------------


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


def test_nearest_point() -> None:
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
        # Through a TOML file, as for a user.
        found = fit_settings(tomllib.loads(to_toml(nested(settings, model))))
        for name, value in settings.items():
            table, key = name.split(".")
            assert getattr(getattr(found, table), key) == (tuple(value) if key == "hidden" else value)


@pytest.mark.parametrize("model", CONFIGS)
def test_fixed_settings_are_left_out(model: str) -> None:
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


# --- conversion ----------------------------------------------------------------------------------------------------

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
        # Decimal fractions, because 0.1 + 0.2 is not 0.3 in binary.
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
    """Draw a space with all kinds of entries."""
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


def check_round_trip(space: Space, seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Optuna warns if it changes a range
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
        # Through JSON, with all types.
        again = json.loads(json.dumps(settings))
        assert again == settings
        assert [type(value) for value in again.values()] == [type(value) for value in settings.values()]
        assert space.params(again) == back
        fit_settings(nested(settings, space.model))


@pytest.mark.parametrize("model", CONFIGS)
@given(seed=st.integers(0, 10_000))
def test_round_trip_in_default_spaces(model: str, seed: int) -> None:
    check_round_trip(Space.default(model), seed)


@given(spaces(), st.integers(0, 10_000))
def test_round_trip_in_any_space(given_space: tuple[str, dict[str, Any]], seed: int) -> None:
    check_round_trip(Space.of(*given_space), seed)


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
    # The order of the settings does not matter.
    turned = {key: dict(reversed(rows.items())) if key != "model" else rows for key, rows in reversed(tables.items())}
    assert Space.of(model, turned) == space
    assert list(Space.of(model, turned).distributions()) == list(space.distributions())


def test_every_value_of_a_grid_can_be_drawn() -> None:
    """Optuna drops the last value of a grid that its step does not divide, with only a warning."""
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


def test_round_trip_through_a_database(tmp_path: Path) -> None:
    tables = {
        "network": {"hidden": {"choices": [[32, 32], [64]]}, "shared": {"choices": [True, False]}, "rank": 2},
        "training": {
            "batch_size": {"low": 48, "high": 384, "octaves": 0.5},
            "lr": {"low": 0.1, "high": 0.7, "step": 0.1},
        },
    }
    space = Space.of("squad-factorized", tables)
    study = optuna.create_study(storage=f"sqlite:///{tmp_path}/study.db", sampler=optuna.samplers.RandomSampler(0))
    drawn_settings = []
    for _ in range(12):
        trial = study.ask(space.distributions())
        drawn_settings.append(space.settings(trial.params))
        study.tell(trial, 0.0)
    stored = optuna.load_study(study_name=None, storage=f"sqlite:///{tmp_path}/study.db").trials
    assert [space.settings(trial.params) for trial in stored] == drawn_settings
    assert {type(settings["network.shared"]) for settings in drawn_settings} == {bool}
    assert {tuple(settings["network.hidden"]) for settings in drawn_settings} == {(32, 32), (64,)}
    assert {settings["training.batch_size"] for settings in drawn_settings} <= {48, 68, 96, 136, 192, 272, 384}
    assert {settings["training.lr"] for settings in drawn_settings} <= {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7}
    assert {settings["network.rank"] for settings in drawn_settings} == {2}
    # Enqueued parameters come back unchanged.
    study.enqueue_trial(space.params(drawn_settings[3]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert space.settings(study.ask(space.distributions()).params) == drawn_settings[3]


def test_lists_are_text_for_optuna() -> None:
    space = Space.of("mlp", {"network": {"hidden": {"choices": [[32, 32], [64, 64]]}}})
    assert space.distributions() == {"network.hidden": CategoricalDistribution(("[32, 32]", "[64, 64]"))}
    assert space.settings({"network.hidden": "[64, 64]"}) == {"network.hidden": [64, 64]}
    assert space.params({"network.hidden": [64, 64]}) == space.params({"network.hidden": (64, 64)})


def test_numpy_numbers_become_python_numbers() -> None:
    space = Space.of("squad", {"network": {"bins": {"choices": [np.int64(5), 7]}, "limit": {"low": 1, "high": 3}}})
    found = space.settings({"network.bins": np.int64(7), "network.limit": np.float32(1.5)})
    assert found == {"network.bins": 7, "network.limit": 1.5}
    assert [type(value) for value in found.values()] == [int, float]


# --- entries -------------------------------------------------------------------------------------------------------


def test_kinds_of_entries() -> None:
    tables = {
        "model": "squad",
        "network": {
            "hidden": [16],
            "bins": {"low": 5, "high": 21, "step": 2},
            "dropout": {"low": 0, "high": 0.5, "step": 0.25},
            "init_scale": {"low": 1, "high": 3},  # a real number with integer bounds
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
        with pytest.raises(ArgumentError, match=f"{name} .*not numbers"):
            space.most(name)
    assert not {"network.hidden", "network.limit", "network.prior"} & set(space.distributions())


def test_spaces_from_entries() -> None:
    space = Space("squad", {"training.lr": Reals(1e-4, 1e-2, log=True), "network.bins": Integers(5, 21, 2)})
    assert space == Space.of("squad", space.to_dict())
    assert list(space.entries) == ["network.bins", "training.lr"]
    for entries, pattern in (
        (
            {"network.bins": Reals(5.0, 21.0)},
            r"network\.bins .*Choices, Fixed, Integers, Octaves, got Reals",
        ),
        ({"network.limit": Integers(1, 3)}, r"network\.limit must be one of.*got Integers"),
        ({"network.bins": Integers(1, 3)}, r"network\.bins: bins .*got 1"),
        ({"network.dropout": Choices(((0.1,), (0.2,)))}, "one network"),
        ({"network.shared": Choices((True, False))}, "squad-factorized"),
        ({}, "no setting to search"),
    ):
        with pytest.raises(ArgumentError, match=pattern):
            Space("squad", entries)


def test_invalid_parameters_and_settings() -> None:
    space = Space.of(
        "squad-factorized",
        {
            "network": {"bins": {"low": 5, "high": 21, "step": 2}, "shared": {"choices": [True, False]}, "rank": 2},
            "training": {"batch_size": {"low": 32, "high": 512, "octaves": 0.5}, "lr": {"low": 0.1, "high": 0.7}},
        },
    )
    params = {"network.bins": 5, "network.shared": True, "training.log2_batch_size": 5.0, "training.lr": 0.1}
    settings = space.settings(params)
    for change, pattern in (
        ({"network.bins": 6}, r"network\.bins: .*5, 7, \.\.\. 21, got 6"),
        ({"network.bins": 23}, r"network\.bins: .*5.*21, got 23"),
        ({"training.log2_batch_size": 5.2}, r"training\.batch_size: .*5, 5\.5, 6.*got 5\.2"),
        ({"training.lr": math.nan}, r"training\.lr: .*got nan"),
        ({"network.shared": "yes"}, r"network\.shared: .*True, False, got 'yes'"),
        ({"network.rank": 2}, r"network\.rank is not one of the parameters"),
    ):
        with pytest.raises(ArgumentError, match=pattern):
            space.settings({**params, **change})

    for change, pattern in (
        ({"training.batch_size": 244}, "one of 32, 45, 64, 91, 128, 181, 256, 362, 512, got 244"),
        ({"network.shared": 1}, "one of True, False, got 1"),
        ({"network.rank": 4}, r"network\.rank must be 2.*got 4"),
        ({"network.limit": 1.0}, r"network\.limit is not one of the settings"),
    ):
        with pytest.raises(ArgumentError, match=pattern):
            space.params({**settings, **change})

    with pytest.raises(ArgumentError, match=r"training\.lr is missing in the settings"):
        space.params({name: value for name, value in settings.items() if name != "training.lr"})
    with pytest.raises(ArgumentError, match=r"network\.bins is missing in the parameters"):
        space.settings({})
    assert space.params({name: value for name, value in settings.items() if name != "network.rank"}) == params


# --- errors ----------------------------------------------------------------------------------------------------------

#: Lines of a file for squad, and a pattern of the error message.
BAD = {
    "[network]\nbin = {low = 5, high = 9}": r"network\.bin .*squad.*Did you mean bins\?",
    "[network]\npieces = {low = 5, high = 9}": r"network\.pieces .*maxout-dropout",
    "[network]\nlr = {low = 1e-4, high = 1e-2}": r"network\.lr .*\[training\]",
    "[training]\nbins = {low = 5, high = 9}": r"training\.bins .*\[network\]",
    "[training]\nlearning_rate = 1": r"training\.learning_rate .*lr, kl_multiplier,",
    "[training]\nprecision = {choices = ['tf32', 'float32']}": r"training\.precision cannot be searched",
    "[training]\nbackend = 'eager'": r"training\.backend cannot.*--set training\.backend=",
    "[training]\nadversarial = {low = 0.0, high = 0.1}": r"training\.adversarial cannot.*train together",
    "[prediction]\nnum_samples = {low = 1, high = 9}": "prediction is not a table",
    "[nework]\nbins = 5": r"nework is not a table.*Did you mean network\?",
    "bins = {low = 5, high = 9}": "bins is not a table",
    "network = 3": "network must be a table.*got 3",
    "model = 'mlp'\n[training]\nlr = {low = 0.1, high = 0.2}": "model must be 'squad'.*got 'mlp'",
    "model = 3": "model must be 'squad'.*got 3",
    "": "no setting to search",
    "[network]\nbins = 5": "no setting to search",
    "[network]\nbins = {low = 5, high = 5}": "no setting to search",
    "[network]\nbins = {low = 9, high = 5}": r"network\.bins: low must be below high, 5, got 9\..*empty",
    "[training]\nlr = {low = 0.01, high = 0.001, log = true}": r"training\.lr: low .*below high, 0\.001, got 0\.01",
    "[training]\nbatch_size = {low = 512, high = 32, octaves = 0.5}": "low must be below high, 32, got 512",
    "[training]\nlr = {low = 0, high = 0.1, log = true}": r"training\.lr: low must be above 0.*log.*got 0\.$",
    "[training]\nlr = {low = 0.0, high = 0.1, log = true}": "low must be above 0.*log.*got 0",
    "[training]\nlr = {low = -1.5, high = 0.1, log = true}": r"low must be above 0.*log.*got -1\.5",
    "[training]\nanneal_epochs = {low = 0, high = 9, log = true}": "low must be above 0.*log.*got 0",
    "[network]\nbins = {low = 5, high = 9, log = true, step = 2}": "step must be left out.*log.*got 2",
    "[network]\nlimit = {low = 1.0, high = 2.0, log = true, step = 0.5}": r"step must be left out.*log.*got 0\.5",
    "[network]\nbins = {low = 5, high = 10, step = 2}": r"network\.bins: high .*steps of 2 above 5, got 10\..*high = 9",
    "[network]\nlimit = {low = 1.0, high = 2.0, step = 0.3}": r"high .*steps of 0\.3 above 1, got 2\..*high = 1\.9",
    "[network]\nbins = {low = 5, high = 9, step = 20}": "high .*steps of 20.*smaller step",
    "[network]\nbins = {low = 5, high = 9, step = 0}": "step must be .*1, got 0",
    "[network]\nbins = {low = 5, high = 9, step = 1.0}": r"step must be .*without a decimal point, got 1\.0",
    "[network]\nlimit = {low = 1.0, high = 2.0, step = -0.5}": r"step must be .*0, got -0\.5",
    "[network]\nlimit = {low = 1.0, high = 2.0, log = 1}": "log must be true or false, got 1",
    "[network]\nbins = {low = 5.0, high = 9}": r"network\.bins: low must be .*without a decimal point, got 5\.0",
    "[network]\nbins = {low = true, high = 9}": "low must be .*integer, got True",
    "[network]\nbins = {low = true, high = true}": "low must be .*integer, got True",
    "[network]\nbins = {low = '5', high = 9}": "low must be .*integer, got '5'",
    "[network]\nbins = {low = 5, high = 99999999999999999}": "high must be at most.*got 99999999999999999",
    "[network]\nlimit = {low = nan, high = 9.0}": "low must be .*got nan",
    "[network]\nlimit = {low = 1.0, high = inf}": "high must be .*got inf",
    "[network]\nlimit = nan": r"network\.limit: .*must be .*got nan",
    "[network]\nlimit = {low = [1], high = 2}": r"low must be .*got \[1\]",
    "[network]\nlimit = {choices = [1.0, nan]}": "value must be .*got nan",
    "[network]\nbins = {low = 5}": r"network\.bins: high is missing",
    "[network]\nbins = {step = 5}": "low and high are missing",
    "[network]\nbins = {}": "low and high are missing",
    "[network]\nbins = {low = 5, hi = 9}": r"network\.bins: hi .*Did you mean high\?",
    "[network]\nbins = {low = 5, high = 9, q = 2}": "q .*low, high, log, step, octaves, choices",
    "[network]\nbins = {choices = [5, 7], low = 3}": "choices cannot be combined with low",
    "[network]\nbins = {choices = []}": r"network\.bins: choices must be a list.*got \(\)",
    "[network]\nprior = {choices = 'uniform'}": "choices must be a list.*got 'uniform'",
    "[network]\nbins = {choices = [5, 7, 5]}": "choices must .*got 5 twice",
    "[network]\nlimit = {choices = [1, 1.0]}": r"choices must .*got 1\.0 twice",
    "[network]\nhidden = {choices = [[8], [8]]}": r"choices must .*got \[8\] twice",
    "[network]\nprior = {choices = ['uniform', 'cauchy']}": r"network\.prior: prior .*'gaussian', got 'cauchy'",
    "[network]\nprior = {low = 1, high = 2}": r"network\.prior: .*no range.*choices",
    "[network]\nhidden = {low = 8, high = 64}": r"network\.hidden: .*no range.*choices",
    "[network]\nhidden = {choices = [8, 16]}": r"network\.hidden: hidden .*8",
    "[network]\nhidden = [[8], [16]]": r"network\.hidden: hidden .*8",
    "[network]\nhidden = {choices = [[8], [0]]}": r"network\.hidden: hidden .*1, got 0",
    "[network]\ndropout = [0.1, 0.2]": r"network\.dropout: .*one network, got \[0\.1, 0\.2\]\..*choices",
    "[training]\nlr = {choices = [[0.1, 0.2], [0.3]]}": r"training\.lr: .*one network, got \[0\.1, 0\.2\]",
    "[network]\ntest_dropout = {choices = [0, 1]}": "test_dropout must be .*got 0",
    "[network]\nbins = {choices = [5, true]}": "bins must be .*2, got True",
    "[network]\nbins = {choices = [5, {low = 3}]}": r"network\.bins: .*must be a number, text.*got \{'low': 3\}",
    "[network]\nbins = {low = 1, high = 9}": r"network\.bins: bins must be .*2, got 1",
    "[network]\ndropout = {low = 0.1, high = 1.0}": r"network\.dropout: dropout must be .*1, got 1\.0",
    "[network]\ndropout = 'half'": r"network\.dropout: .*must be .*got 'half'",
    "[network]\nbins = 'many'": r"network\.bins: bins must be .*got 'many'",
    "[network]\nspacing = 1979-05-27": r"network\.spacing: .*must be a number, text.*1979",
    "[training]\nlr = {low = -0.1, high = 0.1}": r"training\.lr: lr must be .*0, got -0\.1",
    "[training]\nbatch_size = {low = 0, high = 8}": r"training\.batch_size: batch_size must be .*got 0",
    "[training]\nbatch_size = {low = 0, high = 8, octaves = 1}": "low must be .*1.*octaves, got 0",
    "[training]\nbatch_size = {low = 32, high = 512, octaves = 0}": r"octaves must be .*0\.001.*got 0",
    "[training]\nbatch_size = {low = 32, high = 512, octaves = -0.5}": r"octaves must be .*got -0\.5",
    "[training]\nbatch_size = {low = 32, high = 500, octaves = 0.5}": (
        r"high .*0\.5 octaves above 32, got 500\. .*362 and 512"
    ),
    "[training]\nbatch_size = {low = 32, high = 40, octaves = 1}": "got 40.*32 and 64",
    "[training]\nbatch_size = {low = 1, high = 16, octaves = 0.5}": r"octaves .*1, 1, 2, 3, 4, 6, 8, 11, \.\.\.",
    "[training]\nbatch_size = {low = 1000, high = 32000, octaves = 0.005}": r"octaves .*1,000 values, got 0\.005",
    "[training]\nbatch_size = {low = 32, high = 512, octaves = 0.5, log = true}": "octaves cannot be combined with log",
    "[training]\nlr = {low = 0.25, high = 1.0, octaves = 0.5}": r"training\.lr: octaves .*integers",
    "[training]\nanneal_epochs = {low = 5, high = 50}\nmax_epochs = {low = 50, high = 90}": (
        r"training\.anneal_epochs must be below .*max_epochs, 50, got up to 50"
    ),
}


@pytest.mark.parametrize("text", BAD)
def test_errors_name_the_file_the_setting_and_the_value(text: str, tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    path.write_text(text)
    with pytest.raises(SpaceError) as caught:
        Space.read(path, "squad")
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert re.search(BAD[text], message), message
    with pytest.raises(ArgumentError) as plain:
        Space.of("squad", tomllib.loads(text))
    assert message == f"{path}: {plain.value}"


@pytest.mark.parametrize(
    ("model", "name", "pattern"),
    [
        ("mlp", "network.bins", "squad, squad-factorized"),
        ("mlp", "training.kl_multiplier", "mlp has no KL"),
        ("dlgm", "training.anneal_epochs", "dlgm has no temperature"),
        ("maxout-dropout", "training.temperature_end", "no temperature"),
        ("squad", "network.rank", "squad-factorized"),
    ],
)
def test_settings_that_a_network_does_not_have(model: str, name: str, pattern: str) -> None:
    tables = nested({name: {"low": 1, "high": 2}, "training.lr": {"low": 0.1, "high": 0.2}}, model)
    with pytest.raises(ArgumentError, match=f"^{re.escape(name)} .*{pattern}"):
        Space.of(model, tables)


@pytest.mark.parametrize("model", ["squadd", "", None, "../squad"])
def test_an_unknown_network(model: Any) -> None:
    for make in (Space.default, lambda name: Space.of(name, {}), lambda name: Space(name, {})):
        with pytest.raises(ArgumentError, match="model must be one of 'squad'"):
            make(model)


def test_unreadable_files(tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    for content, pattern in ((None, "cannot be read"), (b"[network\n", "is not TOML"), (b"\xff", "is not TOML")):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(SpaceError, match=pattern) as caught:
            Space.read(path, "squad")
        assert str(path) in str(caught.value)
        assert isinstance(caught.value, SquadError)


@pytest.mark.parametrize("tables", [[], "network", {"network": {1: 5}}, {"network": {"bins": None}}, {3: {}}])
def test_invalid_tables(tables: Any) -> None:
    with pytest.raises(ArgumentError):
        Space.of("squad", tables)


def test_nothing_left_to_search() -> None:
    names = ["network.dropout", "training.lr", "training.batch_size"]
    with pytest.raises(
        ArgumentError, match=r"Nothing is left to search: network\.dropout, training\.lr, training\.batch_size"
    ):
        Space.paper("mlp", names)
    assert Space.paper("mlp", names[:2]).distributions().keys() == {"training.log2_batch_size"}


def test_fixed_settings_are_checked_except_for_pairs() -> None:
    tables = {"training": {"lr": {"low": 1, "high": 0}, "weight_decay": {"low": 0.0, "high": 0.1}}}
    with pytest.raises(ArgumentError, match=r"training\.lr: low"):
        Space.of("squad", tables, ["training.lr"])
    tables = {"training": {"anneal_epochs": {"low": 5, "high": 500}, "max_epochs": 100}}
    with pytest.raises(ArgumentError, match=r"anneal_epochs .*below .*max_epochs, 100, got up to 500"):
        Space.of("squad", tables)
    # If max_epochs is set elsewhere, it may be anything.
    space = Space.of("squad", tables, ["training.max_epochs"])
    assert Space.of("squad", space.to_dict()) == space


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
def test_number_of_points(tables: dict[str, Any], points: int | None) -> None:
    assert Space.of("squad", tables).points() == points
