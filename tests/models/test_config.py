"""The settings of networks: frozen, checked, and the same after a trip through a file."""

import dataclasses
import inspect
import json
from typing import Any

import numpy as np
import pytest

from squad.errors import ArgumentError
from squad.models import CONFIGS, NetworkConfig, SquadConfig, network_config

NAMES = ("squad", "squad-factorized", "mlp", "maxout-dropout", "relu-dropout", "dlgm")
each = pytest.mark.parametrize("name", NAMES)


def test_the_networks_there_are() -> None:
    assert tuple(CONFIGS) == NAMES
    assert len(set(CONFIGS.values())) == len(NAMES)


@each
def test_settings_are_frozen_and_compare_by_value(name: str) -> None:
    config = network_config(name)
    assert config.name == name
    assert config == network_config(name)
    assert hash(config) == hash(network_config(name))
    assert config != network_config(name, {"hidden": (7,)})
    for field in dataclasses.fields(config):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(config, field.name, getattr(config, field.name))


@each
def test_every_setting_is_documented(name: str) -> None:
    kind = CONFIGS[name]
    text = "\n".join(inspect.getdoc(one) or "" for one in kind.__mro__)
    for field in dataclasses.fields(kind):
        assert f"\n    {field.name}: " in text, field.name


@each
@pytest.mark.parametrize("settings", [{}, {"hidden": [3], "dropout": [0.1, 0.2], "init_scale": [1, 2]}])
def test_there_and_back_through_json(name: str, settings: dict[str, Any]) -> None:
    config = network_config(name, settings)
    again = network_config(name, json.loads(json.dumps(config.to_dict())))
    assert again == config
    assert again.to_dict() == config.to_dict()
    assert isinstance(again.hidden, tuple)


