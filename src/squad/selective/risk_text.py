"""Risks, confidences and harms in words: the building blocks of certificate texts and reports."""

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
    "confidence_level",
    "confidence_text",
    "limit_clause",
    "observed_rate",
    "observed_text",
    "percent",
    "rate_text",
    "risk_cell",
    "risk_label",
    "risks_text",
    "split_harm",
]

#: Names of built-in harms; all but WRONG and COST are followed by the name of a class.
WRONG, MISSED, FALSE, MISS_RATE, COST = "wrong", "missed", "false", "miss rate", "cost"


def percent(share: float) -> str:
    """Format a fraction: 2 %, 0.5 %, 99.9 %; with all of its digits, because a guarantee must not be rounded.

    Returns:
        Text such as "2 %".

    Examples:
        >>> percent(0.02), percent(0.005)
        ('2 %', '0.5 %')
    """
    return f"{100 * share:.10g} %"


def confidence_level(delta: float) -> str:
    """Format the confidence level 1 - delta; never as 100 %.

    Returns:
        Text such as "99 %".

    Examples:
        >>> confidence_level(0.01)
        '99 %'
    """
    text = percent(1 - delta)
    return "over 99.9999999 %" if text == "100 %" else text


def confidence_text(confidence: float) -> str:
    """Format a confidence with enough digits: close to 1, the last ones matter.

    Returns:
        Text such as "0.9175", never below the confidence itself.

    Examples:
        >>> confidence_text(0.91749), confidence_text(0.99999912)
        ('0.9175', '0.999999120')
    """
    if not 0.001 <= confidence < 1:
        return f"{confidence:.6g}"
    digits = min(max(4, math.ceil(-math.log10(1 - confidence)) + 2), 17)
    text = f"{confidence:.{digits}f}"
    # Round up: a confidence above the number shown is then also above the threshold.
    return text if float(text) >= confidence else f"{confidence + 0.5 * 10.0**-digits:.{digits}f}"


def risks_text(risks: Mapping[str, Any]) -> str:
    """Format the risks of several harms on one line.

    Returns:
        Text such as "wrong 2 %, missed ill 0.5 %".

    Examples:
        >>> risks_text({"wrong": 0.02, "missed ill": 0.005})
        'wrong 2 %, missed ill 0.5 %'
    """
    return ", ".join(f"{name} {percent(risk)}" for name, risk in risks.items())


def amount(number: float) -> str:
    """Format a count with commas, or a sum of costs with its significant digits.

    Returns:
        Text such as "1,234" or "2.5".

    Examples:
        >>> amount(1234), amount(2.5)
        ('1,234', '2.5')
    """
    return f"{int(number):,}" if float(number).is_integer() else f"{number:,.4g}" if number < 1000 else f"{number:,.0f}"


def risk_label(rule: "Rule") -> str:
    """Return the label of a rule: "risk 5 %"; harms other than wrong predictions are named."""
    if list(rule.risks) == [WRONG]:
        return f"risk {percent(rule.risks[WRONG])}"
    parts = [
        f"{risk:.10g} (mean {_cost_name(harm)})" if _is_cost(harm, rule) else f"{percent(risk)} ({harm})"
        for harm, risk in rule.risks.items()
    ]
    return f"risk {parts[0] if len(parts) == 1 else ', '.join(parts[:-1]) + ' and ' + parts[-1]}"


def risk_cell(rule: "Rule") -> str:
    """Return the label of a rule for a table column "risk": "5 %, missed ill 2 %"."""
    return ", ".join(
        f"mean {_cost_name(harm)} {risk:.10g}"
        if _is_cost(harm, rule)
        else percent(risk)
        if harm == WRONG
        else f"{harm} {percent(risk)}"
        for harm, risk in rule.risks.items()
    )


