"""Accuracy, likelihood and Brier score, computed by hand and by their definitions."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from squad.errors import ArgumentError
from squad.metrics import accuracy, brier, nll


@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_by_their_definitions(rows: int, classes: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.ones(classes), rows)
    y = generator.integers(0, classes, rows)
    onehot = np.eye(classes)[y]
    assert accuracy(p, y) == np.mean([row.argmax() == label for row, label in zip(p, y, strict=True)])
    assert nll(p, y) == pytest.approx(-np.log((p * onehot).sum(axis=1)).mean())
    assert brier(p, y) == pytest.approx(((p - onehot) ** 2).sum() / rows)
    assert brier(torch.tensor(p, requires_grad=True), torch.tensor(y)) == brier(p, y)


def test_many_rows_by_another_implementation() -> None:
    from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(4), 20_000)
    y = generator.integers(0, 4, 20_000)
    assert accuracy(p, y) == accuracy_score(y, p.argmax(axis=1))
    assert nll(p, y) == pytest.approx(log_loss(y, p), rel=1e-12)
    sure = p[:, :2] / p[:, :2].sum(axis=1, keepdims=True)
    # For two classes, scikit-learn counts one of them and squad both.
    assert brier(sure, y % 2) == pytest.approx(2 * brier_score_loss(y % 2, sure[:, 1]), rel=1e-12)


def test_extremes() -> None:
    sure = np.asarray([[1.0, 0.0], [1.0, 0.0]])
    assert nll(sure, [0, 0]) == 0.0
    assert str(nll(sure, [0, 0])) == "0.0"
    assert nll(sure, [1, 1]) == pytest.approx(-math.log(np.finfo(float).tiny))
    assert brier(sure, [1, 1]) == 2.0
    assert accuracy([[0.5, 0.5]], [0]) == 1.0  # the first class among ties
    assert (sure == [[1.0, 0.0], [1.0, 0.0]]).all()  # the caller's array is not modified
    assert nll(torch.tensor([[0.5, 0.5]]).half(), [0]) == pytest.approx(math.log(2))


@pytest.mark.parametrize("metric", [accuracy, nll, brier])
@pytest.mark.parametrize(
    ("probabilities", "labels", "message"),
    [
        ([[2.0, -1.0]], [0], r"probabilities.*got \[2, -1\] in row 0\..*softmax"),
        ([[0.5, 0.5], [0.7, 0.7]], [0, 0], "probabilities.*in row 1"),
        ([[float("nan"), 1.0]], [0], "probabilities.*got .nan, 1. in row 0"),
        ([0.5, 0.5], [0], r"probabilities.*\(rows, classes\)"),
        ([[0.5, 0.5]], [0, 1], r"labels.*\(1,\).*got shape \(2,\)"),
        ([[0.5, 0.5]], [2], "labels.*between 0 and 1.*got 2"),
        ([[0.5, 0.5]], [-1], "labels.*between 0 and 1.*got -1"),
        ([[0.5, 0.5]], [0.0], "labels.*integers.*got float64"),
        ([[0.5, 0.5]], [True], "labels.*integers.*got bool"),
        ([[0.5, 0.5]], ["a"], "labels.*numbers.*got text"),
        (np.zeros((0, 2)), [], r"probabilities.*got shape \(0, 2\)"),
    ],
)
def test_invalid_arguments_are_refused(
    metric: Callable[..., float], probabilities: list[list[float]], labels: list[int], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        metric(probabilities, labels)
