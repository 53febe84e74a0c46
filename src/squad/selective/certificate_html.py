"""Certificates as HTML cards for notebooks: a headline, a table of rules and the guarantee, without scripts."""

import html
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from squad.printable import printable
from squad.selective.certificate_text import assumptions, failure, guarantee, headline, punctuated
from squad.selective.risk_text import confidence_text, observed_rate, risk_cell

if TYPE_CHECKING:
    from squad.selective.certificate import Certificate, Rule

__all__ = ["html_card"]

#: Maximum number of rules shown.
MAX_RULES = 50
#: Colours are those of the notebook's theme, light or dark; borders are half transparent.
CARD_STYLE = "border:1px solid rgba(128,128,128,.5);border-radius:6px;padding:.6em .9em;max-width:60em"
CELL_STYLE = "text-align:left;padding:.15em .9em .15em 0"


def html_card(certificate: "Certificate") -> str:
    """Return a certificate as an HTML fragment: headline, table of rules, guarantee and assumptions.

    Args:
        certificate: Certificate to show.

    Returns:
        One ``div`` element with inline styles, readable on light and dark backgrounds.
    """
    groups = certificate.by is not None
    heads = ["target", *([str(certificate.by)] if groups else []), "threshold", "coverage", "errors / accepted"]
    rows = [_cells(rule, groups) for rule in certificate.rules[:MAX_RULES]]
    parts = [
        _element("p", _text(headline(certificate)), "font-weight:bold;margin:0 0 .5em"),
        _table(heads, rows),
    ]
    if len(certificate.rules) > MAX_RULES:
        parts.append(_element("p", f"{len(certificate.rules) - MAX_RULES:,} more rules", "margin:.3em 0 0"))
    if certificate.certified:
        items = "".join(_element("li", _text(text), "") for text in punctuated(assumptions(certificate)))
        parts.append(_element("p", f"Guarantee: {_text(guarantee(certificate))} if", "margin:.5em 0 0"))
        parts.append(_element("ul", items, "margin:.2em 0 0;padding-left:1.4em"))
    else:
        parts.append(_element("p", _text(failure(certificate.rules[0], certificate)), "margin:.5em 0 0"))
    return _element("div", "".join(parts), CARD_STYLE)


def _cells(rule: "Rule", groups: bool) -> list[str]:
    cells = [risk_cell(rule), *([str(rule.group)] if groups else [])]
    if not rule.certified:
        return [*cells, "not certified", "0 %", "none"]
    threshold = "none: accepts all" if rule.threshold == -math.inf else f"> {confidence_text(rule.threshold)}"
    observed = "; ".join(_observed(rule, harm) for harm in rule.risks)
    return [*cells, threshold, f"{100 * rule.coverage:.1f} %", observed]


def _observed(rule: "Rule", harm: str) -> str:
    text = observed_rate(rule, harm)
    if harm not in rule.costs and harm != "cost":
        text = text.replace(" of ", " / ")
    return text if len(rule.risks) == 1 else f"{harm}: {text}"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(_element("th", _text(cell), CELL_STYLE) for cell in heads)
    body = "".join(
        _element("tr", "".join(_element("td", _text(cell), CELL_STYLE) for cell in row), "background:none")
        for row in rows
    )
    row = _element("tr", head, "background:none")
    return _element("table", f"<thead>{row}</thead><tbody>{body}</tbody>", "border-collapse:collapse;margin:0")


def _element(name: str, content: str, style: str) -> str:
    attribute = f' style="{style}"' if style else ""
    return f"<{name}{attribute}>{content}</{name}>"


def _text(text: str) -> str:
    """Escape a text for HTML, without control characters."""
    return html.escape(printable(text, keep=""))
