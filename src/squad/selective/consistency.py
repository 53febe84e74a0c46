"""Whether a certificate that was read follows from its own numbers.

Who writes a certificate by hand, or edits one and computes its checksum anew, can claim anything; but what is claimed
stands beside the counts it was shown with.  A rule is refused unless its method could have shown it with these counts:

* every harm's test passes at the highest level at which the method can have tested a rule that accepts n of m cases.
  That is the level itself for ``grid`` and ``pareto``, its share for one of the tests of ``sgr`` and ``bonferroni``,
  the weights of all starts up to n for ``fallback`` and ``fixed_sequence``, and up to the threshold for ``preset``; for
  ``band`` it is the bound itself;
* n is one that the method looks at: not before the first start (``fallback``, ``fixed_sequence``), one of the ranks, or
  as far behind it as equal confidences reach (``bonferroni``), a rank at which the binary search ends (``sgr``, if no
  confidences are equal), the count of a threshold that was fixed in advance (``grid``, ``preset``, ``pareto``);
* the level is the attempt's share of delta, divided evenly; targets have the same groups; their cases add up to m;
* of two targets' rules for one group the one with the lower threshold accepts more cases, and no fewer errors.

Equal counts with another threshold, or fewer errors than there were, contradict nothing here.  They do contradict the
scores, where those are stored: see :func:`squad.selective.certify.check_scores`.
"""

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from squad.selective.attempts import share
from squad.selective.bands import BERK_JONES, DIVIDED, risk_bounds
from squad.selective.betting import log_wealth_at_most
from squad.selective.bounds import passes
from squad.selective.certificate_text import risks_text
from squad.selective.groups import group_key
from squad.selective.methods import (
    FALLBACK,
    FIXED,
    METHODS,
    Options,
    cost_starts,
    preset_weights,
    search_ends,
    starts,
    statements,
    tests_of,
)

if TYPE_CHECKING:
    from squad.selective.certificate import Certificate, Rule

__all__ = ["SLACK", "check_certificate", "named", "options_of"]

#: By so much a test may miss its level, relatively: the same sum, added up by another version of scipy.
SLACK = 1e-9
#: The options of a method, as the certificate has them.
OPTIONS: dict[str, tuple[str, ...]] = {
    "bonferroni": ("ranks",),
    "band": ("r_max", "levels"),
    "grid": ("thresholds",),
    "preset": ("thresholds", "shares", "counted"),
    "pareto": ("thresholds", "orders"),
}


def check_certificate(certificate: "Certificate") -> None:
    """Refuse a certificate whose rules do not follow from their own counts, with a ValueError that names the rule."""
    if not certificate.rules or certificate.method not in METHODS:
        raise ValueError(f"{len(certificate.rules)} rules of the method {certificate.method!r}")
    settings, thresholds = options_of(certificate)
    if certificate.ties > certificate.m or certificate.ties == 1 or (thresholds is not None and certificate.ties):
        raise ValueError(f"{certificate.ties:,} of {certificate.m:,} cases share their confidence with another")
    _check_parts(certificate)
    for rule in certificate.rules:
        _check_rule(rule, certificate, settings, thresholds)
    by_group: dict[tuple[str, Any], list[Rule]] = {}
    for rule in certificate.rules:
        by_group.setdefault(group_key(rule.group), []).append(rule)
    for rules in by_group.values():
        _check_order(rules, certificate)


