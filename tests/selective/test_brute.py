"""Every method compared with its literal second implementation in `brute.py`, on small random samples with ties."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from squad.errors import ArgumentError
from squad.selective import Certificate, band_of, bounds, certify
from squad.selective.methods import FALLBACK, FIXED, starts
from tests.selective import brute

METHODS = [*brute.BY_RANK, *brute.NAMED]

_rng = np.random.default_rng(20240817)
#: A fixed pool, so that one table of exact tails serves many samples; no tail equals a level up to rounding.
RISKS = [0.05, 0.1, 0.2, 0.3, 0.45, *(float(r) for r in _rng.uniform(0.05, 0.5, 35))]
DELTAS = [0.01, 0.05, 0.1, 0.25, 0.5]


@dataclass(frozen=True)
class Case:
    confidence: list[float]
    losses: dict[str, list[int]]
    risks: list[dict[str, float]]
    delta: float
    by: list[str] | None
    options: brute.Options

    def answers(self, method: str) -> dict[tuple[int, object], brute.Answer]:
        return brute.certify(self.confidence, self.losses, self.risks, self.delta, method, self.by, self.options)

    def certificate(self, method: str, risk: Any = None) -> Certificate:
        extra: dict[str, Any] = {"thresholds": self.options.thresholds} if method == "grid" else {}
        if method == "bonferroni":
            extra["ranks"] = self.options.ranks
        if method == "band":
            extra["r_max"] = self.options.r_max
        if method in ("preset", "pareto"):
            pilot = {name: np.array(loss) for name, loss in self.options.pilot_losses.items()}
            extra["pilot"] = (np.array(self.options.pilot), pilot.pop("wrong") == 0, pilot)
        others = {name: loss for name, loss in self.losses.items() if name != "wrong"}
        return certify(
            np.array(self.confidence),
            np.array([not wrong for wrong in self.losses["wrong"]], dtype=bool),
            self.risks if risk is None else risk,
            self.delta,
            method,
            harms=others or None,
            by=self.by,
            **extra,
        )


def draw(
    rng: np.random.Generator,
    targets: int = 1,
    groups: int = 1,
    harms: int = 1,
    sizes: tuple[int, int] = (0, 60),
    pool: Sequence[float] = RISKS,
) -> Case:
    """Draw a small sample, from all tied to all distinct, from no errors to only errors."""
    low, high = max(sizes[0], groups if groups > 1 else 0), sizes[1]
    m = int(rng.choice([rng.integers(low, high + 1), rng.integers((low + 2 * high) // 3, high + 1)]))
    levels = int(rng.choice([1, 2, 5, 10, 20, 60, 1000]))
    q = rng.integers(0, levels, m) / levels
    rate, slope = rng.choice([0, 0.02, 0.1, 0.3, 1.0], p=[0.2, 0.2, 0.25, 0.3, 0.05]), rng.choice([0, 3, 8])
    # Sometimes the most confident cases are the worst, so that chains fail and new ones begin.
    depth = q if rng.random() < 0.8 else 1 - q
    losses = {f"harm {i}": (rng.random(m) < rate * (slope + 1) * depth**slope).astype(int) for i in range(harms - 1)}
    losses["wrong"] = (rng.random(m) < rate * (slope + 1) * depth**slope).astype(int)
    risks = [{name: float(rng.choice(pool)) for name in losses} for _ in range(targets)]
    delta = float(rng.choice(DELTAS)) if rng.random() < 0.5 else float(rng.uniform(0.01, 0.5))
    by = None
    if groups > 1:  # each group occurs at least once
        by = rng.permutation([*range(groups), *rng.integers(0, groups, m - groups)]).astype(str).tolist()
    # Thresholds at scores and between them; few are very strict, because one that accepts too few cases ends the grid.
    thresholds = 1 - rng.integers(levels // 4, 2 * levels + 1, int(rng.integers(1, 6))) / levels
    # The pilot is like the sample, or has its errors elsewhere; with a generator of its own.
    own = np.random.default_rng([m, levels, int(1000 * delta)])
    pilot = own.integers(0, levels, int(own.integers(5, 150))) / levels
    turned = pilot if own.random() < 0.7 else 1 - pilot
    pilot_losses = {name: (own.random(len(pilot)) < rate * (slope + 1) * turned**slope).astype(int) for name in losses}
    largest = max(max(target.values()) for target in risks)
    options = brute.Options(
        thresholds=tuple(sorted(set(thresholds.tolist()))),
        ranks=int(rng.choice([1, 3, 20])),
        r_max=max(largest, float(rng.choice([0.1, 0.5]))),
        pilot=tuple((1 - pilot).tolist()),
        pilot_losses={name: loss.tolist() for name, loss in pilot_losses.items()},
    )
    return Case((1 - q).tolist(), {name: loss.tolist() for name, loss in losses.items()}, risks, delta, by, options)


def check(case: Case, method: str, certificate: Certificate) -> list[brute.Answer]:
    """Compare every rule with the literal answer, in any order."""
    answers = case.answers(method)
    assert len(certificate.rules) == len(answers)
    confidence = np.array(case.confidence)
    for (index, group), expected in answers.items():
        target = case.risks[index]
        rule = next(r for r in certificate.rules if dict(r.risks) == target and r.group == group)
        mine = np.ones(len(confidence), bool) if case.by is None else np.array(case.by) == group
        assert rule.n == expected.n
        assert rule.certified == (expected.n > 0)
        assert rule.threshold == expected.threshold
        assert (confidence[mine] > rule.threshold).sum() == expected.n
        assert dict(rule.errors) == expected.errors
        assert rule.level == pytest.approx(expected.level, rel=1e-12)
        assert rule.m == mine.sum()
        assert rule.coverage == (expected.n / rule.m if rule.m else 0)
        if not rule.certified and expected.hopeless is not None:
            assert rule.hopeless == expected.hopeless
    return list(answers.values())


def sizes(method: str) -> tuple[int, int]:
    """The band certifies nothing with fewer than about a hundred cases."""
    return (0, 120) if method == "band" else (0, 60)


@pytest.mark.parametrize("inputs", [300])  # more in tests/slow
@pytest.mark.parametrize("method", METHODS)
def test_one_rule_is_that_of_the_literal_method(method: str, inputs: int) -> None:
    rng = np.random.default_rng(1)
    some = everything = 0
    inputs = inputs // 20 if method == "band" else inputs  # its literal levels are slow
    for _ in range(inputs):
        case = draw(rng, sizes=sizes(method))
        certificate = case.certificate(method, case.risks[0]["wrong"])
        (answer,) = check(case, method, certificate)
        accepted = certificate.accepts(np.array(case.confidence))
        assert accepted.tolist() == [c > answer.threshold for c in case.confidence]
        assert accepted.sum() == answer.n
        some += 0 < answer.n < len(case.confidence)
        everything += answer.n > 0
    # Each kind of answer occurs often enough.
    assert some >= inputs / 20
    assert everything - some >= inputs / 20
    assert inputs - everything >= inputs / 10


@pytest.mark.parametrize("method", ["fallback", "fixed_sequence", "sgr"])
def test_larger_samples(method: str) -> None:
    """Starts that are apart, and chains that survive some errors."""
    rng = np.random.default_rng(4)
    some = 0
    for _ in range(80):
        case = draw(rng, sizes=(100, 250), pool=[0.05, 0.1, 0.2])
        (answer,) = check(case, method, case.certificate(method))
        some += 0 < answer.n < len(case.confidence)
    assert some >= 10


@pytest.mark.parametrize("inputs", [36])  # more in tests/slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("targets", "groups", "harms"),
    [(3, 1, 1), (1, 3, 1), (1, 1, 2), (2, 2, 3)],
    ids=["targets", "groups", "harms", "all"],
)
def test_several_rules_are_those_of_the_literal_method(
    method: str, targets: int, groups: int, harms: int, inputs: int
) -> None:
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(inputs // 12 if method == "band" else inputs):  # its literal levels are slow
        case = draw(rng, targets, groups, harms, sizes(method))
        if len({tuple(target.items()) for target in case.risks}) < targets:
            continue  # the same target twice
        found += any(answer.n for answer in check(case, method, case.certificate(method)))
    assert found >= (1 if method == "band" else 5)


def test_accepts_uses_the_rule_of_each_group() -> None:
    rng = np.random.default_rng(3)
    for _ in range(100):
        case = draw(rng, groups=3)
        certificate = case.certificate("fallback", case.risks[0])
        answers = case.answers("fallback")
        assert case.by is not None
        expected = [c > answers[0, group].threshold for c, group in zip(case.confidence, case.by, strict=True)]
        assert certificate.accepts(np.array(case.confidence), by=case.by).tolist() == expected


@pytest.mark.parametrize(("plan", "literal"), [(FALLBACK, brute.STARTS), (FIXED, [(1, 4, 1.0)])])
def test_starts_are_those_of_the_literal_method(
    plan: tuple[tuple[float, float], ...], literal: Sequence[tuple[int, int, float]]
) -> None:
    """All ways of passing on weights occur: the number of starts is counted."""
    rng = np.random.default_rng(5)
    counts = set()
    for _ in range(300):
        m, risk = int(rng.integers(0, 121)), float(rng.choice(RISKS))
        # Half of the levels are where the first start is about to become feasible.
        near = (1 - risk) ** m / float(rng.uniform(0.8, 1.0)) * 1.0001
        level = near if rng.random() < 0.5 and 0 < near < 0.5 else float(10 ** rng.uniform(-3, -0.3))
        found = starts(m, risk, level, plan)
        expected = brute.starts_of(m, risk, level, literal)
        assert [start.n for start in found] == [n for n, _ in expected]
        assert [start.weight for start in found] == pytest.approx([weight for _, weight in expected])
        counts.add(len(expected))
    assert counts == set(range(len(plan) + 1))


def test_the_band_is_the_literal_one_at_every_rank() -> None:
    """Also where the bound is 1 because there are too many errors."""
    rng = np.random.default_rng(6)
    silent = 0
    for _ in range(12):
        case = draw(rng, sizes=(1, 120))
        wrong = case.losses["wrong"]
        r_max = float(rng.choice([0.02, 0.1, 0.3]))
        sample = brute.Ranked.of(case.confidence, wrong)
        band = band_of(case.confidence, [not one for one in wrong], case.delta, r_max)
        assert band.n.tolist() == sample.ends
        assert band.errors.tolist() == sample.errors
        assert band.threshold.tolist() == sample.thresholds
        expected = np.minimum(brute.band_bounds(sample, case.delta, r_max), 1.0)
        np.testing.assert_allclose(band.bound, expected, rtol=1e-9)
        silent += bool((expected[-1] == 1) and wrong.count(1) < len(wrong))
    assert silent


def test_minus_infinity_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"confidence.*-infinity in case 1 "):
        certify([-math.inf] * 5 + [0.5] * 95, [True] * 100, 0.2, 0.1)


def test_an_error_rate_equal_to_the_target_is_hopeless() -> None:
    """7 of 200 is .035, although .035 * 200 is above 7 in floating point."""
    certificate = certify([0.5] * 200, [False] * 7 + [True] * 193, 0.035)
    (rule,) = certificate.rules
    assert not rule.certified
    assert rule.hopeless
    assert rule.needed is None


@pytest.mark.parametrize("risk", RISKS[:4])
def test_bounds_are_those_of_exact_arithmetic(risk: float) -> None:
    for level in (0.5, 0.25, 0.1, 0.013, 0.001, 1 / 3000):
        least = brute.fewest(risk, level, 100)
        assert bounds.min_cases_without_errors(risk, level) == least or (
            least is None and bounds.min_cases_without_errors(risk, level) > 100
        )
        for n in range(1, 65):
            most = brute.most_errors(n, risk, level)
            assert bounds.most_errors(n, risk, level) == most
            if most >= 0:
                assert bounds.passes(most, n, risk, level)
            if most < n:
                assert not bounds.passes(most + 1, n, risk, level)


def test_the_table_of_tails_is_right() -> None:
    """The second implementation is checked as well: by hand, and by a sum in floating point."""
    assert [brute.tails(0.5)(k, 2) for k in range(3)] == [0.25, 0.75, 1.0]
    assert brute.fewest(0.5, 0.25, 5) == 2
    assert brute.fewest(0.5, 0.01, 5) is None
    assert brute.most_errors(2, 0.5, 0.75) == 1
    for n, k in ((5, 0), (40, 3), (64, 63)):
        terms = [math.comb(n, i) * 0.1**i * 0.9 ** (n - i) for i in range(k + 1)]
        assert brute.tails(0.1)(k, n) == pytest.approx(math.fsum(terms), rel=1e-13)


def test_a_walk_by_hand() -> None:
    """Sixteen cases, r = 1/2, delta = 1/4: n_zero = 2, and k = 0 still at 16/4 = 4, so the walk starts at 2."""
    confidence = [float(x) for x in range(16, 0, -1)]
    wrong = [0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1]
    losses: Mapping[str, Sequence[int]] = {"wrong": wrong}
    found = brute.certify(confidence, losses, [{"wrong": 0.5}], 0.25, "fixed_sequence")[0, None]
    # P(Bin(3, 1/2) <= 1) = 1/2 > 1/4: it stops at the third point, although the fifth would pass.
    assert (found.n, found.threshold) == (2, 14.0)
    case = Case(confidence, {"wrong": wrong}, [{"wrong": 0.5}], 0.25, None, brute.Options())
    assert case.certificate("fixed_sequence").n == 2
