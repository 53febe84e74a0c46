"""Recalibration: better calibrated on fresh rows, with the order of rows and classes preserved to the last bit."""

import functools
import json
import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from squad.core.portable_math import LN2, exp_neg, log
from squad.errors import ArgumentError
from squad.metrics import ece, nll
from squad.selective import recalibration as module
from squad.selective import recalibration_fit as fitting
from squad.selective.recalibration import METHODS, Recalibration
from squad.selective.recalibration_fit import fit_recalibration

Array = NDArray[np.float64]


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def model(rows: int, classes: int, scale: float, seed: int) -> tuple[Array, NDArray[np.int64]]:
    """Probabilities and labels of a model whose logits are ``scale`` times too large: 2 is overconfident."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.2, size=(rows, classes))
    logits[np.arange(rows), rng.integers(classes, size=rows)] += rng.gamma(2, 1.5, size=rows)
    labels = (softmax(logits).cumsum(1) > rng.random((rows, 1))).argmax(1)
    return softmax(scale * logits), labels


def heated(temperature: float, classes: int = 3) -> Recalibration:
    return Recalibration("temperature", classes, temperature, 1)


@functools.cache
def isotonic(classes: int, seed: int = 0, rows: int = 60) -> Recalibration:
    """The steps alone, without the temperature."""
    return steps_of(*model(rows, classes, 2.0, seed))


@functools.cache
def fitted() -> Recalibration:
    """A temperature above 1."""
    return fit_recalibration(*model(100, 3, 3.0, 0))


def steps_of(p: Array, y: NDArray[np.int64]) -> Recalibration:
    knots = fitting._isotonic_knots(p.max(1), p.argmax(1) == y, p.shape[1])
    return Recalibration("isotonic", p.shape[1], 1.0, len(p), knots, 1.0)


def neighbours(values: list[float]) -> Array:
    """The values with their neighbouring floats, ascending."""
    array = np.array(values)
    return np.unique(np.concatenate([array, np.nextafter(array, 0), np.nextafter(array, 1)]))


classes = st.integers(2, 12)
temperatures = st.floats(module.MIN_TEMPERATURE, module.MAX_TEMPERATURE)
#: From the middle of the range, and near 1 by every power of two that float64 has there.
confidences = st.one_of(
    st.floats(0.05, 1), st.builds(lambda n, m: 1 - m * 2.0**-n, st.integers(2, 53), st.sampled_from([0.5, 1.0, 0.75]))
)
seeds = st.integers(0, 2**32 - 1)


def maps(count: int, temperature: float, seed: int) -> list[Recalibration]:
    return [heated(temperature, count), isotonic(count, seed % 50)]


def some_rows(count: int, sharp: float, seed: int) -> Array:
    """Rows from uniform to nearly certain, including ties and classes of probability 0."""
    rng = np.random.default_rng(seed)
    p = softmax(sharp * rng.normal(size=(20, count)))
    p[0] = 1 / count
    p[1] = np.eye(count)[rng.integers(count)]
    p[2, :2], p[2, 2:] = 0.5, 0.0
    return p


# ---- laws


@given(classes, temperatures, st.floats(0, 200), seeds)
def test_rows_stay_probabilities_in_their_order(count: int, temperature: float, sharp: float, seed: int) -> None:
    p = some_rows(count, sharp, seed)
    for recalibration in maps(count, temperature, seed):
        mapped = recalibration.apply(p)
        np.testing.assert_allclose(mapped.sum(1), 1, rtol=1e-13)
        assert (mapped >= 0).all()
        np.testing.assert_array_equal(mapped.argmax(1), p.argmax(1))
        # The first of tied classes may rise above the others.
        order = np.lexsort((np.arange(count)[None] == p.argmax(1)[:, None], p), axis=1)
        assert (np.diff(np.take_along_axis(mapped, order, 1)) >= 0).all()
        np.testing.assert_array_equal(mapped.max(1), recalibration.confidence(p.max(1), count))


@given(classes, temperatures, st.lists(confidences, min_size=1, max_size=30), seeds)
def test_the_map_is_monotone(count: int, temperature: float, some: list[float], seed: int) -> None:
    c = neighbours(some)
    c = c[c >= 1 / count]
    for recalibration in maps(count, temperature, seed):
        mapped = recalibration.confidence(c)
        assert (np.diff(mapped) >= 0).all()
        assert ((mapped >= 1 / count) & (mapped <= 1)).all()


def test_the_map_is_monotone_between_neighbouring_floats() -> None:
    """Runs of neighbouring floats, where the rounding of a library's exp and log would show."""
    for start in (0.34, 0.5, 0.7, 0.9, 0.999, 1 - 2e-13):
        c = start + np.arange(2000) * np.spacing(start)
        for temperature in (0.05, 0.31, 0.999, 1.0, 1.001, 1.7, 20):
            assert (np.diff(heated(temperature).confidence(c[c <= 1])) >= 0).all()
    for exponent in range(1, 40):  # where two pieces of the logarithm meet
        x = np.float64(2.0**exponent) * (1 + np.arange(-2000.0, 2000.0) * 2.0**-53)
        assert (np.diff(log(x)) >= 0).all()
        assert (np.diff(exp_neg(LN2 * exponent + (x - 2.0**exponent))) <= 0).all()
    for seed in range(20):
        recalibration = isotonic(3, seed, 300)
        x = np.array([knot[0] for knot in recalibration.knots])
        c = np.unique(np.concatenate([x + step * np.spacing(x) for step in range(-6, 7)]))
        assert (np.diff(recalibration.confidence(c[(c >= 1 / 3) & (c <= 1)])) >= 0).all()


