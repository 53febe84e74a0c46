"""A certificate must follow from its own counts and, where they are stored, from its scores."""

import copy
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from squad.selective import Certificate, CertificateError, bounds, certify
from squad.selective.bands import DIVIDED
from squad.selective.certificate import _checksum
from squad.selective.certify import certify_scores, check_scores
from squad.selective.methods import METHODS
from squad.selective.pilots import PILOTED
from squad.selective.scored_cases import Scores


def sealed(data: dict[str, Any]) -> dict[str, Any]:
    """Recompute the checksum, as an attacker would."""
    return {**data, "checksum": _checksum(data)}


def pilot(worst: float) -> tuple[Any, Any, dict[str, Any]]:
    """Cases to choose thresholds on, like those of :func:`made`."""
    rng = np.random.default_rng(99)
    confidence = rng.random(4000)
    correct = rng.random(4000) >= worst * (1 - confidence) ** 2
    return confidence, correct, {"harm": ~correct & (rng.random(4000) < 0.5)}


def made(
    method: str,
    m: int = 2000,
    seed: int = 0,
    digits: int | None = None,
    groups: int = 1,
    risk: Any = 0.05,
    delta: float = 0.1,
    worst: float = 0.25,
) -> tuple[Certificate, Scores]:
    """A certificate and the scores it was made from; errors are among the least confident."""
    rng = np.random.default_rng(seed)
    confidence = rng.random(m) if digits is None else rng.random(m).round(digits)
    correct = rng.random(m) >= worst * (1 - confidence) ** 2
    harm = ~correct & (rng.random(m) < 0.5)
    by = np.array([f"site {place}" for place in rng.integers(groups, size=m)]) if groups > 1 else None
    more: dict[str, Any] = {"thresholds": [0.9, 0.7, 0.5, 0.3, -math.inf]} if method == "grid" else {}
    if method in PILOTED:
        more = {"pilot": pilot(worst)}
    found = certify(confidence, correct, risk, delta, method, harms={"harm": harm}, by=by, **more)
    return found, Scores.of(confidence, correct, {"harm": harm}, by)


RISKS = (0.05, [0.03, 0.08], [0.1, {"wrong": 0.08, "harm": 0.04}], {"wrong": 0.1, "harm": 0.05})
ANY = st.builds(
    made,
    st.sampled_from(list(METHODS)),
    st.integers(50, 3000),
    st.integers(0, 10**6),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([1, 1, 3]),
    st.sampled_from(RISKS),
    st.sampled_from([0.1, 0.01]),
    st.sampled_from([0.0, 0.1, 0.4]),
)


@settings(max_examples=40)
@given(ANY)
def test_valid_certificates_are_read(pair: tuple[Certificate, Scores]) -> None:
    certificate, scores = pair
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    check_scores(again, scores)


FIELDS = ("risk", "threshold", "accepts", "n", "m", "coverage", "errors", "level", "group", "needed", "hopeless")


def mutate(rule: dict[str, Any], field: str, step: int, factor: float) -> None:
    """Another value of one field; the coverage follows n and m, or the change would be too easy to detect."""
    harm = next(iter(rule["risks"]))
    if field == "risk":
        rule["risks"][harm] *= factor
    elif field == "threshold":
        assume(rule["accepts"] == "above")
        rule["threshold"] += step / 100
    elif field == "accepts":
        words = ["above", "all", "none"]
        rule["accepts"] = words[(words.index(rule["accepts"]) + 1 + step % 2) % 3]
        rule["threshold"] = 0.5 if rule["accepts"] == "above" else None
    elif field in ("n", "m"):
        rule[field] = max(rule[field] + step, 1)
        rule["coverage"] = rule["n"] / rule["m"]
    elif field == "coverage":
        rule["coverage"] *= factor
    elif field == "errors":
        rule["errors"][harm] = max(rule["errors"][harm] + step, 0)
    elif field == "level":
        rule["level"] = min(rule["level"] * factor, 0.99)
    elif field == "group":
        rule["group"] = "another"
    elif field == "needed":
        rule["needed"] = 10**6 + step
    else:
        rule["hopeless"] = not rule["hopeless"]