def options_of(certificate: "Certificate") -> tuple[Options, list[float] | None]:
    """The options of the method, and its thresholds; what a method does not look at has its default."""
    given = certificate.options
    names = OPTIONS.get(certificate.method, ())
    # A band of earlier versions divided delta between its bounds.
    if set(given) != set(names) and not (certificate.method == "band" and set(given) == {"r_max"}):
        listed = ", ".join(map(str, given)) or "none"
        raise ValueError(f"the method {certificate.method} has the options {', '.join(names) or 'none'}, not {listed}")
    known = names[0] if names else None
    if known == "ranks":
        ranks = given["ranks"]
        if type(ranks) is not int or ranks < 1:
            raise ValueError(f"{ranks!r} ranks")
        return Options(ranks=ranks), None
    if known == "r_max":
        r_max = given["r_max"]
        if isinstance(r_max, bool) or not isinstance(r_max, (int, float)) or not 0 < r_max < 1:
            raise ValueError(f"r_max {r_max!r} is not between 0 and 1")
        levels = given.get("levels", DIVIDED)
        if levels not in (BERK_JONES, DIVIDED):
            raise ValueError(f"a band with the levels {str(levels)[:40]!r}")
        return Options(r_max=float(r_max), levels=levels), None
    if known == "thresholds":
        listed_ = given["thresholds"]
        if not isinstance(listed_, list) or any(type(value) not in (int, float, type(None)) for value in listed_):
            raise ValueError("its thresholds are not numbers")
        found = [-math.inf if value is None else float(value) for value in listed_]
        if not found or any(low >= high for high, low in itertools.pairwise(found)):
            raise ValueError("its thresholds do not go from the strictest to the laxest")
        if certificate.method == "preset":
            return Options(shares=_shares(given["shares"], len(found)), counted=_counted(given["counted"])), found
        if certificate.method == "pareto":
            return Options(orders=_orders(given["orders"], len(found), len(certificate.targets))), found
        return Options(), found
    return Options(), None


def _shares(given: Any, count: int) -> tuple[float, ...]:
    """The coverages that thresholds were chosen for."""
    if not isinstance(given, list) or len(given) != count or any(type(share) not in (int, float) for share in given):
        raise ValueError(f"the coverages of its {count} thresholds are not {count} numbers")
    if not given[0] > 0 or not given[-1] <= 1 or any(low >= high for low, high in itertools.pairwise(given)):
        raise ValueError("the coverages of its thresholds do not grow between 0 and 1")
    return tuple(map(float, given))


def _counted(given: Any) -> tuple[tuple[str, float], ...]:
    """The share of cases that harms are counted on, by the pilot."""
    good = isinstance(given, dict) and all(type(share) is float and 0 < share < 1 for share in given.values())
    if not good:
        raise ValueError(f"harms are counted on shares of cases, not on {str(given)[:60]}")
    return tuple((str(harm), share) for harm, share in given.items())


def _orders(given: Any, count: int, targets: int) -> tuple[tuple[int, ...], ...]:
    """The orders in which thresholds were tested, one for each target."""
    if not isinstance(given, list) or len(given) != targets or any(not isinstance(one, list) for one in given):
        raise ValueError(f"{targets} targets, and not an order of tests for each")
    for order in given:
        if not order or any(type(place) is not int or not 0 <= place < count for place in order):
            raise ValueError(f"an order of tests that does not name some of the {count} thresholds")
        if len(set(order)) != len(order):
            raise ValueError("an order of tests that names a threshold twice")
    return tuple(tuple(order) for order in given)


def named(rule: "Rule", by: str | None) -> str:
    """A rule as messages call it."""
    return f"the rule {risks_text(rule.risks)}" + ("" if by is None else f" where {by} is {rule.group}")


def _check_parts(certificate: "Certificate") -> None:
    """That every target has a rule for each group, that their cases add up, and that delta is shared out evenly."""
    by_target: dict[tuple[Any, ...], list[Rule]] = {}
    for rule in certificate.rules:
        by_target.setdefault(tuple(sorted(rule.risks.items())), []).append(rule)
    targets = list(by_target.values())
    groups = [(group_key(rule.group), rule.m) for rule in targets[0]]
    for rules in targets:
        if sorted((group_key(rule.group), rule.m) for rule in rules) != sorted(groups):
            raise ValueError(f"the target {risks_text(rules[0].risks)} has other groups or cases than the first one")
    if len(dict(groups)) != len(groups):
        raise ValueError("a target has two rules for one group")
    alone = len(groups) == 1 and targets[0][0].group is None
    if alone != (certificate.by is None) or any(rule.group is None for rule in certificate.rules) != alone:
        raise ValueError(f"groups by {certificate.by!r}, but rules for {', '.join(str(key[1]) for key, _ in groups)}")
    if (total := sum(m for _, m in groups)) != certificate.m:
        raise ValueError(f"its rules speak of {total:,} calibration cases, it has {certificate.m:,}")
    parts = statements(certificate.method, certificate.targets, len(groups))
    # Format 1 divided delta between the harms of a target, too, which shows more than it needs to.
    with_harms = parts if certificate.method == "band" else sum(map(len, certificate.targets)) * len(groups)
    delta = certificate.delta * share(certificate.attempt)
    if (level := certificate.rules[0].level) not in (delta / parts, delta / with_harms):
        raise ValueError(
            f"{named(certificate.rules[0], certificate.by)} was tested at level {level:g}, where delta"
            f" {delta:g} (attempt {certificate.attempt or 'alone'}) is divided between {parts} statements"
        )
    for rule in certificate.rules:
        if rule.level != level:
            raise ValueError(f"{named(rule, certificate.by)} was tested at level {rule.level:g}, another at {level:g}")


