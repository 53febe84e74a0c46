"""Consistency of a certificate that was read: whether its rules follow from its own counts.

Whoever writes a certificate by hand, or edits one and recomputes its checksum, can claim anything; but the claims are
stored together with the counts they were derived from.  A rule is refused unless its method could have certified it
with these counts:

* The test of every harm passes at the highest level at which the method can have tested a rule that accepts n of m
  cases.  That is the level itself for ``grid`` and ``pareto``; the share of one test for ``sgr`` and ``bonferroni``;
  the weights of all starts up to n for ``fallback`` and ``fixed_sequence``, and up to the threshold for ``preset``; for
  ``band``, the bound itself.
* n is a number that the method tests: not before the first start (``fallback``, ``fixed_sequence``); one of the ranks,
  or behind it by no more than ties allow (``bonferroni``); a rank at which the binary search can end (``sgr``, without
  ties); the count of a threshold fixed in advance (``grid``, ``preset``, ``pareto``).
* The level is the attempt's share of delta, divided evenly; all targets have the same groups, whose cases add up to m.
* Of the rules of two targets for one group, the one with the lower threshold accepts more cases and no fewer errors.

Another threshold with the same counts, or fewer errors than there were, do not contradict anything here.  They do
contradict the scores, where these are stored: see :func:`squad.selective.certify.check_scores`.
"""

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from squad.selective.attempts import delta_share
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

#: Relative tolerance of a test's level: another version of SciPy may sum the same terms differently.
SLACK = 1e-9
#: Options of each method that a certificate stores.
OPTION_NAMES: dict[str, tuple[str, ...]] = {
    "bonferroni": ("ranks",),
    "band": ("r_max", "levels"),
    "grid": ("thresholds",),
    "preset": ("thresholds", "shares", "counted"),
    "pareto": ("thresholds", "orders"),
}


def check_certificate(certificate: "Certificate") -> None:
    """Check that the rules of a certificate follow from their own counts.

    Raises:
        ValueError: If they do not; the message names the rule.
    """
    if not certificate.rules or certificate.method not in METHODS:
        raise ValueError(f"it has {len(certificate.rules)} rules of the method {certificate.method!r}")
    settings, thresholds = options_of(certificate)
    if certificate.ties > certificate.m or certificate.ties == 1 or (thresholds is not None and certificate.ties):
        raise ValueError(
            f"{certificate.ties:,} of {certificate.m:,} cases cannot share their confidence with another case"
        )
    _check_groups_and_levels(certificate)
    for rule in certificate.rules:
        _check_rule(rule, certificate, settings, thresholds)
    by_group: dict[tuple[str, Any], list[Rule]] = {}
    for rule in certificate.rules:
        by_group.setdefault(group_key(rule.group), []).append(rule)
    for rules in by_group.values():
        _check_order(rules, certificate)


def options_of(certificate: "Certificate") -> tuple[Options, list[float] | None]:
    """Return the options of the method, with defaults for those it does not use, and its thresholds."""
    given = certificate.options
    names = OPTION_NAMES.get(certificate.method, ())
    # Bands of earlier versions, without 'levels', divided delta between their bounds.
    if set(given) != set(names) and not (certificate.method == "band" and set(given) == {"r_max"}):
        found = ", ".join(map(str, given)) or "none"
        raise ValueError(f"the method {certificate.method} has the options {', '.join(names) or 'none'}, not {found}")
    known = names[0] if names else None
    if known == "ranks":
        ranks = given["ranks"]
        if type(ranks) is not int or ranks < 1:
            raise ValueError(f"the number of ranks is {ranks!r}")
        return Options(ranks=ranks), None
    if known == "r_max":
        r_max = given["r_max"]
        if isinstance(r_max, bool) or not isinstance(r_max, (int, float)) or not 0 < r_max < 1:
            raise ValueError(f"r_max {r_max!r} is not between 0 and 1")
        levels = given.get("levels", DIVIDED)
        if levels not in (BERK_JONES, DIVIDED):
            raise ValueError(f"the levels of its band are {str(levels)[:40]!r}")
        return Options(r_max=float(r_max), levels=levels), None
    if known == "thresholds":
        listed = given["thresholds"]
        if not isinstance(listed, list) or any(type(value) not in (int, float, type(None)) for value in listed):
            raise ValueError("its thresholds are not numbers")
        thresholds = [-math.inf if value is None else float(value) for value in listed]
        if not thresholds or any(low >= high for high, low in itertools.pairwise(thresholds)):
            raise ValueError("its thresholds are not in descending order")
        if certificate.method == "preset":
            coverages = _check_coverages(given["shares"], len(thresholds))
            return Options(shares=coverages, counted=_check_counted_shares(given["counted"])), thresholds
        if certificate.method == "pareto":
            orders = _check_orders(given["orders"], len(thresholds), len(certificate.targets))
            return Options(orders=orders), thresholds
        return Options(), thresholds
    return Options(), None