def follows(read: Certificate, scores: Scores) -> bool:
    """Whether certifying with its targets gives its thresholds."""
    if read.method in PILOTED:  # the certificate does not store the pilot
        try:
            check_scores(read, scores)
        except CertificateError:
            return False
        return True
    more = {name: value for name, value in read.options.items() if name != "levels"}
    if read.method == "grid":
        more["thresholds"] = [-math.inf if value is None else value for value in more["thresholds"]]
    harms = {"harm": scores.harms["harm"]}
    honest = certify(
        scores.confidence,
        ~scores.harms["wrong"],
        [dict(target) for target in read.targets],
        read.delta,
        read.method,
        harms=harms,
        by=scores.by,
        **more,
    )
    return [rule.threshold for rule in honest.rules] == [rule.threshold for rule in read.rules]


@given(
    ANY,
    st.sampled_from(FIELDS),
    st.integers(0, 20),
    st.sampled_from([-300, -7, -1, 1, 2, 50, 1000]),
    st.sampled_from([0.2, 0.8, 1 + 1e-6, 1.5]),
)
def test_one_changed_field_is_refused_or_still_follows(
    pair: tuple[Certificate, Scores], field: str, place: int, step: int, factor: float
) -> None:
    certificate, scores = pair
    data = copy.deepcopy(certificate.to_json())
    rule = data["rules"][place % len(data["rules"])]
    before = copy.deepcopy(rule)
    mutate(rule, field, step, factor)
    assume(rule != before)
    data["certified"] = any(one["accepts"] != "none" for one in data["rules"])
    try:
        read = Certificate.from_json(sealed(data))
    except CertificateError:
        return
    # What follows from the numbers alone holds for accepted changes, by another formula.
    assert field not in ("coverage", "level", "m")
    for one in read.rules:
        assert 0 <= one.n <= one.m
        for name, risk in one.risks.items():
            assert one.errors[name] <= one.n
            if one.certified:
                assert binom.cdf(one.errors[name], one.n, risk) <= one.level * (1 + 1e-8)
    assert sum(rule.level for rule in read.rules) <= read.delta * (1 + 1e-9) or read.method == "band"
    # The scores detect everything except estimates; another risk may give the same threshold.
    if field == "risk" and follows(read, scores):
        check_scores(read, scores)
    elif field not in ("needed", "hopeless"):
        with pytest.raises(CertificateError, match="contradicts its calibration scores"):
            check_scores(read, scores)


def change(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data["rules"][0].__setitem__(name, value)


def less_risk(data: dict[str, Any]) -> None:
    data["rules"][0]["risks"]["wrong"] = 0.01


def more_accepted(data: dict[str, Any]) -> None:
    rule = data["rules"][0]
    rule["n"], rule["accepts"], rule["threshold"], rule["coverage"] = rule["m"], "all", None, 1.0
    rule["errors"]["wrong"] = rule["m"] // 4


def fewer_than_it_takes(data: dict[str, Any]) -> None:
    rule = data["rules"][0]
    rule["n"], rule["coverage"], rule["errors"]["wrong"] = 20, 20 / rule["m"], 0


def delta_too_small(data: dict[str, Any]) -> None:
    data["delta"] = 1e-6


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "planted",
    [less_risk, more_accepted, fewer_than_it_takes, delta_too_small, change("level", 0.2), change("coverage", 1.0)],
)
def test_a_claim_that_the_counts_do_not_support_is_refused(
    method: str, planted: Callable[[dict[str, Any]], None]
) -> None:
    data = made(method)[0].to_json()
    assert data["rules"][0]["accepts"] == "above"
    planted(data)
    with pytest.raises(CertificateError):
        Certificate.from_json(sealed(data))


def test_the_rule_and_its_numbers_are_named() -> None:
    certificate = made("fallback", groups=2, risk=[0.05, 0.1])[0]
    data = certificate.to_json()
    rule = data["rules"][3]
    rule["errors"]["wrong"] = rule["n"] // 3
    with pytest.raises(CertificateError) as caught:
        Certificate.from_json(sealed(data))
    for part in ("wrong 10 %", "site 1", f"{rule['n']:,}", f"{rule['m']:,}", f"{rule['errors']['wrong']:,}"):
        assert part in str(caught.value)


