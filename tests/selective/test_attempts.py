"""Repeated certification: shares of delta, and certificates that state which attempt they are."""

import copy
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import squad
from squad.selective import Certificate, certificate, certify
from squad.selective.attempts import (
    MAX_ATTEMPTS,
    attempt_record,
    attempts_in,
    counts_as_attempt,
    delta_share,
    merge_attempts,
    next_attempt,
)
from squad.selective.certificate import CertificateError
from squad.selective.certify import check_scores
from squad.selective.scored_cases import Scores


def scores(m: int = 2000, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    confidence = rng.random(m)
    return confidence, rng.random(m) > 0.2 * (1 - confidence) ** 2


class TestShares:
    @given(st.integers(1, 400))
    def test_shares_sum_to_at_most_one(self, many: int) -> None:
        """In exact arithmetic, to detect floating-point sums slightly above 1."""
        total = sum(Fraction(delta_share(number)) for number in range(1, many + 1))
        assert total <= 1
        assert total >= 1 - Fraction(2) ** (1 - many)

    def test_a_single_attempt_has_all_of_delta(self) -> None:
        assert delta_share(None) == 1
        assert all(delta_share(number) > delta_share(number + 1) > 0 for number in range(1, MAX_ATTEMPTS))

    @given(st.lists(st.floats(1e-6, 0.5), min_size=1, max_size=30))
    def test_all_shares_used_stay_below_the_last_delta(self, deltas: list[float]) -> None:
        earlier: list[dict[str, Any]] = []
        for delta in deltas:
            try:
                number = next_attempt(earlier, delta)
            except squad.ArgumentError:
                assert any(delta < one["delta"] for one in earlier)
                continue
            earlier.append({"attempt": number, "delta": delta})
            used = sum(Fraction(delta_share(one["attempt"])) * Fraction(one["delta"]) for one in earlier)
            assert used <= Fraction(delta)

    def test_the_number_of_attempts_is_limited(self) -> None:
        many = [{"attempt": number, "delta": 0.1} for number in range(1, MAX_ATTEMPTS + 1)]
        assert next_attempt(many[:-1], 0.1) == MAX_ATTEMPTS
        with pytest.raises(squad.ArgumentError, match=rf"\b{MAX_ATTEMPTS} attempts"):
            next_attempt(many, 0.1)

    def test_a_smaller_delta_than_before_is_refused(self) -> None:
        with pytest.raises(squad.ArgumentError, match=r"at least 0\.05.*got 0\.01"):
            next_attempt([{"attempt": 1, "delta": 0.05}], 0.01)


class TestCertificates:
    @pytest.mark.parametrize("attempt", [1, 2, 5])
    def test_tested_at_the_attempts_share(self, attempt: int) -> None:
        made = certify(*scores(), [0.05, 0.1], 0.05, attempt=attempt)
        assert made.attempt == attempt
        assert {rule.level for rule in made.rules} == {0.05 * delta_share(attempt) / 2}
        alone = certify(*scores(), [0.05, 0.1], 0.05 * delta_share(attempt))
        assert [rule.threshold for rule in made.rules] == [rule.threshold for rule in alone.rules]
        said = str(made)
        assert f"attempt {attempt} of this model" in said
        assert f"{100 * delta_share(attempt):.3g} % of delta" in said
        assert "attempt" not in str(alone)

    @pytest.mark.parametrize("attempt", [None, 1, 3])
    @pytest.mark.parametrize("method", ["fallback", "sgr", "bonferroni", "band"])
    def test_round_trip(self, attempt: int | None, method: str) -> None:
        made = certify(*scores(), 0.1, 0.05, method, attempt=attempt)
        again = Certificate.from_json(json.loads(json.dumps(made.to_json())))
        assert again == made
        check_scores(again, Scores.of(*scores()))

    @pytest.mark.parametrize(
        "change",
        [
            {"attempt": 1, "share": 0.9},
            {"attempt": 2, "share": 0.9},
            {"attempt": None, "share": 1.0},
            {"attempt": 0, "share": 0.9},
            {"attempt": True, "share": 0.9},
            {"attempt": MAX_ATTEMPTS + 1, "share": 0.9},
        ],
    )
    def test_a_later_attempt_cannot_pass_for_an_earlier_one(self, change: dict[str, Any]) -> None:
        data = copy.deepcopy(certify(*scores(), 0.1, 0.05, attempt=2).to_json())
        data.update(change)
        data["checksum"] = certificate._checksum(data)
        with pytest.raises(CertificateError, match=r"attempt|level"):
            Certificate.from_json(data)

    @pytest.mark.parametrize("attempt", [0, -1, 1.5, "2", True, MAX_ATTEMPTS + 1])
    def test_invalid_attempt_numbers_are_refused(self, attempt: Any) -> None:
        with pytest.raises(squad.ArgumentError, match=r"attempt.*got"):
            certify(*scores(), 0.1, attempt=attempt)

    def test_a_failure_advises_on_the_next_attempt(self) -> None:
        confidence, correct = np.linspace(0, 1, 300), np.arange(300) % 100 > 0
        made = certify(confidence, correct, 0.02, 0.01, attempt=1)
        assert made.needed == squad.certify(confidence, correct, 0.02, 0.01 * delta_share(2)).needed
        assert made.needed > squad.certify(confidence, correct, 0.02, 0.01 * delta_share(1)).needed  # type: ignore[operator]
        assert f"Attempt 2, at 5 % of delta, would need at least about {made.needed:,} new cases" in str(made)
        assert "new cases" in str(certify(confidence, correct, 0.02, 0.01))

    @pytest.mark.parametrize("method", ["fallback", "sgr", "bonferroni", "band"])
    def test_too_few_cases_for_any_labels(self, method: str) -> None:
        """No labels could give a certificate, so no share of delta is used, and the attempt does not count."""
        low, few = 1, 2000
        while few - low > 1:
            middle = (low + few) // 2
            certified = certify(np.ones(middle), np.ones(middle), 0.05, 0.1, method, attempt=1).certified
            low, few = (low, middle) if certified else (middle, few)
        last = certify(np.ones(few - 1), np.ones(few - 1), 0.05, 0.1, method, attempt=1)
        assert not counts_as_attempt(last)
        assert last.needed is not None
        assert last.needed >= few
        assert "does not count" in str(last)
        assert counts_as_attempt(certify(np.ones(few), np.zeros(few), 0.05, 0.1, method, attempt=1))


class TestRecord:
    def test_the_record_of_an_attempt(self) -> None:
        made = certify(*scores(), 0.1, 0.05, attempt=2)
        one = attempt_record(made)
        assert (one["attempt"], one["m"], one["certified"], one["delta"]) == (2, 2000, True, 0.05)
        assert one["spent"] == 0.05 * delta_share(2)
        assert len(one["sha256"]) == 64
        json.dumps(one)

    def test_a_record_without_attempts(self) -> None:
        assert attempts_in({}) == []

    @pytest.mark.parametrize(
        "attempts",
        ["x", [1], [{"attempt": 2, "delta": 0.1}], [{"attempt": 1, "delta": 2.0}], [{"attempt": 1, "delta": "x"}]],
    )
    def test_an_edited_record_is_refused(self, attempts: Any) -> None:
        with pytest.raises(squad.ArgumentError, match="'attempts' of the record"):
            attempts_in({"attempts": attempts})


class TestWhatCounts:
    """An attempt that could not have succeeded uses nothing; every other attempt does."""

    @pytest.mark.parametrize("method", ["fallback", "fixed_sequence", "sgr", "bonferroni", "grid", "preset", "pareto"])
    @pytest.mark.parametrize("costs", [False, True])
    def test_fewer_cases_than_any_that_succeed(self, method: str, costs: bool) -> None:
        """With the best possible cases: all correct and equally confident, and no cost but that of the first one."""
        given: dict[str, Any] = {}
        if method == "grid":
            given = {"thresholds": [-1.0]}
        if method in ("preset", "pareto"):
            given = {"pilot": (np.zeros(99), np.ones(99), {"cost": np.zeros(99)})}
        for m in range(20, 200):
            cost = np.zeros(m)
            cost[0] = 0.001 * costs
            made = certify(
                np.ones(m), np.ones(m), {"cost": 0.05}, 0.1, method, harms={"cost": cost}, attempt=1, **given
            )
            if made.certified:
                assert counts_as_attempt(made)
                break
            if not counts_as_attempt(made):
                best = certify(
                    np.ones(m), np.ones(m), {"cost": 0.05}, 0.1, method, harms={"cost": np.zeros(m)}, attempt=1, **given
                )
                assert not best.certified
        else:
            pytest.fail("nothing was certified")

    def test_a_band_of_many_cases(self) -> None:
        """The approximate levels of the next power of two would deny that it can succeed."""
        made = [certify(np.ones(m), np.ones(m), 0.0008, 0.1, "band", attempt=1) for m in (9_800, 10_000)]
        assert [one.certified for one in made] == [counts_as_attempt(one) for one in made]

    def test_a_class_with_too_few_cases(self) -> None:
        confidence, correct = scores(2000)
        few = np.where(np.arange(2000) < 20, ~correct, np.nan)
        made = certify(
            confidence, correct, {"wrong": 0.1, "miss rate x": 0.1}, 0.05, harms={"miss rate x": few}, attempt=1
        )
        assert not made.certified
        assert not counts_as_attempt(made)
        assert "'miss rate x' is counted on 20" in str(made)
        assert "does not count" in str(made)


class TestMerged:
    def test_copies_of_a_model_certified_separately(self) -> None:
        first, one, other = ({"attempt": number, "delta": 0.1, "m": m} for number, m in ((1, 5), (2, 6), (2, 7)))
        assert merge_attempts([first, one], [first, other]) == [first, one, {**other, "attempt": 3}]
        assert merge_attempts([first], [first, other]) == [first, other]
        assert merge_attempts([first, one], []) == [first, one]
        assert attempts_in({"attempts": merge_attempts([first, one], [first, other])})


def test_the_assumption_about_the_calibration_cases_word_by_word() -> None:
    """It is what an auditor judges, attempt by attempt."""
    unused = "no calibration case was used to train, select or recalibrate the model"
    ends = {
        None: ", or for another certificate",
        1: ", or for a certificate that is not recorded with the model",
        2: ", and labels reused from earlier attempts, if any, did not influence which cases or which risk came next",
    }
    for attempt, end in ends.items():
        assert unused + end in str(certify(*scores(), 0.1, 0.05, attempt=attempt))
