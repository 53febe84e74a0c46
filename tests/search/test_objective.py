"""Objectives: compared with a literal implementation, at their limits, and parsed from text."""

import json
import math
import pickle
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from squad.errors import ArgumentError
from squad.search.objective import Objective
from squad.selective import certify, plan
from squad.selective.bounds import min_cases_without_errors
from squad.selective.methods import Options, min_cases
from tests.selective import brute

RISKS = [0.05, 0.1, 0.2, 0.3]
#: Few distinct confidences, so that most are tied.
ROWS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9).map(lambda n: n > 0)), min_size=1, max_size=60)


def arrays(rows: list[tuple[int, bool]]) -> tuple[Any, Any]:
    return np.array([row[0] / 12 for row in rows]), np.array([row[1] for row in rows])


@pytest.mark.parametrize("seed", range(60))
def test_coverage_equals_a_literal_sgr(seed: int) -> None:
    rng = np.random.default_rng(seed)
    risk, delta, levels = rng.choice(RISKS), rng.choice([0.01, 0.05, 0.25]), int(rng.choice([4, 30, 1000]))
    rows = [(int(level), rng.random() < 0.6 + 0.5 * level / levels) for level in rng.integers(0, levels, 80)]
    confidence, correct = arrays(rows)
    value, found = Objective("coverage", risk, delta).measure(confidence, correct)
    expected = brute.certify(confidence.tolist(), {"wrong": (~correct).tolist()}, [{"wrong": risk}], delta, "sgr")
    answer = expected[0, None]
    assert value == found["coverage"] == answer.n / len(rows)
    assert (found["accepted"], found["errors"], found["rows"]) == (answer.n, answer.errors["wrong"], len(rows))
    ends = {math.inf: ("none", None), -math.inf: ("all", None)}
    assert (found["accepts"], found["threshold"]) == ends.get(answer.threshold, ("above", answer.threshold))


@given(ROWS)
def test_aurc_is_the_mean_over_orders_of_ties(rows: list[tuple[int, bool]]) -> None:
    confidence, correct = arrays(rows)
    value, found = Objective("aurc").measure(confidence, correct)
    # Rank by rank: errors expected among the first n, with ties in any order.
    total = 0.0
    for n in range(1, len(rows) + 1):
        last = sorted(confidence, reverse=True)[n - 1]
        above, equal = confidence > last, confidence == last
        rate = (~correct)[equal].mean()
        total += ((~correct)[above].sum() + (n - above.sum()) * rate) / n
    assert -value == found["aurc"] == pytest.approx(total / len(rows), abs=1e-12)
    assert -1 <= value <= 0


@given(ROWS, st.sampled_from(["coverage@risk=.1", "aurc", "accuracy"]), st.randoms(use_true_random=False))
def test_neither_order_nor_scale_matters(rows: list[tuple[int, bool]], text: str, random: Any) -> None:
    objective = Objective.parse(text)
    value, details = objective.measure(*arrays(rows))
    random.shuffle(rows)
    confidence, correct = arrays(rows)
    again, others = objective.measure(7 * confidence - 3, correct.astype(np.int64))
    assert again == value
    assert {**others, "threshold": None} == {**details, "threshold": None}
    assert objective.worst <= value <= 1
    assert json.loads(json.dumps(details)) == details


@pytest.mark.parametrize("count", [0, 1, 17, 39, 40])
def test_accuracy_and_its_interval(count: int) -> None:
    correct = np.arange(40) < count
    value, found = Objective("accuracy").measure(np.linspace(1, 0, 40), correct)
    assert value == found["accuracy"] == count / 40
    exact = stats.binomtest(count, 40).proportion_ci(0.95, method="exact")
    assert found["accuracy_interval"] == pytest.approx([exact.low, exact.high], abs=1e-12)


def test_a_large_case_equals_the_certificate() -> None:
    rng = np.random.default_rng(3)
    confidence = rng.random(10_000)
    correct = rng.random(10_000) < 0.9 + 0.1 * confidence
    for scores in (confidence, np.round(confidence, 2), confidence.astype(np.float32)):
        value, found = Objective.parse("coverage@risk=.03").measure(scores, correct)
        certificate = certify(scores, correct, 0.03, 0.01, "sgr")
        assert 0 < value < 1
        assert (value, found["threshold"], found["accepted"], found["errors"]) == (
            certificate.coverage,
            certificate.threshold,
            certificate.n,
            certificate.errors,
        )
        exact = stats.binomtest(certificate.n, 10_000).proportion_ci(0.95, method="exact")
        assert found["coverage_interval"] == pytest.approx([exact.low, exact.high], abs=1e-12)


def test_all_right_all_wrong_all_equal() -> None:
    coverage = Objective.parse("coverage@risk=.05")
    confidence, yes = np.linspace(0, 1, 1000), np.ones(1000, dtype=bool)
    value, found = coverage.measure(confidence, yes)
    assert (value, found["accepts"], found["threshold"], found["errors"]) == (1.0, "all", None, 0)
    assert found["coverage_interval"][1] == 1.0
    value, found = coverage.measure(confidence, ~yes)
    assert (value, found["accepts"], found["threshold"], found["accepted"]) == (0.0, "none", None, 0)
    assert found["coverage_interval"][0] == 0.0
    assert found["aurc"] == pytest.approx(1.0)
    # Equal confidences are accepted together or not at all.
    some = np.arange(1000) % 10 > 0
    assert coverage.measure(np.full(1000, 0.9), some)[0] == 0.0
    assert Objective.parse("coverage@risk=.2").measure(np.full(1000, 0.9), some)[0] == 1.0