def test_numbers_of_other_types_become_plain() -> None:
    config = network_config(
        "squad",
        {
            "hidden": [np.int64(4)],
            "dropout": np.float32(0.5),
            "init_scale": (np.float64(1.0), 2),
            "bins": np.int32(3),
            "limit": np.float32(2),
        },
    )
    assert json.loads(json.dumps(config.to_dict()))["init_scale"] == [1.0, 2.0]
    kinds = [type(value) for value in config.to_dict().values()]
    assert kinds[:2] == [tuple, float]
    assert type(config.to_dict()["limit"]) is float


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("squad", {"hidden": ()}, r"hidden must be a list of layer sizes, such as \[32, 32\], got \(\)"),
        ("squad", {"hidden": 32}, r"hidden must be a list of layer sizes, .*, got 32"),
        ("squad", {"hidden": "32"}, r"hidden must be a list of layer sizes, .*, got '32'"),
        ("mlp", {"hidden": (4, 0)}, r"hidden must be a whole number of at least 1, got 0"),
        ("mlp", {"hidden": (4.5,)}, r"hidden must be a whole number of at least 1, got 4\.5"),
        ("mlp", {"hidden": (True,)}, r"hidden must be a whole number of at least 1, got True"),
        ("mlp", {"dropout": 1.0}, r"dropout must be a number at least 0 and below 1, got 1\.0"),
        ("mlp", {"dropout": -0.1}, r"dropout must be a number at least 0 and below 1, got -0\.1"),
        ("mlp", {"dropout": (0.1, float("nan"))}, r"dropout must be .*, got nan"),
        ("mlp", {"dropout": "0.1"}, r"dropout must be .*, got '0\.1'"),
        ("mlp", {"dropout": None}, r"dropout must be .*, got None"),
        ("mlp", {"init_scale": 0}, r"init_scale must be a number above 0, got 0"),
        ("mlp", {"init_scale": float("inf")}, r"init_scale must be a number above 0, got inf"),
        ("mlp", {"test_dropout": 1}, r"test_dropout must be true or false, got 1"),
        ("squad", {"bins": 1}, r"bins must be a whole number of at least 2, got 1"),
        ("squad", {"spacing": "log"}, r"spacing must be one of 'linear', 'gaussian', got 'log'"),
        ("squad", {"prior": []}, r"prior must be one of 'uniform', 'gaussian', got \[\]"),
        ("squad", {"learn_values": None}, r"learn_values must be one of 'per_layer', .*, got None"),
        ("squad", {"limit": 0.0}, r"limit must be a number above 0, got 0\.0"),
        ("squad-factorized", {"rank": 0}, r"rank must be a whole number of at least 1, got 0"),
        ("squad-factorized", {"shared": "yes"}, r"shared must be true or false, got 'yes'"),
        ("maxout-dropout", {"pieces": 0}, r"pieces must be a whole number of at least 1, got 0"),
        ("squad", {"bin": 3}, r"bin is not a setting of the network squad\. Did you mean bins\?"),
        ("mlp", {"bins": 3}, r"bins is not a setting of the network mlp\. "),
        ("squad", {"zzz": 3}, r"zzz is not a setting of the network squad\. There are hidden, dropout, .*, bins"),
        ("squat", {}, r"model must be one of 'squad', .*, got 'squat'\. Did you mean 'squad'\?"),
        (["squad"], {}, r"model must be one of 'squad', .*, got \['squad'\]\."),
        (None, {}, r"model must be one of 'squad', .*, got None\."),
    ],
)
def test_wrong_settings_are_told(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        network_config(name, settings)


def test_settings_of_one_member() -> None:
    config = SquadConfig(dropout=(0.0, 0.5), init_scale=[1.0, 3.0], hidden=(4,))  # type: ignore[arg-type]
    assert config.member(1) == SquadConfig(dropout=0.5, init_scale=3.0, hidden=(4,))
    assert SquadConfig(dropout=0.5).member(3) == SquadConfig(dropout=0.5)
    config.check_members(2)
    with pytest.raises(ArgumentError, match="dropout must be one number, or one for each of 3 members, got 2 numbers"):
        config.check_members(3)


# ---- how predictions are made


@pytest.mark.parametrize(
    ("config", "sampling", "samples"),
    [
        (network_config("squad"), "stratified", 8),
        (network_config("squad-factorized"), "stratified", 8),
        (network_config("mlp"), "mean", 1),
        (network_config("mlp", {"dropout": 0.5}), "mean", 1),
        (network_config("mlp", {"dropout": 0.5, "test_dropout": True}), "sample", 32),
        (network_config("mlp", {"test_dropout": True}), "mean", 1),
        (network_config("relu-dropout"), "sample", 32),
        (network_config("maxout-dropout"), "sample", 32),
        (network_config("dlgm"), "sample", 32),
        (network_config("squad", {"dropout": 0.5}), "stratified", 8),
        (network_config("squad", {"dropout": (0.0, 0.5), "test_dropout": True}), "stratified", 32),
    ],
    ids=str,
)
def test_sampling_unless_another_is_asked_for(config: NetworkConfig, sampling: str, samples: int) -> None:
    assert config.check_sampling(None, None) == (sampling, samples)
    assert config.ways[0] == sampling
    for other in config.ways:
        assert config.check_sampling(other, 3) == (other, 3)


def test_wrong_sampling_is_told() -> None:
    with pytest.raises(ArgumentError, match="sampling must be one of 'mean' for the network mlp, got 'sample'"):
        network_config("mlp").check_sampling("sample", None)
    for wrong in (0, 1_000_000, 2.5, True):
        with pytest.raises(ArgumentError, match="num_samples must be a whole number between 1 and 999999"):
            network_config("squad").check_sampling(None, wrong)  # type: ignore[arg-type]


def test_dropout_is_off_at_test_time_except_in_mc_dropout() -> None:
    on = {name for name in NAMES if network_config(name).test_dropout}
    assert on == {"relu-dropout", "maxout-dropout"}
    assert {name for name in NAMES if network_config(name).dropout != 0} == on