def _check_rule(rule: "Rule", certificate: "Certificate", options: Options, thresholds: Sequence[float] | None) -> None:
    def refuse(why: str) -> NoReturn:
        raise ValueError(f"{named(rule, certificate.by)} contradicts its own numbers: {why}")

    if certificate.method == "band" and (high := max(rule.risks.values())) > options.r_max:
        refuse(f"a risk of {high:g}, and r_max is {options.r_max:g}")
    for harm, errors in rule.errors.items():
        n, m = rule.counts(harm)
        if n > rule.n or m > rule.m or m - n > rule.m - rule.n:
            refuse(f"{n:,} of {m:,} cases that count for {harm} accepted, and {rule.n:,} of {rule.m:,} in all")
        if errors > n:
            refuse(f"{errors:,} errors ({harm}) among {n:,} accepted cases")
    for harm, (errors, n) in (*rule.closest.items(), *rule.failing.items()):
        if rule.certified or n > rule.counts(harm)[1] or errors > n:
            refuse(f"{errors:,} errors ({harm}) among {n:,} cases, where nothing could be shown")
    if not rule.certified:
        if rule.n:
            refuse(f"it accepts none, and {rule.n:,} of {rule.m:,} cases")
        if rule.needed is not None and (rule.hopeless or rule.needed <= rule.m):
            refuse(f"{rule.needed:,} cases would do, and {rule.m:,} did not")
        return
    if not rule.n or rule.needed is not None or rule.hopeless:
        refuse(f"it accepts {rule.n:,} cases, and yet could not be shown")
    accepts_all = rule.threshold == -math.inf
    if (accepts_all and rule.n != rule.m) or (rule.n == rule.m and not accepts_all and thresholds is None):
        refuse(f"a threshold of {rule.threshold:g}, and {rule.n:,} of {rule.m:,} cases accepted")
    if thresholds is not None and rule.threshold not in thresholds:
        refuse(f"a threshold of {rule.threshold:g}, which is none of those that were named")
    if (why := _not_looked_at(rule, certificate, options)) is not None:
        refuse(why)
    place = 0 if thresholds is None else thresholds.index(rule.threshold)
    if options.orders and place not in options.of_target(certificate.targets.index(rule.risks)).order:
        refuse(f"a threshold of {rule.threshold:g}, which is not in the order of tests of its target")
    for harm, risk in rule.risks.items():
        _check_test(rule, harm, risk, certificate.method, options, place, refuse)


