"""Costs between 0 and 1, and harms that are counted on some cases only."""

import json
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import squad
from squad import certify
from squad.selective import Certificate, CertificateError
from squad.selective.betting import BET_FRACTIONS, LOG_TARGET_WEALTH, bets_for, log_wealth, log_wealth_at_most
from squad.selective.methods import Start, walk
from squad.selective.scored_cases import Scores, rank
from squad.selective.shortage import Shortage, shortages
from squad.selective.tallies import Tally


@given(st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_size=1, max_size=12), st.sampled_from([0.01, 0.1, 0.4]))
def test_wealth_is_the_mean_of_products(losses: list[float], risk: float) -> None:
    exact = Fraction(0)
    bets = bets_for(len(losses), risk)
    for bet in bets:
        product = Fraction(1)
        for loss in losses:
            product *= 1 + Fraction(float(bet)) * (Fraction(risk) - Fraction(loss))
        exact += product / len(bets)
    assert log_wealth(np.array(losses), risk)[-1] == pytest.approx(math.log(exact), rel=1e-9, abs=1e-12)
    assert log_wealth(np.array(losses[::-1]), risk)[-1] == pytest.approx(math.log(exact), rel=1e-9, abs=1e-12)
    assert log_wealth_at_most(len(losses), float(np.mean(losses)), risk) >= math.log(exact) - 1e-9


@given(st.integers(1, 3000), st.sampled_from([0.005, 0.05, 0.4]), st.integers(0, 2**32))
def test_wealth_after_n_cases_has_the_bets_for_n(n: int, risk: float, seed: int) -> None:
    losses = np.random.default_rng(seed).random(3000) * 2 * risk
    products = [np.log1p(bet * (risk - losses[:n])).sum() for bet in bets_for(n, risk)]
    assert log_wealth(losses, risk)[n] == pytest.approx(np.logaddexp.reduce(products) - math.log(3), abs=1e-9)


@pytest.mark.parametrize("risk", [0.001, 0.05, 0.5, 0.9])
def test_bets_never_lose_everything_and_decrease_with_n(risk: float) -> None:
    before = np.full(3, np.inf)
    for n in (1, 10, 100, 10**3, 10**4, 10**6, 2**30):
        bets = bets_for(n, risk)
        assert (bets > 0).all()
        assert (bets * (1 - risk) < 1).all()
        assert (bets <= before).all()
        before = bets


def test_the_middle_bet_is_best_for_errors_that_just_pass() -> None:
    """Close to the solution s of the module's equation, up to half a step of the fractions."""
    for n, risk in ((2000, 0.05), (20_000, 0.01), (500, 0.2)):
        s = bets_for(n, risk)[0] * (1 - risk)
        solved = LOG_TARGET_WEALTH * (1 - risk) / (n * risk)
        low, high = ((1 - x) * math.log1p(-x) + x for x in (s * 2**-0.25 * 0.999, min(s * 2**0.25 * 1.001, 0.9999)))
        assert low <= solved <= high
    assert BET_FRACTIONS[0] < 1


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.sampled_from([0.05, 0.3]))
def test_its_expectation_is_at_most_one(values: list[float], risk: float) -> None:
    """Over all sequences of three draws from a distribution whose mean is the risk or more."""
    mean = sum(values) / 3
    lifted = [value + (1 - value) * max(0.0, (risk - mean) / (1 - mean)) if mean < 1 else value for value in values]
    expected = np.mean(
        [np.exp(log_wealth(np.array([a, b, c]), risk)[-1]) for a in lifted for b in lifted for c in lifted]
    )
    assert expected <= 1 + 1e-9


def expected(n: int, risk: float, cost: float, wealth: Callable[[np.ndarray], float]) -> float:
    """Expected wealth after n cases that cost nothing or ``cost``, with the risk as their mean: over all counts."""
    chance = risk / cost
    samples = (np.where(np.arange(n) < k, cost, 0.0) for k in range(n + 1))
    return float(np.dot(stats.binom.pmf(np.arange(n + 1), n, chance), [wealth(losses) for losses in samples]))


@pytest.mark.parametrize(("n", "risk", "cost"), [(60, 0.05, 1.0), (150, 0.1, 0.3), (300, 0.2, 0.999)])
def test_its_expectation_is_one_at_the_boundary_whatever_the_bets(n: int, risk: float, cost: float) -> None:
    assert expected(n, risk, cost, lambda losses: math.exp(log_wealth(losses, risk)[-1])) == pytest.approx(1, rel=1e-6)

    def fortunes(losses: np.ndarray, times: float = 1.0) -> np.ndarray:
        odds = 1 + times * bets_for(n, risk)[:, None] * (risk - losses)
        return np.asarray(np.prod(np.maximum(odds, 0), axis=1))

    # The same check detects faults: the best bet in hindsight, and bets that may lose more than everything.
    assert expected(n, risk, cost, lambda losses: fortunes(losses).max()) > 1.05 or len(set(bets_for(n, risk))) == 1
    if cost > 0.9:
        assert expected(n, risk, cost, lambda losses: fortunes(losses, 8.0).mean()) > 1.05


