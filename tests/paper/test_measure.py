"""Measures of predictions, compared with the public functions of the library and with plain loops."""

import inspect
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import squad
from experiments.paper.jobs.measure import COVERAGES, DEFAULT_METHOD, DELTA, RISKS, measure_predictions, risk_curve
from squad.metrics import aurc
from squad.search.objective import Objective

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def predictor(
    rows: int, seed: int, classes: int = 4, scale: float = 3.0, steps: int | None = None
) -> tuple[Floats, Labels]:
    """Return informative probabilities, and labels drawn from them; with ``steps`` there are many ties."""
    random = np.random.default_rng(seed)
    logits = scale * random.normal(size=(rows, classes))
    if steps is not None:
        logits = np.round(logits * steps / 4) * 4 / steps
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    y = (p.cumsum(1) < random.random((rows, 1))).sum(1).clip(0, classes - 1)
    return p, y


#: From a few rows, too few to certify anything, to thousands; with and without ties, good and bad.
PREDICTORS = st.builds(
    predictor,
    rows=st.sampled_from([1, 2, 9, 300, 1500, 4000]),
    seed=st.integers(0, 10_000),
    classes=st.integers(2, 5),
    scale=st.sampled_from([0.5, 4.0, 30.0]),
    steps=st.sampled_from([None, 1, 3]),
)


@given(PREDICTORS)
def test_measures_equal_those_of_the_librarys_functions(answers: tuple[Floats, Labels]) -> None:
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


def test_defaults_equal_those_of_certify() -> None:
    parameters = inspect.signature(squad.certify).parameters
    assert parameters["method"].default == DEFAULT_METHOD
    assert parameters["delta"].default == DELTA
    assert Objective.parse("coverage@risk=.02").delta == DELTA
    assert RISKS == (0.005, 0.01, 0.02)  # the paper's


@given(PREDICTORS, st.integers(0, 5))
def test_another_confidence_only_changes_the_ranking(answers: tuple[Floats, Labels], seed: int) -> None:
    p, y = answers
    own = np.random.default_rng(seed).normal(size=len(y))
    found, plain = measure_predictions(p, y, 0, own), measure_predictions(p, y, 0)
    assert (found["accuracy"], found["nll"]) == (plain["accuracy"], plain["nll"])
    correct = p.argmax(1) == y
    assert found["aurc"] == aurc(own, correct)
    for risk in RISKS:
        assert found[f"coverage@{risk}"] == squad.certify(own, correct, risk, DELTA, "sgr").n / len(y)
        assert found[f"default@{risk}"] == squad.certify(own, correct, risk).n / len(y)
    # Only the order matters.
    assert measure_predictions(p, y, 0, np.exp(own / 3)) == found


def slow_halves(
    confidence: Floats, correct: NDArray[np.bool_], halves: int, risk: float, method: str
) -> dict[str, Any]:
    """Compute the same by squad.certify in a plain loop."""
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


def check_same(result: dict[str, Any], slow: dict[str, Any]) -> None:
    assert result.keys() == slow.keys()
    for name, value in slow.items():
        assert result[name] == (None if value is None else pytest.approx(value, rel=1e-9, abs=1e-12)), name


@pytest.mark.parametrize(
    "answers",
    [
        predictor(5001, 1, scale=12.0),
        predictor(1301, 2, scale=60.0),
        predictor(3000, 3, steps=1, scale=8.0),
        predictor(40, 4),
    ],
    ids=["many rows", "few rows", "ties", "too few"],
)
def test_halves_equal_certificates_on_each_half(answers: tuple[Floats, Labels]) -> None:
    p, y = answers
    found = measure_predictions(p, y, 6)
    for risk in RISKS:
        assert found[f"halves@{risk}"].keys() == {"sgr", DEFAULT_METHOD}
        for method, result in found[f"halves@{risk}"].items():
            check_same(result, slow_halves(p.max(1), p.argmax(1) == y, 6, risk, method))
    assert bool(found["halves@0.02"][DEFAULT_METHOD]["coverage"]) == (len(y) > 1000)