def test_the_same_bits_on_every_machine() -> None:
    logs = ["0x1.9f323ecbf984cp-2", "0x1.193ea7aad030ap+0", "0x1.7069e2aa2aa5bp+4"]
    assert [value.hex() for value in log(np.array([1.5, 3.0, 1e10])).tolist()] == logs
    powers = ["0x1.cf46d99d52b3ap-1", "0x1.b993fe00d5375p-8", "0x1.d257d547e0839p-73"]
    assert [value.hex() for value in exp_neg(np.array([0.1, 5.0, 50.0])).tolist()] == powers
    x = np.exp(np.linspace(0, 45, 2000))
    np.testing.assert_allclose(log(x), np.log(x), rtol=1e-15, atol=5e-16)
    np.testing.assert_allclose(exp_neg(x[x < 50]), np.exp(-x[x < 50]), rtol=2e-14)


@given(classes, temperatures, st.lists(confidences, min_size=2, max_size=30))
def test_temperature_keeps_the_ranking(count: int, temperature: float, some: list[float]) -> None:
    """Distinct confidences stay distinct wherever float64 can represent the difference."""
    c = np.unique([value for value in some if value > 1 / count])
    mapped = heated(temperature, count).confidence(c)
    # Slope of the map, and the smallest difference of results that float64 can represent, with rounding errors.
    slope = mapped * (1 - mapped) / (c * (1 - c) + 1e-300) / temperature
    apart = np.minimum(slope[1:], slope[:-1]) * np.diff(c) > 1e-14
    assert (np.diff(mapped)[apart] > 0).all()
    if temperature >= 1:  # such a map spreads confidences close to 1
        near = c > 0.99
        near_enough = (1 - c[near]) * 4 < 1 / count
        assert (np.diff(mapped[near][near_enough]) > 0).all()


@given(st.floats(0.5, 1), temperatures)
def test_two_classes_follow_guo_et_al(confidence: float, temperature: float) -> None:
    expected = 1 / (1 + ((1 - confidence) / confidence) ** (1 / temperature))
    assert heated(temperature, 2).confidence([confidence])[0] == pytest.approx(expected, rel=1e-13)
    row = [[1 - confidence, confidence]]
    np.testing.assert_allclose(heated(temperature, 2).apply(row), [[1 - expected, expected]], rtol=1e-10, atol=1e-13)


@given(classes, st.floats(0, 1), temperatures)
def test_equal_other_classes_follow_guo_et_al(count: int, part: float, temperature: float) -> None:
    c = 1 / count + part * (1 - 1 / count) * 0.999
    row = np.full((1, count), (1 - c) / (count - 1))
    row[0, 0] = c
    expected = softmax(np.log(row) / temperature)
    np.testing.assert_allclose(heated(temperature, count).apply(row), expected, rtol=1e-9, atol=1e-15)