def limit_clause(harm: str, risk: float, costs: bool = False, counted: bool = False, descriptive: bool = False) -> str:
    """State what is guaranteed about a harm, as a clause.

    Args:
        harm: Name of the harm.
        risk: Largest rate of the harm among accepted cases, or their largest mean cost.
        costs: Whether the harm has costs between 0 and 1 instead of errors.
        counted: Whether the harm is counted on some cases only.
        descriptive: Whether the name follows the convention of built-in harms; a user's own "missed appointment" does
            not refer to a class.

    Returns:
        The clause.

    Examples:
        >>> limit_clause("wrong", 0.05)
        'at most 5 % of accepted cases are wrong'
        >>> limit_clause("miss rate ill", 0.02, counted=True)
        'at most 2 % of accepted cases of class ill are wrong'
    """
    kind, name = split_harm(harm)
    if costs or harm == COST:
        within = " that it is counted on" if counted else ""
        return f"the mean {_cost_name(harm)} of accepted cases{within} is at most {risk:.10g}"
    if kind == MISS_RATE:
        return f"at most {percent(risk)} of accepted cases of class {name} are wrong"
    kind = kind if descriptive or kind == WRONG else ""
    return f"at most {percent(risk)} of accepted cases {_predicate(kind, name, harm, counted)}"


def observed_rate(rule: "Rule", harm: str) -> str:
    """Return the observed rate of a harm among accepted calibration cases, or their mean cost.

    Args:
        rule: Rule of a certificate.
        harm: Name of the harm.

    Returns:
        Text such as "3 of 1,200".
    """
    return rate_text(harm, rule.errors[harm], rule.counts(harm)[0], harm in rule.costs)


def rate_text(harm: str, errors: float, n: int, costs: bool = False) -> str:
    """Format a number of errors among n cases, or a mean cost.

    Args:
        harm: Name of the harm.
        errors: Number of errors, or total cost.
        n: Number of cases.
        costs: Whether the harm has costs between 0 and 1 instead of errors.

    Returns:
        Text such as "3 of 1,200".

    Examples:
        >>> rate_text("wrong", 3, 1200), rate_text("cost", 1.5, 100)
        ('3 of 1,200', 'mean 0.015, of 100')
    """
    if costs or harm == COST:
        return f"mean {errors / n:.4g}, of {n:,}" if n else "none"
    return f"{amount(errors)} of {n:,}"


def observed_text(rule: "Rule", of_them: bool = False, most: int | None = None) -> str:
    """Describe what was observed among the accepted calibration cases, harm by harm.

    Args:
        rule: Rule of a certificate.
        of_them: Whether the text follows a clause about these cases: "23 of them wrong" instead of "23 wrong".
        most: Maximum number of harms to list; None for all.

    Returns:
        The description, such as "23 wrong".
    """
    parts = [
        _observed(rule, harm, " of them" if of_them and not index else "") for index, harm in enumerate(rule.errors)
    ]
    if most is None or len(parts) <= most + 1:
        return ", ".join(parts)
    return f"{', '.join(parts[:most])} and {len(parts) - most:,} more harms"


def _observed(rule: "Rule", harm: str, of_them: str) -> str:
    if _is_cost(harm, rule):
        return f"total {_cost_name(harm)} {amount(rule.errors[harm])}"
    kind, name = split_harm(harm)
    number = amount(rule.errors[harm]) if rule.errors[harm] else "none"
    if harm in rule.counted:
        what = f"cases of class {name} wrong" if kind == MISS_RATE else f"cases with harm {harm!r}"
        return f"{number} of {rule.counts(harm)[0]:,} {what}"
    if kind in (WRONG, MISSED, FALSE):
        return f"{number}{of_them} {harm}"
    return f"{number}{of_them} with harm {harm!r}"


def _predicate(kind: str, name: str, harm: str, counted: bool) -> str:
    if kind == WRONG:
        return "are wrong"
    if kind == MISSED:
        return f"are of class {name} but predicted as another class"
    if kind == FALSE:
        return f"are wrongly predicted as {name}"
    return f"{'that it is counted on ' if counted else ''}have the harm {harm!r}"


def split_harm(harm: str) -> tuple[str, str]:
    """Split the name of a built-in harm into its kind and its class; both are empty for a user's own harm.

    Returns:
        Kind and class.

    Examples:
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
    """Whether to report the mean: costs of 0 and 1 are tested as errors, but are still costs."""
    return harm == COST or harm in rule.costs


def _cost_name(harm: str) -> str:
    return harm if harm == COST else repr(harm)
