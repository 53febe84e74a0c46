"""Samples from another distribution than future cases: resampling by weights and by strata."""

import itertools
import json
import math
import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

import squad
from squad import certify
from squad.selective import Certificate, resampling
from squad.selective.resampling import RUNS_OUT, resample
from squad.selective.scored_cases import WRONG, Scores


def scores_of(rng: np.random.Generator, m: int) -> Scores:
    confidence = rng.random(m)
    return Scores(confidence, {WRONG: rng.random(m) < 0.3 * (1 - confidence)})


def test_without_weights_nothing_is_changed() -> None:
    scores = scores_of(np.random.default_rng(0), 50)
    found = resample(scores)
    assert found.scores is scores
    assert found.note({"a": 1}) == {"a": 1}


class TestWeights:
    def test_cases_are_kept_in_proportion(self) -> None:
        """Over many samples, a case of weight w is kept with probability w / max_weight, independently of others."""
        rng = np.random.default_rng(1)
        kept = np.zeros((4000, 4))
        for row in kept:
            scores = Scores(np.array([0.1, 0.2, 0.3, 0.4]) + rng.random(4) / 100, {WRONG: np.zeros(4, dtype=bool)})
            try:
                found = resample(scores, weights=[0.0, 1.0, 2.0, 4.0], max_weight=5.0).scores.confidence
            except squad.ArgumentError:  # no case was drawn
                continue
            row[:] = np.isin(scores.confidence, found)
        chances = np.array([0, 0.2, 0.4, 0.8])
        error = np.sqrt(chances * (1 - chances) / 4000)
        assert (np.abs(kept.mean(0) - chances) <= 4 * error).all()
        for one, other in itertools.combinations(range(1, 4), 2):
            both = chances[one] * chances[other]
            assert abs((kept[:, one] * kept[:, other]).mean() - both) < 4 * math.sqrt(both / 4000)

    def test_the_order_of_cases_and_the_scale_of_weights_do_not_matter(self) -> None:
        rng = np.random.default_rng(2)
        scores, weights = scores_of(rng, 500), rng.random(500) + 0.1
        found = resample(scores, weights=weights, max_weight=1.25).scores
        order = rng.permutation(500)
        other = resample(scores.only(order), weights=8 * weights[order], max_weight=10.0).scores
        assert sorted(found.confidence) == sorted(other.confidence)
        assert 150 < len(found) < 350

    def test_equal_weights_at_their_bound_keep_all(self) -> None:
        scores = scores_of(np.random.default_rng(3), 300)
        assert len(resample(scores, weights=np.full(300, 2.0)).scores) == 300

    def test_the_certificate_says_how_cases_were_drawn(self) -> None:
        rng = np.random.default_rng(4)
        scores, weights = scores_of(rng, 6000), rng.choice([1.0, 4.0], 6000)
        right = ~scores.harms[WRONG]
        made = certify(scores.confidence, right, 0.1, 0.05, weights=weights, max_weight=4.0)
        assert made.certified
        noted = made.details["resampling"]
        assert (noted["cases"], noted["drawn"]) == (6000, made.m)
        assert noted["effective"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), abs=0.1)
        assert f"{made.m:,} of 6,000 were drawn" in str(made)
        assert "true ratios" in str(made)
        assert "no weight can exceed 4" in str(made)
        assert len(re.findall("^ - ", str(made), re.M)) == 4
        assert "observed" not in str(made)
        assert "estimated" not in str(made)
        assert Certificate.from_json(json.loads(json.dumps(made.to_json()))) == made
        guessed = certify(scores.confidence, right, 0.1, 0.05, weights=weights, estimated_weights=True)
        assert guessed.rules == made.rules
        assert "no weight can exceed 4, the largest one observed" in str(guessed)
        assert "estimated" in str(guessed)

    @pytest.mark.parametrize(
        ("arguments", "match"),
        [
            ({"weights": [1, 2]}, r"weights.*shape \(2,\)"),
            ({"weights": ["a", "b", "c"]}, "weights"),
            ({"weights": [1, 2, -1]}, "-1 in case 3"),
            ({"weights": [1, np.nan, 1]}, "nan in case 2"),
            ({"weights": [1, np.inf, 1]}, "inf in case 2"),
            ({"weights": [0, 0, 0]}, "weights.*got only zeros"),
            ({"weights": [1, 3, 1], "max_weight": 2}, "max_weight.*at least 3.*case 2.*got 2"),
            ({"weights": [1, 3, 1], "max_weight": 0}, "max_weight"),
            ({"weights": [1e-300, 0, 0], "max_weight": 1.0}, "max_weight"),
            ({"max_weight": 2}, "`max_weight`.*need `weights`"),
            ({"estimated_weights": True}, "need `weights`"),
            ({"weights": [1, 1, 1], "strata": ["a", "a", "a"], "population": {"a": 1}}, "either `weights` or `strata`"),
            ({"strata": ["a", "a", "a"]}, "`strata` needs `population`"),
            ({"population": {"a": 1}}, "`population` needs `strata`"),
            ({"strata": ["a", "a"], "population": {"a": 1}}, "strata"),
            ({"strata": ["a", "a", "b"], "population": {"a": 1}}, "'b'"),
            ({"strata": ["a", "a", "b"], "population": {"a": 0.5, "b": 0.4}}, "population.*0.9"),
            ({"strata": ["a", "a", "b"], "population": {"a": 0.5, "b": 0.4, "c": 0.1}}, "'c'"),
            ({"strata": ["a", "a", "b"], "population": {"a": 1.5, "b": -0.5}}, "population"),
            ({"strata": ["a", "a", "b"], "population": 1}, "population"),
        ],
    )
    def test_invalid_arguments_are_refused(self, arguments: dict[str, object], match: str) -> None:
        with pytest.raises(squad.ArgumentError, match=match):
            certify([0.1, 0.2, 0.3], [1, 1, 1], 0.1, **arguments)  # type: ignore[arg-type]