@given(classes, temperatures)
def test_fixed_points(count: int, temperature: float) -> None:
    c = [1 / count, 1.0]
    np.testing.assert_array_equal(heated(temperature, count).confidence(c), c)
    np.testing.assert_array_equal(heated(temperature, count).apply(np.eye(count)), np.eye(count))
    p = some_rows(count, 3.0, 0)
    np.testing.assert_allclose(heated(1.0, count).apply(p), p, rtol=1e-13, atol=1e-16)


def test_a_prediction_is_a_function_of_its_row() -> None:
    p = np.concatenate([some_rows(5, 3.0, seed) for seed in range(10)])
    for recalibration in maps(5, 1.7, 0):
        alone = np.concatenate([recalibration.apply(row[None]) for row in p])
        np.testing.assert_array_equal(recalibration.apply(p), alone)


def test_small_probabilities_are_not_lost_near_1() -> None:
    """1 - g is too small to be represented next to 1, but the other classes still have it."""
    p = np.array([[1 - 2e-15, 1.5e-15, 0.5e-15]])
    mapped = heated(0.5).apply(p)
    assert mapped[0, 0] == 1
    np.testing.assert_allclose(mapped[0, 1:].sum(), 2 * (1e-15) ** 2, rtol=0.01)
    np.testing.assert_allclose(mapped[0, 1] / mapped[0, 2], 3**2, rtol=0.02)  # tempered as the first


# ---- it helps


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [2.0, 0.5], ids=["overconfident", "underconfident"])
@pytest.mark.parametrize("count", [2, 10])
def test_nll_and_ece_are_better_on_fresh_rows(count: int, scale: float, method: str) -> None:
    recalibration = fit_recalibration(*model(400, count, scale, 0), method)
    p, y = model(8000, count, scale, 1)
    mapped = recalibration.apply(p)
    assert nll(mapped, y) < nll(p, y) - 0.03
    right = p.argmax(1) == y
    assert ece(mapped.max(1), right) < 0.55 * ece(p.max(1), right)
    assert ("lowered" if scale > 1 else "raised") in str(recalibration)


@pytest.mark.parametrize("count", [2, 3, 10])
def test_not_far_from_the_softmax_temperature_where_that_is_the_truth(count: int) -> None:
    """Labels are drawn from the softmax at twice the temperature: the optimum, which changes the ranking."""
    p, y = model(8000, count, 2.0, 1)
    recalibration = fit_recalibration(*model(2000, count, 2.0, 0))
    best = nll(softmax(np.log(np.maximum(p, 1e-300)) / 2), y)
    gained = (nll(p, y) - nll(recalibration.apply(p), y)) / (nll(p, y) - best)
    assert gained > (0.99 if count == 2 else 0.7)
    if count == 2:
        assert recalibration.temperature == pytest.approx(2, rel=0.1)


def test_the_temperature_is_optimal() -> None:
    p, y = model(500, 4, 1.6, 3)
    found = fit_recalibration(p, y).temperature
    rows = fitting._Rows(p, y, "temperature")
    deviation, _ = rows.chosen(range(fitting.FOLDS))
    assert deviation > 0

    def cost(temperature: float) -> float:
        return 500 * nll(heated(temperature, 4).apply(p), y) + (math.log(temperature) / deviation) ** 2 / 2

    others = np.exp(np.linspace(math.log(0.05), math.log(20), 300))
    assert cost(found) <= min(map(cost, others)) + 1e-6
    assert cost(found) < min(cost(0.999 * found), cost(1.001 * found))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rows", [10, 400])
def test_degenerate_rows(rows: int, method: str) -> None:
    """All correct, all wrong, all certain, all equal: the result is finite and reasonable."""
    p = softmax(np.random.default_rng(0).normal(0, 2, size=(rows, 3)))
    best, worst = p.argmax(1), p.argmin(1)
    certain, alike = np.eye(3)[best], np.full((rows, 3), 1 / 3)
    made = []
    for probabilities, labels in ((p, best), (p, worst), (certain, best), (certain, worst), (alike, best)):
        recalibration = fit_recalibration(probabilities, labels, method)
        mapped = recalibration.apply(p)
        assert np.isfinite(mapped).all()
        assert recalibration.nll[1] <= recalibration.nll[0]
        made.append(recalibration)
    if rows == 10:
        return
    # All rows are correct, but a future error is not impossible.
    sure, doubtful = made[:2]
    assert sure.confidence_mean[1] > sure.confidence_mean[0]
    assert nll(sure.apply(p), worst) < 150
    assert doubtful.confidence_mean[1] < doubtful.confidence_mean[0]