def test_halves_use_the_given_confidence() -> None:
    p, y = predictor(3000, 5, scale=20.0)
    own = np.random.default_rng(0).permutation(p.max(1))
    result = measure_predictions(p, y, 3, own)["halves@0.02"][DEFAULT_METHOD]
    check_same(result, slow_halves(own, p.argmax(1) == y, 3, 0.02, DEFAULT_METHOD))
    assert result != measure_predictions(p, y, 3)["halves@0.02"][DEFAULT_METHOD]


@given(PREDICTORS, st.integers(1, 3))
def test_properties_of_halves(answers: tuple[Floats, Labels], halves: int) -> None:
    p, y = answers
    found = measure_predictions(p, y, halves)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    for risk in RISKS:
        for result in found[f"halves@{risk}"].values():
            assert 0 <= result["coverage"] <= 1
            assert result["violations"] * halves == pytest.approx(round(result["violations"] * halves))
            assert 0 <= result["violations"] <= 1
            assert (result["risk"] is None) == (result["coverage"] == 0)
            if result["risk"] is None:
                assert result["violations"] == 0
            else:
                assert 0 <= result["risk"] <= 1
                assert result["violations"] or result["risk"] <= risk
    # The other measures do not depend on the halves.
    assert measure_predictions(p, y, 0) == {
        name: value for name, value in found.items() if not name.startswith("halves")
    }


def test_a_predictor_that_is_always_right() -> None:
    y = np.arange(4000) % 4
    p = np.full((4000, 4), 0.1)
    p[np.arange(4000), y] = 0.7  # all equally confident: accepted together
    found = measure_predictions(p, y, 4)
    assert (found["accuracy"], found["aurc"]) == (1.0, 0.0)
    for risk in RISKS:
        assert found[f"coverage@{risk}"] == found[f"default@{risk}"] == 1.0
        for result in found[f"halves@{risk}"].values():
            assert result == {"coverage": 1.0, "risk": 0.0, "violations": 0.0}


def test_a_predictor_that_is_never_right() -> None:
    p, _ = predictor(4000, 6)
    found = measure_predictions(p, (p.argmax(1) + 1) % 4, 4)
    assert (found["accuracy"], found["aurc"]) == (0.0, 1.0)
    for risk in RISKS:
        assert found[f"coverage@{risk}"] == found[f"default@{risk}"] == 0.0
        for result in found[f"halves@{risk}"].values():
            assert result == {"coverage": 0.0, "risk": None, "violations": 0.0}


def test_guarantees_hold_on_average() -> None:
    """On many exchangeable rows the mean selective risk stays below the target."""
    p, y = predictor(12_000, 7, scale=20.0)
    found = measure_predictions(p, y, 30)
    for risk in RISKS:
        for method, result in found[f"halves@{risk}"].items():
            assert result["coverage"] > 0.1, (risk, method)
            assert result["risk"] < risk
            # One in a hundred halves may exceed it; the halves share their rows, so a few more are plausible.
            assert result["violations"] <= 0.2


def test_violations_are_counted() -> None:
    """1.75 % of equally confident predictions are wrong: if one half has few errors, the other has the rest."""
    wrong = np.random.default_rng(0).permutation(4000) < 70
    p = np.tile([0.9, 0.1], (4000, 1))
    found = measure_predictions(p, wrong.astype(np.int64), 200)["halves@0.02"]
    for method, result in found.items():
        slow = slow_halves(p.max(1), ~wrong, 200, 0.02, method)
        check_same(result, slow)
        assert result["violations"] == result["coverage"]
    assert found[DEFAULT_METHOD]["coverage"] > 0
    assert found[DEFAULT_METHOD]["risk"] > 0.02


@given(PREDICTORS)
def test_the_risk_curve_equals_a_plain_loop(answers: tuple[Floats, Labels]) -> None:
    p, y = answers
    found = risk_curve(p, y)
    rows = sorted(range(len(y)), key=lambda row: -p[row].max())
    wrong = [int(p[row].argmax() != y[row]) for row in rows]
    for coverage, risk in zip(COVERAGES, found, strict=True):
        count = math.ceil(coverage * len(y) - 1e-9)
        assert risk == pytest.approx(sum(wrong[:count]) / count)
    assert found[-1] == pytest.approx(1 - np.mean(p.argmax(1) == y))
    assert (COVERAGES[0], COVERAGES[-1], len(COVERAGES)) == (pytest.approx(0.01), 1.0, 101)
    assert json.loads(json.dumps(found)) == found
