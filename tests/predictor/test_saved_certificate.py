"""Saved models whose certificate was edited, with valid checksums."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from squad import artifact
from squad.artifact import ArtifactError
from squad.predictor import Predictor, load
from squad.selective import certificate


def resealed(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Edit the first rule of the certificate, and update both checksums."""
    config = json.loads((folder / "config.json").read_text())
    change(config["certificate"]["rules"][0])
    config["certificate"]["checksum"] = certificate._checksum(config["certificate"])
    config["checksum"] = artifact._checksum(config)
    (folder / "config.json").write_text(json.dumps(config))


def lower_threshold(rule: dict[str, Any]) -> None:
    rule["threshold"] -= 0.1


def fewer_errors(rule: dict[str, Any]) -> None:
    rule["errors"]["wrong"] -= 1


def half_the_risk(rule: dict[str, Any]) -> None:
    rule["risks"]["wrong"] /= 2


def test_an_unchanged_certificate_is_loaded(safe: Predictor, tmp_path: Path) -> None:
    safe.save(tmp_path / "model")
    resealed(tmp_path / "model", lambda rule: None)
    assert load(tmp_path / "model").certificate == safe.certificate


@pytest.mark.parametrize("change", [lower_threshold, fewer_errors, half_the_risk])
def test_an_edited_rule_contradicts_the_stored_scores(
    safe: Predictor, tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    assert safe.certificate is not None
    assert safe.certificate.errors > 0
    safe.save(tmp_path / "model")
    resealed(tmp_path / "model", change)
    with pytest.raises(ArtifactError, match="contradicts") as caught:
        load(tmp_path / "model")
    assert f"{safe.certificate.n:,}" in str(caught.value)


def test_without_scores_only_counts_are_checked(safe: Predictor, tmp_path: Path) -> None:
    safe.without_scores().save(tmp_path / "model")
    resealed(tmp_path / "model", lower_threshold)  # the same counts at another threshold: nothing contradicts it
    load(tmp_path / "model")
    resealed(tmp_path / "model", half_the_risk)
    with pytest.raises(ArtifactError, match="contradicts"):
        load(tmp_path / "model")


@pytest.mark.parametrize("by", ["label", "site"])
def test_scores_with_groups_give_the_same_rules(of_table: Predictor, tmp_path: Path, by: str) -> None:
    from tests.predictor.examples import frame

    data = frame(3000, 3)
    made = of_table.certify(data, data["y"], [0.1, {"wrong": 0.2, "missed a": 0.1}], 0.1, by=by, one_per_group=False)
    made.save(tmp_path / "model")
    assert load(tmp_path / "model").certificate == made.certificate