def _check_coverages(given: Any, count: int) -> tuple[float, ...]:
    """Check the coverages that thresholds were chosen for."""
    if (
        not isinstance(given, list)
        or len(given) != count
        or any(type(delta_share) not in (int, float) for delta_share in given)
    ):
        raise ValueError(f"the coverages of its {count} thresholds are not {count} numbers")
    if not given[0] > 0 or not given[-1] <= 1 or any(low >= high for low, high in itertools.pairwise(given)):
        raise ValueError("the coverages of its thresholds do not increase from above 0 to at most 1")
    return tuple(map(float, given))


def _check_counted_shares(given: Any) -> tuple[tuple[str, float], ...]:
    """Check the fractions of pilot cases that harms are counted on."""
    good = isinstance(given, dict) and all(
        type(delta_share) is float and 0 < delta_share < 1 for delta_share in given.values()
    )
    if not good:
        raise ValueError(f"'counted' must map harms to fractions of cases, not be {str(given)[:60]}")
    return tuple((str(harm), delta_share) for harm, delta_share in given.items())


def _check_orders(given: Any, count: int, targets: int) -> tuple[tuple[int, ...], ...]:
    """Check the order in which thresholds were tested, one per target."""
    if not isinstance(given, list) or len(given) != targets or any(not isinstance(one, list) for one in given):
        raise ValueError(f"there are {targets} targets, but not a testing order for each")
    for order in given:
        if not order or any(type(index) is not int or not 0 <= index < count for index in order):
            raise ValueError(f"a testing order does not consist of indices of the {count} thresholds")
        if len(set(order)) != len(order):
            raise ValueError("a testing order contains a threshold twice")
    return tuple(tuple(order) for order in given)


def named(rule: "Rule", by: str | None) -> str:
    """Return the name of a rule for messages.

    Args:
        rule: Rule of a certificate.
        by: Name of the grouping; None if there are no groups.

    Returns:
        Text such as "the rule wrong 2 % where sex is f".
    """
    return f"the rule {risks_text(rule.risks)}" + ("" if by is None else f" where {by} is {rule.group}")


def _check_groups_and_levels(certificate: "Certificate") -> None:
    """Check that every target has a rule per group, that cases add up, and that delta is divided evenly."""
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
        raise ValueError(
            f"it has groups by {certificate.by!r}, but rules for {', '.join(str(key[1]) for key, _ in groups)}"
        )
    if (total := sum(m for _, m in groups)) != certificate.m:
        raise ValueError(f"the groups of its rules have {total:,} calibration cases in total, not {certificate.m:,}")
    parts = statements(certificate.method, certificate.targets, len(groups))
    # Format 1 also divided delta between the harms of a target, which is stricter than necessary.
    with_harms = parts if certificate.method == "band" else sum(map(len, certificate.targets)) * len(groups)
    delta = certificate.delta * delta_share(certificate.attempt)
    if (level := certificate.rules[0].level) not in (delta / parts, delta / with_harms):
        raise ValueError(
            f"{named(certificate.rules[0], certificate.by)} was tested at level {level:g}, but delta {delta:g}"
            f" (attempt {certificate.attempt or 'only one'}) must be divided between {parts} statements"
        )
    for rule in certificate.rules:
        if rule.level != level:
            raise ValueError(
                f"{named(rule, certificate.by)} was tested at level {rule.level:g}, but another rule at {level:g}"
            )