def _not_looked_at(rule: "Rule", certificate: "Certificate", options: Options) -> str | None:
    """Why the method cannot have come to a rule that accepts n of m cases; None if it can."""
    m, n, ties = rule.m, rule.n, certificate.ties
    if certificate.method == "bonferroni":
        place = n * options.ranks // m
        rank = -(-place * m // options.ranks)  # the last one up to n
        if not place or n - rank > max(ties - 1, 0):
            return f"{n:,} accepted cases are none of the {options.ranks} ranks of {m:,} cases"
    if certificate.method == "sgr" and not ties and search_ends(m, n) != n:
        return f"{n:,} accepted cases are no rank at which a binary search over {m:,} ends"
    return None


def _check_test(rule: "Rule", harm: str, risk: float, method: str, options: Options, place: int, refuse: Any) -> None:
    (n, m), errors, level = rule.counts(harm), rule.errors[harm], rule.level
    seen = f"{errors:,} errors ({harm}) among {n:,} accepted of {m:,} cases"
    if method == "band":
        bound = float(risk_bounds(m, np.array([n]), np.array([errors]), level, options.r_max, options.levels)[0])
        if bound > risk * (1 + SLACK):
            refuse(f"{seen} bound the risk by {bound:.4g}, not by {risk:g}, at level {level:g}")
        return
    costs = harm in rule.costs
    if method == "preset":
        share = _preset_share(rule, options, place)
    else:
        share = _share(method, rule.m, m, n, risk, level, options, costs)
    if costs:
        # What each case cost is not known here: this is the most that the sum can show.
        if not share or log_wealth_at_most(n, errors / n, risk) < -math.log(share * level * (1 + SLACK)):
            refuse(f"{seen} do not show a mean cost of at most {risk:g} at level {share * level:.4g} ({method})")
    elif not bool(passes(errors, n, risk, share * level * (1 + SLACK))):
        refuse(f"{seen} do not show a risk of at most {risk:g} at level {share * level:.4g} ({method})")


def _share(method: str, cases: int, m: int, n: int, risk: float, level: float, options: Options, costs: bool) -> float:
    """The largest part of the level at which the method can have tested a rule that accepts n of m cases.

    These are the cases that the harm is counted on; ``cases`` is how many there are in all.
    """
    if method == "sgr":
        return 1 / tests_of(cases)
    if method == "bonferroni":
        return 1 / options.ranks
    plan = {"fallback": FALLBACK, "fixed_sequence": FIXED}.get(method)
    if plan is None:
        return 1.0
    # Where a chain starts depends on tests as well, of which each may just pass or just not.
    found = ((cost_starts if costs else starts)(m, risk, near * level, plan) for near in (1.0, 1 - SLACK, 1 + SLACK))
    return max(sum(start.weight for start in begin if start.n <= n) for begin in found)


def _preset_share(rule: "Rule", options: Options, place: int) -> float:
    """The same for the threshold at ``place`` of those chosen in advance: harms have one chain together."""
    shares = []
    harms = [(harm, risk, harm in rule.costs) for harm, risk in rule.risks.items()]
    for near in (1.0, 1 - SLACK, 1 + SLACK):
        weights = preset_weights(rule.m, harms, near * rule.level, options)
        shares.append(sum(weight for start, weight in weights.items() if start <= place))
    return max(shares)


def _check_order(rules: Sequence["Rule"], certificate: "Certificate") -> None:
    """That the rules of one group agree about how many cases, and errors, are above which threshold."""
    found = sorted((rule for rule in rules if rule.certified), key=lambda rule: (-rule.threshold, rule.n))
    for harm in dict.fromkeys(harm for rule in found for harm in rule.errors):
        for strict, lax in itertools.pairwise(rule for rule in found if harm in rule.errors):
            _check_pair(strict, lax, lax.errors[harm] - strict.errors[harm], certificate)
    for strict, lax in itertools.pairwise(found):
        _check_pair(strict, lax, 0, certificate)


def _check_pair(strict: "Rule", lax: "Rule", errors: float, certificate: "Certificate") -> None:
    apart, more = strict.threshold > lax.threshold, lax.n - strict.n
    # A threshold that was not named is the confidence of a case, which the laxer rule accepts.
    least = int(apart and "thresholds" not in certificate.options)
    if more < least or (more and not apart) or not 0 <= errors <= more:
        one, other = named(strict, certificate.by), named(lax, certificate.by)
        raise ValueError(
            f"{one} and {other} contradict each other: {strict.n:,} cases above {strict.threshold:g} with errors"
            f" {_counts(strict)}, {lax.n:,} above {lax.threshold:g} with {_counts(lax)}"
        )


def _counts(rule: "Rule") -> str:
    return ", ".join(f"{count:,} ({harm})" for harm, count in rule.errors.items())
