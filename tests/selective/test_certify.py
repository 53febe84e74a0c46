"""Edge cases of certification: invalid arguments, what cannot be certified, and guarantees that hold jointly."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import squad
from squad.selective import Certificate, certify
from squad.selective.methods import METHODS
from squad.selective.pilots import PILOTED

RANKED = [name for name in METHODS if name not in ("grid", *PILOTED)]


def sample(m: int, seed: int = 0, worst: float = 0.3, digits: int | None = None) -> tuple[Any, Any]:
    """Well-ranked scores: errors among the least confident."""
    rng = np.random.default_rng(seed)
    confidence = rng.random(m)
    correct = rng.random(m) >= worst * (1 - confidence) ** 2
    return (confidence if digits is None else confidence.round(digits)), correct


def made(method: str, confidence: Any, correct: Any, risk: Any, **more: Any) -> Certificate:
    if method == "grid":
        more.setdefault("thresholds", [0.9, 0.7, 0.5, 0.3, 0.1, -math.inf])
    if method in PILOTED:
        pilot, right = sample(2000, 77)
        more.setdefault("pilot", (pilot, right, dict.fromkeys(more.get("harms", ()), ~right)))
    return certify(confidence, correct, risk, method=method, **more)


class TestEdges:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("m", [0, 1, 10, 227])
    def test_fewer_cases_than_needed_without_errors(self, method: str, m: int) -> None:
        found = made(method, np.linspace(0, 1, m), np.ones(m, bool), 0.02)
        assert not found.certified
        assert found.threshold == math.inf
        assert found.coverage == 0.0
        assert found.n == found.errors == 0
        assert not found.accepts([0.0, 1.0, math.inf]).any()
        assert found.needed is not None
        assert found.needed > m
        assert f"{found.needed:,}" in str(found)

    @pytest.mark.parametrize(("risk", "fewest"), [(0.005, 919), (0.01, 459), (0.02, 228), (0.05, 90)])
    def test_the_fewest_cases(self, risk: float, fewest: int) -> None:
        for method in ("fallback", "fixed_sequence"):
            assert not certify(np.arange(fewest - 1), np.ones(fewest - 1), risk, method=method).certified
            found = certify(np.arange(fewest), np.ones(fewest), risk, method=method)
            assert found.certified
            assert found.n == fewest
            assert certify([], [], risk, method=method).needed == fewest

    @pytest.mark.parametrize("method", METHODS)
    def test_the_number_of_labels_needed_is_enough_without_errors(self, method: str) -> None:
        needed = made(method, [], [], 0.03).needed
        assert needed is not None
        assert made(method, np.linspace(0.91, 0.95, needed), np.ones(needed), 0.03).certified
        fewer = made(method, np.linspace(0.91, 0.95, needed - 1), np.ones(needed - 1), 0.03)
        assert not fewer.certified
        assert fewer.needed == needed

    def test_reasons_why_a_grid_fails(self) -> None:
        confidence = np.linspace(0, 1, 2000)
        for thresholds in ([0.995, 0.5], [2.0]):  # the strictest accepts 10, or none
            found = certify(confidence, np.ones(2000), 0.02, method="grid", thresholds=thresholds)
            assert not found.rules[0].hopeless
            assert "too few" in str(found)
            assert "error rate" not in str(found)
        assert found.needed is None
        few = certify(confidence[::5], np.ones(400), 0.02, method="grid", thresholds=[0.9, 0.5])
        assert few.needed is not None
        more = certify(np.linspace(0, 1, few.needed), np.ones(few.needed), 0.02, method="grid", thresholds=[0.9, 0.5])
        assert more.certified

    def test_masked_arrays_and_missing_groups_are_refused(self) -> None:
        masked = np.ma.MaskedArray([0.5, 0.6], [True, False])
        with pytest.raises(squad.ArgumentError, match=r"confidence.*mask"):
            certify(masked, [True, True], 0.1)
        for by in ([1.0, math.nan], np.array(["a", None], dtype=object)):
            with pytest.raises(squad.ArgumentError, match=r"by.*got a missing value"):
                certify([0.5, 0.6], [True, True], 0.1, by=by)
        with pytest.raises(squad.ArgumentError, match=r"harms.*mapping"):
            certify([0.5], [True], 0.1, harms=[1])  # type: ignore[arg-type]

    @pytest.mark.parametrize("method", METHODS)
    def test_every_case_wrong(self, method: str) -> None:
        found = made(method, np.linspace(0, 1, 3000), np.zeros(3000), 0.05)
        assert not found.certified
        assert found.threshold == math.inf
        assert found.rules[0].hopeless
        assert found.needed is None
        assert "more labels will not help" in str(found)

    @pytest.mark.parametrize("method", METHODS)
    def test_all_are_accepted(self, method: str) -> None:
        found = made(method, np.linspace(0, 1, 3000), np.ones(3000), 0.05)
        assert found.threshold == -math.inf
        assert found.coverage == 1.0
        assert found.accepts([-math.inf, 0.0]).tolist() == [False, True]  # -inf exceeds no threshold
        assert "accepts all 3,000" in str(found)
        rule = found.to_json()["rules"][0]
        assert (rule["threshold"], rule["accepts"]) == (None, "all")

    @pytest.mark.parametrize("method", RANKED)
    @pytest.mark.parametrize(("wrong", "good"), [(5, True), (300, False)])
    def test_all_scores_tied(self, method: str, wrong: int, good: bool) -> None:
        correct = np.arange(3000) >= wrong
        found = made(method, np.full(3000, 0.7), correct, 0.05)
        assert found.certified is good
        assert found.n == (3000 if good else 0)
        assert found.threshold == (-math.inf if good else math.inf)

    def test_nan_is_refused_in_calibration_and_abstains_in_prediction(self) -> None:
        with pytest.raises(ValueError, match=r"NaN in case 2 \(from 1\)"):
            certify([0.5, math.nan], [True, True], 0.1)
        found = certify(np.ones(500), np.ones(500), 0.1)
        assert found.accepts([math.nan, 0.5]).tolist() == [False, True]

    @pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 1.5, math.nan, math.inf])
    @pytest.mark.parametrize("name", ["risk", "delta"])
    def test_risk_and_delta_must_be_between_0_and_1(self, name: str, value: float) -> None:
        given_: dict[str, Any] = {"risk": 0.1, "delta": 0.1, name: value}
        with pytest.raises(ValueError, match=rf"{name} .*got {value}"):
            certify([0.5], [True], **given_)

    def test_percentages_get_a_hint(self) -> None:
        with pytest.raises(squad.ArgumentError, match=r"got 2\. 2 % is 0\.02\."):
            certify([0.5], [True], 2)
        with pytest.raises(squad.ArgumentError, match=r"risk.*1e-09.*got 1e-300"):
            certify([0.5], [True], 1e-300)

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"confidence": ["a"]}, "confidence.*numbers.*got <U1"),
            ({"confidence": [[0.5]]}, r"confidence.*shape \(1, 1\)"),
            ({"correct": [True, False]}, r"correct.*\(1,\).*got shape \(2,\)"),
            ({"correct": [0.5]}, "correct.*got 0.5"),
            ({"correct": ["yes"]}, "correct.*got <U3"),
            ({"method": "magic"}, "method.*'fallback'.*got 'magic'"),
            ({"thresholds": [0.5]}, "thresholds.*grid.*fallback"),
            ({"method": "grid"}, "grid needs thresholds"),
            ({"method": "grid", "thresholds": []}, r"thresholds.*non-empty.*got \[\]"),
            ({"method": "grid", "thresholds": ["x"]}, "thresholds.*numbers"),
            ({"method": "grid", "thresholds": [math.nan]}, "thresholds.*nan"),
            ({"method": "band", "risk": 0.2}, r"risk.*r_max \(0\.1\).*got 0\.2"),
            ({"method": "bonferroni", "ranks": 0}, "ranks.*got 0"),
            ({"risk": []}, "risk.*got none"),
            ({"risk": {}}, "risk.*got an empty mapping"),
            ({"risk": {"missed": 0.1}}, "risk.*known.*got 'missed'"),
            ({"risk": [0.1, 0.1]}, "risk.*got 0.1 twice"),
            ({"risk": "many"}, "risk.*got 'many'"),
            ({"harms": {"wrong": [1]}}, "harms.*'wrong'.*`correct`"),
            ({"harms": {"missed": [1, 0]}}, r"harms\['missed'\].*got shape \(2,\)"),
            ({"by": [1, 2]}, r"by.*got shape \(2,\)"),
        ],
    )
    def test_invalid_arguments_are_refused(self, change: dict[str, Any], match: str) -> None:
        arguments = {"confidence": [0.5], "correct": [True], "risk": 0.1, **change}
        with pytest.raises(squad.ArgumentError, match=match):
            certify(**arguments)

    def test_types_of_input(self) -> None:
        confidence, correct = sample(1500)
        expected = certify(confidence, correct, 0.05)
        assert expected.certified
        pairs: list[tuple[Any, Any]] = [
            (confidence.tolist(), correct.tolist()),
            (torch.tensor(confidence), torch.tensor(correct)),
            (torch.tensor(confidence, requires_grad=True), torch.tensor(correct).int()),
            (confidence, correct.astype(float)),
        ]
        for scores, right in pairs:
            assert certify(scores, right, 0.05) == expected
        half = certify(torch.tensor(confidence).bfloat16(), torch.tensor(correct), 0.05)
        assert half.certified
        assert half.ties > 1000
        assert bool(expected.accepts(torch.tensor(0.99)))

    def test_infinite_scores_are_scores(self) -> None:
        confidence = np.r_[np.full(100, np.inf), np.linspace(0, 1, 200)]
        found = certify(confidence, np.r_[np.ones(100), np.zeros(200)], 0.05)
        assert found.n == 100
        assert found.threshold == 1.0


class TestGuarantee:
    @pytest.mark.parametrize("method", METHODS)
    @given(seed=st.integers(0, 10**6), digits=st.sampled_from([1, 2, None]), m=st.integers(0, 2000))
    @settings(max_examples=25, deadline=None)
    def test_the_threshold_accepts_exactly_what_was_tested(
        self, method: str, seed: int, digits: int | None, m: int
    ) -> None:
        confidence, correct = sample(m, seed, 0.3, digits)
        found = made(method, confidence, correct, 0.05, delta=0.1)
        good = found.accepts(confidence)
        assert good.sum() == found.n
        assert (~correct[good]).sum() == found.errors
        if found.certified:
            assert found.errors <= 0.05 * found.n

    @pytest.mark.parametrize("method", METHODS)
    def test_the_order_of_cases_does_not_matter(self, method: str) -> None:
        confidence, correct = sample(1500, digits=2)
        order = np.random.default_rng(1).permutation(1500)
        one, other = made(method, confidence, correct, 0.05), made(method, confidence[order], correct[order], 0.05)
        assert one.rules == other.rules

    @pytest.mark.parametrize("method", RANKED)
    def test_only_the_order_of_scores_matters(self, method: str) -> None:
        confidence, correct = sample(1500)
        one, other = made(method, confidence, correct, 0.05), made(method, -1 / (confidence + 1e-9), correct, 0.05)
        assert one.n == other.n

    @pytest.mark.parametrize("method", METHODS)
    def test_a_stricter_guarantee_accepts_no_more(self, method: str) -> None:
        confidence, correct = sample(4000)
        found = [made(method, confidence, correct, risk).n for risk in (0.01, 0.02, 0.05, 0.09)]
        assert found == sorted(found)
        assert found[-1] > 0
        assert made(method, confidence, correct, 0.05, delta=0.2).n >= made(method, confidence, correct, 0.05).n


class TestTogether:
    def test_an_uncertified_target_is_refused(self) -> None:
        confidence, correct = sample(4000)
        harms = {"missed": ~correct, "other": ~correct}
        found = certify(confidence, correct, [{"wrong": 0.1, "missed": 0.1}, {"missed": 0.2}, 0.2], harms=harms)
        for risk in (
            {"wrong": 0.1},
            {"wrong": 0.1, "missed": 0.01},
            {"wrong": 0.1, "other": 0.1},
            {"other": 0.2},
            {"wrong": 0.2, "missed": 0.2},
            0.15,
        ):
            with pytest.raises(squad.ArgumentError, match=r"risk.*one of those certified.*got"):
                found.accepts(confidence, risk=risk)
        assert found.target(0.2) == found.target({"wrong": 0.2})
        assert found.target(0.1) == found.target({"missed": 0.1, "wrong": 0.1})  # the only target with that risk
        assert found.target(float(np.float32(0.1))) == found.target(0.1)

    def test_groups_are_the_same_as_text_and_as_numbers(self) -> None:
        confidence, correct = sample(4000)
        found = certify(confidence, correct, 0.1, by=np.arange(4000) % 2)
        for by in (np.arange(4000) % 2, (np.arange(4000) % 2).astype(float), [str(i % 2) for i in range(4000)]):
            assert found.accepts(confidence, by).sum() == found.n > 0

    def test_many_groups_take_no_longer(self) -> None:
        confidence, correct = sample(50_000)
        found = certify(confidence, correct, 0.1, by=np.arange(50_000) % 2000)
        assert len(found.rules) == 2000
        assert {rule.m for rule in found.rules} == {25}

    def test_targets_share_delta(self) -> None:
        confidence, correct = sample(4000)
        both = certify(confidence, correct, [0.02, 0.05], delta=0.01)
        for risk in (0.02, 0.05):
            alone = certify(confidence, correct, risk, delta=0.005)
            (rule,) = both.target(risk)
            assert (rule.n, rule.threshold, rule.level) == (alone.n, alone.threshold, 0.005)
            assert (both.accepts(confidence, risk=risk) == alone.accepts(confidence)).all()
        with pytest.raises(squad.ArgumentError, match=r"several targets: wrong 0\.02; wrong 0\.05"):
            both.accepts(confidence)
        with pytest.raises(squad.ArgumentError, match=r"risk.*one of those certified.*got"):
            both.accepts(confidence, risk=0.03)
        with pytest.raises(squad.ArgumentError, match=r"threshold.*single rule.*has 2"):
            _ = both.threshold

    def test_a_band_does_not_divide_delta_between_targets(self) -> None:
        confidence, correct = sample(4000)
        both = certify(confidence, correct, [0.02, 0.05], method="band")
        for rule in both.rules:
            assert rule.n == certify(confidence, correct, rule.risks["wrong"], method="band").n
            assert rule.level == 0.01

    def test_groups_share_delta_and_have_their_own_thresholds(self) -> None:
        confidence, correct = sample(6000)
        by = np.where(np.arange(6000) % 3 == 0, "a", "b")
        found = certify(confidence, correct, 0.05, delta=0.02, by=by)
        assert [rule.group for rule in found.rules] == ["a", "b"]
        for rule in found.rules:
            mine = by == rule.group
            alone = certify(confidence[mine], correct[mine], 0.05, delta=0.01)
            assert (rule.n, rule.m, rule.threshold) == (alone.n, mine.sum(), alone.threshold)
        good = found.accepts(confidence, by)
        assert found.n == good.sum()
        assert found.coverage == good.mean()
        assert not found.accepts([1.0], ["c"]).any()  # an unknown group
        with pytest.raises(squad.ArgumentError, match=r"by.*group.*own threshold.*got None"):
            found.accepts(confidence)
        with pytest.raises(squad.ArgumentError, match=r"by .*single threshold"):
            certify(confidence, correct, 0.05).accepts(confidence, by)

    def test_groups_of_numbers(self) -> None:
        confidence, correct = sample(4000)
        found = certify(confidence, correct, 0.05, by=torch.arange(4000) % 2)
        assert [rule.group for rule in found.rules] == [0, 1]
        again = Certificate.from_json(found.to_json())
        assert (again.accepts(confidence, np.arange(4000) % 2) == found.accepts(confidence, np.arange(4000) % 2)).all()

    @pytest.mark.parametrize("method", METHODS)
    def test_harms_must_all_be_rare_at_one_threshold(self, method: str) -> None:
        confidence, correct = sample(5000)
        rng = np.random.default_rng(3)
        missed = ~correct & (rng.random(5000) < 0.5)
        found = made(method, confidence, correct, {"wrong": 0.08, "missed": 0.02}, harms={"missed": missed})
        alone = {
            "wrong": made(method, confidence, correct, 0.08),
            "missed": made(method, confidence, ~missed, 0.02),
        }
        assert found.certified
        fewest = min(one.n for one in alone.values())
        # A second harm does not divide delta, except for a band; binary searches may end earlier.
        assert found.n <= fewest if method in ("band", "sgr") else found.n == fewest
        good = found.accepts(confidence)
        assert found.rules[0].errors == {"wrong": (~correct[good]).sum(), "missed": missed[good].sum()}
        with pytest.raises(squad.ArgumentError, match=r"errors.*single harm.*wrong, missed"):
            _ = found.errors

    def test_a_harm_that_decreases_with_coverage_is_not_certified_where_it_was_not_shown(self) -> None:
        # The most confident third is full of the harm: before its start, the chain of "harm" has shown nothing.
        m = 6000
        confidence = np.linspace(1, 0, m)
        harm = np.zeros(m, dtype=bool)
        harm[:60] = True
        wrong = np.zeros(m, dtype=bool)
        wrong[2000:] = np.random.default_rng(0).random(4000) < 0.5
        found = certify(confidence, ~wrong, {"wrong": 0.02, "harm": 0.02}, harms={"harm": harm})
        both = found.rules[0]
        assert not found.certified or both.errors["harm"] < 0.02 * both.n
