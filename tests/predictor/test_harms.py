"""Harms by name (miss rates, costs of confusions), weights and strata."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import squad
from squad.predictor import Predictor
from squad.predictor.harms import cost_matrix, expand, harm_of
from squad.selective.attempts import delta_share
from squad.selective.scored_cases import Scores, rank
from tests.predictor.examples import frame, points

COSTS = {("a", "b"): 1.0, ("b", "a"): 0.2, None: 0.1}


class TestMissRate:
    def test_it_is_counted_on_the_cases_of_the_class(self) -> None:
        found = harm_of("miss rate b", ["a", "b"], np.array([0, 1, 0, 1]), np.array([0, 1, 1, 0]))
        assert np.array_equal(found, [np.nan, 0.0, 1.0, np.nan], equal_nan=True)

    def test_without_a_class_it_means_every_class(self, fitted: Predictor) -> None:
        x, y = points(4000, 1)
        safe = fitted.certify(x, y, {"wrong": 0.1, "miss rate": 0.15, "miss rate b": 0.12}, 0.1)
        certificate = safe.certificate
        assert certificate is not None
        rule = certificate.rules[0]
        assert dict(rule.risks) == {"wrong": 0.1, "miss rate a": 0.15, "miss rate b": 0.12, "miss rate c": 0.15}
        assert rule.level == 0.1 * delta_share(1)  # several harms do not split delta
        answer = safe.answer(x)
        good = answer.decision == "accepted"
        for name in "abc":
            mine = y == name
            assert rule.counted[f"miss rate {name}"] == ((good & mine).sum(), (mine & ~answer.novel).sum())
            assert rule.errors[f"miss rate {name}"] == (good & mine & (answer.label != y)).sum()

    def test_a_target_is_found_by_the_name_of_all_classes(self, fitted: Predictor) -> None:
        x, y = points(4000, 1)
        targets = [{"wrong": 0.1, "miss rate": 0.15}, {"wrong": 0.2}]
        safe = fitted.certify(x, y, targets, 0.1)
        strict, lax = (safe.answer(x, risk=target).decision == "accepted" for target in targets)
        assert 0 < strict.sum() < lax.sum()

    def test_users_harm_of_that_name_stays(self, fitted: Predictor) -> None:
        x, y = points(2000, 1)
        safe = fitted.certify(x, y, {"miss rate": 0.3}, harms={"miss rate": y == "a"}, method="bonferroni")
        assert safe.certificate is not None
        assert safe.certificate.targets == [{"miss rate": 0.3}]
        assert len(safe.answer(x, risk={"miss rate": 0.3})) == 2000
        assert expand([0.1, {"miss rate": 0.1}], "ab") == [0.1, {"miss rate a": 0.1, "miss rate b": 0.1}]

    def test_a_class_without_rows_is_named(self, fitted: Predictor) -> None:
        x, y = points(3000, 1)
        some = y != "c"
        certificate = fitted.certify(x[some], y[some], {"miss rate": 0.1}, 0.05).certificate
        assert certificate is not None
        assert not certificate.certified
        assert re.search(r"'miss rate c' .*\b0\b.*\b30\b", str(certificate), re.DOTALL)
        assert squad.Certificate.from_json(certificate.to_json()) == certificate

    def test_a_class_of_few_rows_is_named(self, fitted: Predictor) -> None:
        x, y = points(3000, 1)
        some = (y != "c") | (np.arange(3000) < 30)
        few = int((y[some] == "c").sum())
        certificate = fitted.certify(x[some], y[some], {"miss rate": 0.05}, 0.05).certificate
        assert re.search(rf"'miss rate c' .*\b{few}\b.*\b61\b", str(certificate), re.DOTALL)

    def test_an_unknown_class_is_refused(self, fitted: Predictor) -> None:
        with pytest.raises(squad.ArgumentError, match="'miss rate d'"):
            fitted.certify(*points(300, 1), {"miss rate d": 0.1})


class TestCosts:
    def test_the_mean_cost_of_accepted_cases_is_bounded(self, fitted: Predictor) -> None:
        x, y = points(4000, 1)
        safe = fitted.certify(x, y, {"cost": 0.05}, 0.05, costs=COSTS)
        assert safe.certificate is not None
        rule = safe.certificate.rules[0]
        answer = safe.answer(x)
        good = answer.decision == "accepted"
        matrix = cost_matrix(COSTS, "abc")
        positions = {name: position for position, name in enumerate("abc")}
        paid = [matrix[positions[t], positions[p]] for t, p in zip(y[good], answer.label[good], strict=True)]
        assert rule.errors["cost"] == pytest.approx(sum(paid))
        assert rule.costs == ("cost",)
        assert safe.certificate.details["costs"] == matrix.tolist()
        # An array in the order of the classes gives the same result.
        again = fitted.certify(x, y, {"cost": 0.05}, 0.05, costs=matrix)
        assert again.certificate is not None
        assert again.certificate.rules == safe.certificate.rules

    def test_a_mapping_becomes_an_array(self) -> None:
        assert cost_matrix({("a", "b"): 1, ("b", "a"): 0.2}, ["a", "b"]).tolist() == [[0, 1], [0.2, 0]]
        assert cost_matrix({("1", "2"): 1, None: 0.5}, [1, 2]).tolist() == [[0, 1], [0.5, 0]]

    @pytest.mark.parametrize(
        ("costs", "match"),
        [
            ({("a", "b"): 1.0}, r"\('b', 'a'\)"),
            ({("a", "d"): 1.0, None: 0}, "'d'"),
            ({("a", "b"): 50.0, None: 20}, "by 50"),
            ({("a", "b"): -1.0, None: 0}, "-1"),
            ({("a", "b"): "dear", None: 0}, "dear"),
            ({("a", "b"): float("nan"), None: 2}, "2"),
            ([[0, 1, 1]], r"\(2, 2\)"),
            ("dear", "array"),
            ([[0, 3], [1, 0]], "by 3"),
            ({("a", "a"): 0.1, None: 0.5}, r"\('a', 'a'\)"),
            ([[0, 1], [1, 0.5]], r"\('b', 'b'\)"),
        ],
    )
    def test_wrong_costs_are_refused(self, costs: object, match: str) -> None:
        with pytest.raises(squad.ArgumentError, match=match):
            cost_matrix(costs, ["a", "b"])  # type: ignore[arg-type]

    def test_costs_and_their_risk_belong_together(self, fitted: Predictor) -> None:
        x, y = points(300, 1)
        with pytest.raises(squad.ArgumentError, match="'cost'"):
            fitted.certify(x, y, 0.1, costs=COSTS)
        with pytest.raises(squad.ArgumentError, match="'cost'"):
            fitted.certify(x, y, {"cost": 0.1})
        with pytest.raises(squad.ArgumentError, match="costs"):
            fitted.certify(x, y, {"cost": 0.1}, costs=COSTS, harms={"cost": np.zeros(300)})


class TestWeightsAndStrata:
    def test_weights_come_as_an_array_or_a_column(self, of_table: Predictor) -> None:
        data = frame(4000, 1)
        data["w"] = np.where(data["site"] == "Oslo", 3.0, 1.0)
        right = data["y"].to_numpy()
        by_column = of_table.certify(data, right, 0.2, weights="w", max_weight=3.0)
        by_array = of_table.certify(data, right, 0.2, weights=data["w"].to_numpy(), max_weight=3.0)
        assert by_column.certificate is not None
        assert by_array.certificate is not None
        assert by_column.certificate.rules == by_array.certificate.rules
        drawn = by_column.certificate.details["resampling"]
        assert by_column.calibration is not None
        assert len(by_column.calibration) == by_column.certificate.m == drawn["drawn"] < drawn["cases"] == 2000
        # The model ignores the column.
        assert (of_table.answer(data).confidence == of_table.answer(data.drop(columns="w")).confidence).all()

    def test_a_certificate_of_drawn_rows_is_saved_and_checked(self, fitted: Predictor, tmp_path: Path) -> None:
        x, y = points(3000, 1)
        risk = {"wrong": 0.1, "miss rate": 0.3, "cost": 0.05}
        safe = fitted.certify(x, y, risk, 0.1, costs=COSTS, strata=y, population={"a": 0.2, "b": 0.3, "c": 0.5})
        assert safe.certificate is not None
        assert safe.certificate.certified
        again = squad.load(safe.save(tmp_path / "model"))
        assert again.certificate == safe.certificate

    def test_wrong_weights_are_refused(self, fitted: Predictor, of_table: Predictor) -> None:
        x, y = points(300, 1)
        with pytest.raises(squad.ArgumentError, match="weights"):
            fitted.certify(x, y, 0.1, weights=np.ones(299))
        with pytest.raises(squad.ArgumentError, match="no column 'w'"):
            fitted.certify(x, y, 0.1, weights="w")
        data = frame(300, 1)
        data["w"] = [None, *[1.0] * 299]
        for column, match in (("u", "feature"), ("who", "'1-.*'who'"), ("w", "empty"), ("none", "none")):
            with pytest.raises(squad.SquadError, match=match):
                of_table.certify(data, data["y"].to_numpy(), 0.1, weights=column, one_per_group=False)


class TestCertificateText:
    def test_harms_of_labels_and_of_users_are_worded_differently(self, fitted: Predictor) -> None:
        x, y = points(3000, 1)
        risk = {"wrong": 0.2, "missed a": 0.2, "false alarm": 0.9}
        made = fitted.certify(x, y, risk, 0.1, harms={"false alarm": np.zeros(3000, dtype=bool)}).certificate
        assert made is not None
        assert "'false alarm'" in str(made)
        assert "'missed a'" not in str(made)
        assert made.details["harms"] == ["missed a"]

    def test_the_class_that_fails_is_named(self, fitted: Predictor) -> None:
        x, y = points(3000, 1)
        y = np.where((y == "b") & (np.arange(3000) % 2 == 0), "c", y)  # half of b is labelled c
        made = fitted.certify(x, y, {"wrong": 0.5, "miss rate": 0.1}, 0.1).certificate
        assert made is not None
        assert not made.certified
        errors, n = made.rules[0].failing["miss rate c"]
        assert n == made.rules[0].counted["miss rate c"][1]
        assert f"miss rate c {errors} of {n:,}" in str(made)
        assert not {"wrong", "miss rate b"} & set(made.rules[0].failing)
        assert squad.Certificate.from_json(made.to_json()) == made


class TestCostsThatDoNotOccur:
    """The test depends on the possible costs, not on those that occur in the calibration set."""

    def test_no_error_at_all(self) -> None:
        rng = np.random.default_rng(0)
        scores = Scores.of(rng.random(200), np.ones(200, dtype=bool), {"cost": np.zeros(200)}, costs={"cost"})
        tally = rank(scores).tallies["cost"]
        assert tally.losses is not None
        plain = rank(Scores.of(scores.confidence, np.ones(200, dtype=bool), {"cost": np.zeros(200)}))
        assert plain.tallies["cost"].losses is None

    def test_fractions_in_the_matrix_decide(self, fitted: Predictor) -> None:
        x, y = points(3000, 1)
        sure = fitted.answer(x).label == y
        made = fitted.certify(x[sure], y[sure], {"cost": 0.1}, 0.1, costs=COSTS)
        assert made.certificate is not None
        assert made.certificate.rules[0].costs == ("cost",)
        assert "mean cost" in made.certificate.headline
        zero_one = fitted.certify(x[sure], y[sure], {"cost": 0.1}, 0.1, costs={None: 1.0}).certificate
        assert zero_one is not None
        assert zero_one.rules[0].costs == ()
        assert "mean cost" in zero_one.headline


class TestGroups:
    def test_1_and_its_text_are_two_groups(self, fitted: Predictor) -> None:
        x, y = points(3000, 1)
        by: Any = [1, "1"] * 1500
        safe = fitted.certify(x, y, 0.3, 0.1, by=by)
        assert safe.certificate is not None
        assert [rule.group for rule in safe.certificate.rules] == [1, "1"]
        assert sum(rule.m for rule in safe.certificate.rules) == safe.certificate.m
        assert len(safe.answer(x, by=by)) == 3000

    def test_rows_of_an_uncertified_group_have_a_reason(self, fitted: Predictor) -> None:
        x, y = points(3000, 1)
        by = np.where(np.arange(3000) < 8, "few", "many")
        answer = fitted.certify(x, y, 0.3, 0.1, by=by).answer(x, by=by)
        few = (by == "few") & ~answer.novel
        assert (answer.decision[few] == "referred").all()
        assert all("nothing was certified where group is few" in reason for reason in answer.reason[few])
        assert not any("certified" in reason for reason in answer.reason[by == "many"])