def _check_rule(rule: "Rule", certificate: "Certificate", options: Options, thresholds: Sequence[float] | None) -> None:
    def refuse(why: str) -> NoReturn:
        raise ValueError(f"{named(rule, certificate.by)} contradicts its own numbers: {why}")

    if certificate.method == "band" and (high := max(rule.risks.values())) > options.r_max:
        refuse(f"its risk is {high:g}, but r_max is {options.r_max:g}")
    for harm, errors in rule.errors.items():
        n, m = rule.counts(harm)
        if n > rule.n or m > rule.m or m - n > rule.m - rule.n:
            refuse(f"it accepts {n:,} of {m:,} cases that count for {harm}, but {rule.n:,} of {rule.m:,} in total")
        if errors > n:
            refuse(f"it has {errors:,} errors ({harm}) among {n:,} accepted cases")
    for harm, (errors, n) in (*rule.closest.items(), *rule.failing.items()):
        if rule.certified or n > rule.counts(harm)[1] or errors > n:
            refuse(f"it reports {errors:,} errors ({harm}) among {n:,} cases as the reason of a failure")
    if not rule.certified:
        if rule.n:
            refuse(f"its threshold accepts nothing, but {rule.n:,} of {rule.m:,} cases are accepted")
        if rule.needed is not None and (rule.hopeless or rule.needed <= rule.m):
            refuse(f"{rule.needed:,} cases would be enough, but {rule.m:,} were not")
        return
    if not rule.n or rule.needed is not None or rule.hopeless:
        refuse(f"it is certified with {rule.n:,} accepted cases, but also marked as a failure")
    accepts_all = rule.threshold == -math.inf
    if (accepts_all and rule.n != rule.m) or (rule.n == rule.m and not accepts_all and thresholds is None):
        refuse(f"its threshold is {rule.threshold:g}, but {rule.n:,} of {rule.m:,} cases are accepted")
    if thresholds is not None and rule.threshold not in thresholds:
        refuse(f"its threshold, {rule.threshold:g}, is not one of those fixed in advance")
    if (why := _why_not_tested(rule, certificate, options)) is not None:
        refuse(why)
    index = 0 if thresholds is None else thresholds.index(rule.threshold)
    if options.orders and index not in options.of_target(certificate.targets.index(rule.risks)).order:
        refuse(f"its threshold, {rule.threshold:g}, is not in the testing order of its target")
    for harm, risk in rule.risks.items():
        _check_test(rule, harm, risk, certificate.method, options, index, refuse)


