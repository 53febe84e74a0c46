"""The class that is missed most often, and the certificate that is suggested for it."""

import shlex
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from squad.cli.certify_settings import target_of
from squad.report.content import compute_report
from squad.report.summaries import ClassRow
from squad.report.weakest_class import (
    MOST_TIMES,
    NO_ATTEMPT_LEFT,
    NONE_ACCEPTED,
    TOO_FEW,
    UNLIKELY,
    Obstacle,
    Suggestion,
    WeakestClass,
    certify_option,
    find_weakest_class,
    suggest_limit,
)
from squad.selective import certify
from tests.report.builders import certified, images, model


def row(name: str, n: int, missed: int, referred: int | None = 0) -> ClassRow:
    return ClassRow(name, n, missed, n, 0, referred, "other" if missed else "")


def test_one_error_in_a_handful_of_cases_does_not_decide() -> None:
    found = find_weakest_class([row("a", 3, 1), row("b", 100, 25), row("c", 500, 5)], {"wrong": 0.1}, 0.1)
    assert found is not None
    assert (found.name, found.n, found.missed, found.exceeds) == ("b", 100, 25, True)


def test_no_class_is_weakest_if_none_is_missed() -> None:
    assert find_weakest_class([row("a", 30, 0), row("b", 0, 0)], {}, 0.0) is None


@pytest.mark.parametrize(("missed", "exceeds"), [(2, False), (5, False), (28, True)])
def test_it_exceeds_the_risk_only_beyond_chance(missed: int, exceeds: bool) -> None:
    found = find_weakest_class([row("a", 900, 0), row("h", 100, missed)], {"wrong": 0.02}, 0.02)
    assert found is not None
    assert found.exceeds == exceeds


def test_a_rare_class_does_not_hide_a_large_one() -> None:
    """2 of 3 has the higher lower end, but proves nothing; 50 of 500 has a p-value of 4e-20 at 2 %."""
    rows = [row("rare", 3, 2), row("big", 500, 50), *(row(f"perfect {index}", 500, 0) for index in range(8))]
    found = find_weakest_class(rows, {"wrong": 0.02}, 0.02)
    assert found is not None
    assert (found.name, found.exceeds) == ("big", True)


def test_p_values_that_are_zero_are_ordered_by_miss_rate() -> None:
    rows = [row("a", 100_000, 40_000), row("b", 100_000, 90_000), row("c", 100_000, 50_000)]
    found = find_weakest_class(rows, {"wrong": 0.01}, 0.5)
    assert found is not None
    assert found.name == "b"


def test_honest_classes_rarely_exceed_the_risk() -> None:
    """If every class is missed at the guaranteed rate, the tick is withheld from at most 1 % of models."""
    rng = np.random.default_rng(0)
    withheld = 0
    for _ in range(2000):
        rows = [row(str(label), 80, int(rng.binomial(80, 0.05))) for label in range(10)]
        found = find_weakest_class(rows, {"wrong": 0.05}, 0.05)
        withheld += found is not None and found.exceeds
    assert withheld <= 35  # 20 expected at most; three standard deviations above


@pytest.mark.parametrize(("missed", "exceeds"), [(9, False), (30, True)])
def test_a_class_with_a_bound_is_compared_with_it(missed: int, exceeds: bool) -> None:
    risks = {"wrong": 0.02, "miss rate h": 0.1}
    found = find_weakest_class([row("a", 900, 1), row("h", 100, missed)], risks, 0.01)
    assert found is not None
    assert (found.name, found.limit, found.exceeds) == ("h", 0.1, exceeds)


def suggested(
    missed: float, m: int, delta: float = 0.05, attempt: int = 2, share: float = 0.1, **settings: Any
) -> Suggestion | Obstacle:
    """Return what is suggested for a class with this share of 2,000 test cases, all of them accepted."""
    count = 2000
    own = np.arange(count) < round(share * count)
    wrong = np.arange(count) < round(missed * own.sum())
    confidence = np.random.default_rng(0).permutation(count) / count
    harms: dict[str, NDArray[Any]] = {"wrong": wrong, "miss rate h": np.where(own, wrong, np.nan)}
    certificate = certify(np.arange(m) / m, np.ones(m, dtype=bool), 0.1, delta, attempt=1, **settings)
    weakest = WeakestClass("h", int(own.sum()), int(wrong.sum()), 0, True, None)
    return suggest_limit(weakest, confidence, np.ones(count, dtype=bool), harms, {"wrong": 0.1}, certificate, attempt)


def suggestion(*arguments: Any, **settings: Any) -> Suggestion:
    """Return what is suggested, which must be something."""
    found = suggested(*arguments, **settings)
    assert isinstance(found, Suggestion)
    return found


