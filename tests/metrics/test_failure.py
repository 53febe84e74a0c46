"""Misclassification detection metrics, compared with their definitions, and with scikit-learn on many cases."""

import math

import pytest
from hypothesis import given, settings

from squad.metrics import failure_ap, failure_auroc
from tests.metrics.brute import CASES, Cases, auroc_of_order, mean_over_orders, population, split, steps


@settings(max_examples=60, deadline=None)
@given(CASES)
def test_by_definition(cases: Cases) -> None:
    good = [confidence for confidence, right in cases if right]
    bad = [confidence for confidence, right in cases if not right]
    if good and bad:
        assert failure_auroc(*split(cases)) == pytest.approx(mean_over_orders(auroc_of_order, cases), abs=1e-15)
    else:
        assert math.isnan(failure_auroc(*split(cases)))
    if bad:
        assert failure_ap(*split(cases)) == pytest.approx(steps(good, bad), abs=1e-15)
    else:
        assert math.isnan(failure_ap(*split(cases)))


@pytest.mark.parametrize("decimals", [None, 3, 1])
def test_many_cases_by_another_implementation(decimals: int | None) -> None:
    from sklearn.metrics import average_precision_score, roc_auc_score

    confidence, correct = population(50_000, decimals)
    assert failure_auroc(confidence, correct) == pytest.approx(roc_auc_score(~correct, -confidence), rel=1e-12)
    assert failure_ap(confidence, correct) == pytest.approx(average_precision_score(~correct, -confidence), rel=1e-12)


def test_edges() -> None:
    assert failure_auroc([0.9, 0.1], [True, False]) == failure_ap([0.9, 0.1], [True, False]) == 1.0
    assert failure_auroc([0.1, 0.9], [True, False]) == 0.0
    assert failure_ap([0.1, 0.9], [True, False]) == 0.5
    assert failure_auroc([0.5] * 4, [True, True, True, False]) == 0.5
    assert failure_ap([0.5] * 4, [True, True, True, False]) == 0.25  # the error rate
    assert failure_ap([0.2, 0.3], [False, False]) == 1.0
    assert math.isnan(failure_auroc([0.2], [False]))
    assert math.isnan(failure_auroc([0.2], [True]))
    assert math.isnan(failure_ap([0.2], [True]))
