"""Certification: from confidences and correctness to a certificate."""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squad.core.checks import check_choice, check_count, check_fraction
from squad.errors import ArgumentError
from squad.records import versions
from squad.selective.attempts import can_succeed, check_attempt, delta_share
from squad.selective.bands import BERK_JONES, DIVIDED
from squad.selective.certificate import Certificate, CertificateError, Rule
from squad.selective.consistency import SLACK, named, options_of
from squad.selective.groups import group_codes, group_key
from squad.selective.labels_needed import closest, labels_needed
from squad.selective.methods import METHODS, Options, certified_rules, statements
from squad.selective.pilots import PILOTED, check_pilot, counted_shares, order_of, pilot_of, thresholds_of
from squad.selective.resampling import resample
from squad.selective.scored_cases import WRONG, Ranked, Scores, rank

__all__ = ["Risk", "certify", "certify_scores", "check_scores", "check_targets"]

#: A target: the risk of wrong predictions, or a risk for each harm.
Risk = float | Mapping[str, float]


def certify(
    confidence: ArrayLike | torch.Tensor,
    correct: ArrayLike | torch.Tensor,
    risk: Risk | Sequence[Risk],
    delta: float = 0.01,
    method: str = "fallback",
    *,
    harms: Mapping[str, ArrayLike | torch.Tensor] | None = None,
    by: ArrayLike | torch.Tensor | None = None,
    weights: ArrayLike | torch.Tensor | None = None,
    max_weight: float | None = None,
    estimated_weights: bool = False,
    strata: ArrayLike | torch.Tensor | None = None,
    population: Mapping[Any, float] | None = None,
    thresholds: Sequence[float] | NDArray[Any] | None = None,
    ranks: int = 20,
    r_max: float = 0.1,
    pilot: Any = None,
    attempt: int | None = None,
) -> Certificate:
    """Find the lowest threshold on confidence whose selective risk is guaranteed to be at most ``risk``.

    The guarantee holds with confidence level 1 - ``delta`` over the calibration set, which must be from the same
    distribution as future cases and must not have been used to train, select or recalibrate the model.  It works with
    any model: all it sees is confidences, and whether the predictions were correct.

    Args:
        confidence: (m,), confidence scores of the calibration cases, on any scale; higher means more confident.
        correct: (m,), whether each prediction is correct.
        risk: Largest error rate allowed among accepted predictions; or a mapping from harm to risk, all of which must
            hold for accepted cases; or several such targets, each with its own threshold.
        delta: Probability that any part of the certificate is false, for all targets, groups and harms together.
        method: "fallback" (the default), "pareto" or "preset" (which assume nothing about the risk-coverage curve),
            "fixed_sequence", "sgr", "bonferroni", "grid" or "band".
        harms: By name, (m,) 0 or 1: whether the case, if accepted, suffers the harm, such as a missed class.  "wrong"
            is known from ``correct``.  Numbers between 0 and 1 are costs, whose mean over accepted cases is bounded.
            NaN excludes a case from a harm: with NaN wherever the true class is another one, ``risk`` bounds the miss
            rate of a class.  Several harms of one target do not divide ``delta``.
        by: (m,), group of each case, known before its true label (such as the predicted class): every group gets a
            threshold and a guarantee of its own.
        weights: (m,), for calibration cases from another distribution than future cases: how much more frequent each is
            among future cases than in the sample, up to a factor, such as 1 / its probability of inclusion.  Cases are
            drawn with probabilities proportional to their weights, and the guarantee is exact for those drawn.
        max_weight: Largest weight that any case can have, known beforehand; None uses the largest of ``weights``, and
            the certificate says so.
        estimated_weights: Whether the weights were estimated; the certificate says so.
        strata: (m,), stratum of each case, instead of weights, for a sample with fixed numbers of cases per stratum.
        population: Fraction of each stratum among new cases.
        thresholds: For "grid": thresholds chosen before looking at the calibration cases.
        ranks: For "bonferroni": number of thresholds tested.
        r_max: For "band": largest risk of interest.
        pilot: For "preset" and "pareto": cases outside the calibration set that choose the thresholds to test;
            validation cases are fine.  (confidence, correct), or (confidence, correct, harms); for "preset",
            confidences alone are enough, unless a harm is counted on some cases only.
        attempt: 1, 2, ... if this may not be the only attempt to certify the model: each attempt uses its own share of
            ``delta`` (90 %, 5 %, 2.5 %, ...), so that all of them together keep it.  None for the only attempt.

    Returns:
        The certificate; ``certified`` is False if no threshold could be certified.

    Raises:
        ArgumentError: If an argument is invalid.

    See Also:
        plan: How many calibration cases are needed.
        band_of: Bounds for all thresholds at once.
        squad.metrics.coverage_at_risk: The same question without a guarantee.

    References:
        Y. Geifman and R. El-Yaniv, Selective classification for deep neural networks, NeurIPS 2017 ("sgr").

        A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, Learn then test: calibrating predictive
        algorithms to achieve risk control, 2021.

        P. Bauer, Multiple testing in clinical trials, Statistics in Medicine 10, 1991 ("fixed_sequence").

        B. L. Wiens, A fixed sequence Bonferroni procedure for testing multiple endpoints, Pharmaceutical Statistics 2,
        2003 ("fallback").

        C. J. Clopper and E. S. Pearson, The use of confidence or fiducial limits illustrated in the case of the
        binomial, Biometrika 26, 1934 (the test of a threshold).

        I. Waudby-Smith and A. Ramdas, Estimating means of bounded random variables by betting, Journal of the Royal
        Statistical Society B, 2024 (the test of costs).

    Examples:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> confidence = rng.random(2000)
        >>> correct = rng.random(2000) < 0.8 + 0.2 * confidence
        >>> certificate = certify(confidence, correct, risk=0.05, delta=0.05)
        >>> certificate.certified, round(certificate.threshold, 2), certificate.n, certificate.errors
        (True, 0.67, 672, 23)
        >>> certificate.accepts([0.2, 0.9])
        array([False,  True])
    """
    scores = Scores.of(confidence, correct, harms, by)
    options = {"thresholds": thresholds, "ranks": ranks, "r_max": r_max, "pilot": pilot}
    details = {"calibration": {"sha256": scores.sha256(), "rows": len(scores)}, "squad-torch": _version()}
    targets = check_targets(risk, scores.harms)
    drawn = resample(
        scores,
        weights=weights,
        max_weight=max_weight,
        estimated_weights=estimated_weights,
        strata=strata,
        population=population,
    )
    return certify_scores(drawn.scores, targets, delta, method, options, "group", drawn.note(details), attempt)


