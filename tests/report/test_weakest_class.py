"""The class that is missed most often, and the guarantee that is suggested for it."""

import shlex

import numpy as np
import pytest

from squad.cli.certify_settings import target_of
from squad.report.summaries import ClassRow
from squad.report.weakest_class import certify_option, find_weakest_class


def row(name: str, n: int, missed: int, referred: int | None = 0) -> ClassRow:
    return ClassRow(name, n, missed, n, 0, referred, "other" if missed else "")


def test_one_error_in_a_handful_of_cases_does_not_decide() -> None:
    found = find_weakest_class([row("a", 3, 1), row("b", 100, 25), row("c", 500, 5)], {"wrong": 0.1}, 0.1, 0.05, 600)
    assert found is not None
    assert (found.name, found.n, found.missed, found.exceeds) == ("b", 100, 25, True)


def test_no_class_is_weakest_if_none_is_missed() -> None:
    assert find_weakest_class([row("a", 30, 0), row("b", 0, 0)], {}, 0.0, 0.05, 0) is None


@pytest.mark.parametrize(("missed", "exceeds"), [(2, False), (5, False), (28, True)])
def test_it_exceeds_the_risk_only_beyond_chance(missed: int, exceeds: bool) -> None:
    found = find_weakest_class([row("a", 900, 0), row("h", 100, missed)], {"wrong": 0.02}, 0.02, 0.05, 1000)
    assert found is not None
    assert found.exceeds == exceeds


def test_honest_classes_rarely_exceed_the_risk() -> None:
    """If every class is missed at the guaranteed rate, the tick is withheld from at most 1 % of models."""
    rng = np.random.default_rng(0)
    withheld = 0
    for _ in range(2000):
        rows = [row(str(label), 80, int(rng.binomial(80, 0.05))) for label in range(10)]
        found = find_weakest_class(rows, {"wrong": 0.05}, 0.05, 0.05, 800)
        withheld += found is not None and found.exceeds
    assert withheld <= 35  # 20 expected at most; three standard deviations above


def test_a_bound_of_the_certificate_needs_no_suggestion() -> None:
    risks = {"wrong": 0.02, "miss rate h": 0.1}
    found = find_weakest_class([row("a", 900, 1), row("h", 100, 9)], risks, 0.01, 0.05, 5000)
    assert found is not None
    assert (found.limit, found.suggestion) == (0.1, {})


@pytest.mark.parametrize(("cases", "limit"), [(50, None), (700, 0.1), (5000, 0.02)])
def test_the_suggested_limit_can_be_confirmed(cases: int, limit: float | None) -> None:
    """With a tenth of the calibration cases, and half of what would be enough without errors to spare."""
    rows = [row("a", 900, 1), row("h", 60, 9, referred=40)]
    found = find_weakest_class(rows, {"wrong": 0.02}, 0.01, 0.05, cases)
    assert found is not None
    assert found.suggestion == ({} if limit is None else {"wrong": 0.02, "miss rate h": limit})
    if limit is not None:
        assert (1 - limit) ** (0.1 * cases / 2) <= 0.05


def test_the_suggestion_is_what_the_command_reads() -> None:
    risks = {"wrong": 0.02, "missed a": 0.01, "miss rate it's": 0.1}
    option = certify_option(risks)
    assert option is not None
    (text,) = shlex.split(option)
    assert target_of(text) == risks
    assert certify_option({"wrong": 0.02, "miss rate a,b=c": 0.1}) is None
    assert certify_option({"wrong": 0.02, "miss rate \x1b": 0.1}) is None
