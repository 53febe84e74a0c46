"""Certificates on disk, and files that must not be read as certificates."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from squad.selective import Certificate, CertificateError, certify
from squad.selective.certificate import _checksum
from squad.selective.certificate_text import confidence_level, confidence_text, percent


def several() -> Certificate:
    rng = np.random.default_rng(0)
    confidence = rng.random(4000)
    correct = rng.random(4000) >= 0.3 * (1 - confidence) ** 2
    by = np.where(rng.random(4000) < 0.99, "Zürich", "Oslo")
    return certify(confidence, correct, [{"wrong": 0.05, "harm": 0.03}, 0.2], harms={"harm": ~correct}, by=by)


def sealed(data: dict[str, Any]) -> dict[str, Any]:
    """Recompute the checksum, as an attacker would."""
    return {**data, "checksum": _checksum(data)}


def test_round_trip(tmp_path: Path) -> None:
    for certificate in (
        several(),
        certify([], [], 0.02),
        certify(np.arange(1000), np.ones(1000), 0.02),
        certify(np.arange(1000), np.ones(1000), 0.02, method="grid", thresholds=[3.5, -math.inf]),
    ):
        path = certificate.save(tmp_path / "folder" / "certificate.json")
        again = Certificate.load(path)
        assert again == certificate
        assert str(again) == str(certificate)
        text = path.read_text()
        assert "Infinity" not in text
        assert "NaN" not in text
        assert json.loads(text)["says"] == str(certificate)


def test_infinite_thresholds_are_stored_as_words() -> None:
    none = certify([], [], 0.02).to_json()["rules"][0]
    assert (none["accepts"], none["threshold"]) == ("none", None)
    rules = several().to_json()["rules"]
    assert {rule["accepts"] for rule in rules} == {"above", "all", "none"}


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "recipe"},
        {"format": 3},
        {"delta": 0},
        {"delta": "0.01"},
        {"m": -1},
        {"method": "magic"},
        {"rules": []},
        {"rules": 3},
        {"certified": False},
        {"options": None},
    ],
)
def test_a_changed_certificate_is_refused(change: dict[str, Any]) -> None:
    data = several().to_json()
    with pytest.raises(CertificateError):
        Certificate.from_json(sealed({**data, **change}))


@pytest.mark.parametrize("change", [{"says": "all is well"}, {"delta": 0.02}, {"checksum": ""}, {"note": "mine"}])
def test_accidental_edits_are_detected(change: dict[str, Any]) -> None:
    data = several().to_json()
    with pytest.raises(CertificateError, match="changed after"):
        Certificate.from_json({**data, **change})


def test_other_versions_may_word_the_text_differently() -> None:
    data = several().to_json()
    assert Certificate.from_json(sealed({**data, "says": "In other words."})) == several()


@pytest.mark.parametrize(
    "change",
    [
        {"threshold": None},
        {"accepts": "all"},
        {"accepts": "some"},
        {"threshold": "high"},
        {"n": 10**6},
        {"n": 2.5},
        {"risks": {}},
        {"risks": {"wrong": 2}},
        {"errors": {"wrong": 0}},
    ],
)
def test_a_changed_rule_is_refused(change: dict[str, Any]) -> None:
    data = several().to_json()
    assert data["rules"][1]["accepts"] == "above"
    data["rules"][1] = {**data["rules"][1], **change}
    with pytest.raises(CertificateError):
        Certificate.from_json(sealed(data))


def test_a_missing_entry_is_named() -> None:
    data = several().to_json()
    del data["rules"][0]["level"]
    with pytest.raises(CertificateError, match="level"):
        Certificate.from_json(sealed(data))


def test_files_that_are_not_certificates(tmp_path: Path) -> None:
    (tmp_path / "text.json").write_text("no")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(CertificateError, match=r"text\.json.*JSON"):
        Certificate.load(tmp_path / "text.json")
    with pytest.raises(CertificateError, match="not a certificate"):
        Certificate.load(tmp_path / "list.json")
    with pytest.raises(CertificateError, match=r"missing\.json cannot be read.*No such file"):
        Certificate.load(tmp_path / "missing.json")
    with pytest.raises(CertificateError, match="cannot be written"):
        several().save(tmp_path / "text.json" / "deeper.json")


def test_formats_of_numbers() -> None:
    assert [percent(x) for x in (0.02, 0.005, 0.99, 0.9999, 1 - 0.01)] == ["2 %", "0.5 %", "99 %", "99.99 %", "99 %"]
    assert [confidence_text(x) for x in (0.5, 0.98765, 0.99999873, 3.25, 0.0)] == [
        "0.5000",
        "0.9877",
        "0.99999873",
        "3.25",
        "0",
    ]


def test_a_guarantee_is_never_rounded_in_its_favour() -> None:
    assert percent(0.0199999999) == "1.99999999 %"
    assert percent(1e-12) == "1e-10 %"
    assert confidence_level(1e-9) == "99.9999999 %"
    assert confidence_level(1e-15) == "over 99.9999999 %"
    for threshold in (0.902435, 0.98764, 0.99999873, 0.5, 0.9999999999):
        assert float(confidence_text(threshold)) >= threshold


def test_saving_is_atomic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure while writing leaves the old file, and no other one."""
    path = several().save(tmp_path / "certificate.json")
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CertificateError, match=r"certificate\.json cannot be written.*No space left"):
        certify([], [], 0.02).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
