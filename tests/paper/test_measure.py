"""What is measured of answers, against the library's own front doors and against plain loops."""

import inspect
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import squad
from experiments.paper.jobs.measure import COVERAGES, DEFAULT_METHOD, DELTA, RISKS
from squad.metrics import aurc
from squad.search.objective import Objective

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def predictor(
    rows: int, seed: int, classes: int = 4, sure: float = 3.0, steps: int | None = None
) -> tuple[Floats, Labels]:
    """Probabilities whose ranks tell something, and labels that are drawn from them; with ``steps`` many are equal."""
    random = np.random.default_rng(seed)
    logits = sure * random.normal(size=(rows, classes))
    if steps is not None:
        logits = np.round(logits * steps / 4) * 4 / steps
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    y = (p.cumsum(1) < random.random((rows, 1))).sum(1).clip(0, classes - 1)
    return p, y


#: From a few rows, with which nothing can be shown, to thousands; with and without ties, good and bad.
PREDICTORS = st.builds(
    predictor,
    rows=st.sampled_from([1, 2, 9, 300, 1500, 4000]),
    seed=st.integers(0, 10_000),
    classes=st.integers(2, 5),
    sure=st.sampled_from([0.5, 4.0, 30.0]),
    steps=st.sampled_from([None, 1, 3]),
)


@given(PREDICTORS)
def test_the_figures_are_those_of_the_librarys_own_functions(answers: tuple[Floats, Labels]) -> None:
    p, y = answers
    found = measure_predictions(p, y, 0)
    confidence, correct = p.max(1), p.argmax(1) == y
    assert found["accuracy"] == pytest.approx(np.mean(correct), abs=1e-12)
    assert found["nll"] == pytest.approx(-np.log(np.maximum(p[range(len(y)), y], 2.3e-308)).mean(), rel=1e-9, abs=1e-12)
    assert found["aurc"] == aurc(confidence, correct)
    for risk in RISKS:
        assert found[f"coverage@{risk}"] == Objective.parse(f"coverage@risk={risk}").measure(confidence, correct)[0]
        assert found[f"default@{risk}"] == squad.certify(confidence, correct, risk).n / len(y)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_the_default_is_that_of_certify() -> None:
    parameters = inspect.signature(squad.certify).parameters
    assert parameters["method"].default == DEFAULT_METHOD
    assert parameters["delta"].default == DELTA
    assert Objective.parse("coverage@risk=.02").delta == DELTA
    assert RISKS == (0.005, 0.01, 0.02)  # the paper's


@given(PREDICTORS, st.integers(0, 5))
def test_another_confidence_ranks_and_changes_nothing_else(answers: tuple[Floats, Labels], seed: int) -> None:
    p, y = answers
    own = np.random.default_rng(seed).normal(size=len(y))
    found, plain = measure_predictions(p, y, 0, own), measure_predictions(p, y, 0)
    assert (found["accuracy"], found["nll"]) == (plain["accuracy"], plain["nll"])
    correct = p.argmax(1) == y
    assert found["aurc"] == aurc(own, correct)
    for risk in RISKS:
        assert found[f"coverage@{risk}"] == squad.certify(own, correct, risk, DELTA, "sgr").n / len(y)
        assert found[f"default@{risk}"] == squad.certify(own, correct, risk).n / len(y)
    # Only the order counts.
    assert measure_predictions(p, y, 0, np.exp(own / 3)) == found