def test_few_rows_change_little() -> None:
    """For ten rows that are all correct, or all wrong, the prior keeps the temperature from diverging."""
    row = np.tile([0.7, 0.2, 0.1], (10, 1))
    right, wrong = fit_recalibration(row, [0] * 10), fit_recalibration(row, [2] * 10)
    assert 0.1 < right.temperature <= 1 < wrong.temperature < 20


# ---- and does no harm


def test_few_rows_of_a_calibrated_model_change_nothing() -> None:
    """Any change makes such a model worse; with 50 rows there is always something that looks like a gain."""
    for method in METHODS:
        made = [fit_recalibration(*model(50, 3, 1.0, seed), method) for seed in range(6)]
        assert sum(one.unchanged for one in made) >= 5
    p, _ = model(50, 3, 1.0, 100)
    left = next(one for one in made if one.unchanged)
    np.testing.assert_array_equal(left.apply(p), p)
    np.testing.assert_array_equal(left.confidence(p.max(1)), p.max(1))
    assert left.nll[0] == left.nll[1]
    assert left.ece[0] == left.ece[1]
    assert left.confidence_mean[0] == left.confidence_mean[1]
    assert left.method == "isotonic"
    assert Recalibration.from_json(json.loads(json.dumps(left.to_json()))) == left


@pytest.mark.parametrize("method", METHODS)
def test_the_report_is_out_of_sample(method: str) -> None:
    """Each row is mapped by a fit, including all choices, to the other folds only."""
    p, y = model(150, 3, 3.0, 0)
    made = fit_recalibration(p, y, method)
    assert made.folds == fitting.FOLDS
    fold = fitting._Rows(p, y, method).fold
    assert np.bincount(fold).tolist() == [30] * 5
    mapped = np.empty_like(p)
    for out in range(made.folds):
        # Labels of the held-out fold must not matter: make all of them wrong.
        others = np.where(fold == out, p.argmin(1), y)
        rows = fitting._Rows(p, others, method)
        rows.__dict__["fold"] = fold
        rest = [one for one in range(made.folds) if one != out]
        mapped[fold == out] = rows.fitted(rest, *rows.chosen(rest)).apply(p[fold == out])
    assert made.nll == pytest.approx((nll(p, y), nll(mapped, y)), rel=1e-12)
    assert made.ece[1] == pytest.approx(ece(mapped.max(1), p.argmax(1) == y), rel=1e-12)
    assert made.nll[1] > nll(made.apply(p), y)  # in-sample would be better
    assert "in 5-fold cross-validation" in str(made)


