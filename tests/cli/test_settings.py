"""Settings: where they come from, who wins, and that a saved model gives them back."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squad.settings import fit_settings, merged, to_toml
from tests.cli.conftest import QUICK, Run, listing

TEXT = st.text(st.characters(codec="utf-8"))
VALUES = st.one_of(st.booleans(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False), TEXT)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.one_of(VALUES, st.lists(VALUES))), TEXT)
def test_toml_comes_back(network: dict[str, Any], target: str) -> None:
    settings = {"target": target, "network": network}
    expected = settings if network else {"target": target}
    assert tomllib.loads(to_toml(settings)) == expected


def test_the_later_wins() -> None:
    found = merged(
        {"seed": 1, "model": "mlp", "training": {"lr": 0.1, "max_epochs": 3}},
        ["seed=2", "training.lr=0.2", "network.hidden=[16]", "prediction.num_samples=4", "model=squad"],
        {"seed": 3, "training.max_epochs": None},
    )
    settings = fit_settings(found)
    assert (settings.seed, settings.training.lr, settings.training.max_epochs) == (3, 0.2, 3)
    assert (settings.network.name, settings.network.hidden, settings.num_samples) == ("squad", (16,), 4)


def test_the_file_is_not_changed_by_what_overrides_it() -> None:
    base = {"training": {"lr": 0.1}}
    merged(base, ["training.lr=0.2"], {})
    assert base == {"training": {"lr": 0.1}}


def test_settings_are_saved_and_give_the_same_model(run: Run, here: Path) -> None:
    (here / "settings.toml").write_text(
        'target = "y"\ndrop = ["patient_id"]\nmembers = 2\nseed = 5\nsplit_per_member = true\n'
        "[network]\nhidden = [8]\ndropout = [0.0, 0.1]\n[training]\nmax_epochs = 3\nlr = [1e-3, 2e-3]\n"
        '[prediction]\nsampling = "relaxed"\nnum_samples = 3\n'
    )
    asked = ("fit", "train.csv", "--config", "settings.toml", "--set", "network.bins=7", "--seed", "6", "--quiet")
    assert run(*asked, "--out", "first").code == 0
    saved = json.loads((here / "first/config.json").read_text())
    assert saved["network"]["bins"] == 7
    assert saved["network"]["dropout"] == [0.0, 0.1]
    assert saved["record"]["seed"] == 6
    assert saved["record"]["training"]["lr"] == [0.001, 0.002]
    assert saved["prediction"] == {"sampling": "relaxed", "num_samples": 3}
    (here / "again.toml").write_text(run("info", "first", "--settings").out)
    assert run("fit", "train.csv", "--config", "again.toml", "--quiet", "--out", "second").code == 0
    assert (here / "first/model.safetensors").read_bytes() == (here / "second/model.safetensors").read_bytes()
    assert run("info", "second", "--settings").out == (here / "again.toml").read_text()


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("foo", "--set must be NAME=VALUE"),
        ("=1", "--set must be NAME=VALUE"),
        ("sed=1", "Did you mean seed?"),
        ("trainin.lr=1", "Did you mean training?"),
        ("training.lrr=1", "Did you mean lr?"),
        ("prediction.num_sample=3", "Did you mean num_samples?"),
        ("network.pieces=3", "not a setting of the network squad"),
        ("training.lr=abc", "lr must be a number above 0, got 'abc'"),
        ("training.lr=-1", "lr must be a number above 0"),
        ("training.lr=", "lr must be a number above 0, got ''"),
        ("training.lr=[0.1,0.2]", "one for each of 1 members, got 2"),
        ("network.bins=1", "bins must be an integer >= 2"),
        ("network.bins=2.5", "bins must be a whole number"),
        ("validation=2", "validation must be"),
        ("training=1", "training must be a table"),
        ("a.b.c=1", "a.b is not a setting"),
        ("split_per_member=3", "split_per_member must be true or false"),
    ],
)
def test_wrong_assignments(run: Run, here: Path, assignment: str, words: str) -> None:
    before = listing(here)
    assert words in run("fit", "train.csv", *QUICK, "--out", "new", "--set", assignment).refusal
    assert listing(here) == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"a = = 1", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        (b"epoch = 3", "epoch is not a setting"),
        (b'members = "x"', "members must be a whole number, got 'x'"),
        (b"members = true", "members must be a whole number"),
        (b"network = 3", "network must be a table"),
        (b"drop = [1]", "drop must be a list of columns"),
        (b'[training]\nlr = "x"', "lr must be a number above 0"),
        (b"[network]\nhidden = []", "hidden must be"),
        (b"[prediction]\nnum_samples = 0", "num_samples must be"),
    ],
)
def test_wrong_files(run: Run, here: Path, text: bytes, words: str) -> None:
    (here / "wrong.toml").write_bytes(text)
    before = listing(here)
    assert words in run("fit", "train.csv", "--target", "y", "--config", "wrong.toml", "--out", "new").refusal
    assert listing(here) == before


def test_a_missing_file(run: Run) -> None:
    assert (
        run("fit", "train.csv", "--config", "no.toml").refusal == "no.toml cannot be read: No such file or directory."
    )