def test_the_suggested_limit_depends_on_the_observed_miss_rate() -> None:
    assert [suggestion(missed, 10_000).risks["miss rate h"] for missed in (0.01, 0.1, 0.2)] == [0.1, 0.2, 0.3]
    assert suggested(0.6, 10_000) == UNLIKELY
    assert suggested(1.0, 10_000) == UNLIKELY


def test_too_small_a_calibration_set_needs_more_cases() -> None:
    small, large = suggestion(0.2, 500), suggestion(0.2, 50_000)
    assert small.cases is not None
    assert 500 < small.least < small.cases
    assert small.risks == {"wrong": 0.1, "miss rate h": 0.3}
    assert large.cases == large.least == 50_000
    assert small.cases <= MOST_TIMES * 500
    assert suggestion(0.2, small.cases).cases == small.cases


def test_few_cases_of_a_class_leave_the_number_open() -> None:
    """3 of 20: the interval of the rate goes from 4 to 34 %, so that 30 % may be out of reach or not."""
    found = suggestion(0.15, 2000, share=0.01)
    assert found.cases is None
    assert found.least > 2000
    assert suggested(1.0, 2000, share=0.0005) == TOO_FEW  # the only case
    assert suggested(0.4, 2000, share=0.01) == TOO_FEW  # 8 of 20
    assert suggested(0.5, 2000, share=0.1) == UNLIKELY


def test_a_later_attempt_has_less_of_delta() -> None:
    """The first 90 %, the next 5 %, and so on: what the second can confirm, the ninth cannot."""
    second, ninth = suggestion(0.1, 8000), suggestion(0.1, 8000, attempt=9)
    assert (second.attempt, ninth.attempt) == (2, 9)
    assert second.cases == ninth.cases == 8000
    assert second.risks["miss rate h"] < ninth.risks["miss rate h"]
    assert suggested(0.1, 8000, attempt=41) == NO_ATTEMPT_LEFT  # there are 40


def test_the_suggested_method_is_named_if_it_is_another() -> None:
    """A band cannot bound a harm that is counted on some cases only."""
    usual, other = suggestion(0.05, 5000), suggestion(0.05, 5000, method="band")
    assert (usual.method, other.method) == (None, "fallback")


def test_without_accepted_cases_nothing_is_suggested() -> None:
    """Miss rates of all cases say nothing about a limit for accepted ones."""
    x = images(200, seed=3)
    predictor = certified(model(), risk=0.1, count=400)
    assert predictor.certificate is not None
    nothing = replace(predictor.certificate.rules[0], threshold=2.0)
    strict = predictor._replace(certificate=replace(predictor.certificate, rules=(nothing,)))
    labels = predictor.answer(x).label.copy()
    labels[labels == "emu"] = "dog"
    (found,) = compute_report({"it": strict}, x, labels).models
    assert (found.accepted, found.among_accepted) == (0, False)
    own = np.arange(20) < 4
    weakest, harms = WeakestClass("h", 4, 2, 0, True, None), {"wrong": own, "miss rate h": np.where(own, own, np.nan)}
    nobody, confidence = np.zeros(20, dtype=bool), np.arange(20) / 20
    certificate = predictor.certificate
    assert suggest_limit(weakest, confidence, nobody, harms, {"wrong": 0.1}, certificate, 2) == NONE_ACCEPTED
    assert found.weakest is not None
    assert found.weakest.suggestion == NONE_ACCEPTED


def test_harms_that_labels_do_not_tell_are_taken_to_be_certified_again() -> None:
    count = 2000
    own = np.arange(count) < 200
    wrong = np.arange(count) < 10
    harms: dict[str, NDArray[Any]] = {"wrong": wrong, "miss rate h": np.where(own, wrong, np.nan)}
    certificate = certify(np.arange(8000) / 8000, np.ones(8000, dtype=bool), 0.1, 0.05, attempt=1)
    weakest = WeakestClass("h", 200, 10, 0, True, None)
    risks = {"wrong": 0.1, "complaint": 0.05}
    found = suggest_limit(weakest, np.arange(count) / count, np.ones(count, dtype=bool), harms, risks, certificate, 2)
    assert isinstance(found, Suggestion)
    assert found.assumed == ("complaint",)
    assert found.risks.keys() == {"wrong", "complaint", "miss rate h"}
    assert found.delta == 0.05


def test_the_suggestion_is_what_the_command_reads() -> None:
    risks = {"wrong": 0.02, "missed a": 0.01, "miss rate it's": 0.1}
    option = certify_option(risks)
    assert option is not None
    (text,) = shlex.split(option)
    assert target_of(text) == risks
    assert certify_option({"wrong": 0.02, "miss rate a,b=c": 0.1}) is None
    assert certify_option({"wrong": 0.02, "miss rate \x1b": 0.1}) is None