@settings(max_examples=12)
@given(st.integers(10, 40), st.integers(2, 4), st.floats(0, 10), seeds)
def test_no_change_that_loses(rows: int, count: int, sharp: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, y = softmax(sharp * rng.normal(size=(rows, count))), rng.integers(count, size=rows)
    made = fit_recalibration(p, y)
    assert made.unchanged or made.nll[1] < made.nll[0]
    assert made.nll[0] == pytest.approx(nll(p, y), rel=1e-12)
    # For any order of the rows.
    order = rng.permutation(rows)
    again = fit_recalibration(p[order], y[order])
    assert again.temperature == pytest.approx(made.temperature, rel=1e-4)


# ---- isotonic


@given(st.integers(1, 60), st.integers(1, 30), seeds)
def test_steps_are_those_of_isotonic_regression(rows: int, kinds: int, seed: int) -> None:
    from sklearn.isotonic import IsotonicRegression

    rng = np.random.default_rng(seed)
    c = rng.integers(1, kinds + 1, size=rows) / kinds
    right = rng.random(rows) < c
    steps = fitting._steps(c, right)
    heights = np.repeat([hit / size for size, hit, _ in steps], [size for size, _, _ in steps])
    expected = IsotonicRegression().fit(c, right.astype(float)).predict(np.sort(c))
    np.testing.assert_allclose(heights, expected, atol=1e-12)
    assert sum(total for _, _, total in steps) == pytest.approx(c.sum())
    assert (np.diff([hit / size for size, hit, _ in steps]) > 0).all()


def test_isotonic_creates_few_ties() -> None:
    p, y = model(2000, 10, 2.0, 0)
    c = np.unique(p.max(1))
    mapped = fit_recalibration(p, y, "isotonic").confidence(c)
    assert len(np.unique(mapped)) > 0.99 * len(c)


def test_isotonic_stays_below_1() -> None:
    p = np.tile([0.999, 0.001], (50, 1))
    recalibration = steps_of(p, np.zeros(50, dtype=int))
    assert recalibration.confidence([0.999])[0] == pytest.approx(50.5 / 51, abs=1e-3)
    assert recalibration.confidence([1.0])[0] < 1 - 1e-3
    # A handful of correct predictions at the top must not lower the confidence below that of less confident rows.
    low, high = np.tile([0.9, 0.1], (1000, 1)), np.tile([0.95, 0.05], (2, 1))
    y = np.array([1] * 5 + [0] * 997)
    mapped = steps_of(np.concatenate([low, high]), y).confidence([0.9, 0.95])
    assert mapped[0] == pytest.approx(0.995, abs=2e-3)
    assert mapped[0] < mapped[1] < 0.998


# ---- what it is given


def test_arrays_lists_and_tensors() -> None:
    p, y = model(50, 3, 2.0, 0)
    expected = fit_recalibration(p, y)
    assert fit_recalibration(torch.tensor(p), torch.tensor(y)) == expected
    assert fit_recalibration(p.tolist(), y.tolist()) == expected
    np.testing.assert_array_equal(expected.apply(torch.tensor(p)), expected.apply(p.tolist()))
    assert expected.apply(p[:0]).shape == (0, 3)
    assert expected.confidence([]).shape == (0,)
    assert expected.confidence(p.max(1).reshape(5, 10)).shape == (5, 10)
    kept = p.copy()
    expected.apply(p)
    np.testing.assert_array_equal(p, kept)


def test_rows_of_nan_stay_nan() -> None:
    p, _ = model(4, 3, 2.0, 0)
    p[1] = np.nan
    p[2, 2] = np.nan
    for recalibration in maps(3, 1.5, 0):
        mapped = recalibration.apply(p)
        assert np.isnan(mapped[1:3]).all()
        np.testing.assert_array_equal(mapped[[0, 3]], recalibration.apply(p[[0, 3]]))
        assert np.isnan(recalibration.confidence([np.nan, 0.5])).tolist() == [True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.5, 0.5]], [0], "platt"), "method.*got 'platt'"),
        (([[0.5, 0.5]], [2]), "labels.*got 2"),
        (([[1.5, 0.5]], [0]), "probabilities.*got .1.5, 0.5. in row 0"),
        (([[np.nan, 0.5]], [0]), "probabilities.*got .nan, 0.5. in row 0"),
        (([[1.0]], [0]), r"2 classes.*shape \(1, 1\)"),
        ((np.empty((0, 2)), []), r"probabilities.*got shape \(0, 2\)"),
        (([[0.6, 0.4]] * 9, [0] * 9, "isotonic"), r"10 rows, got 9\b"),
        (([[0.6, 0.4]] * 9, [0] * 9), r"10 rows, got 9\b"),
    ],
)
def test_invalid_rows_are_not_fitted(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        fit_recalibration(*arguments)


def test_invalid_probabilities_are_not_mapped() -> None:
    recalibration = heated(2.0)
    for probabilities, message in (
        ([[0.5, 0.5]], r"probabilities.*\(rows, 3\), got float64 of shape \(1, 2\)"),
        ([0.5, 0.3, 0.2], r"got float64 of shape \(3,\)"),
        ([["a", "b", "c"]], "got <U1 of shape"),
        ([[0.5, 0.3, 0.2], [3.0, -1.0, 2.0]], r"probabilities.*got \[ 3\. -1\.  2\.\] in row 1.*softmax"),
    ):
        with pytest.raises(ArgumentError, match=message):
            recalibration.apply(probabilities)
    with pytest.raises(ArgumentError, match=r"classes.*3.*got 4"):
        recalibration.confidence([0.5], 4)
    with pytest.raises(ArgumentError, match=r"confidence.*got 1\.2"):
        recalibration.confidence([0.5, 1.2])
    with pytest.raises(ArgumentError, match=r"confidence.*numbers.*got <U4"):
        recalibration.confidence(["high"])


# ---- there and back


@pytest.mark.parametrize("method", METHODS)
def test_round_trip(method: str) -> None:
    made = fit_recalibration(*model(100, 3, 2.0, 0), method)
    again = Recalibration.from_json(json.loads(json.dumps(made.to_json(), allow_nan=False)))
    assert again == made
    p, _ = model(100, 3, 2.0, 1)
    np.testing.assert_array_equal(again.apply(p), made.apply(p))
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(again) == hash(made)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "magic"}, "method.*got 'magic'"),
        ({"method": "isotonic"}, "knots.*got"),
        ({"classes": 1}, "classes.*got 1"),
        ({"classes": 10**400}, "classes.*got 1000"),
        ({"classes": None}, "classes.*got None"),
        ({"temperature": 0}, "temperature.*0.05.*20, got 0"),
        ({"temperature": "warm"}, "temperature.*got 'warm'"),
        ({"temperature": None}, "temperature.*got None"),
        ({"knots": [[0.5, 0.5], [1.0, 1.0]]}, "knots.*empty.*temperature"),
        ({"knots": 3}, "'knots'.*list, got 3"),
        ({"knots": [3]}, r"'knots'.*list, got \[3\]"),
        ({"nll": [1.0]}, r"nll.*two numbers.*got \(1\.0,\)"),
        ({"ece": ["a", 1]}, "ece.*got 'a'"),
        ({"rows": -1}, "rows.*got -1"),
        ({"folds": -1}, "folds.*got -1"),
        ({"rows": ...}, "A saved recalibration must have .*rows.*, got "),
        ({"more": 1}, "A saved recalibration must have .*, got .*more"),
    ],
)
def test_invalid_saved_recalibrations_are_refused(change: dict[str, Any], message: str) -> None:
    data = {**fitted().to_json(), **change}
    with pytest.raises(ArgumentError, match=message):
        Recalibration.from_json({name: value for name, value in data.items() if value is not ...})