class TestStrata:
    def test_the_sample_size_lets_strata_rarely_run_out(self) -> None:
        sizes, shares = np.array([300, 300, 50]), np.array([0.6, 0.35, 0.05])
        total = resampling._most_drawn(sizes, shares)

        def over(count: int) -> float:
            return float(sum(stats.binom.sf(size, count, share) for size, share in zip(sizes, shares, strict=True)))

        assert over(total) <= RUNS_OUT < over(total + 1)
        assert resampling._most_drawn(np.array([40, 7]), np.array([1.0, 0.0])) == 40
        assert resampling._most_drawn(np.array([5, 5]), np.array([0.5, 0.5])) >= 5

    def test_numbers_follow_the_multinomial_law(self) -> None:
        rng = np.random.default_rng(5)
        strata = np.repeat(["a", "b"], [60, 60])
        counts = []
        for _ in range(1500):
            confidence = np.where(strata == "a", 0.0, 1.0) + rng.random(120) / 2
            scores = Scores(confidence, {WRONG: np.zeros(120, dtype=bool)})
            try:
                found = resample(scores, strata=strata, population={"a": 0.3, "b": 0.7})
            except squad.ArgumentError:  # b ran out: once in 10,000 times
                continue
            total = len(found.scores)
            counts.append(int((found.scores.confidence < 0.6).sum()))
            assert len(np.unique(found.scores.confidence)) == total  # no case twice
        expected = stats.binom.pmf(np.arange(total + 1), total, 0.3) * 1500
        seen = np.bincount(counts, minlength=total + 1)
        big = expected >= 5
        assert stats.chisquare(seen[big], expected[big] * seen[big].sum() / expected[big].sum()).pvalue > 1e-4

    def test_every_case_of_a_stratum_is_equally_likely(self) -> None:
        rng = np.random.default_rng(6)
        seen = np.zeros(20)
        for _ in range(1500):
            confidence = np.arange(20) + rng.random(20) / 2
            scores = Scores(confidence, {WRONG: np.zeros(20, dtype=bool)})
            found = resample(scores, strata=np.arange(20) % 2, population={0: 0.5, 1: 0.5})
            seen += np.isin(np.arange(20), np.floor(found.scores.confidence).astype(int))
        share = seen.sum() / 20 / 1500
        assert np.abs(seen / 1500 - share).max() < 4.5 * math.sqrt(share * (1 - share) / 1500)

    def test_a_stratum_that_runs_out_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(resampling, "_most_drawn", lambda sizes, shares: 40)
        scores = scores_of(np.random.default_rng(7), 40)
        with pytest.raises(squad.ArgumentError, match="Add cases of"):
            resample(scores, strata=np.arange(40) % 2, population={0: 0.1, 1: 0.9})

    def test_the_certificate_says_how_cases_were_drawn(self) -> None:
        rng = np.random.default_rng(8)
        scores = scores_of(rng, 6000)
        strata = np.repeat(["ill", "well"], 3000)
        made = certify(
            scores.confidence, ~scores.harms[WRONG], 0.1, 0.05, strata=strata, population={"ill": 0.1, "well": 0.9}
        )
        assert made.certified
        ill, well = made.details["resampling"]["strata"]
        assert ill["drawn"] + well["drawn"] == made.m == made.details["resampling"]["drawn"]
        assert ill["stratum"] == "ill"
        assert 0.08 < ill["drawn"] / made.m < 0.12
        assert 3100 < made.m < 3000 / 0.9
        assert "ill: 10 %, well: 90 %" in str(made)
        assert len(re.findall("^ - ", str(made), re.M)) == 3
        assert Certificate.from_json(json.loads(json.dumps(made.to_json()))) == made

    def test_a_fraction_of_0_excludes_a_stratum(self) -> None:
        scores = scores_of(np.random.default_rng(9), 100)
        found = resample(scores, strata=np.arange(100) % 2, population={"0": 1.0, "1": 0.0}).scores
        assert sorted(found.confidence) == sorted(scores.confidence[::2])