def slow_halves(
    confidence: Floats, correct: NDArray[np.bool_], halves: int, risk: float, method: str
) -> dict[str, Any]:
    """In plain words, by squad.certify."""
    random = np.random.default_rng(0)
    coverages, risks = [], []
    for _ in range(halves):
        order = random.permutation(len(confidence))
        shown, other = order[: len(order) // 2], order[len(order) // 2 :]
        certificate = squad.certify(confidence[shown], correct[shown], risk, DELTA, method)
        accepted = certificate.accepts(confidence[other])
        coverages.append(accepted.mean())
        if accepted.any():
            risks.append(1 - correct[other][accepted].mean())
    return {
        "coverage": np.mean(coverages),
        "risk": np.mean(risks) if risks else None,
        "violations": sum(one > risk for one in risks) / halves,
    }


def check_same(told: dict[str, Any], slow: dict[str, Any]) -> None:
    assert told.keys() == slow.keys()
    for name, value in slow.items():
        assert told[name] == (None if value is None else pytest.approx(value, rel=1e-9, abs=1e-12)), name


@pytest.mark.parametrize(
    "answers",
    [
        predictor(5001, 1, sure=12.0),
        predictor(1301, 2, sure=60.0),
        predictor(3000, 3, steps=1, sure=8.0),
        predictor(40, 4),
    ],
    ids=["many rows", "few rows", "ties", "too few"],
)
def test_halves_against_certificates_on_each_half(answers: tuple[Floats, Labels]) -> None:
    p, y = answers
    found = measure_predictions(p, y, 6)
    for risk in RISKS:
        assert found[f"halves@{risk}"].keys() == {"sgr", DEFAULT_METHOD}
        for method, told in found[f"halves@{risk}"].items():
            check_same(told, slow_halves(p.max(1), p.argmax(1) == y, 6, risk, method))
    assert bool(found["halves@0.02"][DEFAULT_METHOD]["coverage"]) == (len(y) > 1000)


def test_halves_are_of_the_confidence_that_is_asked_for() -> None:
    p, y = predictor(3000, 5, sure=20.0)
    own = np.random.default_rng(0).permutation(p.max(1))
    told = measure_predictions(p, y, 3, own)["halves@0.02"][DEFAULT_METHOD]
    check_same(told, slow_halves(own, p.argmax(1) == y, 3, 0.02, DEFAULT_METHOD))
    assert told != measure_predictions(p, y, 3)["halves@0.02"][DEFAULT_METHOD]


@given(PREDICTORS, st.integers(1, 3))
def test_laws_of_halves(answers: tuple[Floats, Labels], halves: int) -> None:
    p, y = answers
    found = measure_predictions(p, y, halves)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    for risk in RISKS:
        for told in found[f"halves@{risk}"].values():
            assert 0 <= told["coverage"] <= 1
            assert told["violations"] * halves == pytest.approx(round(told["violations"] * halves))
            assert 0 <= told["violations"] <= 1
            assert (told["risk"] is None) == (told["coverage"] == 0)
            if told["risk"] is None:
                assert told["violations"] == 0
            else:
                assert 0 <= told["risk"] <= 1
                assert told["violations"] or told["risk"] <= risk
    # Without halves everything else is the same.
    assert measure_predictions(p, y, 0) == {
        name: value for name, value in found.items() if not name.startswith("halves")
    }


def test_one_that_is_always_right() -> None:
    y = np.arange(4000) % 4
    p = np.full((4000, 4), 0.1)
    p[np.arange(4000), y] = 0.7  # all equally sure: accepted together
    found = measure_predictions(p, y, 4)
    assert (found["accuracy"], found["aurc"]) == (1.0, 0.0)
    for risk in RISKS:
        assert found[f"coverage@{risk}"] == found[f"default@{risk}"] == 1.0
        for told in found[f"halves@{risk}"].values():
            assert told == {"coverage": 1.0, "risk": 0.0, "violations": 0.0}


def test_one_that_is_never_right() -> None:
    p, _ = predictor(4000, 6)
    found = measure_predictions(p, (p.argmax(1) + 1) % 4, 4)
    assert (found["accuracy"], found["aurc"]) == (0.0, 1.0)
    for risk in RISKS:
        assert found[f"coverage@{risk}"] == found[f"default@{risk}"] == 0.0
        for told in found[f"halves@{risk}"].values():
            assert told == {"coverage": 0.0, "risk": None, "violations": 0.0}


def test_what_is_promised_is_kept_on_average() -> None:
    """Halves of many rows that are drawn alike: the mean risk of what is answered stays below what was promised."""
    p, y = predictor(12_000, 7, sure=20.0)
    found = measure_predictions(p, y, 30)
    for risk in RISKS:
        for method, told in found[f"halves@{risk}"].items():
            assert told["coverage"] > 0.1, (risk, method)
            assert told["risk"] < risk
            # One in a hundred halves may; all share their rows, so that a few is no wonder.
            assert told["violations"] <= 0.2


def test_a_promise_that_is_not_kept_is_seen() -> None:
    """1.75 % of equally sure answers are wrong: a half with few of them is certified, and the other has the rest."""
    wrong = np.random.default_rng(0).permutation(4000) < 70
    p = np.tile([0.9, 0.1], (4000, 1))
    found = measure_predictions(p, wrong.astype(np.int64), 200)["halves@0.02"]
    for method, told in found.items():
        slow = slow_halves(p.max(1), ~wrong, 200, 0.02, method)
        check_same(told, slow)
        assert told["violations"] == told["coverage"]
    assert found[DEFAULT_METHOD]["coverage"] > 0
    assert found[DEFAULT_METHOD]["risk"] > 0.02


@given(PREDICTORS)
def test_the_curve_against_a_plain_loop(answers: tuple[Floats, Labels]) -> None:
    p, y = answers
    found = risk_curve(p, y)
    rows = sorted(range(len(y)), key=lambda row: -p[row].max())
    wrong = [int(p[row].argmax() != y[row]) for row in rows]
    for coverage, risk in zip(COVERAGES, found, strict=True):
        count = sum(1 for kept in range(len(y)) if kept < coverage * len(y) - 1e-9)
        assert risk == pytest.approx(sum(wrong[:count]) / count)
    assert found[-1] == pytest.approx(1 - np.mean(p.argmax(1) == y))
    assert (COVERAGES[0], COVERAGES[-1], len(COVERAGES)) == (pytest.approx(0.01), 1.0, 101)
    assert json.loads(json.dumps(found)) == found
