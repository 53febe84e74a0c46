"""Calibration rows that a predictor refuses or leaves out, and the assumptions about the others."""

from typing import Any

import numpy as np
import pytest

import squad
from squad.data.seen_rows import LeakError
from squad.fitting import fit_predictor
from squad.predictor import Predictor
from tests.predictor.examples import QUICK, frame, points


def count_novel(predictor: Predictor, rows: Any) -> int:
    return int(predictor.answer(rows).novel.sum())


class TestRefusals:
    @pytest.mark.parametrize("fraction", [1.0, 0.2])
    def test_training_rows(self, fitted: Predictor, fraction: float) -> None:
        x, y = points(1000, 1)
        seen, their = points(600, 0)
        count = int(fraction * 600)
        with pytest.raises(LeakError, match=f"{count:,} of .*1,000 rows"):
            fitted.certify(np.r_[seen[:count], x[: 1000 - count]], np.r_[their[:count], y[: 1000 - count]], 0.05)

    def test_a_few_training_rows_are_left_out(self, fitted: Predictor) -> None:
        x, y = points(2000, 1)
        expected = fitted.certify(x[2:], y[2:], 0.05, 0.05).certificate
        seen, their = points(600, 0)
        x[:2], y[:2] = seen[:2], their[:2]
        with pytest.warns(squad.SquadWarning, match=r"2 of 2,000 rows.*training set"):
            certificate = fitted.certify(x, y, 0.05, 0.05).certificate
        assert certificate is not None
        assert expected is not None
        assert certificate.rules == expected.rules
        assert certificate.details["calibration"]["repeats"] == 2
        assert "2 calibration rows were therefore left out" in str(certificate)

    def test_without_hashes_the_certificate_says_what_was_not_checked(self, fitted: Predictor) -> None:
        blind = fitted.without_row_hashes()
        certificate = blind.certify(*points(600, 0), risk=0.1).certificate
        assert certificate is not None
        assert certificate.details["calibration"]["repeats"] is None
        assert "not checked" in str(certificate)
        kept = fit_predictor(*points(60, 0), QUICK, keep_row_hashes=False)
        assert kept.seen_rows is None

    def test_training_groups(self, of_table: Predictor) -> None:
        data = frame(2000, 1)
        data.loc[:3, "who"] = "0-7"
        with pytest.raises(LeakError, match=r"\b1 of .*'0-7'"):
            of_table.certify(data, data["y"].to_numpy(), 0.1, groups=data["who"].to_numpy())

    def test_one_row_per_group_is_used(self, of_table: Predictor) -> None:
        data = frame(2000, 1)
        y, who = data["y"].to_numpy(), data["who"].to_numpy()
        made = of_table.certify(data, y, 0.1)  # the group column of fit is found without being named
        certificate = made.certificate
        assert certificate is not None
        assert certificate.m in (999, 1000)  # a row or two may be novel
        assert "1,000 groups" in str(certificate)
        assert certificate.rules == of_table.certify(data, y, 0.1, groups=who).certificate.rules  # type: ignore[union-attr]
        every = of_table.certify(data, y, 0.1, one_per_group=False).certificate
        assert every is not None
        assert every.m == 2000 - count_novel(of_table, data)
        assert f"{every.m:,} rows came from 1,000 groups" in str(every)
        single = data.iloc[::2]
        alone = of_table.certify(single, single["y"].to_numpy(), 0.1, one_per_group=False).certificate
        assert "groups" not in str(alone)

    def test_missing_groups_are_noted_as_not_checked(self, of_table: Predictor) -> None:
        data = frame(2000, 1).drop(columns="who")
        assert "their groups were not given" in str(of_table.certify(data, data["y"].to_numpy(), 0.1).certificate)

    def test_training_groups_are_found_in_the_rows(self, of_table: Predictor) -> None:
        data = frame(2000, 1)
        data.loc[5, "who"] = "0-7"
        with pytest.raises(LeakError, match=r"\b1 of .*'0-7'"):
            of_table.certify(data, data["y"].to_numpy(), 0.1)
        with pytest.raises(LeakError, match="'0-7'"):  # another grouping does not hide it
            of_table.certify(data, data["y"].to_numpy(), 0.1, groups=data["site"].to_numpy())
        data.loc[5, "who"] = None
        with pytest.raises(squad.ArgumentError, match="group; 1 rows have none"):
            of_table.certify(data, data["y"].to_numpy(), 0.1)

    @pytest.mark.parametrize("times", [2, 5])
    def test_a_repeated_file_counts_once(self, fitted: Predictor, times: int) -> None:
        x, y = points(500, 1)
        with pytest.warns(squad.SquadWarning, match=rf"[\d,]+ of {500 * times:,} rows are copies"):
            many = fitted.certify(np.tile(x, (times, 1)), np.tile(y, times), 0.1).certificate
        once = fitted.certify(x, y, 0.1).certificate
        assert many is not None
        assert once is not None
        assert many.rules == once.rules
        assert "copies of others" in str(many)
        assert "copies" not in str(once)

    def test_a_copied_part_counts_once(self, fitted: Predictor) -> None:
        x, y = points(500, 1)
        more = np.r_[0:500, 100:130]
        with pytest.warns(squad.SquadWarning, match="30 of 530 rows are copies"):
            made = fitted.certify(x[more], y[more], 0.1).certificate
        assert made is not None
        assert made.rules == fitted.certify(x, y, 0.1).certificate.rules  # type: ignore[union-attr]

    @pytest.mark.parametrize("times", [1, 2])
    def test_equal_rows_are_cases_if_few_different_rows_exist(self, times: int) -> None:
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

    def test_the_training_file_is_refused_even_if_rows_repeat_by_chance(self) -> None:
        random = np.random.default_rng(0)
        x = random.integers(3, size=(900, 2)).astype(float)
        y = np.where(x.sum(1) + random.normal(size=900) > 2, "a", "b")
        predictor = fit_predictor(x, y, QUICK)
        order = random.permutation(900)
        with pytest.raises(LeakError, match="exactly the rows"):
            predictor.certify(x[order], y[order], 0.4)
        new = random.integers(3, size=(900, 2)).astype(float)
        made = predictor.certify(new, np.where(new.sum(1) > 2, "a", "b"), 0.4).certificate
        assert "it is by chance that 900 of 900 calibration rows also occur in the training set" in str(made)

    def test_unknown_labels(self, fitted: Predictor) -> None:
        x, y = points(1000, 1)
        y = y.astype(object)
        y[3] = "d"
        with pytest.raises(squad.ArgumentError, match=r"labels.*\(a, b, c\).*got d"):
            fitted.certify(x, y, 0.05)

    @pytest.mark.parametrize("count", [1, 40])
    def test_too_few_rows_certify_nothing(self, fitted: Predictor, count: int) -> None:
        x, y = points(count, 1)
        made = fitted.certify(x, y, risk=0.05)
        answer = fitted.answer(x)
        arrays = squad.certify(answer.confidence, answer.label == y, risk=0.05, attempt=1)
        assert made.certificate is not None
        assert not made.certificate.certified
        assert made.certificate.rules == arrays.rules  # the same from rows and from scores
        assert set(made.answer(x).decision) == {"referred"}

    def test_too_few_rows_in_one_group_do_not_affect_others(self, fitted: Predictor) -> None:
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
            ({"y": ["a"]}, r"y .*\(100,\).*got shape \(1,\)"),
            ({"x": np.zeros((0, 2)), "y": []}, "x .*got no rows"),
            ({"groups": [1]}, r"groups .*got shape \(1,\)"),
            ({"by": "site"}, "no column 'site'"),
            ({"by": [1, 2]}, r"by .*got shape \(2,\)"),
            ({"risk": 2.0}, "risk.*2"),
            ({"method": "magic"}, "method.*'magic'"),
            ({"x": np.full((100, 2), np.nan)}, "None of the 100 rows"),
        ],
    )
    def test_wrong_input(self, fitted: Predictor, change: dict[str, Any], match: str) -> None:
        x, y = points(100, 1)
        with pytest.raises(squad.SquadError, match=match):
            fitted.certify(**{"x": x, "y": y, "risk": 0.05, **change})
