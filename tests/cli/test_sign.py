"""squad keygen, sign, verify, and predict --public-key."""

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run, listing


@pytest.fixture
def signed(run: Run, here: Path) -> Path:
    """A certified model, signed."""
    done = run("certify", "model", "calibration.csv", "--risk", ".2", "--delta", ".1", "--all-rows")
    assert done.code == 0, done.err
    assert run("keygen", "key.pem").code == 0
    assert run("sign", "model", "--key", "key.pem").code == 0
    return here / "model"


def test_sign_and_verify(run: Run, signed: Path) -> None:
    found = run("verify", "model", "--public-key", "key.pub")
    assert (found.code, found.err) == (0, "")
    assert "valid" in found.out
    assert "900 calibration scores" in found.out
    assert run("predict", "model", "new.csv", "--public-key", "key.pub").code == 0
    assert "not checked" in run("verify", "model").out
    assert run("strip", "model", "--scores", "--out", "bare").code == 0
    assert "not stored" in run("verify", "bare").out
    assert "signature    none" in run("verify", "bare").out


def test_a_stand_alone_certificate(run: Run, here: Path) -> None:
    scores = ("certify", "--scores", "scores.csv", "--risk", ".1", "--out", "c.json")
    assert run(*scores).code == 0
    assert run("keygen", "key.pem").code == 0
    assert run("sign", "c.json", "--key", "key.pem").err == "signed: c.signature.json\n"
    assert run("verify", "c.json", "--public-key", "key.pub").code == 0
    again = run(*scores, "--overwrite")
    assert "warning: the signature of c.json was removed" in again.err
    assert "is not signed" in run("verify", "c.json", "--public-key", "key.pub").refusal


@pytest.mark.parametrize(
    "command",
    [
        ("certify", "model", "calibration.csv", "--risk", ".3", "--delta", ".1", "--all-rows", "--overwrite"),
        ("recalibrate", "model", "recalibration.csv", "--overwrite"),
        ("strip", "model", "--yes"),
    ],
    ids=lambda command: command[0],
)
def test_a_change_removes_the_signature(run: Run, signed: Path, command: tuple[str, ...]) -> None:
    changed = run(*command)
    assert changed.code == 0, changed.err
    assert any(line.startswith("warning: the signature of model was removed") for line in changed.err.splitlines())
    assert not (signed / "signature.json").exists()
    for refused in (
        run("verify", "model", "--public-key", "key.pub"),
        run("predict", "model", "new.csv", "--public-key", "key.pub"),
    ):
        assert "is not signed" in refused.refusal
    assert "signature" not in run(*command, "--overwrite").err if command[0] == "strip" else True


def test_a_changed_copy_is_not_signed(run: Run, signed: Path) -> None:
    assert "warning: bare is not signed" in run("strip", "model", "--out", "bare").err
    assert run("verify", "model", "--public-key", "key.pub").code == 0


def test_nothing_changes_if_nothing_is_certified(run: Run, signed: Path) -> None:
    before = listing(signed)
    nothing = run("certify", "model", "calibration.csv", "--risk", ".01", "--all-rows", "--overwrite")
    assert nothing.code != 0
    assert "signature" not in nothing.err
    assert listing(signed) == before


def test_refusals(run: Run, signed: Path, here: Path) -> None:
    assert "key.pem" in run("keygen", "key.pem").refusal
    assert run("keygen", "other.pem").code == 0
    assert "another key" in run("verify", "model", "--public-key", "other.pub").refusal
    assert "another key" in run("predict", "model", "new.csv", "--public-key", "other.pub").refusal
    assert "none.pub" in run("verify", "model", "--public-key", "none.pub").refusal
    assert re.search(r"key\.pub.*private", run("sign", "model", "--key", "key.pub").refusal)
    assert "elsewhere" in run("sign", "elsewhere", "--key", "key.pem").refusal
    assert not list(here.glob(".*"))