def certify_scores(
    scores: Scores,
    targets: Sequence[Mapping[str, float]],
    delta: float,
    method: str,
    options: Mapping[str, Any],
    by: str,
    details: Mapping[str, Any] | None = None,
    attempt: int | None = None,
) -> Certificate:
    """Certify scores that have been checked; see :func:`certify`.

    Args:
        scores: Scored calibration cases.
        targets: Risks by harm, one mapping per target.
        delta: Probability that any part of the certificate is false.
        method: Name of the method.
        options: Options of the method, by their names in :func:`certify`.
        by: Name of the grouping, if the scores have groups.
        details: Provenance to be stored in the certificate.
        attempt: Number of the attempt, or None.

    Returns:
        The certificate; its ``certified`` is False if no rule could be certified.
    """
    delta = check_fraction("delta", delta)
    check_choice("method", method, tuple(METHODS))
    parts = [(None, scores)] if scores.by is None else _split_groups(scores)
    level = delta * delta_share(check_attempt(attempt)) / statements(method, targets, len(parts))
    chosen = _pilot_options(method, options.get("pilot"), scores, targets, len(scores) // len(parts), level)
    options = {**options, **chosen}
    if chosen:
        details = {**(details or {}), "pilot": chosen["cases"]}
    return _certify_at_level(scores, parts, targets, delta, level, method, options, by, details, attempt)


def _pilot_options(
    method: str, given: Any, scores: Scores, targets: Sequence[Mapping[str, float]], m: int, level: float
) -> dict[str, Any]:
    """Return the options that a pilot determines: thresholds, with their coverages or testing orders."""
    if method not in PILOTED:
        if given is not None:
            raise ArgumentError(
                f"pilot is only for the methods preset and pareto, but the method is {method}. Omit it."
            )
        return {}
    if given is None:
        raise ArgumentError(
            f"The method {method} needs a pilot. Pass pilot=(confidence, correct) of cases outside the calibration set,"
            " such as validation cases."
        )
    pilot = pilot_of(given)
    check_pilot(pilot, method, targets, scores)
    thresholds, shares = thresholds_of(pilot.scores.confidence)
    if method == "preset":
        counted = counted_shares(pilot, targets)
        return {"chosen": thresholds, "shares": shares, "counted": counted, "cases": len(pilot)}
    orders = tuple(order_of(pilot, thresholds, target, m, level) for target in targets)
    return {"chosen": thresholds, "orders": orders, "cases": len(pilot)}


def _certify_at_level(
    scores: Scores,
    parts: Sequence[tuple[Any, Scores]],
    targets: Sequence[Mapping[str, float]],
    delta: float,
    level: float,
    method: str,
    options: Mapping[str, Any],
    by: str,
    details: Mapping[str, Any] | None = None,
    attempt: int | None = None,
) -> Certificate:
    """Certify with the given significance level for each rule."""
    settings = Options(
        check_count("ranks", options.get("ranks", 20), 1),
        check_fraction("r_max", options.get("r_max", 0.1)),
        options.get("levels", BERK_JONES),
        tuple(options.get("shares", ())),
        tuple(options.get("counted", ())),
        tuple(options.get("orders", ())),
    )
    thresholds = _check_thresholds(method, options.get("thresholds"))
    if method in PILOTED:
        thresholds = np.asarray(options["chosen"], dtype=np.float64)
    for name in dict.fromkeys(name for target in targets for name in target):
        if method == "band" and scores.harms[name].dtype != np.bool_:
            raise ArgumentError(
                f"The method band supports harms of 0 and 1 only, but {name!r} has costs or is counted on some cases"
                " only. Use another method."
            )
    if method == "band" and (high := max(max(target.values()) for target in targets)) > settings.r_max:
        hint = "Pass a larger r_max, fixed before looking at the data; it makes the band wider."
        raise ArgumentError.of("risk", f"{high:g}", f"at most r_max ({settings.r_max:g}) for the method band", hint)
    ranked = [(group, rank(part, thresholds)) for group, part in parts]
    # The number of cases needed refers to the next attempt, which has a smaller share of delta.
    later = 1.0
    sizes = [{name: tally.m for name, tally in one.tallies.items()} for _, one in ranked]
    if attempt is not None and can_succeed(sizes, targets, level, method, settings, scores.costs):
        later = delta_share(attempt + 1) / delta_share(attempt)
    rules = tuple(
        _certify_rule(one, target, group, level, method, settings.of_target(index), later)
        for index, target in enumerate(targets)
        for group, one in ranked
    )
    used: dict[str, Any] = {}
    if method == "bonferroni":
        used["ranks"] = settings.ranks
    if method == "band":
        used["r_max"] = settings.r_max
        if settings.levels != DIVIDED:
            used["levels"] = settings.levels
    if method == "preset":
        used["shares"] = list(settings.shares)
        used["counted"] = dict(settings.counted)
    if method == "pareto":
        used["orders"] = [list(order) for order in settings.orders]
    if thresholds is not None:
        used["thresholds"] = [value if np.isfinite(value) else None for value in thresholds.tolist()]
    ties = sum(one.ties for _, one in ranked) if thresholds is None else 0
    return Certificate(
        rules, method, delta, len(scores), ties, None if scores.by is None else by, used, dict(details or {}), attempt
    )


def check_scores(certificate: Certificate, scores: Scores) -> None:
    """Check that a certificate is the one that these scores give: the same rules, with the same thresholds and counts.

    Estimates (``needed``, ``hopeless``) are not compared: other versions may estimate differently.

    Args:
        certificate: Certificate that was read.
        scores: Scores of its calibration cases, stored with it.

    Raises:
        CertificateError: If they contradict each other.
    """
    settings, thresholds = options_of(certificate)
    costs = frozenset(name for rule in certificate.rules for name in rule.costs)
    scores = dataclasses.replace(scores, costs=costs & set(scores.harms))
    options = {
        "chosen" if certificate.method in PILOTED else "thresholds": thresholds,
        "ranks": settings.ranks,
        "r_max": settings.r_max,
        "levels": settings.levels,
        "shares": settings.shares,
        "counted": settings.counted,
        "orders": settings.orders,
    }

    for harm in (harm for target in certificate.targets for harm in target if harm not in scores.harms):
        raise CertificateError(
            f"A saved certificate contradicts its calibration scores: it bounds {harm!r}, but they contain"
            f" {', '.join(scores.harms)}. Certify again."
        )

    # At its own level: certificates of format 1 also divided delta between harms.
    level = certificate.rules[0].level
    parts = [(None, scores)] if scores.by is None else _split_groups(scores)

    def recompute(factor: float) -> Certificate:
        return _certify_at_level(
            scores,
            parts,
            certificate.targets,
            certificate.delta,
            level * factor,
            certificate.method,
            options,
            certificate.by or "",
        )

    made = recompute(1.0)
    if _same_claim(made, certificate):
        return
    # A p-value that equals its level up to rounding may fall on either side with another version of SciPy.
    for factor in (1 - SLACK, 1 + SLACK):
        with contextlib.suppress(ArgumentError):  # a delta at the limit of the allowed range
            if _same_claim(recompute(factor), certificate):
                return
    found = {_rule_key(rule): rule for rule in made.rules}
    for rule in certificate.rules:
        other = found.get(_rule_key(rule))
        if other is None or not _same_counts(rule, other):
            recomputed = "no such rule" if other is None else _rule_text(other)
            raise CertificateError(
                f"A saved certificate contradicts its calibration scores: {named(rule, certificate.by)} has"
                f" {_rule_text(rule)}, but the {len(scores):,} scores give {recomputed}. Certify again."
            )
    raise CertificateError(
        f"A saved certificate contradicts its calibration scores: it has {certificate.m:,} cases, {certificate.ties:,}"
        f" of them tied, and {len(certificate.rules)} rules; the scores give {made.m:,}, {made.ties:,} and"
        f" {len(made.rules)}. Certify again."
    )


def _same_claim(one: Certificate, other: Certificate) -> bool:
    if (one.m, one.ties, one.by is None, len(one.rules)) != (other.m, other.ties, other.by is None, len(other.rules)):
        return False
    pairs = list(zip(one.rules, other.rules, strict=True))
    return all(
        _rule_key(rule) == _rule_key(other_rule) and _same_counts(rule, other_rule) for rule, other_rule in pairs
    )


def _rule_key(rule: Rule) -> Any:
    """Return a key that identifies a rule within its certificate: its target and group."""
    return frozenset(rule.risks.items()), group_key(rule.group)


def _same_counts(rule: Rule, other: Rule) -> bool:
    """Whether two rules have the same threshold and counts; sums of costs may differ by rounding."""
    of = rule.threshold, rule.n, rule.m, set(rule.errors), rule.costs, dict(rule.counted)
    return of == (other.threshold, other.n, other.m, set(other.errors), other.costs, dict(other.counted)) and all(
        math.isclose(count, other.errors[name], rel_tol=1e-9, abs_tol=1e-9) if name in rule.costs
        else count == other.errors[name]
        for name, count in rule.errors.items()
    )  # fmt: skip


def _rule_text(rule: Rule) -> str:
    errors = " and ".join(f"{count:,} ({name})" for name, count in rule.errors.items())
    return f"a threshold of {rule.threshold!r} with {rule.n:,} of {rule.m:,} accepted and errors {errors}"


def _certify_rule(
    ranked: Ranked,
    risks: Mapping[str, float],
    group: Any,
    level: float,
    method: str,
    options: Options,
    later: float,
) -> Rule:
    places = np.flatnonzero(certified_rules(method, ranked, risks, level, options))
    tallies = {name: ranked.tallies[name] for name in risks}
    costs = tuple(name for name, tally in tallies.items() if tally.losses is not None)
    some = {name: tally for name, tally in tallies.items() if tally.m < ranked.m}
    if not len(places):
        needed, hopeless = labels_needed(ranked, risks, level * later, method, options)
        counted = {name: (0, tally.m) for name, tally in some.items()}
        none = dict.fromkeys(risks, 0)
        best = closest(ranked, risks) if hopeless else {}
        failing = _failing_alone(ranked, risks, level, method, options)
        return Rule(
            dict(risks), group, np.inf, 0, ranked.m, none, level, needed, hopeless, counted, costs, best, failing
        )
    last = int(places[-1])
    errors = {name: tally.errors[last].item() for name, tally in tallies.items()}
    counted = {name: (int(tally.n[last]), tally.m) for name, tally in some.items()}
    threshold, n = float(ranked.threshold[last]), int(ranked.n[last])
    return Rule(dict(risks), group, threshold, n, ranked.m, errors, level, counted=counted, costs=costs)


def _failing_alone(
    ranked: Ranked, risks: Mapping[str, float], level: float, method: str, options: Options
) -> dict[str, tuple[float, int]]:
    """Return, of several harms, those that could not be certified even alone, with their errors at full coverage."""
    if len(risks) == 1 or not len(ranked.n):
        return {}
    tallies = {
        name: ranked.tallies[name]
        for name, risk in risks.items()
        if not certified_rules(method, ranked, {name: risk}, level, options).any()
    }
    return {name: (tally.errors[-1].item(), int(tally.n[-1])) for name, tally in tallies.items()}


def check_targets(risk: Risk | Sequence[Risk], harms: Mapping[str, Any]) -> list[dict[str, float]]:
    """Check targets, and return them as mappings from known harms to risks.

    Args:
        risk: Risk, mapping from harm to risk, or several of either, as for :func:`certify`.
        harms: Known harms, by name.

    Returns:
        One mapping from harm to risk per target.

    Examples:
        >>> check_targets([0.02, {"wrong": 0.05}], {"wrong": None})
        [{'wrong': 0.02}, {'wrong': 0.05}]
    """
    many: Any = risk.tolist() if isinstance(risk, (np.ndarray, torch.Tensor)) else risk
    given = list(many) if isinstance(many, (list, tuple, set)) else [many]
    if not given:
        raise ArgumentError("risk must name at least one target, such as 0.02, got none.")
    targets: list[dict[str, float]] = []
    for one in given:
        target = dict(one) if isinstance(one, Mapping) else {WRONG: one}
        if not target:
            raise ArgumentError.of("risk", "an empty mapping", "given for at least one harm")
        for name in target:
            if name not in harms:
                hint = "" if len(harms) > 1 else "Pass the losses of other harms with harms={name: ...}."
                raise ArgumentError.of("risk", repr(name), f"given for known harms ({', '.join(harms)})", hint)
        checked = {name: check_fraction("risk", value) for name, value in target.items()}
        if checked in targets:
            raise ArgumentError.of("risk", f"{one} twice", "a list of different targets")
        targets.append(checked)
    return targets


def _check_thresholds(method: str, given: Any) -> NDArray[np.float64] | None:
    """Check the user's thresholds, and return them with the strictest first."""
    if method != "grid":
        if given is not None:
            raise ArgumentError(f"thresholds are only for the method grid, but the method is {method}. Omit them.")
        return None
    if given is None:
        raise ArgumentError("The method grid needs thresholds. Pass, for example, thresholds=[0.99, 0.95, 0.9].")
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError.of("thresholds", repr(given)[:60], "a list of numbers") from None
    if found.ndim != 1 or not found.size or np.isnan(found).any() or (found == np.inf).any():
        raise ArgumentError.of("thresholds", repr(given)[:60], "a non-empty list of numbers below infinity")
    return np.unique(found)[::-1]


def _split_groups(scores: Scores) -> list[tuple[Any, Scores]]:
    """Return the cases of each group."""
    assert scores.by is not None
    groups, codes = group_codes(scores.by)
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.searchsorted(codes[order], np.arange(1, len(groups))))
    return [(group, scores.only(rows)) for group, rows in zip(groups, parts, strict=True)]


@functools.cache
def _version() -> str:
    return versions().get("squad-torch", "unknown")
