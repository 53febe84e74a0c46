"""The HTML card of a certificate: its content, valid markup, and escaping of hostile names."""

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from squad.selective import Certificate, certificate_html, certify
from squad.selective.certificate_text import assumptions, confidence_text

EVIL = "<script>alert('&')</script>\x1b[2J{0}"


class Parsed(HTMLParser):
    """Tags, attributes and text of a fragment; every tag must be closed in order."""

    def __init__(self, fragment: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(fragment)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def made(risk: Any = 0.05, **settings: Any) -> Certificate:
    rng = np.random.default_rng(0)
    confidence = rng.random(2000)
    correct = rng.random(2000) >= 0.3 * (1 - confidence) ** 2
    harms = dict.fromkeys(settings.pop("harms", ()), ~correct)
    return certify(confidence, correct, risk, harms=harms or None, **settings)


def card(certificate: Certificate) -> Parsed:
    fragment = certificate._repr_html_()
    parsed = Parsed(fragment)
    assert parsed.tags <= {"div", "p", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}
    assert parsed.attributes == {"style"}
    assert fragment.startswith("<div")
    assert "color:" not in fragment.replace("border-color:", "")  # that of the notebook, light or dark
    return parsed


def test_a_certified_rule() -> None:
    certificate = made()
    texts = card(certificate).texts
    assert texts[0] == certificate.headline
    cells = ["5 %", f"> {confidence_text(certificate.threshold)}", f"{100 * certificate.coverage:.1f} %"]
    assert texts[1:9] == [
        "target",
        "threshold",
        "coverage",
        "errors / accepted",
        *cells,
        f"{certificate.errors} / {certificate.n:,}",
    ]
    assert "Guarantee: at most 5 % of accepted cases are wrong if" in texts
    assert len(texts) == 10 + len(assumptions(certificate))


def test_nothing_certified() -> None:
    certificate = certify(np.arange(100), np.ones(100), 0.01)
    texts = card(certificate).texts
    assert texts[0].startswith("Not certified")
    assert "not certified" in texts
    assert f"{certificate.needed:,}" in texts[-1]
    assert not any("Guarantee" in text for text in texts)


def test_everything_accepted() -> None:
    texts = card(certify(np.arange(1000), np.ones(1000), 0.02)).texts
    assert "none: accepts all" in texts
    assert "0 / 1,000" in texts


def test_targets_and_groups_have_a_row_each() -> None:
    certificate = made([0.1, 0.05], by=np.where(np.arange(2000) % 50, "many", "few"))
    texts = card(certificate).texts
    assert (texts.count("many"), texts.count("few"), texts.count("not certified")) == (2, 2, 2)


def test_several_harms_are_named() -> None:
    certificate = made({"wrong": 0.1, "late": 0.1, "cost": 0.1}, harms=("late", "cost"))
    errors = certificate.rules[0].errors
    (cell,) = [text for text in card(certificate).texts if text.startswith("wrong: ")]
    assert cell.startswith(f"wrong: {errors['wrong']} / {certificate.n:,}; late: {errors['late']} / ")
    assert "cost: mean " in cell


def test_many_rules_are_cut() -> None:
    certificate = made(0.1, by=np.arange(2000) % (certificate_html.MAX_RULES + 7))
    assert "7 more rules" in card(certificate).texts


@pytest.mark.parametrize(
    "certificate",
    [
        made(by=np.where(np.arange(2000) % 2, EVIL, "b")),
        made(0.0001, by=np.where(np.arange(2000) % 2, EVIL, "b")),
        made({EVIL: 0.1}, harms=(EVIL,)),
        Certificate(made().rules, "fallback", 0.01, 2000, details={"assumptions": [EVIL]}),
    ],
    ids=["group", "uncertified group", "harm", "assumption"],
)
def test_hostile_names_are_escaped(certificate: Certificate) -> None:
    fragment = certificate._repr_html_()
    parsed = card(certificate)
    assert "<script" not in fragment
    assert "\x1b" not in fragment
    assert any("<script>alert('&')</script>\\x1b[2J{0}" in text for text in parsed.texts)


def test_a_hostile_label_of_the_groups_is_escaped() -> None:
    grouped = made(by=np.where(np.arange(2000) % 2, "a", "b"))
    certificate = Certificate(grouped.rules, grouped.method, grouped.delta, grouped.m, by=EVIL)
    assert "<script" not in certificate._repr_html_()
    assert any("<script>" in text for text in card(certificate).texts)
