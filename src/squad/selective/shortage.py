"""What is missing where nothing could be shown because a harm is counted on too few cases, such as those of a class."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from squad.selective.methods import Options, least_cases

if TYPE_CHECKING:
    from squad.selective.certificate import Rule

__all__ = ["Shortage", "fewest_cases", "shortage_text", "shortages"]


#: So many harms are named.
SHOWN = 3


class Shortage(NamedTuple):
    """A harm that is counted on too few calibration cases.

    Attributes:
        harm: such as "miss rate malignant".
        cases: how many count for it.
        least: how many it takes, even if none of them is harmed.
    """

    harm: str
    cases: int
    least: int


def shortages(rule: "Rule", method: str, options: Mapping[str, Any]) -> list[Shortage]:
    """The harms of a rule that nothing can be shown of, the one with fewest cases first; none if it is certified.

    Args:
        rule: of a certificate.
        method: of the certificate.
        options: of the method.
    """
    if rule.certified:
        return []
    settings = Options(options.get("ranks", 20), options.get("r_max", 0.1))
    found = []
    for harm in rule.counted:
        cases = rule.counts(harm)[1]
        least = least_cases(method, rule.risks[harm], rule.level, settings, harm in rule.costs)
        if cases < least:
            found.append(Shortage(harm, cases, least))
    return sorted(found, key=lambda one: one.cases)


def fewest_cases(rule: "Rule", method: str, options: Mapping[str, Any]) -> int:
    """The fewest calibration cases with which anything could be shown of a rule, if all predictions were right."""
    settings = Options(options.get("ranks", 20), options.get("r_max", 0.1))
    return max(least_cases(method, risk, rule.level, settings, harm in rule.costs) for harm, risk in rule.risks.items())


def shortage_text(rule: "Rule", method: str, options: Mapping[str, Any]) -> str:
    """The same in words; empty if nothing is missing."""
    found = shortages(rule, method, options)
    parts = [f"{one.harm!r} is counted on {one.cases:,} and takes at least {one.least:,}" for one in found[:SHOWN]]
    more = [f"{len(found) - SHOWN:,} more harms have too few as well"] if len(found) > SHOWN else []
    cases = f"{rule.m:,} calibration case{'' if rule.m == 1 else 's'}"
    return f"Too few of the {cases} count: {'; '.join([*parts, *more])}." if found else ""
