"""Explanation of failures where a harm is counted on too few cases, such as the cases of a rare class."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from squad.selective.methods import Options
from squad.selective.methods import min_cases as min_cases_of_harm

if TYPE_CHECKING:
    from squad.selective.certificate import Rule

__all__ = ["Shortage", "min_cases", "shortage_text", "shortages"]


#: Maximum number of harms named.
MAX_HARMS_SHOWN = 3


class Shortage(NamedTuple):
    """A harm that is counted on too few calibration cases.

    Attributes:
        harm: Name, such as "miss rate malignant".
        cases: Number of cases that it is counted on.
        least: Number of cases needed even if none of them is harmed.
    """

    harm: str
    cases: int
    least: int


def shortages(rule: "Rule", method: str, options: Mapping[str, Any]) -> list[Shortage]:
    """Return the harms of a rule with too few cases, the one with the fewest first; empty if the rule is certified.

    Args:
        rule: Rule of a certificate.
        method: Method of the certificate.
        options: Options of the method.

    Returns:
        The shortages.
    """
    if rule.certified:
        return []
    settings = Options(options.get("ranks", 20), options.get("r_max", 0.1))
    found = []
    for harm in rule.counted:
        cases = rule.counts(harm)[1]
        least = min_cases_of_harm(method, rule.risks[harm], rule.level, settings, harm in rule.costs)
        if cases < least:
            found.append(Shortage(harm, cases, least))
    return sorted(found, key=lambda one: one.cases)


def min_cases(rule: "Rule", method: str, options: Mapping[str, Any]) -> int:
    """Return the smallest number of calibration cases that could certify a rule, if all predictions were correct.

    Args:
        rule: Rule of a certificate.
        method: Method of the certificate.
        options: Options of the method.

    Returns:
        Number of cases.
    """
    settings = Options(options.get("ranks", 20), options.get("r_max", 0.1))
    return max(
        min_cases_of_harm(method, risk, rule.level, settings, harm in rule.costs) for harm, risk in rule.risks.items()
    )


def shortage_text(rule: "Rule", method: str, options: Mapping[str, Any]) -> str:
    """Describe the shortages of a rule; empty if there are none.

    Args:
        rule: Rule of a certificate.
        method: Method of the certificate.
        options: Options of the method.

    Returns:
        The description, or an empty text.
    """
    found = shortages(rule, method, options)
    if not found:
        return ""
    parts = [
        f"{one.harm!r} is counted on {one.cases:,} of {rule.m:,} and needs at least {one.least:,}"
        for one in found[:MAX_HARMS_SHOWN]
    ]
    more = [f"{len(found) - MAX_HARMS_SHOWN:,} more harms have too few"] if len(found) > MAX_HARMS_SHOWN else []
    return f"Too few calibration cases: {'; '.join([*parts, *more])}."
