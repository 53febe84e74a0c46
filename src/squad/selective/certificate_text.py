"""Certificates in words: a headline, a line per rule if there are several, the guarantee and its assumptions.

    Certified at risk 5 %, confidence level 99 %: accepts 672 of 2,000 calibration cases (33.6 %), ...
    Guarantee: at most 5 % of accepted cases are wrong if
     - new cases and the 2,000 calibration cases come from the same source, drawn independently;
     - ...
    Method: fallback.

Names of classes, columns and groups are shown without terminal control characters, and never break a line.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from scipy.special import bdtrc

from squad.printable import printable
from squad.selective.attempts import attempt_text, counts_as_attempt, data_use_assumption, next_attempt_advice
from squad.selective.resampling import sampling_assumption
from squad.selective.risk_text import (
    confidence_level,
    confidence_text,
    limit_clause,
    observed_rate,
    observed_text,
    percent,
    rate_text,
    risk_cell,
    risk_label,
    risks_text,
)
from squad.selective.shortage import min_cases, shortage_text

if TYPE_CHECKING:
    from squad.selective.certificate import Certificate, Rule

__all__ = [
    "assumptions",
    "beyond_chance",
    "certified_terms",
    "confidence_level",
    "confidence_text",
    "failure",
    "full_text",
    "guarantee",
    "headline",
    "headline_parts",
    "method_text",
    "percent",
    "punctuated",
    "risks_text",
    "rule_table",
    "target_texts",
]

_OTHERWISE = "(otherwise validity was tested by simulation, not proven)"
MONOTONE_RISK = f"selective risk does not decrease as coverage grows {_OTHERWISE}"
NO_TIES = f"almost no confidences are tied {_OTHERWISE}"
MONOTONE_RISK_OR_NO_TIES = (
    "selective risk does not decrease as coverage grows, or almost no confidences are tied"
    " (otherwise tested, not proven)"
)
#: Assumptions of each method in addition to independent cases.
METHOD_ASSUMPTIONS = {
    "fallback": (MONOTONE_RISK,),
    "fixed_sequence": (MONOTONE_RISK,),
    "bonferroni": (MONOTONE_RISK_OR_NO_TIES,),
    "sgr": (MONOTONE_RISK, NO_TIES),
    "grid": ("the thresholds were fixed before the calibration cases were used",),
    "band": ("the largest risk, {r_max}, was fixed before the calibration cases were used",),
    "preset": ("the thresholds were chosen on cases outside the calibration set",),
    "pareto": ("the thresholds and their testing order were chosen on cases outside the calibration set",),
}
#: Fraction of tied confidences up to which ties are not mentioned: a few come with rounding, and do no harm.
MAX_TIES_IGNORED = 0.01
#: Maximum number of harms of one rule that are named in the headline.
MAX_HARMS_NAMED = 3
#: Below this number of cases, a pilot chooses the order of tests poorly.
SMALL_PILOT = 500
#: Maximum number of uncertified rules with a line each.
MAX_FAILED_LINES = 5
#: An error count is attributed to chance unless its probability is below this.
CHANCE_LEVEL = 0.05


def full_text(certificate: "Certificate") -> str:
    """Return the full text of a certificate, in several lines."""
    lines = [headline(certificate), *(f"   {text}" for text in target_texts(certificate))]
    if table := rule_table(certificate):
        lines += _text_table(*table)
    elif not certificate.certified:
        lines.append(failure(certificate.rules[0], certificate))
    if certificate.certified:
        lines.append(f"Guarantee: {guarantee(certificate)} if")
        lines += [f" - {text}" for text in punctuated(assumptions(certificate))]
    return "\n".join([*lines, f"Method: {method_text(certificate)}."])


def method_text(certificate: "Certificate") -> str:
    """Describe the method, the size of its pilot, and the attempt."""
    pilot = certificate.details.get("pilot")
    parts = [
        certificate.method,
        f"thresholds chosen on {pilot:,} pilot cases" if pilot else "",
        attempt_text(certificate),
    ]
    return "; ".join(part for part in parts if part)


def headline(certificate: "Certificate") -> str:
    """Return a one-line summary."""
    title, rest = headline_parts(certificate)
    return f"{title}: {rest}." if rest else f"{title}."


def headline_parts(certificate: "Certificate") -> tuple[str, str]:
    """Return the headline in two parts: title (risk and confidence level), and what is accepted (empty if nothing)."""
    rules, first = certificate.rules, certificate.rules[0]
    level = f"confidence level {confidence_level(certificate.delta)}"
    one_target = len(certificate.targets) == 1
    risk = f"at {risk_label(first)}" if len(first.risks) <= MAX_HARMS_NAMED else f"for {len(first.risks)} harms"
    good = sum(rule.certified for rule in rules)
    verdict = "Certified" if good else "Not certified"
    if len(rules) == 1:
        return _clean(f"{verdict} {risk}, {level}"), _clean(_accepted(first)) if good else ""
    what = "rules"
    if certificate.by is None:
        what = "targets"
        if len(rules) <= MAX_HARMS_NAMED and not target_texts(certificate):
            what += f" ({'; '.join(risk_cell(rule) for rule in rules)})"
    elif one_target:
        what = "groups" if certificate.by == "group" else f"groups (by {certificate.by})"
    many = f"any of {len(rules):,}" if not good else f"{good:,} of {len(rules):,}"
    if good == len(rules):
        many = "both" if good == 2 else f"all {good:,}"
    title = f"{verdict} {f'{risk} ' if one_target else ''}for {many} {what}, joint {level}"
    if not good:
        return _clean(title), ""
    if one_target:
        return _clean(title), f"accepts {_accepted_of(certificate.n, certificate.m)}"
    return _clean(title), f"thresholds from {_cases(certificate.m)}"


def certified_terms(certificate: "Certificate", risk: "float | Mapping[str, float] | None" = None) -> str:
    """Return the terms that accepted cases of one target are certified at: "risk 5 %, confidence level 99 %".

    Args:
        certificate: The certificate.
        risk: Risk of the target, if there are several.
    """
    return _clean(f"{risk_label(certificate.target(risk)[0])}, confidence level {confidence_level(certificate.delta)}")


def guarantee(certificate: "Certificate") -> str:
    """Return the guarantee for accepted cases, as a clause without its assumptions."""
    rules, first = certificate.rules, certificate.rules[0]
    if len(certificate.targets) > 1:
        if all(list(target) == ["wrong"] for target in certificate.targets):
            return "on every certified line, the error rate among accepted cases is at most the stated risk"
        return "on every certified line, the rate of each harm among accepted cases is at most the stated risk"
    if len(rules) == 1 and len(first.risks) > 1:
        return "all of these bounds hold"
    where = "" if len(rules) == 1 else "in every certified group, "
    return _clean(where + " and ".join(_limit_clauses(first, certificate)))


def assumptions(certificate: "Certificate") -> list[str]:
    """Return the assumptions of the guarantee, each as a short clause."""
    found = [
        sampling_assumption(certificate.details)
        or f"new cases and the {_cases(certificate.m)} come from the same source, drawn independently",
        data_use_assumption(certificate),
    ]
    other = next((list(rule.risks) for rule in certificate.rules if list(rule.risks) != ["wrong"]), None)
    for need in METHOD_ASSUMPTIONS[certificate.method]:
        text = need.format(r_max=percent(certificate.options.get("r_max", math.nan)))
        text = text if other is None else text.replace("selective risk", _rate_of(other, certificate.rules[0]))
        if need in (NO_TIES, MONOTONE_RISK_OR_NO_TIES) and certificate.ties > MAX_TIES_IGNORED * certificate.m:
            text += f": {certificate.ties:,} of {certificate.m:,} are tied"
        found.append(text)
    if certificate.by not in (None, "label"):  # the predicted label is always known
        found.append(f"the {certificate.by} of a case is known before its true label")
    found += [str(note) for note in certificate.details.get("assumptions", ())]
    return [_clean(text) for text in found]


def _rate_of(harms: Sequence[str], rule: "Rule") -> str:
    """Return what must not decrease with coverage, where wrong predictions are not all that is certified."""
    if len(harms) > 1:
        return "the rate of each harm"
    return f"the {'mean ' if harms[0] in rule.costs else 'rate of '}{harms[0]}"


def punctuated(texts: Sequence[str]) -> list[str]:
    """Punctuate the items of a list that ends a sentence."""
    return [f"{text}{'.' if index == len(texts) - 1 else ';'}" for index, text in enumerate(texts)]


def failure(rule: "Rule", certificate: "Certificate") -> str:
    """Explain on one line why a rule was not certified, and what would help."""
    missing = shortage_text(rule, certificate.method, certificate.options)
    return _clean(
        missing + _uncounted_text(certificate) if missing else _reason(rule, certificate) + _failing_text(rule)
    )


def _uncounted_text(certificate: "Certificate") -> str:
    return (
        " This does not count as an attempt."
        if certificate.attempt is not None and not counts_as_attempt(certificate)
        else ""
    )


def _reason(rule: "Rule", certificate: "Certificate") -> str:
    method = certificate.method
    least = min_cases(rule, method, certificate.options)
    if 0 < rule.m < least:
        few = f"{_cases(rule.m)} {'is' if rule.m == 1 else 'are'} too few: it takes at least {least:,}, even if all"
        more = (
            next_attempt_advice(certificate, rule.needed)
            if rule.needed is not None
            else _uncounted_text(certificate).strip()
        )
        return f"{few} predictions are correct. {more}".rstrip()
    if rule.hopeless:
        verdict = ": more labels will not help" if beyond_chance(rule) else ", which may be due to chance"
        target = "this risk" if len(rule.risks) == 1 else "one of these risks"
        return (
            f"On the {_cases(rule.m)}, the error rate reaches {target} at every threshold{verdict}."
            f" {_closest_text(rule)}Allow a higher risk, or improve the model."
        )
    if rule.needed is None and method == "grid":
        return f"The strictest threshold accepts too few of the {_cases(rule.m)}, or too many of these are wrong."
    if rule.needed is None and method == "pareto":
        first = f"Too many errors among the {_cases(rule.m)} at the threshold that the pilot ranked first."
        return first + _small_pilot(certificate)
    if rule.needed is None:
        return f"Too many errors among the most confident of the {_cases(rule.m)}, where this method starts."
    if rule.m == 0:
        return f"There are no calibration cases; at least {rule.needed:,} are needed."
    return f"{_cases(rule.m)} are too few. {next_attempt_advice(certificate, rule.needed)}{_small_pilot(certificate)}"


def _small_pilot(certificate: "Certificate") -> str:
    cases = certificate.details.get("pilot", SMALL_PILOT)
    if certificate.method != "pareto" or cases >= SMALL_PILOT:
        return ""
    return f" The pilot has only {cases:,} cases: a larger one, or the method preset, may accept more."


def beyond_chance(rule: "Rule") -> bool:
    """Whether a harm is too frequent, even at the threshold closest to the risks, to be explained by chance.

    Always True for certificates of earlier versions, which did not store what is needed to tell.
    """
    return not rule.closest or any(
        errors > 0 and n > 0 and harm not in rule.costs and bdtrc(errors - 1, n, rule.risks[harm]) < CHANCE_LEVEL
        for harm, (errors, n) in rule.closest.items()
    )


def _closest_text(rule: "Rule") -> str:
    """Describe the threshold that comes closest to the risks: the harms that are too frequent there."""
    found = {
        harm: (errors, n)
        for harm, (errors, n) in rule.closest.items()
        if n and errors >= rule.risks[harm] * n * (1 - 1e-12)
    }
    found = {harm: pair for harm, pair in found.items() if harm in rule.failing} or found
    return f"Closest: {_rates_text(found, rule)}. " if found else ""


def _failing_text(rule: "Rule") -> str:
    """Describe the harms that could not be certified even on their own."""
    if not rule.failing or rule.hopeless or len(rule.risks) == len(rule.failing) > MAX_HARMS_NAMED:
        return ""
    return f" Not certified even alone: {_rates_text(rule.failing, rule)} if all cases were accepted."


def _rates_text(found: Mapping[str, tuple[float, int]], rule: "Rule") -> str:
    shown = []
    for harm, (errors, n) in found.items():
        costs = harm in rule.costs or harm == "cost"
        allowed = f"{rule.risks[harm]:.10g}" if costs else percent(rule.risks[harm])
        shown.append(f"{harm} {rate_text(harm, errors, n, costs)} ({allowed} allowed)")
    return ", ".join(shown[:MAX_HARMS_NAMED]) + (
        f" and {len(shown) - MAX_HARMS_NAMED:,} more" if len(shown) > MAX_HARMS_NAMED else ""
    )


def target_texts(certificate: "Certificate") -> list[str]:
    """Describe each of several targets, where that is too long for a table cell; otherwise empty."""
    targets = certificate.targets
    if len(targets) == 1 or max(map(len, targets)) < MAX_HARMS_NAMED:
        return []
    found = []
    for number, target in enumerate(targets, 1):
        costs = certificate.target(target)[0].costs
        bounds = [
            f"mean {harm} at most {risk:.10g}" if harm in costs or harm == "cost" else f"{harm} at most {percent(risk)}"
            for harm, risk in target.items()
        ]
        found.append(_clean(f"target {number}: {'; '.join(bounds)}"))
    return found


def rule_table(certificate: "Certificate") -> tuple[list[str], list[list[str]]] | None:
    """Return headings and cells of a table of what is certified; None if there is only one thing to state.

    Several rules have a line each: risk (if there are several targets), group (if any), confidence, accepted cases and
    the errors among them; an uncertified rule has the reason in place of the last three.  A single rule for several
    harms has a line per harm, with the observed rate.
    """
    if len(certificate.rules) == 1:
        rule = certificate.rules[0]
        if not rule.certified or len(rule.risks) == 1:
            return None
        limits = _limit_clauses(rule, certificate)
        cells = [[text, observed_rate(rule, harm)] for text, harm in zip(limits, rule.risks, strict=True)]
        return ["bound", "observed"], [[_clean(cell) for cell in row] for row in cells]
    targets, groups = len(certificate.targets) > 1, certificate.by is not None
    numbered = bool(target_texts(certificate))
    heads = [*(["target" if numbered else "risk"] if targets else []), *([str(certificate.by)] if groups else [])]
    rows = []
    short = [rule for rule in certificate.rules if not rule.certified]
    left_out = {id(rule) for rule in short[MAX_FAILED_LINES:]} if len(short) > MAX_FAILED_LINES + 1 else set()
    for rule in certificate.rules:
        if id(rule) in left_out:
            continue
        row = [str(certificate.targets.index(rule.risks) + 1) if numbered else risk_cell(rule)] if targets else []
        row += [str(rule.group)] if groups else []
        if rule.certified:
            above = "any" if rule.threshold == -math.inf else f"above {confidence_text(rule.threshold)}"
            row += [above, f"{rule.n:,} of {rule.m:,} ({100 * rule.coverage:.1f} %)", observed_text(rule, most=1)]
        else:
            row.append(f"not certified: {_short_reason(rule)}")
        rows.append([_clean(cell) for cell in row])
    if left_out:
        most = max(rule.m for rule in short[MAX_FAILED_LINES:])
        rows.append(
            ["..."] * (targets + groups) + [f"not certified: {len(left_out):,} more, with at most {most:,} cases each"]
        )
    return [_clean(head) for head in (*heads, "confidence", "accepted", "of these")], rows


def _short_reason(rule: "Rule") -> str:
    """Say in a few words why a rule was not certified."""
    cases = f"{rule.m:,} case{'' if rule.m == 1 else 's'}"
    fails = f" ({', '.join(list(rule.failing)[:2])}{', ...' if len(rule.failing) > 2 else ''})" if rule.failing else ""
    if rule.hopeless:
        target = "this risk" if len(rule.risks) == 1 else "one of these risks"
        return f"{cases}, error rate reaches {target} at every threshold{fails}"
    return (
        f"{cases}, about {rule.needed:,} needed{fails}"
        if rule.needed is not None
        else f"{cases}, too many errors{fails}"
    )


def _text_table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Format a table as lines of text.  The last cell of a row may be a reason, longer than any column."""
    widths = [
        max([len(name), *(len(row[at]) for row in rows if at < len(row) - 1)]) for at, name in enumerate(head[:-1])
    ]
    return [
        "   " + "  ".join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)), row[-1]])
        for row in (head, *rows)
    ]


def _limit_clauses(rule: "Rule", certificate: "Certificate") -> list[str]:
    built_in = certificate.details.get("harms", ())  # the predictor records which harms it derived from labels
    return [
        limit_clause(harm, risk, harm in rule.costs, harm in rule.counted, harm in built_in)
        for harm, risk in rule.risks.items()
    ]


def _accepted(rule: "Rule") -> str:
    found = f", {observed_text(rule, of_them=True)}" if len(rule.risks) == 1 else ""
    if rule.threshold == -math.inf:
        return f"accepts all {_cases(rule.m)}{found}"
    return f"accepts {_accepted_of(rule.n, rule.m)}{found}; confidence above {confidence_text(rule.threshold)}"


def _accepted_of(n: int, m: int) -> str:
    return f"{n:,} of {_cases(m)} ({100 * n / m:.1f} %)"


def _cases(m: int) -> str:
    return f"{m:,} calibration case{'' if m == 1 else 's'}"


def _clean(text: str) -> str:
    return printable(text, keep="")