def swapped(certificate: Certificate) -> dict[str, Any]:
    """Swap the thresholds of the rules of two targets."""
    data = certificate.to_json()
    one, other = data["rules"]
    one["threshold"], other["threshold"] = other["threshold"], one["threshold"]
    return sealed(data)


@pytest.mark.parametrize("method", METHODS)
def test_targets_must_agree_on_the_counts_above_a_threshold(method: str) -> None:
    certificate = made(method, m=20_000, risk=[0.02, 0.04], worst=0.4)[0]
    assert all(rule.certified and math.isfinite(rule.threshold) for rule in certificate.rules)
    assert certificate.rules[0].threshold > certificate.rules[1].threshold
    with pytest.raises(CertificateError, match="contradict each other"):
        Certificate.from_json(swapped(certificate))


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("fallback", {"ranks": 20}),
        ("bonferroni", {}),
        ("bonferroni", {"ranks": 0}),
        ("bonferroni", {"ranks": True}),
        ("bonferroni", {"ranks": 7}),  # the rule's rank is not among these, and levels differ
        ("band", {"r_max": 0.01}),
        ("band", {"r_max": "high"}),
        ("grid", {"thresholds": [0.9, 0.8]}),
        ("grid", {"thresholds": []}),
        ("grid", {"thresholds": [0.3, 0.9]}),
        ("grid", {"thresholds": ["0.9"]}),
        ("band", {"r_max": 0.1, "levels": "other"}),
        ("pareto", {"thresholds": [0.9, 0.8], "orders": [[0, 1]]}),  # the rule's threshold is not among these
        ("preset", {"thresholds": [0.9, 0.8], "shares": [0.1, 0.2], "counted": {}}),
    ],
)
def test_options_of_another_method_are_refused(method: str, options: dict[str, Any]) -> None:
    data = made(method)[0].to_json()
    with pytest.raises(CertificateError):
        Certificate.from_json(sealed({**data, "options": options}))


@pytest.mark.parametrize(
    ("method", "name", "change"),
    [
        ("pareto", "orders", lambda orders: []),
        ("pareto", "orders", lambda orders: [orders[0][:1]]),  # without the threshold of the rule
        ("pareto", "orders", lambda orders: [[*orders[0], orders[0][0]]]),
        ("pareto", "orders", lambda orders: [[*orders[0], 10**6]]),
        ("pareto", "orders", lambda orders: [[True]]),
        ("preset", "shares", lambda shares: shares[:-1]),
        ("preset", "shares", lambda shares: shares[::-1]),
        ("preset", "shares", lambda shares: [share / 10**4 for share in shares]),  # no start is this early
        ("preset", "shares", lambda shares: ["all"] * len(shares)),
    ],
)
def test_choices_of_the_pilot_must_be_consistent(method: str, name: str, change: Callable[[Any], Any]) -> None:
    data = made(method)[0].to_json()
    options = {**data["options"], name: change(data["options"][name])}
    with pytest.raises(CertificateError):
        Certificate.from_json(sealed({**data, "options": options}))


def test_a_band_of_earlier_versions_is_read() -> None:
    """Its levels were divided, without an option that says so; computed levels would certify more."""
    _, scores = made("band")
    options = {"r_max": 0.1, "levels": DIVIDED}
    old = certify_scores(scores, [{"wrong": 0.05}], 0.1, "band", options, "group")
    data = old.to_json()
    assert data["options"] == {"r_max": 0.1}
    again = Certificate.from_json(data)
    check_scores(again, scores)
    new = made("band")[0]
    assert new.options == {"r_max": 0.1, "levels": "berk-jones"}
    assert new.n > old.n > 0
    with pytest.raises(CertificateError, match="bound the risk by"):  # certified by the new levels only
        Certificate.from_json(sealed({**new.to_json(), "options": {"r_max": 0.1}}))


