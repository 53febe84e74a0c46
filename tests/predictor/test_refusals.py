"""Calibration rows that a predictor does not take, and what it takes for granted about those it does."""

from typing import Any

import numpy as np
import pytest

import squad
from squad.data.seen_rows import LeakError
from squad.fitting import fit_predictor
from squad.predictor import Predictor
from tests.predictor.examples import QUICK, frame, points


def fitted_novel(predictor: Predictor, rows: Any) -> int:
    return int(predictor.answer(rows).novel.sum())


class TestRefusals:
    @pytest.mark.parametrize("share", [1.0, 0.2])
    def test_rows_of_training(self, fitted: Predictor, share: float) -> None:
        x, y = points(1000, 1)
        seen, their = points(600, 0)
        count = int(share * 600)
        with pytest.raises(LeakError, match=f"^{count:,} of these 1,000 rows"):
            fitted.certify(np.r_[seen[:count], x[: 1000 - count]], np.r_[their[:count], y[: 1000 - count]], 0.05)

    def test_a_few_rows_of_training_are_no_evidence(self, fitted: Predictor) -> None:
        x, y = points(2000, 1)
        expected = fitted.certify(x[2:], y[2:], 0.05, 0.05).certificate
        seen, their = points(600, 0)
        x[:2], y[:2] = seen[:2], their[:2]
        with pytest.warns(squad.SquadWarning, match="2 of 2,000 rows also occur in the training set"):
            certificate = fitted.certify(x, y, 0.05, 0.05).certificate
        assert certificate is not None
        assert expected is not None
        assert certificate.rules == expected.rules
        assert certificate.details["calibration"]["repeats"] == 2
        assert "2 such calibration rows were left out" in str(certificate)

    def test_without_hashes_it_says_what_was_not_checked(self, fitted: Predictor) -> None:
        blind = fitted.without_row_hashes()
        certificate = blind.certify(*points(600, 0), risk=0.1).certificate
        assert certificate is not None
        assert certificate.details["calibration"]["repeats"] is None
        assert "not checked" in str(certificate)
        kept = fit_predictor(*points(60, 0), QUICK, keep_row_hashes=False)
        assert kept.seen_rows is None

    def test_groups_of_training(self, of_table: Predictor) -> None:
        data = frame(2000, 1)
        data.loc[:3, "who"] = "0-7"
        with pytest.raises(LeakError, match=r"fit saw 1 of these .*'0-7'"):
            of_table.certify(data, data["y"].to_numpy(), 0.1, groups=data["who"].to_numpy())

    def test_of_a_group_one_row_is_used(self, of_table: Predictor) -> None:
        data = frame(2000, 1)
        y, who = data["y"].to_numpy(), data["who"].to_numpy()
        made = of_table.certify(data, y, 0.1)  # the column that fit was told of is looked at by itself
        certificate = made.certificate
        assert certificate is not None
        assert certificate.m in (999, 1000)  # a row or two may be novel
        assert "of each of 1,000 groups one row was used" in str(certificate)
        assert certificate.rules == of_table.certify(data, y, 0.1, groups=who).certificate.rules  # type: ignore[union-attr]
        every = of_table.certify(data, y, 0.1, one_per_group=False).certificate
        assert every is not None
        assert every.m == 2000 - fitted_novel(of_table, data)
        assert "rows came from 1,000 groups" in str(every)
        single = data.iloc[::2]
        alone = of_table.certify(single, single["y"].to_numpy(), 0.1, one_per_group=False).certificate
        assert "groups" not in str(alone)

    def test_groups_that_were_not_given_are_said_not_to_be_checked(self, of_table: Predictor) -> None:
        data = frame(2000, 1).drop(columns="who")
        assert "their groups were not given" in str(of_table.certify(data, data["y"].to_numpy(), 0.1).certificate)

    def test_groups_of_training_are_found_in_the_rows(self, of_table: Predictor) -> None:
        data = frame(2000, 1)
        data.loc[5, "who"] = "0-7"
        with pytest.raises(LeakError, match=r"fit saw 1 of these .*'0-7'"):
            of_table.certify(data, data["y"].to_numpy(), 0.1)
        with pytest.raises(LeakError, match="'0-7'"):  # another grouping does not hide it
            of_table.certify(data, data["y"].to_numpy(), 0.1, groups=data["site"].to_numpy())
        data.loc[5, "who"] = None
        with pytest.raises(squad.ArgumentError, match="groups must be one for every row, got 1 missing"):
            of_table.certify(data, data["y"].to_numpy(), 0.1)

    @pytest.mark.parametrize("times", [2, 5])
    def test_a_file_that_was_doubled_counts_once(self, fitted: Predictor, times: int) -> None:
        x, y = points(500, 1)
        with pytest.warns(squad.SquadWarning, match=rf"[\d,]+ of {500 * times:,} rows are copies"):
            many = fitted.certify(np.tile(x, (times, 1)), np.tile(y, times), 0.1).certificate
        once = fitted.certify(x, y, 0.1).certificate
        assert many is not None
        assert once is not None
        assert many.rules == once.rules
        assert "copies of others" in str(many)
        assert "copies" not in str(once)

    def test_a_part_that_was_copied_counts_once(self, fitted: Predictor) -> None:
        x, y = points(500, 1)
        more = np.r_[0:500, 100:130]
        with pytest.warns(squad.SquadWarning, match="30 of 530 rows are copies"):
            made = fitted.certify(x[more], y[more], 0.1).certificate
        assert made is not None
        assert made.rules == fitted.certify(x, y, 0.1).certificate.rules  # type: ignore[union-attr]

    @pytest.mark.parametrize("times", [1, 2])
    def test_in_a_table_of_few_different_rows_equal_ones_are_cases(self, times: int) -> None:
        random = np.random.default_rng(0)

        def table(count: int) -> tuple[Any, Any]:
            x = random.integers(4, size=(count, 3)).astype(float)
            return x, np.where(x.sum(1) + random.normal(size=count) > 4.5, "a", "b")

        predictor = fit_predictor(*table(900), QUICK)
        x, y = table(800)
        once = predictor.certify(x, y, 0.4).certificate
        assert once is not None
        assert once.m == 800
        if times == 2:
            with pytest.warns(squad.SquadWarning, match="800 of 1,600 rows are copies"):
                twice = predictor.certify(np.r_[x, x], np.r_[y, y], 0.4).certificate
            assert twice is not None
            assert twice.rules == once.rules

    def test_the_file_of_training_is_known_even_if_rows_repeat_by_chance(self) -> None:
        random = np.random.default_rng(0)
        x = random.integers(3, size=(900, 2)).astype(float)
        y = np.where(x.sum(1) + random.normal(size=900) > 2, "a", "b")
        predictor = fit_predictor(x, y, QUICK)
        order = random.permutation(900)
        with pytest.raises(LeakError, match="the very ones"):
            predictor.certify(x[order], y[order], 0.4)
        new = random.integers(3, size=(900, 2)).astype(float)
        made = predictor.certify(new, np.where(new.sum(1) > 2, "a", "b"), 0.4).certificate
        assert "it is chance that 900 of 900 calibration rows are like rows of training" in str(made)

    def test_labels_that_it_does_not_know(self, fitted: Predictor) -> None:
        x, y = points(1000, 1)
        y = y.astype(object)
        y[3] = "d"
        with pytest.raises(squad.ArgumentError, match=r"among the classes of training \(a, b, c\), got d"):
            fitted.certify(x, y, 0.05)

    @pytest.mark.parametrize("count", [1, 40])
    def test_too_few_rows_certify_nothing(self, fitted: Predictor, count: int) -> None:
        x, y = points(count, 1)
        made = fitted.certify(x, y, risk=0.05)
        answer = fitted.answer(x)
        arrays = squad.certify(answer.confidence, answer.label == y, risk=0.05, attempt=1)
        assert made.certificate is not None
        assert not made.certificate.certified
        assert made.certificate.rules == arrays.rules  # one behaviour, from rows and from scores
        assert set(made.answer(x).decision) == {"referred"}

    def test_too_few_rows_in_one_group_are_no_reason_to_refuse(self, fitted: Predictor) -> None:
        x, y = points(2000, 1)
        by = np.where(np.arange(2000) < 20, "few", "many")
        certificate = fitted.certify(x, y, 0.1, by=by).certificate
        assert certificate is not None
        assert [(rule.group, rule.certified) for rule in certificate.rules] == [("few", False), ("many", True)]

    def test_too_few_rows_in_every_group(self, fitted: Predictor) -> None:
        made = fitted.certify(*points(150, 1), risk=0.05, by="label").certificate
        assert made is not None
        assert not made.certified
        assert all(rule.needed for rule in made.rules)

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"y": ["a"]}, r"y must be of shape \(100,\)"),
            ({"x": np.zeros((0, 2)), "y": []}, "rows with their labels"),
            ({"groups": [1]}, "groups must be of shape"),
            ({"by": "site"}, "an array has no columns"),
            ({"by": [1, 2]}, "a group per row"),
            ({"risk": 2.0}, "risk must be"),
            ({"method": "magic"}, "method must be one of"),
            ({"x": np.full((100, 2), np.nan)}, "None of the 100 rows can be used"),
        ],
    )
    def test_wrong_input(self, fitted: Predictor, change: dict[str, Any], match: str) -> None:
        x, y = points(100, 1)
        with pytest.raises(squad.SquadError, match=match):
            fitted.certify(**{"x": x, "y": y, "risk": 0.05, **change})
