"""OOD detection metrics, compared with the ROC curve point by point, and with scikit-learn on many cases."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from squad.errors import ArgumentError
from squad.metrics import ood_ap, ood_auroc, ood_fpr
from tests.metrics.brute import SCORES, auroc_of_order, curve, mean_over_orders, steps


@settings(max_examples=60, deadline=None)
@given(SCORES, SCORES, st.integers(1, 60))
def test_by_definition(inside: list[float], outside: list[float], sixtieths: int) -> None:
    cases = [(score, True) for score in inside] + [(score, False) for score in outside]
    if len(cases) <= 7:
        assert ood_auroc(inside, outside) == pytest.approx(mean_over_orders(auroc_of_order, cases), abs=1e-15)
    assert ood_ap(inside, outside) == pytest.approx(steps(inside, outside), abs=1e-15)
    least = min(
        false for false, true in curve(inside, outside) if Fraction(true, len(outside)) >= Fraction(sixtieths, 60)
    )
    assert ood_fpr(inside, outside, sixtieths / 60) == least / len(inside)


@pytest.mark.parametrize("decimals", [None, 2])
def test_many_cases_by_another_implementation(decimals: int | None) -> None:
    from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

    generator = np.random.default_rng(0)
    inside, outside = generator.beta(6, 1, 30_000), generator.beta(3, 1, 11_000)
    if decimals is not None:
        inside, outside = inside.round(decimals), outside.round(decimals)
    labels = np.repeat([0, 1], [len(inside), len(outside)])
    score = -np.concatenate([inside, outside])
    assert ood_auroc(inside, outside) == pytest.approx(roc_auc_score(labels, score), rel=1e-12)
    assert ood_ap(inside, outside) == pytest.approx(average_precision_score(labels, score), rel=1e-12)
    for tpr in (0.95, 0.5, 1.0):
        false, true, _ = roc_curve(labels, score, drop_intermediate=False)
        assert ood_fpr(inside, outside, tpr) == pytest.approx(false[np.argmax(true >= tpr)], rel=1e-12)


def test_edges() -> None:
    assert (ood_auroc([0.9], [0.1]), ood_ap([0.9], [0.1]), ood_fpr([0.9], [0.1])) == (1.0, 1.0, 0.0)
    assert (ood_auroc([0.1], [0.9]), ood_ap([0.1], [0.9]), ood_fpr([0.1], [0.9])) == (0.0, 0.5, 1.0)
    assert (ood_auroc([0.5], [0.5]), ood_ap([0.5], [0.5]), ood_fpr([0.5], [0.5])) == (0.5, 0.5, 1.0)
    assert ood_auroc(torch.tensor([0.75]).bfloat16(), [0.75]) == 0.5


def test_95_percent_of_twenty_is_nineteen() -> None:
    # In floats 0.95 x 20 need not be 19; the twentieth, the most confident one, may be missed.
    outside = [0.1] * 19 + [0.9]
    assert ood_fpr([0.5, 0.6], outside) == 0.0
    assert ood_fpr([0.5, 0.6], outside, 0.951) == 1.0
    # 0.07 x 100 is above 7.
    assert ood_fpr([6.5, 70], list(range(100)), 0.07) == 0.0


def test_the_other_positive_class() -> None:
    # Confidences down to 0.2 are accepted: 95 % of the in-distribution cases, and one of four OOD cases.
    inside, outside = np.array([0.9] * 10 + [0.2] * 9 + [0.0]), np.array([0.1, 0.1, 0.1, 0.3])
    assert ood_fpr(-outside, -inside) == 0.25
    assert ood_fpr(inside, outside) == 0.5


@pytest.mark.parametrize("metric", [ood_auroc, ood_ap, ood_fpr])
def test_invalid_arguments_are_refused(metric: Callable[..., float]) -> None:
    with pytest.raises(ArgumentError, match=r"outside.*got shape \(0,\)"):
        metric([0.5], [])
    with pytest.raises(ArgumentError, match=r"inside.*finite.*got nan in row 0"):
        metric([float("nan")], [0.5])
    with pytest.raises(ArgumentError, match=r"outside.*\(rows,\).*got shape \(1, 2\).*squad\.metrics\.scores"):
        metric([0.5], [[0.5, 0.5]])


@pytest.mark.parametrize("tpr", [0.0, 1.5, float("nan")])
def test_tpr_must_be_a_fraction(tpr: float) -> None:
    with pytest.raises(ArgumentError, match=rf"tpr.*got {tpr}"):
        ood_fpr([0.5], [0.5], tpr)