@pytest.mark.parametrize("text", ["coverage@risk=.02", "aurc", "accuracy"])
@pytest.mark.parametrize(
    ("confidence", "correct", "word"),
    [
        ([0.5, math.nan], [1, 0], "NaN"),
        ([0.5, -math.inf], [1, 0], "inf"),
        ([], [], "one row"),
        ([0.5, 0.6], [1], "shape"),
        ([[0.5], [0.6]], [[1], [0]], "shape"),
        ([0.5, 0.6], [1, 2], "0 and 1"),
    ],
)
def test_invalid_arrays_are_refused(text: str, confidence: Any, correct: Any, word: str) -> None:
    with pytest.raises(ArgumentError, match=word):
        Objective.parse(text).measure(np.array(confidence), np.array(correct))


@pytest.mark.parametrize(("risk", "delta"), [(0.02, 0.01), (0.05, 0.1), (0.3, 0.25), (0.005, 0.01)])
def test_too_few_rows_use_aurc_with_a_note(risk: float, delta: float) -> None:
    objective = Objective("coverage", risk, delta)
    free = plan(risk, delta)
    assert objective.for_rows(3 * free) == (objective, None)
    other, sentence = objective.for_rows(3 * free - 1)
    assert other == Objective("aurc")
    assert sentence is not None
    for part in (f"{3 * free - 1:,} validation rows", f"the {free:,} ", "-AURC is maximized", f"{100 * risk:g} %"):
        assert part in sentence
    assert "is 1 validation row," in (objective.for_rows(1)[1] or "")
    for plain in (Objective("aurc"), Objective("accuracy")):
        assert plain.for_rows(0) == (plain, None)


def test_the_papers_228_rows() -> None:
    objective = Objective.parse("coverage@risk=.02")
    assert objective.for_rows(684)[0] is objective
    note = objective.for_rows(683)[1]
    assert note is not None
    assert re.search("683 .*3 times the 228 .*2 %.*99 %.*-AURC is maximized", note)


def test_sgr_can_certify_with_enough_rows() -> None:
    for risk in (0.001, 0.005, 0.02, 0.1, 0.3, 0.5):
        for delta in (1e-6, 0.01, 0.1, 0.25):
            assert min_cases("sgr", risk, delta, Options()) <= 3 * plan(risk, delta)
    # As the docstring says: with ten tests, 342 of 684 rows without an error are enough.
    assert min_cases_without_errors(0.02, 0.01 / 10) == 342
    for least, enough in ((341, False), (343, True)):
        value, _ = Objective.parse("coverage@risk=.02").measure(np.linspace(1, 0, 684), np.arange(684) < least)
        assert (value > 0) == enough


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("coverage@risk=.02", "coverage@risk=0.02,delta=0.01"),
        (" coverage @ risk = 2e-2 , delta = .05 ", "coverage@risk=0.02,delta=0.05"),
        ("coverage@delta=.05,risk=.02", "coverage@risk=0.02,delta=0.05"),
        ("aurc", "aurc"),
        ("accuracy ", "accuracy"),
    ],
)
def test_parse(text: str, canonical: str) -> None:
    found = Objective.parse(text)
    assert found.text == canonical
    assert Objective.parse(canonical) == found
    assert pickle.loads(pickle.dumps(found)) == found
    assert hash(found) == hash(Objective.parse(canonical))


@given(st.floats(1e-9, 1, exclude_max=True), st.floats(1e-9, 1, exclude_max=True))
def test_the_canonical_form_keeps_every_digit(risk: float, delta: float) -> None:
    objective = Objective("coverage", risk, delta)
    assert Objective.parse(objective.text) == objective


def test_worst_values() -> None:
    assert [Objective.parse(text).worst for text in ("coverage@risk=.02", "aurc", "accuracy")] == [0.0, -1.0, 0.0]


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("", "'coverage', 'aurc', 'accuracy'"),
        ("covrage@risk=.02", r"'covrage'.*coverage@risk=\.02"),
        ("coverage", r"no risk.*coverage@risk=\.02"),
        ("coverage@", r"coverage@risk=\.02.*got '' in 'coverage@'"),
        ("coverage@delta=.05", "no risk"),
        ("coverage@.02", r"'\.02' in"),
        ("coverage@risk=", "risk .*must be a number"),
        ("coverage@risk=2%", r"2 % is \.02"),
        ("coverage@risk=2", r"2 % is 0\.02"),
        ("coverage@risk=0", "risk .*0.*got 0"),
        ("coverage@risk=nan", "risk .*got nan"),
        ("coverage@risk=.02,delta=1", "delta .*1.*got 1"),
        ("coverage@risk=.02,risk=.05", "risk twice"),
        ("coverage@risk=.02,r_max=.05", r"'r_max=\.05' in"),
        ("coverage@risk=.02,", "'' in"),
        ("aurc@risk=.02", "aurc takes no risk"),
        (None, "objective must be text.*got None"),
    ],
)
def test_invalid_texts_are_refused(text: Any, pattern: str) -> None:
    with pytest.raises(ArgumentError, match=pattern) as caught:
        Objective.parse(text)
    assert "objective" in str(caught.value)
