"""Confidence scores, by their definitions; all of them grow with certainty."""

import math
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from squad.errors import ArgumentError
from squad.metrics import scores

Score = Callable[..., NDArray[np.float64]]
OF_PROBABILITIES: list[Score] = [scores.softmax_response, scores.margin, scores.entropy]
OF_SAMPLES: list[Score] = [scores.mutual_information, scores.variance]


@given(st.integers(1, 6), st.integers(1, 8), st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_by_their_definitions(samples: int, rows: int, classes: int, seed: int) -> None:
    p = np.random.default_rng(seed).dirichlet(np.ones(classes), (samples, rows))
    mean = p.mean(axis=0)
    for row in range(rows):
        ranked = sorted(mean[row].tolist(), reverse=True)
        assert scores.softmax_response(mean)[row] == ranked[0]
        assert scores.margin(mean)[row] == ranked[0] - ranked[1]
        entropy = -sum(q * math.log(q) for q in ranked)
        assert scores.entropy(mean)[row] == pytest.approx(-entropy, abs=1e-12)
        inner = -sum(q * math.log(q) for q in p[:, row].ravel().tolist()) / samples
        assert scores.mutual_information(p)[row] == pytest.approx(-(entropy - inner), abs=1e-12)
        predicted = p[:, row, mean[row].argmax()]
        expected = -np.mean((predicted - predicted.mean()) ** 2)
        assert scores.variance(p)[row] == pytest.approx(expected, abs=1e-12)
    assert scores.mutual_information(p).max() <= 0
    if samples == 1:
        assert not scores.mutual_information(p).any()
        assert not scores.variance(p).any()


@pytest.mark.parametrize("score", OF_PROBABILITIES)
def test_more_certain_rows_score_higher(score: Score) -> None:
    found = score([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.4, 0.35, 0.25], [1 / 3, 1 / 3, 1 / 3]])
    assert (np.diff(found) < 0).all()
    assert found.dtype == np.float64
    assert str(score([[1.0, 0.0]])[0]) in ("1.0", "0.0")  # not -0.0


@pytest.mark.parametrize("score", OF_SAMPLES)
def test_scores_grow_with_agreement_between_samples(score: Score) -> None:
    agree, differ, oppose = [[0.7, 0.3], [0.7, 0.3]], [[0.8, 0.2], [0.6, 0.4]], [[1.0, 0.0], [0.0, 1.0]]
    found = score(np.swapaxes([agree, differ, oppose], 0, 1))
    assert found[0] == 0
    assert (np.diff(found) < 0).all()
    assert str(found[0]) == "0.0"


def test_rounding_does_not_make_scores_positive() -> None:
    alike = np.repeat(np.random.default_rng(0).dirichlet(np.ones(4), 200)[None], 7, axis=0)
    found = scores.mutual_information(alike)
    assert found.max() == 0
    assert found.min() > -1e-14


@pytest.mark.parametrize("score", OF_PROBABILITIES)
def test_rows_with_permuted_classes_tie(score: Score) -> None:
    rows = np.array(list(permutations([0.15, 0.2, 0.07, 0.31, 0.27])))
    assert len(set(score(rows).tolist())) == 1


def test_arguments_are_not_modified() -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(4), (2, 3))
    before = p.copy()
    for score in OF_PROBABILITIES:
        score(p[0])
    for score in OF_SAMPLES:
        score(p)
    assert (p == before).all()


def test_near_certain_rows_are_ordered() -> None:
    p = torch.softmax(torch.tensor([[20.0, 0.0], [25.0, 0.0]], dtype=torch.float64), 1)
    assert np.diff(scores.softmax_response(p))[0] > 0
    half = torch.tensor([[0.3, 0.7], [0.9, 0.1]]).bfloat16()
    assert scores.softmax_response(half) == pytest.approx([0.7, 0.9], abs=1e-2)
    assert scores.variance(half[None].requires_grad_()).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("score", OF_PROBABILITIES)
def test_invalid_arguments_are_refused(score: Score) -> None:
    with pytest.raises(ArgumentError, match=r"probabilities.*\(rows, classes\).*got shape \(2,\)"):
        score([0.5, 0.5])
    with pytest.raises(ArgumentError, match=r"probabilities.*got \[3, -2\] in row 1.*softmax"):
        score([[0.5, 0.5], [3.0, -2.0]])
    with pytest.raises(ArgumentError, match=r"probabilities.*got shape \(0, 3\)"):
        score(np.zeros((0, 3)))
    with pytest.raises(ArgumentError, match=r"got \[0, 0, 0, 0, 0, 0, 0, 0, \.\.\.\] in row 0"):
        score(np.zeros((1, 9)))


@pytest.mark.parametrize("score", OF_SAMPLES)
def test_samples_must_not_be_averaged(score: Score) -> None:
    with pytest.raises(ArgumentError, match=r"samples.*\(samples, rows, classes\).*got shape \(1, 2\)"):
        score([[0.5, 0.5]])
    with pytest.raises(ArgumentError, match=r"samples.*got \[nan, 1\] in row 0 of sample 1"):
        score([[[0.5, 0.5]], [[float("nan"), 1.0]]])


def test_a_margin_needs_two_classes() -> None:
    with pytest.raises(ArgumentError, match=r"two classes.*\(1, 1\)"):
        scores.margin([[1.0]])
