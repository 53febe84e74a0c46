"""Settings: their sources and precedence, and that a saved model returns them."""

import json
import re
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
def test_toml_round_trip(network: dict[str, Any], target: str) -> None:
    settings = {"target": target, "network": network}
    expected = settings if network else {"target": target}
    assert tomllib.loads(to_toml(settings)) == expected


def test_later_sources_take_precedence() -> None:
    found = merged(
        {"seed": 1, "model": "mlp", "training": {"lr": 0.1, "max_epochs": 3}},
        ["seed=2", "training.lr=0.2", "network.hidden=[16]", "prediction.num_samples=4", "model=squad"],
        {"seed": 3, "training.max_epochs": None},
    )
    settings = fit_settings(found)
    assert (settings.seed, settings.training.lr, settings.training.max_epochs) == (3, 0.2, 3)
    assert (settings.network.name, settings.network.hidden, settings.num_samples) == ("squad", (16,), 4)


def test_merging_does_not_modify_its_input() -> None:
    base = {"training": {"lr": 0.1}}
    merged(base, ["training.lr=0.2"], {})
    assert base == {"training": {"lr": 0.1}}


def test_settings_are_saved_and_give_the_same_model(run: Run, here: Path) -> None:
    (here / "settings.toml").write_text(
        'target = "y"\ndrop = ["patient_id"]\nmembers = 2\nseed = 5\nsplit_per_member = true\n'
        "[network]\nhidden = [8]\ndropout = [0.0, 0.1]\n[training]\nmax_epochs = 3\nlr = [1e-3, 2e-3]\n"
        '[prediction]\nsampling = "relaxed"\nnum_samples = 3\n'
    )
    command = ("fit", "train.csv", "--config", "settings.toml", "--set", "network.bins=7", "--seed", "6", "--quiet")
    assert run(*command, "--out", "first").code == 0
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
        ("foo", "--set.*NAME=VALUE.*foo"),
        ("=1", "--set.*NAME=VALUE.*=1"),
        ("sed=1", r"\bsed\b.*Did you mean .?seed"),
        ("trainin.lr=1", r"\btrainin\b.*Did you mean .?training"),
        ("training.lrr=1", r"\blrr\b.*Did you mean .?lr"),
        ("prediction.num_sample=3", r"\bnum_sample\b.*Did you mean .?num_samples"),
        ("network.pieces=3", "pieces.*network squad"),
        ("training.lr=abc", "lr.*'abc'"),
        ("training.lr=-1", "lr.*-1"),
        ("training.lr=", "lr.*''"),
        ("training.lr=[0.1,0.2]", r"lr.*\b1 member.*\b2\b"),
        ("network.bins=1", r"bins.*\b2\b.*\b1\b"),
        ("network.bins=2.5", r"bins.*2\.5"),
        ("validation=2", r"validation.*\b2"),
        ("training=1", r"training.*table.*\b1\b"),
        ("a.b.c=1", r"a\.b\b"),
        ("split_per_member=3", "split_per_member.*3"),
    ],
)
def test_wrong_assignments(run: Run, here: Path, assignment: str, words: str) -> None:
    before = listing(here)
    assert re.search(words, run("fit", "train.csv", *QUICK, "--out", "new", "--set", assignment).refusal)
    assert listing(here) == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"a = = 1", r"wrong\.toml.*TOML"),
        (b"\xff\xfe", r"wrong\.toml.*TOML"),
        (b"epoch = 3", r"\bepoch\b"),
        (b'members = "x"', "members.*'x'"),
        (b"members = true", "members.*True"),
        (b"network = 3", r"network.*table.*\b3\b"),
        (b"drop = [1]", r"drop.*\[1\]"),
        (b'[training]\nlr = "x"', "lr.*'x'"),
        (b"[network]\nhidden = []", r"hidden.*\[\]|hidden.*\(\)"),
        (b"[prediction]\nnum_samples = 0", r"num_samples.*\b0\b"),
    ],
)
def test_wrong_files(run: Run, here: Path, text: bytes, words: str) -> None:
    (here / "wrong.toml").write_bytes(text)
    before = listing(here)
    refusal = run("fit", "train.csv", "--target", "y", "--config", "wrong.toml", "--out", "new").refusal
    assert re.search(words, refusal)
    assert listing(here) == before


def test_a_missing_file(run: Run) -> None:
    assert re.search(r"no\.toml.*No such file", run("fit", "train.csv", "--config", "no.toml").refusal)
