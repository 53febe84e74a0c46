"""Certificates in words: what they must contain, how long they may be, and that names cannot forge lines of them."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from squad.selective import Certificate, Rule, certify
from squad.selective.certificate_text import (
    METHOD_ASSUMPTIONS,
    assumptions,
    certified_terms,
    failure,
    guarantee,
    headline_parts,
    punctuated,
    rule_table,
)
from squad.selective.methods import METHODS
from squad.selective.risk_text import (
    amount,
    confidence_text,
    limit_clause,
    observed_rate,
    observed_text,
    risk_cell,
    risk_label,
)


def sample(m: int = 4000, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    confidence = rng.random(m)
    return confidence, rng.random(m) >= 0.3 * (1 - confidence) ** 2


def made(risk: Any = 0.05, digits: int = 15, method: str = "fallback", **settings: Any) -> Certificate:
    confidence, correct = sample()
    return certify(confidence.round(digits), correct, risk, method=method, **settings)


def extra(method: str) -> dict[str, Any]:
    """Arguments that a method requires."""
    pilot = sample(1000, seed=1)
    given: dict[str, dict[str, Any]] = {
        "grid": {"thresholds": [0.9, 0.5]},
        "preset": {"pilot": pilot[0]},
        "pareto": {"pilot": pilot},
    }
    return given.get(method, {})


def bullets(certificate: Certificate) -> list[str]:
    return [line[3:] for line in str(certificate).split("\n") if line.startswith(" - ")]


class TestOneRule:
    def test_a_headline_and_a_few_short_bullets(self) -> None:
        certificate = made()
        first, *rest = str(certificate).split("\n")
        assert first == certificate.headline
        assert len(first.split()) <= 25
        for part in ("risk 5 %", "confidence level 99 %", f"{certificate.n:,} of 4,000", f"{certificate.errors} of"):
            assert part in first
        assert f"above {confidence_text(certificate.threshold)}" in first
        assert f"{100 * certificate.coverage:.1f} %" in first
        assert "at most 5 % of accepted cases are wrong" in rest[0]
        assert 3 <= len(bullets(certificate)) <= 4
        assert max(len(line) for line in rest) <= 120
        assert rest[-1] == "Method: fallback."

    @pytest.mark.parametrize("method", METHODS)
    def test_every_method_has_three_or_four_assumptions(self, method: str) -> None:
        certificate = made(method=method, **extra(method))
        found = bullets(certificate)
        assert found == punctuated(assumptions(certificate))
        assert 3 <= len(found) <= 4
        assert max(map(len, found)) <= 120
        assert "4,000 calibration cases" in found[0]
        assert all(one.endswith(";") for one in found[:-1])
        assert found[-1].endswith(".")

    def test_ties_are_mentioned_where_nothing_is_proven_about_them(self) -> None:
        for method in METHODS:
            text = str(made(method=method, digits=2, **extra(method)))
            assert ("tied" in text) == (method in ("sgr", "bonferroni")), method
            assert ("4,000 of 4,000" in text) == (method in ("sgr", "bonferroni")), method

    def test_what_was_fixed_in_advance(self) -> None:
        assert "10 %" in assumptions(made(method="band"))[2]
        assert "fixed before" in assumptions(made(method="grid", thresholds=[0.9]))[2]
        assert "simulation" not in str(made(method="grid", thresholds=[0.9]))

    def test_all_accepted(self) -> None:
        certificate = made(0.3)
        assert "accepts all 4,000" in certificate.headline
        assert "above" not in certificate.headline

    def test_none_and_one_wrong(self) -> None:
        assert "none of them wrong" in certify(np.arange(1000), np.ones(1000), 0.02).headline
        correct = np.ones(1000)
        correct[0] = 0
        assert "1 of them wrong" in certify(np.arange(1000), correct, 0.02).headline

    def test_terms_of_the_field(self) -> None:
        for certificate in (made(), made([0.05, 0.02]), certify([0.5], [1], 0.02)):
            for word in ("promise", "certainty", "answer"):
                assert word not in str(certificate)


class TestSeveral:
    def test_targets(self) -> None:
        certificate = made([0.05, 0.02])
        assert "both targets (5 %; 2 %)" in certificate.headline
        assert "joint confidence level 99 %" in certificate.headline
        head, rows = rule_table(certificate) or ([], [])
        assert head[0] == "risk"
        assert [row[0] for row in rows] == ["5 %", "2 %"]
        lines = str(certificate).split("\n")
        for row, rule in zip(rows, certificate.rules, strict=True):
            assert f"{rule.n:,} of 4,000" in row[2]
            (line,) = [line for line in lines if all(cell in line for cell in row)]
            assert line.index(row[1]) == lines[1].index("confidence")
            assert line.index(row[2]) == lines[1].index("accepted")

    def test_a_group_with_too_few_cases(self) -> None:
        by = np.where(np.arange(4000) % 100, "Zürich", "Oslo")
        certificate = made(0.05, by=by)
        good = next(rule for rule in certificate.rules if rule.certified)
        bad = next(rule for rule in certificate.rules if not rule.certified)
        assert "at risk 5 % for 1 of 2 groups" in certificate.headline
        assert f"{good.n:,} of 4,000" in certificate.headline
        rows = {row[0]: row for row in (rule_table(certificate) or ([], []))[1]}
        assert "not certified" in rows["Oslo"][1]
        assert f"about {bad.needed:,}" in rows["Oslo"][1]
        assert rows["Zürich"][1:] == [
            f"above {confidence_text(good.threshold)}",
            f"{good.n:,} of 3,960 ({100 * good.coverage:.1f} %)",
            f"{good.errors['wrong']} wrong",
        ]
        assert "certified group" in guarantee(certificate)
        assert any("group" in one and "known before" in one for one in assumptions(certificate))

    def test_targets_and_groups(self) -> None:
        by = np.where(np.arange(4000) % 2, "a", "b")
        certificate = made([0.1, 0.05], by=by)
        assert "all 4 rules" in certificate.headline
        head, rows = rule_table(certificate) or ([], [])
        assert head[:2] == ["risk", "group"]
        assert [row[:2] for row in rows] == [["10 %", "a"], ["10 %", "b"], ["5 %", "a"], ["5 %", "b"]]

    def test_harms_have_a_line_each(self) -> None:
        confidence, correct = sample()
        harm = ~correct & (np.arange(4000) % 4 == 0)
        certificate = certify(confidence, correct, {"wrong": 0.05, "missed ill": 0.02}, harms={"missed ill": harm})
        rule = certificate.rules[0]
        assert "5 % (wrong) and 2 % (missed ill)" in certificate.headline
        assert (rule_table(certificate) or ([], []))[1] == [
            ["at most 5 % of accepted cases are wrong", f"{rule.errors['wrong']} of {rule.n:,}"],
            ["at most 2 % of accepted cases have the harm 'missed ill'", f"{rule.errors['missed ill']} of {rule.n:,}"],
        ]
        assert "each harm" in assumptions(certificate)[2]

    def test_targets_of_many_harms_are_numbered(self) -> None:
        confidence, correct = sample()
        harms = {f"harm {place}": ~correct & (np.arange(4000) % 3 == place) for place in range(3)}
        targets = [dict.fromkeys(harms, 0.05), {"wrong": 0.1}]
        certificate = certify(confidence, correct, targets, harms=harms)
        assert "harm 2" not in certificate.headline
        lines = str(certificate).split("\n")
        assert [line.strip().partition(":")[0] for line in lines[1:3]] == ["target 1", "target 2"]
        assert lines[1].count("5 %") == 3
        head, rows = rule_table(certificate) or ([], [])
        assert head[0] == "target"
        assert [row[0] for row in rows] == ["1", "2"]
        assert max(map(len, lines[3:6])) <= 100

    def test_many_harms_are_counted_in_the_headline(self) -> None:
        confidence, correct = sample()
        names = [f"harm {place}" for place in range(5)]
        certificate = certify(confidence, correct, dict.fromkeys(names, 0.05), harms=dict.fromkeys(names, ~correct))
        assert "5 harms" in certificate.headline
        assert "harm 3" not in certificate.headline
        assert len((rule_table(certificate) or ([], []))[1]) == 5

    def test_terms_of_one_target(self) -> None:
        assert certified_terms(made()) == "risk 5 %, confidence level 99 %"
        assert certified_terms(made([0.05, 0.02]), 0.02) == "risk 2 %, confidence level 99 %"


class TestFailure:
    def test_too_few(self) -> None:
        certificate = certify(np.arange(100), np.ones(100), 0.01)
        title, why, method = str(certificate).split("\n")
        assert (title, method) == (certificate.headline, "Method: fallback.")
        assert title.startswith("Not certified at risk 1 %, confidence level 99 %")
        assert "100 calibration cases" in why
        assert f"{certificate.needed:,}" in why
        assert headline_parts(certificate)[1] == ""

    @pytest.mark.parametrize(
        ("rule", "parts"),
        [
            ({"m": 0, "needed": 228}, ("no calibration cases", "228")),
            ({"m": 1, "needed": 228}, ("1 calibration case is", "228")),
            ({"m": 5000, "hopeless": True}, ("5,000", "more labels will not help", "higher risk")),
            ({"m": 5000}, ("5,000", "most confident")),
        ],
    )
    def test_the_reason(self, rule: dict[str, Any], parts: tuple[str, ...]) -> None:
        empty = {"risks": {"wrong": 0.02}, "group": None, "threshold": np.inf, "n": 0, "errors": {"wrong": 0}}
        only = Rule(**{**empty, "level": 0.01, **rule})
        text = failure(only, Certificate((only,), "fallback", 0.01, only.m))
        assert "\n" not in text
        for part in parts:
            assert part in text

    def test_several(self) -> None:
        certificate = certify(np.arange(100), np.ones(100), [0.01, 0.02])
        assert certificate.headline.startswith("Not certified for any of 2 targets")
        assert all(f"about {rule.needed:,}" in str(certificate) for rule in certificate.rules)


def rule(**settings: Any) -> Rule:
    given = {"group": None, "threshold": 0.5, "n": 672, "m": 2000, "level": 0.01}
    return Rule(**{**given, **settings})


class TestHarms:
    @pytest.mark.parametrize(
        ("harm", "settings", "clause"),
        [
            ("wrong", {}, "at most 2 % of accepted cases are wrong"),
            (
                "missed ill",
                {"descriptive": True},
                "at most 2 % of accepted cases are of class ill but predicted as another class",
            ),
            ("false ill", {"descriptive": True}, "at most 2 % of accepted cases are wrongly predicted as ill"),
            ("miss rate ill", {"counted": True}, "at most 2 % of accepted cases of class ill are wrong"),
            ("false alarm", {}, "at most 2 % of accepted cases have the harm 'false alarm'"),
            ("cost", {"costs": True}, "the mean cost of accepted cases is at most 0.02"),
            ("late", {}, "at most 2 % of accepted cases have the harm 'late'"),
            ("delay", {"costs": True}, "the mean 'delay' of accepted cases is at most 0.02"),
            ("missed", {}, "at most 2 % of accepted cases have the harm 'missed'"),
        ],
    )
    def test_the_clause_of_each_harm(self, harm: str, settings: dict[str, bool], clause: str) -> None:
        assert limit_clause(harm, 0.02, **settings) == clause

    def test_observed_errors(self) -> None:
        one = rule(
            risks={"wrong": 0.05, "miss rate ill": 0.1, "cost": 0.03, "late": 0.01},
            errors={"wrong": 23, "miss rate ill": 4, "cost": 3.4212, "late": 0},
            counted={"miss rate ill": (120, 300)},
            costs=("cost",),
        )
        assert (
            observed_text(one) == "23 wrong, 4 of 120 cases of class ill wrong, total cost 3.421, none with harm 'late'"
        )
        assert observed_text(one, of_them=True).startswith("23 of them wrong, ")
        assert [observed_rate(one, harm) for harm in one.risks] == [
            "23 of 672",
            "4 of 120",
            "mean 0.005091, of 672",
            "0 of 672",
        ]
        assert risk_cell(one) == "5 %, miss rate ill 10 %, mean cost 0.03, late 1 %"
        assert risk_label(one).endswith("10 % (miss rate ill), 0.03 (mean cost) and 1 % (late)")

    def test_amounts(self) -> None:
        assert [amount(value) for value in (0, 23, 1234567, 3.4212, 0.00012345, 12345.6)] == [
            "0",
            "23",
            "1,234,567",
            "3.421",
            "0.0001234",
            "12,346",
        ]


EVIL = "a\x1b[2J\nMethod: perfect."


def test_names_cannot_forge_lines() -> None:
    """Groups, columns and harms may contain line breaks, with which they could forge lines."""
    confidence, correct = sample()
    by = np.where(np.arange(4000) % 2, EVIL, "b")
    for certificate in (
        made(0.05, by=by),
        certify(confidence, correct, {EVIL: 0.1}, harms={EVIL: ~correct}),
        certify(confidence, correct, {EVIL: 0.1, "wrong": 0.1}, harms={EVIL: ~correct}),
        Certificate(
            (rule(risks={"wrong": 0.05}, errors={"wrong": 1}),), "fallback", 0.01, 2000, details={"assumptions": [EVIL]}
        ),
    ):
        text = str(certificate)
        assert text.split("\n").count("Method: fallback.") == 1
        assert "Method: perfect." not in text.split("\n")
        assert "\x1b" not in text
        assert "\\x1b[2J\\nMethod" in text


def test_the_documentation_shows_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "certify.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"```python\n([^`]*print\(certificate\)[^`]*)```\n\nprints\n\n```text\n([^`]*)```", page)
    exec(found[0], {})
    assert capsys.readouterr().out == found[1]


def test_notes_of_a_predictor_are_bullets() -> None:
    one = rule(risks={"wrong": 0.05}, errors={"wrong": 1})
    certificate = Certificate(
        (one,), "fallback", 0.01, 2000, details={"assumptions": ["it is chance", "7 were left out"]}
    )
    assert bullets(certificate)[-2:] == ["it is chance;", "7 were left out."]


class TestMonotoneRisk:
    """The assumption names what is certified."""

    def test_one_harm_of_another_kind(self) -> None:
        confidence, correct = sample()
        cost = np.where(correct, 0.0, 0.3)
        assert "the mean cost does not decrease" in str(
            certify(confidence, correct, {"cost": 0.05}, harms={"cost": cost})
        )
        missed = np.where(np.arange(4000) % 2, ~correct, np.nan)
        for method in ("fallback", "bonferroni"):
            text = str(certify(confidence, correct, {"miss rate x": 0.1}, method=method, harms={"miss rate x": missed}))
            assert "the rate of miss rate x does not decrease" in text
            assert "selective risk" not in text
        assert "selective risk does not decrease" in str(made())


class TestChance:
    def test_few_cases_may_be_chance(self) -> None:
        for confidence, correct in (([0.9], [0]), (np.arange(10), np.arange(10) < 9)):
            found = certify(confidence, correct, 0.05)
            assert found.rules[0].hopeless
            assert "too few: it takes at least 90" in str(found)
            assert "will not help" not in str(found)
        found = certify(np.arange(100), np.arange(100) % 20 < 19, 0.05)
        assert found.rules[0].hopeless
        assert "may be due to chance" in str(found)

    def test_many_cases_are_conclusive(self) -> None:
        found = certify(np.arange(500), np.arange(500) % 4 < 3, 0.05)
        assert found.rules[0].closest["wrong"][1] > 100
        assert "more labels will not help" in str(found)
        assert f"{found.rules[0].closest['wrong'][0]} of " in str(found)
        assert Certificate.from_json(found.to_json()) == found


def test_many_uncertified_groups_share_one_line() -> None:
    by = np.where(np.arange(4000) < 3000, -1, np.arange(4000) % 40)
    rows = (rule_table(made(0.05, by=by)) or ([], []))[1]
    assert len(rows) < 10
    assert "35 more" in rows[-1][-1]


class TestNeeded:
    """A failure never advises more labels for a higher risk."""

    @pytest.mark.parametrize("method", ["fallback", "pareto", "sgr"])
    def test_a_higher_risk_needs_fewer_labels(self, method: str) -> None:
        rng = np.random.default_rng(0)
        confidence, correct = rng.random(116), np.ones(116, dtype=bool)
        correct[rng.choice(116, 10, replace=False)] = False
        pilot: dict[str, Any] = {"pilot": (rng.random(60), rng.random(60) > 0.09)} if method == "pareto" else {}
        needed = [
            certify(confidence, correct, risk=risk, delta=1e-4, method=method, **pilot).needed
            for risk in (0.03, 0.05, 0.08, 0.1, 0.15)
        ]
        known = [one for one in needed if one is not None]
        assert len(known) == 5
        assert known == sorted(known, reverse=True)


class TestOneOfSeveralHarms:
    def test_the_failing_harm_is_named_with_its_limit(self) -> None:
        confidence, correct = sample()
        late = np.arange(4000) % 3 == 0
        found = certify(confidence, correct, {"wrong": 0.3, "late": 0.1}, harms={"late": late})
        assert found.rules[0].failing.keys() == {"late"}
        text = str(found)
        assert "late" in text
        assert "(10 % allowed)" in text
        assert "wrong " not in text.split("\n")[1]

    def test_too_few_cases_for_one_of_them_come_first(self) -> None:
        confidence, correct = sample(400)
        late = np.arange(400) % 3 == 0
        found = certify(confidence, correct, {"wrong": 0.001, "late": 0.1}, harms={"late": late}, attempt=1)
        assert "it takes at least 4,709" in str(found)
        assert "does not count as an attempt" in str(found)
        assert str(found).endswith("Method: fallback.")

    def test_a_line_of_a_table_names_it(self) -> None:
        confidence, correct = sample()
        late = np.arange(4000) % 3 == 0
        found = certify(confidence, correct, [{"wrong": 0.3, "late": 0.1}, {"wrong": 0.3}], harms={"late": late})
        assert "(late)" in (rule_table(found) or ([], []))[1][0][-1]


def test_the_size_of_the_pilot_is_stated() -> None:
    assert "thresholds chosen on 1,000 pilot cases" in str(made(method="pareto", **extra("pareto")))
    rng = np.random.default_rng(0)
    few = (rng.random(60), rng.random(60) > 0.09)
    failed = certify(*sample(300), 0.01, method="pareto", pilot=few, delta=0.1)
    assert not failed.certified
    assert "pilot has only 60 cases" in str(failed)


def test_every_method_states_its_assumptions() -> None:
    assert METHOD_ASSUMPTIONS.keys() == METHODS.keys()
