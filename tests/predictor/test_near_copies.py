"""Calibration rows that are near copies of training rows: rounded, cast, printed, with a little noise."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import squad
from squad.data.seen_rows import LeakError, SeenRows
from squad.fitting import fit_predictor
from squad.predictor import Predictor
from squad.predictor.calibration_rows import seen_in_training
from squad.predictor.row_pass import encode
from tests.predictor.examples import QUICK

Numbers = NDArray[np.float64]


def digits(x: Numbers, count: int) -> Numbers:
    """Round to ``count`` significant digits, as ``%.6g`` prints them."""
    return np.array([[float(f"{value:.{count}g}") for value in row] for row in x])


def noisy(x: Numbers) -> Numbers:
    return x * (1 + 1e-7 * np.random.default_rng(9).normal(size=x.shape))


CHANGES = {
    "float32": lambda x: x.astype(np.float32),
    "6 digits": lambda x: digits(x, 6),
    "3 digits": lambda x: digits(x, 3),
    "noise": noisy,
}


def table(count: int, features: int, seed: int) -> tuple[Numbers, NDArray[Any]]:
    random = np.random.default_rng(seed)
    x = 50 + 10 * random.normal(size=(count, features))
    return x, np.where(x[:, 0] + 10 * random.normal(size=count) > 50, "a", "b")


@pytest.fixture(scope="module", params=[3, 20, 300])
def made(request: pytest.FixtureRequest) -> tuple[int, Predictor]:
    return request.param, fit_predictor(*table(500, request.param, 0), QUICK)


@pytest.mark.parametrize("fraction", [1.0, 0.1])
@pytest.mark.parametrize("change", CHANGES)
def test_near_copies_of_training_rows_are_refused(made: tuple[int, Predictor], change: str, fraction: float) -> None:
    features, predictor = made
    x, y = table(500, features, 0)
    new, their = table(500, features, 1)
    count = int(500 * fraction)
    some = np.r_[CHANGES[change](x[:count]), new[count:]]
    with pytest.raises(LeakError, match=r"\d+ of .*500 rows"):
        predictor.certify(some, np.r_[y[:count], their[count:]], 0.4)
    if fraction == 1.0:
        with pytest.raises(LeakError):
            predictor.recalibrate(some, y)
        assert seen_in_training(predictor, encode(predictor, some), np.ones(500, dtype=np.bool_)) > 400


def test_new_rows_are_used(made: tuple[int, Predictor]) -> None:
    features, predictor = made
    x, y = table(1000, features, 1)
    certificate = predictor.certify(digits(x, 4), y, 0.4).certificate
    assert certificate is not None
    assert certificate.m > 980
    assert "training set" not in str(certificate)
    assert seen_in_training(predictor, encode(predictor, x), np.ones(1000, dtype=np.bool_)) == 0


@pytest.fixture(scope="module")
def five() -> Predictor:
    return fit_predictor(*table(500, 5, 0), QUICK)


def test_a_few_near_copies_are_left_out(made: tuple[int, Predictor]) -> None:
    features, predictor = made
    count = 6 if features > 3 else 30  # with few features, a few could occur by chance
    x, y = table(1500, features, 1)
    seen, their = table(500, features, 0)
    expected = predictor.certify(x[count:], y[count:], 0.4).certificate
    x[:count], y[:count] = digits(seen[:count], 6), their[:count]
    with pytest.warns(squad.SquadWarning, match=f"{count} of 1,500 rows.*training set"):
        certificate = predictor.certify(x, y, 0.4).certificate
    assert certificate is not None
    assert expected is not None
    assert certificate.rules == expected.rules
    assert certificate.details["calibration"]["repeats"] == count
    assert f"{count} calibration row" in str(certificate)


def test_near_copies_of_recalibration_rows_are_refused(five: Predictor) -> None:
    x, y = table(400, 5, 2)
    recalibrated = five.recalibrate(x, y)
    five.certify(digits(x, 6), y, 0.4)
    with pytest.raises(LeakError, match=r"\d+ of .*400 rows"):
        recalibrated.certify(digits(x, 6), y, 0.4)
    recalibrated.certify(*table(400, 5, 3), 0.4)


def test_saved_models_find_near_copies_and_those_of_an_earlier_version_exact_ones(
    five: Predictor, tmp_path: Path
) -> None:
    x, y = table(500, 5, 0)
    again = squad.load(five.save(tmp_path / "new"))
    with pytest.raises(LeakError):
        again.certify(digits(x, 6), y, 0.4)
    assert five.seen_rows is not None
    assert (tmp_path / "new" / "rows.safetensors").stat().st_size < 8 * 8 * 500 + 4000  # eight hashes per row
    parts = SeenRows(five.seen_rows.rows, five.seen_rows.groups)  # what the earlier version stored
    old = squad.load(five._replace(seen_rows=parts).save(tmp_path / "old"))
    assert old.seen_rows is not None
    assert old.seen_rows.near is None
    old.certify(digits(x, 6), y, 0.4)
    with pytest.raises(LeakError, match=r"500 of .*500 rows"):
        old.certify(x, y, 0.4)
    old.recalibrate(*table(300, 5, 2)).certify(*table(300, 5, 3), 0.4)


def test_deduplicated_training_rows_do_not_cause_refusals() -> None:
    random = np.random.default_rng(0)

    def drawn(count: int) -> tuple[Numbers, NDArray[Any]]:
        x = random.integers(8, size=(count, 3)).astype(np.float64)
        return x, np.where(x.sum(1) + random.normal(size=count) > 10.5, "a", "b")

    x, y = drawn(900)
    first = np.unique(x, axis=0, return_index=True)[1]
    predictor = fit_predictor(x[np.sort(first)], y[np.sort(first)], QUICK)
    new, their = drawn(800)
    certificate = predictor.certify(new, their, 0.4).certificate
    assert certificate is not None
    assert certificate.m == 800
    assert seen_in_training(predictor, encode(predictor, new), np.ones(800, dtype=np.bool_)) == 0
    assert "calibration rows also occur in the training set" in str(certificate)