def cases(m: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    confidence = rng.random(m)
    wrong = rng.random(m) < 0.3 * (1 - confidence)
    return confidence, wrong, rng.random(m) < 0.2


@pytest.mark.parametrize("method", ["fallback", "fixed_sequence", "sgr", "bonferroni"])
def test_costs_are_certified_saved_and_checked(method: str) -> None:
    confidence, wrong, _ = cases(4000)
    cost = np.where(wrong, 0.4, 0.0)
    made = certify(confidence, ~wrong, {"cost": 0.03}, method=method, harms={"cost": cost})
    assert made.certified
    rule = made.rules[0]
    assert rule.costs == ("cost",)
    assert rule.errors["cost"] == pytest.approx(cost[made.accepts(confidence)].sum())
    again = Certificate.from_json(json.loads(json.dumps(made.to_json())))
    assert again == made
    # Costs below 1 are less than errors: more is accepted than if each counted as an error.
    assert made.n > certify(confidence, ~wrong, 0.03, method=method).n


def test_a_claim_that_costs_cannot_show_is_refused() -> None:
    confidence, wrong, _ = cases(4000)
    made = certify(confidence, ~wrong, {"cost": 0.03}, harms={"cost": np.where(wrong, 0.4, 0.0)})
    data = made.to_json()
    data["rules"][0]["risks"]["cost"] = 0.01
    from tests.selective.test_certificate import sealed

    with pytest.raises(CertificateError, match="mean cost"):
        Certificate.from_json(sealed(data))


@pytest.mark.parametrize("method", ["fallback", "fixed_sequence", "bonferroni"])
def test_a_harm_on_some_cases_is_tested_on_those(method: str) -> None:
    """The same rules as for these cases alone, except for thresholds in between and ranks of all cases."""
    confidence, wrong, rare = cases(6000)
    made = certify(confidence, ~wrong, {"miss": 0.08}, method=method, harms={"miss": np.where(rare, wrong, np.nan)})
    rule = made.rules[0]
    good = made.accepts(confidence)
    assert rule.counted == {"miss": ((rare & good).sum(), rare.sum())}
    assert rule.errors == {"miss": (rare & wrong & good).sum()}
    if method != "bonferroni":
        alone = certify(confidence[rare], ~wrong[rare], 0.08, method=method)
        assert rule.counted["miss"][0] == alone.n
        assert made.threshold <= confidence[rare & good].min()
    assert Certificate.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_a_harm_without_cases_is_not_certified() -> None:
    confidence, wrong, _ = cases(1000)
    made = certify(confidence, ~wrong, {"miss": 0.08}, harms={"miss": np.full(1000, np.nan)})
    assert not made.certified
    assert shortages(made.rules[0], made.method, made.options) == [Shortage("miss", 0, 56)]
    assert made.needed is not None
    assert made.needed > 1000  # the 1,000 cases were not enough
    assert Certificate.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_many_harms_without_cases_are_summarized() -> None:
    confidence, wrong, rare = cases(1000)
    harms = {f"miss rate {name}": np.where(rare & (np.arange(1000) < 30), wrong, np.nan) for name in range(8)}
    text = str(certify(confidence, ~wrong, dict.fromkeys(harms, 0.05), harms=harms))
    assert "'miss rate 2' is counted on" in text
    assert "'miss rate 3' is counted on" not in text
    assert "5 more harms" in text
    fine = certify(confidence, ~wrong, 0.2)
    assert shortages(fine.rules[0], fine.method, fine.options) == []


def test_a_band_refuses_costs_and_costs_above_1_are_refused() -> None:
    confidence, wrong, _ = cases(100)
    with pytest.raises(squad.ArgumentError, match=r"band.*harms"):
        certify(confidence, ~wrong, {"cost": 0.05}, method="band", harms={"cost": wrong * 0.5})
    with pytest.raises(squad.ArgumentError, match="between 0 and 1"):
        certify(confidence, ~wrong, {"cost": 0.05}, harms={"cost": wrong * 2.0})


def test_costs_of_0_and_1_are_errors() -> None:
    confidence, wrong, _ = cases(500)
    found = rank(Scores.of(confidence, ~wrong, {"same": wrong.astype(float)}))
    assert found.tallies["same"].losses is None
    assert (found.errors["same"] == found.errors["wrong"]).all()


@pytest.mark.parametrize("seed", range(6))
def test_every_rule_with_costs_is_tested(seed: int) -> None:
    """Bets depend on the number of cases, so a rule may fail without a new cost: the walk tests each one."""
    rng = np.random.default_rng(seed)
    confidence = rng.random(3000).round(3)
    cost = np.where(rng.random(3000) < 0.35 * (1 - confidence), 0.35, 0.0)
    tally = rank(Scores.of(confidence, cost == 0, {"cost": cost})).tallies["cost"]
    risk, level, begin = 0.05, 0.01, [Start(150, 0.8), Start(800, 0.1), Start(1500, 0.1)]
    shown, weight, waiting = [], 0.0, list(begin)
    for place, n in enumerate(tally.n):
        while waiting and waiting[0].n <= n:
            weight += waiting.pop(0).weight
        passed = weight > 0 and bool(tally.passes(place, risk, weight * level))
        weight = weight if passed else 0.0
        shown.append(passed)
    assert walk(tally, begin, risk, level).tolist() == shown
    assert any(shown)


def test_the_walk_sees_a_failure_without_a_loss() -> None:
    """Where bets shrink with the number of cases, the wealth may drop below the level without a new cost."""
    risk = 0.05
    losses = np.append(np.full(400, 0.03), np.zeros(4000))
    wealth = log_wealth(losses, risk)
    falls = 401 + int(np.argmin(np.diff(wealth[401:])))
    assert wealth[falls + 1] < wealth[falls]
    tally = Tally(len(losses), np.arange(1, len(losses) + 1), np.cumsum(losses), losses)
    level = float(np.exp(-(wealth[falls] + wealth[falls + 1]) / 2))
    shown = walk(tally, [Start(falls, 1.0)], risk, level)
    assert shown[falls - 1]
    assert not shown[falls]
