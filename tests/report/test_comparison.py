"""Models are compared on the same rows and on the same basis, or not at all."""

from typing import Any

import numpy as np
import pytest

from squad.data.tables import Table
from squad.data.transforms import TableTransform
from squad.errors import ArgumentError
from squad.models import build
from squad.predictor import Predictor
from squad.report.comparison import BETTER, TOO_FEW, WITHIN_CHANCE, WORSE, compare_models
from squad.report.content import compute_report
from tests.report.builders import certified, frame, images, labels_for, model


def test_differences_are_those_of_the_metrics() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.random(2000)
    good, better = rng.random(2000) < 0.8 + 0.2 * confidence, rng.random(2000) < 0.9 + 0.1 * confidence
    found = compare_models({"a": (confidence, good), "b": (confidence, better)})
    errors = found[0]
    assert errors.risk is None
    assert (errors.first, errors.other) == pytest.approx((1 - good.mean(), 1 - better.mean()))
    assert errors.low < errors.other - errors.first < errors.high < 0
    assert [row.risk for row in found[1:]] == [0.01, 0.02, 0.05]
    assert compare_models({"a": (confidence, good)}) == []
    assert {row.verdict for row in found} == {BETTER}
    assert {row.verdict for row in compare_models({"b": (confidence, better), "a": (confidence, good)})} == {WORSE}


def test_a_model_does_not_differ_from_itself() -> None:
    rng = np.random.default_rng(0)
    rows = (rng.random(300), rng.random(300) < 0.9)
    found = compare_models({"a": rows, "again": rows})
    assert all(row.low == row.high == 0 for row in found)
    assert not {row.verdict for row in found} & {BETTER, WORSE}


def outcomes(first_only: int, other_only: int, both: int, neither: int = 0) -> dict[str, Any]:
    """Two models, by how many cases which of them predicts correctly; the less confident, the more errors."""
    right = np.repeat(
        [[True, False], [False, True], [True, True], [False, False]], [first_only, other_only, both, neither], 0
    )
    confidence = 0.5 + right.sum(1) / 4
    return {"a": (confidence, right[:, 0]), "b": (confidence, right[:, 1])}


@pytest.mark.parametrize(
    ("first_only", "other_only", "verdict"),
    [  # with the two-sided p-value of McNemar's exact test, from tables of the binomial distribution
        (0, 4, TOO_FEW),  # 0.125
        (5, 0, TOO_FEW),  # 0.0625
        (0, 6, BETTER),  # 0.03125
        (6, 0, WORSE),
        (1, 7, WITHIN_CHANCE),  # 0.0703
        (1, 8, BETTER),  # 0.0391
        (8, 1, WORSE),
        (30, 30, WITHIN_CHANCE),
    ],
)
def test_error_rates_are_judged_by_an_exact_test(first_only: int, other_only: int, verdict: str) -> None:
    for both in (0, 300):
        found = compare_models(outcomes(first_only, other_only, both))[0]
        assert found.verdict == verdict
        assert found.other - found.first == pytest.approx((first_only - other_only) / (first_only + other_only + both))


@pytest.mark.parametrize("counts", [(0, 1, 0), (1, 0, 0), (0, 4, 296), (0, 0, 300, 5), (1, 4, 995)])
def test_a_few_errors_give_no_verdict(counts: tuple[int, ...]) -> None:
    """Bootstrap intervals exclude 0 for the first three."""
    assert {row.verdict for row in compare_models(outcomes(*counts))} == {TOO_FEW}


@pytest.mark.parametrize(("count", "judged"), [(41, 1), (99, 1), (100, 2), (199, 2), (200, 3)])
def test_risks_that_allow_fewer_than_two_errors_give_no_verdict(count: int, judged: int) -> None:
    found = compare_models(outcomes(0, 40, count - 40))
    assert [row.verdict for row in found] == [BETTER, *[TOO_FEW] * (3 - judged), *[BETTER] * judged]
    assert found[1].low > 0