@pytest.mark.parametrize(
    "more",
    [
        {"ties": 1},
        {"ties": 2001},
        {"m": 1999},
        {"m": 10**40},
        {"by": "site"},
        {"certified": 1},
        {"rules": 2},
    ],
)
def test_inconsistent_parts_are_refused(more: dict[str, Any]) -> None:
    data = made("fallback")[0].to_json()
    if more == {"rules": 2}:
        more = {"rules": data["rules"] * 2}
    with pytest.raises(CertificateError):
        Certificate.from_json(sealed({**data, **more}))


def test_a_group_missing_from_one_target_is_refused() -> None:
    data = made("fallback", groups=2, risk=[0.05, 0.1])[0].to_json()
    del data["rules"][3]
    with pytest.raises(CertificateError, match="other groups"):
        Certificate.from_json(sealed(data))


def test_ranks_that_a_method_does_not_test_are_refused() -> None:
    for method in ("bonferroni", "sgr"):
        certificate = made(method)[0]
        refused = 0
        for less in range(1, 60):
            data = certificate.to_json()
            rule = data["rules"][0]
            rule["n"] -= less
            rule["coverage"] = rule["n"] / rule["m"]
            try:
                Certificate.from_json(sealed(data))
            except CertificateError:
                refused += 1
        assert refused >= (59 if method == "bonferroni" else 1)


def test_a_p_value_that_equals_its_level(monkeypatch: pytest.MonkeyPatch) -> None:
    # P(Bin(3, 1/2) <= 0) = 1/8, to the bit: another version of SciPy may find slightly more.
    certificate = certify([3.0, 2.0, 1.0], [1, 1, 1], 0.5, 0.125, method="fixed_sequence")
    scores = Scores.of([3.0, 2.0, 1.0], [1, 1, 1])
    assert certificate.certified
    exact = bounds.bdtr  # type: ignore[attr-defined]
    monkeypatch.setattr(bounds, "bdtr", lambda *given: exact(*given) * (1 + 1e-15))
    from squad.selective.methods import starts

    starts.cache_clear()
    assert not certify([3.0, 2.0, 1.0], [1, 1, 1], 0.5, 0.125, method="fixed_sequence").certified
    check_scores(Certificate.from_json(certificate.to_json()), scores)
    starts.cache_clear()


@pytest.mark.parametrize("method", METHODS)
def test_scores_of_other_cases_are_refused(method: str) -> None:
    certificate, scores = made(method)
    with pytest.raises(CertificateError, match="contradicts its calibration scores"):
        check_scores(certificate, scores.only(np.arange(1990)))
    other = Scores(scores.confidence, {**scores.harms, "wrong": ~scores.harms["wrong"]})
    with pytest.raises(CertificateError, match="2,000 scores give"):
        check_scores(certificate, other)


def test_scores_without_a_certified_harm_are_refused() -> None:
    certificate, scores = made("fallback", risk={"wrong": 0.1, "harm": 0.05})
    with pytest.raises(CertificateError, match="'harm'"):
        check_scores(certificate, Scores(scores.confidence, {"wrong": scores.harms["wrong"]}))


def test_a_risk_above_r_max_is_refused() -> None:
    data = made("band", m=50)[0].to_json()
    assert data["rules"][0]["accepts"] == "none"
    data["rules"][0]["risks"]["wrong"] = 0.11
    with pytest.raises(CertificateError, match="r_max"):
        Certificate.from_json(sealed(data))


def test_sums_of_costs_are_compared_up_to_rounding() -> None:
    rng = np.random.default_rng(3)
    confidence = rng.integers(20, size=2000) / 20
    correct = rng.random(2000) > 0.2 * (1 - confidence)
    cost = np.where(correct, 0.0, rng.random(2000))
    made = certify(confidence, correct, {"cost": 0.1}, 0.1, harms={"cost": cost})
    scores = Scores.of(confidence, correct, {"cost": cost})
    check_scores(made, scores)
    total = made.rules[0].errors["cost"]
    near = dataclasses.replace(made.rules[0], errors={"cost": total * (1 + 1e-14)})
    check_scores(dataclasses.replace(made, rules=(near,)), scores)
    other = dataclasses.replace(made.rules[0], errors={"cost": total * 0.999})
    with pytest.raises(CertificateError, match="contradicts"):
        check_scores(dataclasses.replace(made, rules=(other,)), scores)