@pytest.mark.parametrize("knots", [
    [], [[1 / 3, 0.4]], [[1 / 3, 0.4, 1], [1, 1]], [[1 / 3, "a"], [1, 1]], [[1 / 3, 0.5], [0.5, 0.4], [1, 1]],
    [[1 / 3, 0.4], [1 / 3, 0.5], [1, 1]], [[0.5, 0.5], [1, 1]], [[1 / 3, 0.3], [1, 1]], [[1 / 3, 0.4], [0.9, 1]],
    [[1 / 3, 0.4], [1, 1.5]], [[1 / 3, float("nan")], [1, 1]],
])  # fmt: skip
def test_invalid_knots_are_refused(knots: list[Any]) -> None:
    data = {**isotonic(3).to_json(), "knots": knots}
    with pytest.raises(ArgumentError, match=r"knots.*got"):
        Recalibration.from_json(data)


@pytest.mark.parametrize("data", [None, [], "temperature", 3, {}])
def test_other_data_are_refused(data: Any) -> None:
    with pytest.raises(ArgumentError, match=r"A saved recalibration must have classes, .*, got "):
        Recalibration.from_json(data)


def test_text() -> None:
    pair = (0.5, 0.5)
    made = Recalibration("temperature", 3, 1.3089, 1300, (), 0.0, (0.9, 0.8), (0.3104, 0.28), (0.05, 0.02), 5)
    assert str(made) == (
        "confidences are lowered: temperature 1.31, fitted on 1,300 rows; NLL 0.310 -> 0.280, ECE 0.050 -> 0.020"
        " in 5-fold cross-validation"
    )
    assert str(replace(made, folds=0)).endswith("on the rows it was fitted on")
    flat = ((1 / 3, 0.4), (1.0, 0.9))
    text = str(Recalibration("isotonic", 3, 1.5, 1, flat, 0.75, (0.7, 0.8), pair, pair))
    assert text.startswith("confidences are raised: isotonic regression (weight 75 %, the rest temperature 1.5), fit")
    assert "are unchanged: " in str(Recalibration("temperature", 3, 1.0, 1, (), 0.0, pair, pair, pair))
    assert "no clear gain" in str(Recalibration("temperature", 3, 1.0, 1, (), 0.0, pair, pair, pair, 5))