@pytest.mark.parametrize("count", [40, 100, 200])
def test_models_that_are_equally_good_are_rarely_told_apart(count: int) -> None:
    """Judged one by one: a metric that is wrong too often must not hide behind the others."""
    rng = np.random.default_rng(0)
    verdicts = []
    for _ in range(100):
        scores = rng.normal(size=count) + rng.normal(size=(2, count))
        one, other = ((score + rng.normal(size=count), score > -1.5) for score in scores)
        verdicts.append([row.verdict for row in compare_models({"a": one, "b": other})])
    assert (np.isin(verdicts, [BETTER, WORSE]).mean(0) <= 0.11).all()  # 5 % expected; three standard deviations above


def test_all_models_are_evaluated_on_the_rows_that_all_can_read() -> None:
    one, config = model(kind="table"), model("mlp").config
    rows = frame(200)
    transform = TableTransform.fit(Table.of(rows[rows["color"] != "blue"].reset_index(drop=True)), "label")
    other = Predictor(build(config, transform.features, 3, [0]), config, transform, one.classes)
    x = frame(60, seed=3).astype(object)
    x.loc[4, "age"] = "old"
    x.loc[4, "color"] = "red"
    labels = labels_for(one, x)
    first, second = compute_report({"one": one, "other": other}, x, labels).models
    blue = int((x["color"] == "blue").sum())
    assert 0 < blue < 50
    assert first.used == second.used == 59 - blue
    assert (first.unreadable, first.excluded) == (1, blue)
    assert (second.unreadable, second.excluded) == (1 + blue, 0)
    alone = compute_report({"one": one}, x, labels).models[0]
    assert (alone.used, alone.excluded) == (59, 0)


def test_guarantees_are_compared_only_with_guarantees() -> None:
    good = certified(model())
    x = images(100, seed=3)
    labels = labels_for(good, x)
    both = compute_report({"good": good, "plain": model("mlp")}, x, labels)
    assert [one.slider.guaranteed for one in both.models] == [False, False]
    assert both.models[0].has_scores
    stricter = certified(model("mlp"), delta=0.01, risk=0.2)
    both = compute_report({"good": good, "stricter": stricter}, x, labels)
    assert [(one.slider.guaranteed, one.slider.delta) for one in both.models] == [(True, 0.01), (True, 0.01)]
    assert [p.risk for p in both.models[0].slider.positions] == [p.risk for p in both.models[1].slider.positions]


def test_classes_are_counted_on_one_basis_and_certificates_on_their_own() -> None:
    """Next to a model that accepts nothing, classes are counted on all cases; the certificate's harms are not."""
    x = images(400, seed=3)
    good = certified(model(), risk={"wrong": 0.1, "miss rate emu": 0.4}, count=1500)
    labels = labels_for(good, x)
    first, second = compute_report({"good": good, "plain": model("mlp")}, x, labels).models
    assert (first.accepts_some, second.accepts_some) == (True, False)
    assert not first.among_accepted
    assert not second.among_accepted
    assert sum(row.n for row in first.by_class) == sum(row.n for row in second.by_class) == 400
    alone = compute_report({"good": good}, x, labels).models[0]
    assert alone.among_accepted
    assert first.accepted is not None
    assert first.accepted < 400
    assert first.harms == alone.harms
    assert first.weakest == alone.weakest
    assert sum(row.n for row in alone.by_class) == first.accepted


def test_models_of_different_classes_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"one and other have different classes.*one report per model"):
        compute_report({"one": model(), "other": model(classes=("cat", "dog", "cow"))}, images(5), ["cat"] * 5)
    swapped = model(classes=("dog", "cat", "emu"))
    x = images(40)
    report = compute_report({"one": model(), "swapped": swapped}, x, labels_for(swapped, x))
    assert report.models[1].wrong < report.models[0].wrong