def _why_not_tested(rule: "Rule", certificate: "Certificate", options: Options) -> str | None:
    """Return why the method cannot have tested a rule that accepts n of m cases; None if it can."""
    m, n, ties = rule.m, rule.n, certificate.ties
    if certificate.method == "bonferroni":
        index = n * options.ranks // m
        rank = -(-index * m // options.ranks)  # the last rank up to n
        if not index or n - rank > max(ties - 1, 0):
            return f"{n:,} accepted cases are not one of the {options.ranks} ranks of {m:,} cases"
    if certificate.method == "sgr" and not ties and search_ends(m, n) != n:
        return f"a binary search over {m:,} cases cannot end at {n:,} accepted cases"
    return None


def _check_test(rule: "Rule", harm: str, risk: float, method: str, options: Options, index: int, refuse: Any) -> None:
    (n, m), errors, level = rule.counts(harm), rule.errors[harm], rule.level
    seen = f"{errors:,} errors ({harm}) among {n:,} accepted of {m:,} cases"
    if method == "band":
        bound = float(risk_bounds(m, np.array([n]), np.array([errors]), level, options.r_max, options.levels)[0])
        if bound > risk * (1 + SLACK):
            refuse(f"{seen} bound the risk by {bound:.4g}, not by {risk:g}, at level {level:g}")
        return
    costs = harm in rule.costs
    if method == "preset":
        delta_share = _preset_level_share(rule, options, index)
    else:
        delta_share = _level_share(method, rule.m, m, n, risk, level, options, costs)
    if costs:
        # The costs of single cases are not known here: this is the most that their sum can show.
        if not delta_share or log_wealth_at_most(n, errors / n, risk) < -math.log(delta_share * level * (1 + SLACK)):
            refuse(f"{seen} do not show a mean cost of at most {risk:g} at level {delta_share * level:.4g} ({method})")
    elif not bool(passes(errors, n, risk, delta_share * level * (1 + SLACK))):
        refuse(f"{seen} do not show a risk of at most {risk:g} at level {delta_share * level:.4g} ({method})")


def _level_share(
    method: str, cases: int, m: int, n: int, risk: float, level: float, options: Options, costs: bool
) -> float:
    """Return the largest share of the level at which the method can have tested a rule that accepts n of m cases.

    Args:
        method: Name of the method.
        cases: Number of all calibration cases.
        m: Number of cases that the harm is counted on.
        n: Number of these that are accepted.
        risk: Target.
        level: Significance level of the rule.
        options: Options of the method.
        costs: Whether the harm has costs between 0 and 1.
    """
    if method == "sgr":
        return 1 / tests_of(cases)
    if method == "bonferroni":
        return 1 / options.ranks
    plan = {"fallback": FALLBACK, "fixed_sequence": FIXED}.get(method)
    if plan is None:
        return 1.0
    # Starts depend on tests as well, each of which may be decided by rounding.
    found = (
        (cost_starts if costs else starts)(m, risk, factor * level, plan) for factor in (1.0, 1 - SLACK, 1 + SLACK)
    )
    return max(sum(start.weight for start in begin if start.n <= n) for begin in found)


def _preset_level_share(rule: "Rule", options: Options, index: int) -> float:
    """Return the same for the threshold with this index of those chosen in advance: harms share one chain."""
    shares = []
    harms = [(harm, risk, harm in rule.costs) for harm, risk in rule.risks.items()]
    for factor in (1.0, 1 - SLACK, 1 + SLACK):
        weights = preset_weights(rule.m, harms, factor * rule.level, options)
        shares.append(sum(weight for start, weight in weights.items() if start <= index))
    return max(shares)


def _check_order(rules: Sequence["Rule"], certificate: "Certificate") -> None:
    """Check that the rules of one group agree on how many cases and errors are above which threshold."""
    found = sorted((rule for rule in rules if rule.certified), key=lambda rule: (-rule.threshold, rule.n))
    for harm in dict.fromkeys(harm for rule in found for harm in rule.errors):
        for stricter, laxer in itertools.pairwise(rule for rule in found if harm in rule.errors):
            _check_pair(stricter, laxer, laxer.errors[harm] - stricter.errors[harm], certificate)
    for stricter, laxer in itertools.pairwise(found):
        _check_pair(stricter, laxer, 0, certificate)


def _check_pair(stricter: "Rule", laxer: "Rule", errors: float, certificate: "Certificate") -> None:
    lower, more = stricter.threshold > laxer.threshold, laxer.n - stricter.n
    # A threshold that was not fixed in advance is the confidence of a case, which the rule with the lower one accepts.
    least = int(lower and "thresholds" not in certificate.options)
    if more < least or (more and not lower) or not 0 <= errors <= more:
        one, other = named(stricter, certificate.by), named(laxer, certificate.by)
        raise ValueError(
            f"{one} and {other} contradict each other: {stricter.n:,} cases above {stricter.threshold:g} with errors"
            f" {_counts_text(stricter)}, {laxer.n:,} above {laxer.threshold:g} with {_counts_text(laxer)}"
        )


def _counts_text(rule: "Rule") -> str:
    return ", ".join(f"{count:,} ({harm})" for harm, count in rule.errors.items())
