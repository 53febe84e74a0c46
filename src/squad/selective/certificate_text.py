"""A certificate in words: a headline, its rules if there are several, and what the guarantee rests on.

    Certified at risk 5 %, confidence level 99 %: accepts 672 of 2,000 calibration cases (33.6 %), ...
    Guarantee: at most 5 % of accepted cases are wrong if
     - new cases and the 2,000 calibration cases come from the same source, drawn independently;
     - ...
    Method: fallback.

Names of classes, columns and groups are shown without characters that a terminal obeys, and never break a line.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from scipy.special import bdtrc

from squad.printable import printable
from squad.selective.attempts import advice, assumption, spends, statement
from squad.selective.resampling import drawn_text
from squad.selective.risk_text import (
    certainty,
    confidence_text,
    limit,
    percent,
    rate,
    rate_text,
    risk_cell,
    risk_label,
    risks_text,
    seen,
)
from squad.selective.shortage import fewest_cases, shortage_text

if TYPE_CHECKING:
    from squad.selective.certificate import Certificate, Rule

__all__ = [
    "assumptions",
    "beyond_chance",
    "certainty",
    "confidence_text",
    "failure",
    "guarantee",
    "headline",
    "headline_parts",
    "method_text",
    "percent",
    "punctuated",
    "risks_text",
    "rule_table",
    "target_texts",
    "terms",
    "whole",
]

GROWS = "selective risk does not fall as coverage grows (where it does: tested by simulation, not proven)"
DISTINCT = "hardly any two confidences are equal (where they are: tested by simulation, not proven)"
GROWS_OR_DISTINCT = (
    "selective risk does not fall as coverage grows, or hardly any confidences are equal (else: tested, not proven)"
)
#: What a method needs beyond independent cases.
NEEDS = {
    "fallback": (GROWS,),
    "fixed_sequence": (GROWS,),
    "bonferroni": (GROWS_OR_DISTINCT,),
    "sgr": (GROWS, DISTINCT),
    "grid": ("the thresholds were named before the calibration cases were used",),
    "band": ("the largest risk, {r_max}, was fixed before the calibration cases were used",),
    "preset": ("the thresholds were chosen with cases other than the calibration cases",),
    "pareto": ("the thresholds and the order of their tests were chosen with cases other than the calibration cases",),
}
#: A few equal confidences come with rounding, and do no harm.
FEW_TIES = 0.01
#: So many harms of one rule are named in the headline, at the most.
MANY = 3
#: A pilot of fewer cases than this chooses the order of tests badly.
SMALL = 500
#: So many rules of which nothing was certified have a line each.
FEW_LINES = 5
#: So many errors that chance has them more rarely than this are no chance.
SURPRISING = 0.05


def whole(certificate: "Certificate") -> str:
    """The whole certificate, in several lines."""
    lines = [headline(certificate), *(f"   {text}" for text in target_texts(certificate))]
    if table := rule_table(certificate):
        lines += _aligned(*table)
    elif not certificate.certified:
        lines.append(failure(certificate.rules[0], certificate))
    if certificate.certified:
        lines.append(f"Guarantee: {guarantee(certificate)} if")
        lines += [f" - {text}" for text in punctuated(assumptions(certificate))]
    return "\n".join([*lines, f"Method: {method_text(certificate)}."])


def method_text(certificate: "Certificate") -> str:
    """How it was tested, with thresholds from how many cases, and as which attempt."""
    pilot = certificate.details.get("pilot")
    parts = [certificate.method, f"thresholds chosen with {pilot:,} cases" if pilot else "", statement(certificate)]
    return "; ".join(part for part in parts if part)


def headline(certificate: "Certificate") -> str:
    """What is certified, in one line."""
    title, rest = headline_parts(certificate)
    return f"{title}: {rest}." if rest else f"{title}."


def headline_parts(certificate: "Certificate") -> tuple[str, str]:
    """The headline as a title (risk and confidence level) and what is accepted; empty if nothing is."""
    rules, first = certificate.rules, certificate.rules[0]
    level = f"confidence level {certainty(certificate.delta)}"
    one_target = len(certificate.targets) == 1
    risk = f"at {risk_label(first)}" if len(first.risks) <= MANY else f"for {len(first.risks)} harms"
    good = sum(rule.certified for rule in rules)
    verdict = "Certified" if good else "Not certified"
    if len(rules) == 1:
        return _clean(f"{verdict} {risk}, {level}"), _clean(_accepted(first)) if good else ""
    what = "rules"
    if certificate.by is None:
        what = "targets"
        if len(rules) <= MANY and not target_texts(certificate):
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
        return _clean(title), f"accepts {_share(certificate.n, certificate.m)}"
    return _clean(title), f"thresholds from {_cases(certificate.m)}"


def terms(certificate: "Certificate", risk: "float | Mapping[str, float] | None" = None) -> str:
    """What accepted cases of one target are certified at: "risk 5 %, confidence level 99 %".

    Args:
        certificate: it.
        risk: of the target, where there are several.
    """
    return _clean(f"{risk_label(certificate.target(risk)[0])}, confidence level {certainty(certificate.delta)}")


def guarantee(certificate: "Certificate") -> str:
    """What holds for accepted cases, as a clause without its conditions."""
    rules, first = certificate.rules, certificate.rules[0]
    if len(certificate.targets) > 1:
        if all(list(target) == ["wrong"] for target in certificate.targets):
            return "in every certified line at most the given share (risk) of accepted cases is wrong,"
        return "in every certified line each harm has at most the given rate among accepted cases,"
    if len(rules) == 1 and len(first.risks) > 1:
        return "all of this holds"
    where = "" if len(rules) == 1 else ", in every certified group,"
    return _clean(" and ".join(_limits(first, certificate)) + where)


def assumptions(certificate: "Certificate") -> list[str]:
    """What must be true for the guarantee to hold: short, each as a part of a sentence."""
    found = [
        drawn_text(certificate.details)
        or f"new cases and the {_cases(certificate.m)} come from the same source, drawn independently",
        assumption(certificate),
    ]
    other = next((list(rule.risks) for rule in certificate.rules if list(rule.risks) != ["wrong"]), None)
    for need in NEEDS.get(certificate.method, ()):
        text = need if other is None else need.replace("selective risk", _rate_of(other, certificate.rules[0]))
        if need in (DISTINCT, GROWS_OR_DISTINCT) and certificate.ties > FEW_TIES * certificate.m:
            text += f": {certificate.ties:,} of {certificate.m:,} are"
        found.append(text.format(r_max=percent(certificate.options.get("r_max", math.nan))))
    if certificate.by not in (None, "label"):  # a prediction's own label is always known
        found.append(f"the {certificate.by} of a case is known before its right label")
    found += [str(note) for note in certificate.details.get("assumptions", ())]
    return [_clean(text) for text in found]


def _rate_of(harms: Sequence[str], rule: "Rule") -> str:
    """What must not fall, where wrong predictions are not all that is certified."""
    if len(harms) > 1:
        return "the rate of each harm"
    return f"the {'mean ' if harms[0] in rule.costs else 'rate of '}{harms[0]}"


def punctuated(texts: Sequence[str]) -> list[str]:
    """The items of a list that ends a sentence."""
    return [f"{text}{'.' if place == len(texts) - 1 else ';'}" for place, text in enumerate(texts)]


def failure(rule: "Rule", certificate: "Certificate") -> str:
    """Why nothing was certified for a rule, and what would help, in one line."""
    missing = shortage_text(rule, certificate.method, certificate.options)
    return _clean(missing + _uncounted(certificate) if missing else _reason(rule, certificate) + _failing(rule))


def _uncounted(certificate: "Certificate") -> str:
    return " This does not count as an attempt." if certificate.attempt is not None and not spends(certificate) else ""


def _reason(rule: "Rule", certificate: "Certificate") -> str:
    method = certificate.method
    least = fewest_cases(rule, method, certificate.options)
    if 0 < rule.m < least:
        few = f"{_cases(rule.m)} {'is' if rule.m == 1 else 'are'} too few: it takes at least {least:,}, even if all"
        more = advice(certificate, rule.needed) if rule.needed is not None else _uncounted(certificate).strip()
        return f"{few} predictions are right. {more}".rstrip()
    if rule.hopeless:
        sure = ": more labels will not help" if beyond_chance(rule) else ", which may be chance"
        reached = "this risk" if len(rule.risks) == 1 else "a risk"
        return (
            f"Errors among the {_cases(rule.m)} reach {reached} at every threshold{sure}. {_closest(rule)}"
            "Allow a higher risk, or improve the model."
        )
    if rule.needed is None and method == "grid":
        return f"The strictest threshold accepts too few of the {_cases(rule.m)}, or too many errors among them."
    if rule.needed is None and method == "pareto":
        first = f"Too many errors among the {_cases(rule.m)} at the threshold that the pilot suggested first."
        return first + _small_pilot(certificate)
    if rule.needed is None:
        return f"Too many errors among the most confident of the {_cases(rule.m)}, where this method starts."
    if rule.m == 0:
        return f"There are no calibration cases: it takes at least {rule.needed:,}."
    return f"{_cases(rule.m)} are too few. {advice(certificate, rule.needed)}{_small_pilot(certificate)}"


def _small_pilot(certificate: "Certificate") -> str:
    cases = certificate.details.get("pilot", SMALL)
    if certificate.method != "pareto" or cases >= SMALL:
        return ""
    return f" The pilot has {cases:,} cases only: with a larger one, or the method preset, more may be accepted."


def beyond_chance(rule: "Rule") -> bool:
    """Whether a harm is so frequent, even at the threshold that comes closest, that chance does not explain it.

    Certificates of earlier versions do not know, and took it for granted.
    """
    return not rule.closest or any(
        errors > 0 and n > 0 and harm not in rule.costs and bdtrc(errors - 1, n, rule.risks[harm]) < SURPRISING
        for harm, (errors, n) in rule.closest.items()
    )


def _closest(rule: "Rule") -> str:
    """What comes closest to the risks: the harms that are too frequent there."""
    found = {
        harm: (errors, n)
        for harm, (errors, n) in rule.closest.items()
        if n and errors >= rule.risks[harm] * n * (1 - 1e-12)
    }
    found = {harm: pair for harm, pair in found.items() if harm in rule.failing} or found
    return f"At best: {_rates(found, rule)}. " if found else ""


def _failing(rule: "Rule") -> str:
    """The harms that could not be shown even alone."""
    if not rule.failing or rule.hopeless or len(rule.risks) == len(rule.failing) > MANY:
        return ""
    return f" Not shown even on its own: {_rates(rule.failing, rule)} if all cases were accepted."


def _rates(found: Mapping[str, tuple[float, int]], rule: "Rule") -> str:
    shown = []
    for harm, (errors, n) in found.items():
        costs = harm in rule.costs or harm == "cost"
        allowed = f"{rule.risks[harm]:.10g}" if costs else percent(rule.risks[harm])
        shown.append(f"{harm} {rate_text(harm, errors, n, costs)} ({allowed} allowed)")
    return ", ".join(shown[:MANY]) + (f" and {len(shown) - MANY:,} more" if len(shown) > MANY else "")


def target_texts(certificate: "Certificate") -> list[str]:
    """What each of several targets bounds, where that is too much for a cell of a table; else nothing."""
    targets = certificate.targets
    if len(targets) == 1 or max(map(len, targets)) < MANY:
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
    """What is certified line by line, where that is more than one thing: headings and cells; None where it is not.

    Several rules have a line each: risk (of several targets), group (if there are any), confidence, accepted and what
    of these; one that is not certified has the reason in the place of the last three.  A single rule for several harms
    has a line for each harm, with what was seen.
    """
    if len(certificate.rules) == 1:
        rule = certificate.rules[0]
        if not rule.certified or len(rule.risks) == 1:
            return None
        limits = _limits(rule, certificate)
        cells = [[text, rate(rule, harm)] for text, harm in zip(limits, rule.risks, strict=True)]
        return ["bound", "seen"], [[_clean(cell) for cell in row] for row in cells]
    targets, groups = len(certificate.targets) > 1, certificate.by is not None
    numbered = bool(target_texts(certificate))
    heads = [*(["target" if numbered else "risk"] if targets else []), *([str(certificate.by)] if groups else [])]
    rows = []
    short = [rule for rule in certificate.rules if not rule.certified]
    left_out = {id(rule) for rule in short[FEW_LINES:]} if len(short) > FEW_LINES + 1 else set()
    for rule in certificate.rules:
        if id(rule) in left_out:
            continue
        row = [str(certificate.targets.index(rule.risks) + 1) if numbered else risk_cell(rule)] if targets else []
        row += [str(rule.group)] if groups else []
        if rule.certified:
            above = "any" if rule.threshold == -math.inf else f"above {confidence_text(rule.threshold)}"
            row += [above, f"{rule.n:,} of {rule.m:,} ({100 * rule.coverage:.1f} %)", seen(rule, most=1)]
        else:
            row.append(f"not certified: {_briefly(rule)}")
        rows.append([_clean(cell) for cell in row])
    if left_out:
        most = max(rule.m for rule in short[FEW_LINES:])
        rows.append(
            ["..."] * (targets + groups) + [f"not certified: {len(left_out):,} more, of {most:,} cases at most"]
        )
    return [_clean(head) for head in (*heads, "confidence", "accepted", "of these")], rows


def _briefly(rule: "Rule") -> str:
    """Why nothing was certified, in a few words."""
    cases = f"{rule.m:,} case{'' if rule.m == 1 else 's'}"
    fails = f" ({', '.join(list(rule.failing)[:2])}{', ...' if len(rule.failing) > 2 else ''})" if rule.failing else ""
    if rule.hopeless:
        return f"{cases}, errors reach {'this' if len(rule.risks) == 1 else 'a'} risk at every threshold{fails}"
    return (
        f"{cases}, about {rule.needed:,} needed{fails}"
        if rule.needed is not None
        else f"{cases}, too many errors{fails}"
    )


def _aligned(head: list[str], rows: list[list[str]]) -> list[str]:
    """A table as lines of text.  The last cell of a row may be a reason: it is longer than any column."""
    widths = [
        max([len(name), *(len(row[at]) for row in rows if at < len(row) - 1)]) for at, name in enumerate(head[:-1])
    ]
    return [
        "   " + "  ".join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)), row[-1]])
        for row in (head, *rows)
    ]


def _limits(rule: "Rule", certificate: "Certificate") -> list[str]:
    told = certificate.details.get("harms", ())  # a predictor notes which it made from labels
    return [
        limit(harm, risk, harm in rule.costs, harm in rule.counted, harm in told) for harm, risk in rule.risks.items()
    ]


def _accepted(rule: "Rule") -> str:
    found = f", {seen(rule, of_them=True)}" if len(rule.risks) == 1 else ""
    if rule.threshold == -math.inf:
        return f"accepts all {_cases(rule.m)}{found}"
    return f"accepts {_share(rule.n, rule.m)}{found}; confidence above {confidence_text(rule.threshold)}"


def _share(n: int, m: int) -> str:
    return f"{n:,} of {_cases(m)} ({100 * n / m:.1f} %)"


def _cases(m: int) -> str:
    return f"{m:,} calibration case{'' if m == 1 else 's'}"


def _clean(text: str) -> str:
    return printable(text, keep="")
