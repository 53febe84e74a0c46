"""Certificates of an earlier version (format 1) can still be read, and still follow from their scores."""

import json
from pathlib import Path
from typing import Any

import pytest

from squad.selective import Certificate
from squad.selective.certify import check_scores
from squad.selective.scored_cases import Scores

SAVED = json.loads((Path(__file__).parent / "format_1.json").read_text())


@pytest.mark.parametrize(
    "saved", SAVED["certificates"], ids=lambda one: f"{one['certificate']['method']}, {one['kind']}"
)
def test_read_and_checked(saved: dict[str, Any]) -> None:
    made = Certificate.from_json(saved["certificate"])
    assert made.certified
    assert made.attempt is None
    harms = {"late": SAVED["late"]} if saved["kind"] == "harms" else None
    by = SAVED["by"] if saved["kind"] == "groups and targets" else None
    check_scores(made, Scores.of(SAVED["confidence"], SAVED["correct"], harms, by))
    assert made.headline.startswith("Certified")
    assert Certificate.from_json(made.to_json()) == made


def test_delta_was_divided_between_harms() -> None:
    """The level of the rules shows it; today the same claim is certified with more accepted cases."""
    (old,) = [
        one["certificate"]
        for one in SAVED["certificates"]
        if (one["kind"], one["certificate"]["method"]) == ("harms", "fallback")
    ]
    assert Certificate.from_json(old).rules[0].level == 0.1 / 2
