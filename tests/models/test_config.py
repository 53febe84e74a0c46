"""Network configurations: frozen, validated, and unchanged by a round trip through JSON."""

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


def test_names_of_the_networks() -> None:
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
def test_round_trip_through_json(name: str, settings: dict[str, Any]) -> None:
    config = network_config(name, settings)
    again = network_config(name, json.loads(json.dumps(config.to_dict())))
    assert again == config
    assert again.to_dict() == config.to_dict()
    assert isinstance(again.hidden, tuple)


def test_numpy_numbers_become_python_numbers() -> None:
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
        ("squad", {"hidden": ()}, r"^hidden .*got \(\)"),
        ("squad", {"hidden": 32}, r"^hidden .*got 32"),
        ("squad", {"hidden": "32"}, r"^hidden .*got '32'"),
        ("mlp", {"hidden": (4, 0)}, r"^hidden .*got 0"),
        ("mlp", {"hidden": (4.5,)}, r"^hidden .*got 4\.5"),
        ("mlp", {"hidden": (True,)}, r"^hidden .*got True"),
        ("mlp", {"dropout": 1.0}, r"^dropout .*got 1\.0"),
        ("mlp", {"dropout": -0.1}, r"^dropout .*got -0\.1"),
        ("mlp", {"dropout": (0.1, float("nan"))}, r"^dropout .*got nan"),
        ("mlp", {"dropout": "0.1"}, r"^dropout .*got '0\.1'"),
        ("mlp", {"dropout": None}, r"^dropout .*got None"),
        ("mlp", {"init_scale": 0}, r"^init_scale .*got 0"),
        ("mlp", {"init_scale": float("inf")}, r"^init_scale .*got inf"),
        ("mlp", {"test_dropout": 1}, r"^test_dropout .*got 1"),
        ("squad", {"bins": 1}, r"^bins .*got 1"),
        ("squad", {"spacing": "log"}, r"^spacing .*got 'log'"),
        ("squad", {"prior": []}, r"^prior .*got \[\]"),
        ("squad", {"learn_values": None}, r"^learn_values .*got None"),
        ("squad", {"limit": 0.0}, r"^limit .*got 0\.0"),
        ("squad-factorized", {"rank": 0}, r"^rank .*got 0"),
        ("squad-factorized", {"shared": "yes"}, r"^shared .*got 'yes'"),
        ("maxout-dropout", {"pieces": 0}, r"^pieces .*got 0"),
        ("squad", {"bin": 3}, r"bin .*squad.*bins\?"),
        ("mlp", {"bins": 3}, r"^bins .*mlp"),
        ("squad", {"zzz": 3}, r"^zzz .*squad.*hidden, dropout, .*, bins"),
        ("squat", {}, r"^model .*'dlgm'.*got 'squat'.*'squad'\?"),
        (["squad"], {}, r"^model .*got \['squad'\]\."),
        (None, {}, r"^model .*got None\."),
    ],
)
def test_invalid_settings_are_rejected(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        network_config(name, settings)


def test_settings_of_one_member() -> None:
    config = SquadConfig(dropout=(0.0, 0.5), init_scale=[1.0, 3.0], hidden=(4,))  # type: ignore[arg-type]
    assert config.member(1) == SquadConfig(dropout=0.5, init_scale=3.0, hidden=(4,))
    assert SquadConfig(dropout=0.5).member(3) == SquadConfig(dropout=0.5)
    config.check_members(2)
    with pytest.raises(ArgumentError, match=r"dropout.* 3 members.*got 2"):
        config.check_members(3)


# ---- sampling modes


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
def test_default_sampling_mode_and_number_of_samples(config: NetworkConfig, sampling: str, samples: int) -> None:
    assert config.check_sampling(None, None) == (sampling, samples)
    assert config.sampling_modes[0] == sampling
    for other in config.sampling_modes:
        assert config.check_sampling(other, 3) == (other, 3)


def test_invalid_sampling_is_rejected() -> None:
    with pytest.raises(ArgumentError, match=r"sampling.*'mean'.* mlp.*got 'sample'"):
        network_config("mlp").check_sampling("sample", None)
    for wrong in (0, 1_000_000, 2.5, True):
        with pytest.raises(ArgumentError, match=rf"num_samples.*got {wrong}"):
            network_config("squad").check_sampling(None, wrong)  # type: ignore[arg-type]


def test_dropout_is_inactive_at_test_time_except_in_mc_dropout() -> None:
    on = {name for name in NAMES if network_config(name).test_dropout}
    assert on == {"relu-dropout", "maxout-dropout"}
    assert {name for name in NAMES if network_config(name).dropout != 0} == on