#: As version 1.0 saved them, with what it made of a row.
SAVED = [
    (
        {
            "method": "temperature",
            "classes": 3,
            "temperature": 2.803666931746569,
            "knots": [],
            "share": 0.0,
            "rows": 40,
            "confidence_mean": [0.8002781062586688, 0.5544769268647565],
            "nll": [1.4399960677201653, 0.9643163571898393],
            "ece": [0.3002781062586689, 0.1076139703852648],
        },
        [0.2, 0.7, 0.1],
        ["0x1.334d237a164d8p-2", "0x1.db46241ac3df2p-2", "0x1.e2d970d64ba6dp-3"],
    ),
    (
        {
            "method": "temperature",
            "classes": 3,
            "temperature": 1.0,
            "knots": [],
            "share": 0.0,
            "rows": 12,
            "confidence_mean": [0.5, 0.5],
            "nll": [1.0, 1.0],
            "ece": [0.1, 0.1],
        },
        [0.2, 0.7, 0.1],
        ["0x1.999999999999cp-3", "0x1.6666666666665p-1", "0x1.999999999999ep-4"],
    ),
    (
        {
            "method": "isotonic",
            "classes": 3,
            "temperature": 2.803666931746569,
            "knots": [
                [0.3333333333333333, 0.3333333333333333],
                [0.4948901413526567, 0.3349489014135265],
                [0.562086710813139, 0.3356208671081313],
                [0.7965699205509931, 0.53596569920551],
                [0.9318014461190903, 0.5493180144611908],
                [0.9892977665131837, 0.7523929776651318],
                [0.9983777797823281, 0.7524837777978233],
                [1.0, 0.7525],
            ],
            "share": 0.5,
            "rows": 40,
            "confidence_mean": [0.8002781062586688, 0.5544769268647565],
            "nll": [1.4399960677201653, 0.9643163571898393],
            "ece": [0.3002781062586689, 0.1076139703852648],
        },
        [0.2, 0.7, 0.1],
        ["0x1.350ecec121382p-2", "0x1.d5ce5fc2b4378p-2", "0x1.ea45a2f85520dp-3"],
    ),
]


@pytest.mark.parametrize(("data", "row", "mapped"), SAVED)
def test_one_saved_by_an_earlier_version(data: dict[str, Any], row: list[float], mapped: list[str]) -> None:
    """It loads, gives the same bits, and is saved unchanged: the identity of a certified model depends on it."""
    made = Recalibration.from_json(data)
    assert [number.hex() for number in made.apply([row])[0].tolist()] == mapped
    assert made.to_json() == data
    assert made.folds == 0
    assert not made.unchanged


# ---- beside the softmax temperature


@pytest.mark.parametrize(("count", "scale"), [(3, 2.0), (3, 0.5), (10, 2.0), (100, 0.5)])
def test_little_is_lost_against_the_softmax_temperature(count: int, scale: float) -> None:
    """On rows of that very family, where nothing can be better: at least nine tenths of its gain."""
    fit, (p, y) = model(1000, count, scale, 0), model(8000, count, scale, 1)
    best = min(nll(softmax(np.log(p) / t), y) for t in np.geomspace(0.2, 5, 60))
    for method in METHODS:
        mapped = fit_recalibration(*fit, method).apply(p)
        assert nll(mapped, y) < best + 0.1 * (nll(p, y) - best)


def test_the_weight_of_isotonic_regression_follows_the_data() -> None:
    p, y = model(4000, 3, 2.0, 0)
    assert fit_recalibration(p, y, "isotonic").share < 1  # a temperature is optimal here
    # A step, which no temperature can correct: 95 % correct at any confidence.
    rng = np.random.default_rng(1)
    c = rng.uniform(0.5, 1, 4000)
    p, y = np.stack([c, 1 - c], 1), (rng.random(4000) > 0.95).astype(int)
    found = fit_recalibration(p, y, "isotonic")
    assert found.share >= 0.75
    assert np.abs(found.confidence([0.6, 0.8, 0.95]) - 0.95).max() < 0.04
    assert nll(found.apply(p), y) < nll(fit_recalibration(p, y).apply(p), y) - 0.02
