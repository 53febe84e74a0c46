"""Numbers, thresholds and harms as people read them: the pieces that certificates and reports are worded with."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from squad.selective.certificate import Rule

__all__ = [
    "COST",
    "FALSE",
    "MISSED",
    "MISS_RATE",
    "WRONG",
    "amount",
    "certainty",
    "confidence_text",
    "limit",
    "percent",
    "rate",
    "rate_text",
    "risk_cell",
    "risk_label",
    "risks_text",
    "seen",
    "split_harm",
]

#: Harms that are known by name, most of them with the name of a class behind.
WRONG, MISSED, FALSE, MISS_RATE, COST = "wrong", "missed", "false", "miss rate", "cost"


def percent(share: float) -> str:
    """A share as people read it: 2 %, 0.5 %, 99.9 %; with all its digits, since a guarantee is not rounded."""
    return f"{100 * share:.10g} %"


def certainty(delta: float) -> str:
    """The confidence level 1 - delta as people read it; never 100 %."""
    text = percent(1 - delta)
    return "over 99.9999999 %" if text == "100 %" else text


def confidence_text(confidence: float) -> str:
    """A confidence with the digits that matter: near 1 these are the last ones."""
    if not 0.001 <= confidence < 1:
        return f"{confidence:.6g}"
    digits = min(max(4, math.ceil(-math.log10(1 - confidence)) + 2), 17)
    text = f"{confidence:.{digits}f}"
    # Upwards: what is above the number shown is then above the threshold, too.
    return text if float(text) >= confidence else f"{confidence + 0.5 * 10.0**-digits:.{digits}f}"


def risks_text(risks: Mapping[str, Any]) -> str:
    """Several harms' risks on one line."""
    return ", ".join(f"{name} {percent(risk)}" for name, risk in risks.items())


def amount(number: float) -> str:
    """A count with commas; a sum of costs with the digits that matter."""
    return f"{int(number):,}" if float(number).is_integer() else f"{number:,.4g}" if number < 1000 else f"{number:,.0f}"


def risk_label(rule: "Rule") -> str:
    """What a rule is called: "risk 5 %"; several harms, or other ones than wrong predictions, by name."""
    if list(rule.risks) == [WRONG]:
        return f"risk {percent(rule.risks[WRONG])}"
    parts = [
        f"{risk:.10g} (mean {_short(harm)})" if _is_cost(harm, rule) else f"{percent(risk)} ({harm})"
        for harm, risk in rule.risks.items()
    ]
    return f"risk {parts[0] if len(parts) == 1 else ', '.join(parts[:-1]) + ' and ' + parts[-1]}"


def risk_cell(rule: "Rule") -> str:
    """The same for a table, under the heading "risk": "5 %, missed ill 2 %"."""
    return ", ".join(
        f"mean {_short(harm)} {risk:.10g}"
        if _is_cost(harm, rule)
        else percent(risk)
        if harm == WRONG
        else f"{harm} {percent(risk)}"
        for harm, risk in rule.risks.items()
    )


def limit(harm: str, risk: float, costs: bool = False, counted: bool = False, told: bool = False) -> str:
    """What is guaranteed of a harm, as a clause.

    Args:
        harm: its name.
        risk: the largest share of accepted cases that may suffer it, or their largest mean cost.
        costs: whether it has costs between 0 and 1 instead of errors.
        counted: whether it is counted on some cases only.
        told: whether its name says what it is; another's "missed appointment" is about no class.

    >>> limit("wrong", 0.05)
    'at most 5 % of accepted cases are wrong'
    >>> limit("miss rate ill", 0.02, counted=True)
    'at most 2 % of accepted cases of class ill are wrong'
    """
    kind, name = split_harm(harm)
    if costs or harm == COST:
        within = " (of those it is counted on)" if counted else ""
        return f"the mean {_short(harm)} of accepted cases{within} is at most {risk:.10g}"
    if kind == MISS_RATE:
        return f"at most {percent(risk)} of accepted cases of class {name} are wrong"
    kind = kind if told or kind == WRONG else ""
    return f"at most {percent(risk)} of accepted cases {_suffering(kind, name, harm, counted)}"


def rate(rule: "Rule", harm: str) -> str:
    """How often a harm was seen among the accepted calibration cases, or what these cost on average."""
    return rate_text(harm, rule.errors[harm], rule.counts(harm)[0], harm in rule.costs)


def rate_text(harm: str, errors: float, n: int, costs: bool = False) -> str:
    """So many errors among n cases, or what these cost on average.

    >>> rate_text("wrong", 3, 1200), rate_text("cost", 1.5, 100)
    ('3 of 1,200', 'mean 0.015, of 100')
    """
    if costs or harm == COST:
        return f"mean {errors / n:.4g}, of {n:,}" if n else "none"
    return f"{amount(errors)} of {n:,}"


def seen(rule: "Rule", of_them: bool = False, most: int | None = None) -> str:
    """What was seen among the accepted calibration cases, harm by harm.

    Args:
        rule: of a certificate.
        of_them: whether it follows a sentence about these cases: "23 of them wrong" instead of "23 wrong".
        most: how many harms are told; all if left out.
    """
    told = [_seen(rule, harm, " of them" if of_them and not place else "") for place, harm in enumerate(rule.errors)]
    if most is None or len(told) <= most + 1:
        return ", ".join(told)
    return f"{', '.join(told[:most])} and {len(told) - most:,} more harms"


def _seen(rule: "Rule", harm: str, of_them: str) -> str:
    if _is_cost(harm, rule):
        return f"total {_short(harm)} {amount(rule.errors[harm])}"
    kind, name = split_harm(harm)
    number = amount(rule.errors[harm]) if rule.errors[harm] else "none"
    if harm in rule.counted:
        what = f"cases of class {name} wrong" if kind == MISS_RATE else f"cases with harm {harm!r}"
        return f"{number} of {rule.counts(harm)[0]:,} {what}"
    if kind in (WRONG, MISSED, FALSE):
        return f"{number}{of_them} {harm}"
    return f"{number}{of_them} with harm {harm!r}"


def _suffering(kind: str, name: str, harm: str, counted: bool) -> str:
    if kind == WRONG:
        return "are wrong"
    if kind == MISSED:
        return f"are {name} and labelled otherwise"
    if kind == FALSE:
        return f"are wrongly labelled {name}"
    return f"{'that it is counted on ' if counted else ''}have the harm {harm!r}"


def split_harm(harm: str) -> tuple[str, str]:
    """The kind of a harm that is known by name, and its class; a user's own harm has neither.

    >>> split_harm("miss rate ill"), split_harm("late")
    (('miss rate', 'ill'), ('', ''))
    """
    if harm == WRONG:
        return WRONG, ""
    for kind in (MISSED, FALSE, MISS_RATE):
        if harm.startswith(f"{kind} ") and (name := harm.removeprefix(f"{kind} ")).strip():
            return kind, name
    return "", ""


def _is_cost(harm: str, rule: "Rule") -> bool:
    """Whether its mean is spoken of: costs of 0 and 1 are tested as errors, and are costs all the same."""
    return harm == COST or harm in rule.costs


def _short(harm: str) -> str:
    return harm if harm == COST else repr(harm)