def test_weighted_cases_have_the_law_of_the_population_by_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three cases of two kinds, all outcomes: given their number, kept cases are distributed like the population."""
    sample, target = {0: 0.75, 1: 0.25}, {0: 0.5, 1: 0.5}
    weight = {kind: target[kind] / sample[kind] for kind in sample}
    most = max(weight.values())
    law: dict[tuple[int, ...], float] = {}
    for kinds in itertools.product((0, 1), repeat=3):
        for kept in itertools.product((False, True), repeat=3):
            chance = 1.0
            for kind, keep in zip(kinds, kept, strict=True):
                odds = weight[kind] / most
                chance *= sample[kind] * (odds if keep else 1 - odds)
            left = tuple(kind for kind, keep in zip(kinds, kept, strict=True) if keep)
            law[left] = law.get(left, 0.0) + chance
            # The code keeps exactly these for the corresponding uniform numbers.
            luck = np.array([0.0 if keep else 1 - 1e-12 for keep in kept])
            if any(kept):
                weights = np.array([weight[kind] for kind in kinds])
                monkeypatch.setattr(resampling, "_uniform", lambda key, count, luck=luck: luck)
                scores = Scores(np.array([0.1, 0.2, 0.3]), {WRONG: np.array(kinds, dtype=bool)})
                found = resample(scores, weights=weights, max_weight=most).scores
                sure = [keep or w == most for keep, w in zip(kept, weights, strict=True)]
                assert found.confidence.tolist() == scores.confidence[sure].tolist()
    for count in (1, 2, 3):
        whole = sum(chance for left, chance in law.items() if len(left) == count)
        for left, chance in law.items():
            if len(left) == count:
                assert chance / whole == pytest.approx(math.prod(target[kind] for kind in left))


def test_cases_drawn_by_strata_have_the_law_of_the_population_by_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cases of each of two strata, all orders and all draws: the two drawn cases are independent."""
    shares = {"a": 0.25, "b": 0.75}
    scores = Scores(np.array([0.1, 0.2, 0.3, 0.4]), {WRONG: np.zeros(4, dtype=bool)})
    law: dict[tuple[float, ...], float] = {}
    for places in itertools.permutations(range(4)):
        for draws in itertools.product("ab", repeat=2):
            luck = np.array([*(place / 4 for place in places), *({"a": 0.1, "b": 0.9}[one] for one in draws)])
            monkeypatch.setattr(resampling, "_uniform", lambda key, count, luck=luck: luck[:count])
            found = resample(scores, strata=list("aabb"), population=shares).scores.confidence
            assert len(found) == 2
            law[tuple(found)] = law.get(tuple(found), 0.0) + math.prod(shares[one] for one in draws) / 24
    assert law.pop((0.1, 0.2)) == pytest.approx(0.25**2)
    assert law.pop((0.3, 0.4)) == pytest.approx(0.75**2)
    assert list(law.values()) == pytest.approx([2 * 0.25 * 0.75 / 4] * 4)


@pytest.mark.parametrize("how", ["weights", "strata"])
def test_the_order_of_equal_cases_does_not_matter(how: str) -> None:
    """Cases tied in confidence that differ in group or another harm are drawn regardless of their order."""
    rng = np.random.default_rng(0)
    m = 1500
    confidence, correct = rng.integers(5, size=m) / 5, rng.random(m) < 0.9
    by, late = rng.choice(["a", "b", "c"], m), rng.random(m) < 0.1
    kind = rng.integers(2, size=m)

    def made(rows: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> list[object]:
        given: dict[str, Any] = (
            {"weights": 1.0 + kind[rows], "max_weight": 2.0}
            if how == "weights"
            else {"strata": kind[rows], "population": {0: 0.3, 1: 0.7}}
        )
        found = certify(
            confidence[rows], correct[rows], {"wrong": 0.3, "late": 0.3}, 0.1, harms={"late": late[rows]}, by=by[rows],
            **given,
        )  # fmt: skip
        return list(found.rules)

    expected = made(np.arange(m))
    for seed in range(3):
        assert made(np.random.default_rng(seed).permutation(m)) == expected
