"""A model records the attempts to certify it."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import squad
from squad.errors import SquadWarning
from squad.predictor import Predictor
from squad.predictor.saving import with_attempts
from tests.predictor.examples import points


def numbers(predictor: Predictor) -> list[int]:
    return [one["attempt"] for one in predictor.attempts]


def test_each_attempt_uses_its_own_part_of_delta(fitted: Predictor) -> None:
    x, y = points(400, 1)
    failed = fitted.certify(x, np.roll(y, 1), risk=0.05)
    assert failed.certificate is not None
    assert not failed.certificate.certified
    again = failed.certify(*points(2000, 2), risk=0.1, method="sgr")
    assert again.certificate is not None
    assert again.certificate.attempt == 2
    assert again.certificate.rules[0].level == 0.01 * (1 - 0.9) / 2
    assert [(one["attempt"], one["m"], one["certified"]) for one in again.attempts] == [
        (1, failed.certificate.m, False),
        (2, again.certificate.m, True),
    ]
    assert numbers(fitted) == []  # it did not change


def test_attempts_survive_other_changes(fitted: Predictor, tmp_path: Path) -> None:
    safe = fitted.certify(*points(500, 1), risk=0.2)
    for other in (
        safe.uncertified(),
        safe.uncertified().with_sampling(num_samples=4),
        safe.without_row_hashes(),
        safe.without_scores(),
        safe.recalibrate(*points(300, 4)),
    ):
        assert numbers(other) == [1]
        assert numbers(squad.load(other.save(tmp_path / "model", overwrite=True))) == [1]
    assert numbers(with_attempts(fitted, safe.attempts)) == [1]
    assert with_attempts(fitted, safe.attempts).certificate is None


def test_far_too_few_rows_are_not_an_attempt(fitted: Predictor) -> None:
    few = fitted.certify(*points(40, 1), risk=0.05)
    assert few.attempts == []
    again = few.certify(*points(500, 2), risk=0.2)
    assert again.certificate is not None
    assert again.certificate.attempt == 1


def test_a_smaller_delta_is_refused(fitted: Predictor) -> None:
    safe = fitted.certify(*points(500, 1), risk=0.2, delta=0.05)
    with pytest.raises(squad.ArgumentError, match=r"delta.*0\.05.*0\.01"):
        safe.certify(*points(500, 2), risk=0.2, delta=0.01)
    assert numbers(safe.certify(*points(500, 2), risk=0.2, delta=0.1)) == [1, 2]


def test_attempts_of_a_replaced_model_are_kept(fitted: Predictor, tmp_path: Path) -> None:
    x, y = points(2000, 1)
    first = fitted.certify(x, y, 0.2, 0.1)
    folder = first.save(tmp_path / "model")
    with pytest.warns(SquadWarning, match="more than delta"):  # certified as if it were the first attempt
        fitted.certify(x, y, 0.3, 0.1).save(folder, overwrite=True)
    assert [one["risks"] for one in squad.load(folder).attempts] == [[{"wrong": 0.3}], [{"wrong": 0.2}]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        squad.load(folder).certify(x, y, 0.25, 0.1).save(folder, overwrite=True)
        fitted.save(folder, overwrite=True)
    assert len(squad.load(folder).attempts) == 3
    assert len(fitted.attempts) == 0
