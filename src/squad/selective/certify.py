"""From confidences and their errors to a certificate."""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squad.core.checks import check_choice, check_count
from squad.errors import ArgumentError
from squad.records import versions
from squad.selective.attempts import can_succeed, check_attempt, share
from squad.selective.bands import BERK_JONES, DIVIDED
from squad.selective.certificate import Certificate, CertificateError, Rule
from squad.selective.consistency import SLACK, named, options_of
from squad.selective.groups import group_codes, group_key
from squad.selective.methods import METHODS, Options, shown_for_all, statements
from squad.selective.pilots import PILOTED, check_pilot, counted_shares, order_of, pilot_of, thresholds_of
from squad.selective.planning import check_share, closest, labels_needed
from squad.selective.resampling import resample
from squad.selective.scored_cases import WRONG, Ranked, Scores, rank

__all__ = ["Risk", "certify", "certify_scores", "check_scores", "check_targets"]

#: One target: a risk of wrong answers, or a risk for each harm.
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
    """Find the lowest threshold on confidence with a guarantee: at most ``risk`` of accepted predictions are wrong.

    The guarantee holds with probability 1 - ``delta`` over the calibration cases, which must be drawn like the cases to
    come, and must not have been used to make the model.  It is for anybody's model: all it sees is confidences, and
    whether the answers were right.

    Args:
        confidence: (m,), of the calibration cases, the higher the surer, on any scale.
        correct: (m,), whether each answer is right.
        risk: the share of accepted answers that may be wrong; or a mapping from harm to risk, all of which must hold
            for accepted cases; or several such targets, each of which gets its own threshold.
        delta: the chance that any guarantee is false, for all targets, groups and harms together.
        method: "fallback" (the default), "pareto" or "preset" (which need nothing of the ranking), "fixed_sequence",
            "sgr", "bonferroni", "grid" or "band".
        harms: by name, (m,) 0 or 1: whether the case, if accepted, suffers it, such as a missed class.  "wrong" is
            known from ``correct``.  Numbers between 0 and 1 are costs, whose mean over accepted cases is bounded; NaN
            leaves a case out: with NaN wherever the right class is another, ``risk`` bounds the miss rate of a class.
            Several harms take no part of ``delta`` from each other.
        by: (m,), a group each, known before the right answer is (such as the predicted class): every group gets a
            threshold and a guarantee of its own.
        weights: (m,), where the calibration cases were not drawn like the cases to come: how much more frequent each
            is among new cases than in the sample, up to a factor, such as 1 / its chance to get into the sample.
            Cases are drawn with chances in proportion to these, and the guarantee is exact on what is left.
        max_weight: the largest weight that any case can have, known beforehand; None takes the largest of ``weights``,
            and the certificate says so.
        estimated_weights: they were estimated; the certificate says so.
        strata: (m,), in the place of weights: the stratum of each case, where so many were taken of each.
        population: the share of each stratum among new cases.
        thresholds: of "grid": named before the calibration cases were looked at.
        ranks: of "bonferroni": how many are tested.
        r_max: of "band": the largest risk that may be asked for.
        pilot: of "preset" and "pareto": cases that are not in the calibration set, which choose the thresholds that are
            tested; validation cases will do.  (confidence, correct), or (confidence, correct, harms); for "preset"
            confidences alone are enough, unless a harm is counted on some cases only.
        attempt: 1, 2, ... if this may not be the only attempt to certify the model: each uses its own share of
            ``delta`` (90 %, 5 %, 2.5 %, ...), so that all of them together keep it.  None is the only one.

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
    """The same for scores that were checked; ``by`` is what their groups are called."""
    delta = check_share("delta", delta)
    check_choice("method", method, tuple(METHODS))
    parts = [(None, scores)] if scores.by is None else _groups(scores)
    level = delta * share(check_attempt(attempt)) / statements(method, targets, len(parts))
    chosen = _piloted(method, options.get("pilot"), scores, targets, len(scores) // len(parts), level)
    options = {**options, **chosen}
    if chosen:
        details = {**(details or {}), "pilot": chosen["cases"]}
    return _at_level(scores, parts, targets, delta, level, method, options, by, details, attempt)


def _piloted(
    method: str, given: Any, scores: Scores, targets: Sequence[Mapping[str, float]], m: int, level: float
) -> dict[str, Any]:
    """The options of a method that takes a pilot: thresholds, with the coverages or the orders to test them in."""
    if method not in PILOTED:
        if given is not None:
            raise ArgumentError(f"pilot is for the methods preset and pareto; the method is {method}. Leave it out.")
        return {}
    if given is None:
        hint = "It is (confidence, correct) of cases that are not in the calibration set, such as validation cases."
        raise ArgumentError.of("pilot", None, f"given for the method {method}", hint)
    pilot = pilot_of(given)
    check_pilot(pilot, method, targets, scores)
    thresholds, shares = thresholds_of(pilot.scores.confidence)
    if method == "preset":
        counted = counted_shares(pilot, targets)
        return {"chosen": thresholds, "shares": shares, "counted": counted, "cases": len(pilot)}
    orders = tuple(order_of(pilot, thresholds, target, m, level) for target in targets)
    return {"chosen": thresholds, "orders": orders, "cases": len(pilot)}


def _at_level(
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
    """The certificate whose rules are tested at this level each."""
    settings = Options(
        check_count("ranks", options.get("ranks", 20), 1),
        check_share("r_max", options.get("r_max", 0.1)),
        options.get("levels", BERK_JONES),
        tuple(options.get("shares", ())),
        tuple(options.get("counted", ())),
        tuple(options.get("orders", ())),
    )
    thresholds = _thresholds(method, options.get("thresholds"))
    if method in PILOTED:
        thresholds = np.asarray(options["chosen"], dtype=np.float64)
    for name in dict.fromkeys(name for target in targets for name in target):
        if method == "band" and scores.harms[name].dtype != np.bool_:
            raise ArgumentError(
                f"The method band takes harms of 0 and 1 only; {name!r} has costs, or is counted on some cases only."
                " Take another method."
            )
    if method == "band" and (high := max(max(target.values()) for target in targets)) > settings.r_max:
        hint = "r_max must be fixed before looking; a larger one makes the band wider."
        raise ArgumentError.of("risk", f"{high:g}", f"at most r_max ({settings.r_max:g}) for the method band", hint)
    ranked = [(group, rank(part, thresholds)) for group, part in parts]
    # What is needed is said for the next attempt, which has a smaller share.
    later = 1.0
    sizes = [{name: tally.m for name, tally in one.tallies.items()} for _, one in ranked]
    if attempt is not None and can_succeed(sizes, targets, level, method, settings, scores.costs):
        later = share(attempt + 1) / share(attempt)
    rules = tuple(
        _rule(one, target, group, level, method, settings.of_target(place), later)
        for place, target in enumerate(targets)
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
    """That a certificate is the one that these scores give: the same rules, with the same thresholds and counts.

    What a rule estimates (``needed``, ``hopeless``) is not compared: another version may estimate otherwise.

    Args:
        certificate: what was read.
        scores: of its calibration cases, stored beside it.
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
            f"A saved certificate contradicts its calibration scores: it speaks of {harm!r}, they of"
            f" {', '.join(scores.harms)}. Certify again."
        )

    # At its own level: a certificate of format 1 divided delta between harms, too.
    level = certificate.rules[0].level
    parts = [(None, scores)] if scores.by is None else _groups(scores)

    def again(near: float) -> Certificate:
        return _at_level(
            scores,
            parts,
            certificate.targets,
            certificate.delta,
            level * near,
            certificate.method,
            options,
            certificate.by or "",
        )

    made = again(1.0)
    if _same_claim(made, certificate):
        return
    # A p-value that equals its level to the last digit may fall on either side with another version of scipy.
    for near in (1 - SLACK, 1 + SLACK):
        with contextlib.suppress(ArgumentError):  # a delta that is hardly allowed
            if _same_claim(again(near), certificate):
                return
    found = {_place(rule): rule for rule in made.rules}
    for rule in certificate.rules:
        other = found.get(_place(rule))
        if other is None or not _agree(rule, other):
            told = "no such rule" if other is None else _told(other)
            raise CertificateError(
                f"A saved certificate contradicts its calibration scores: {named(rule, certificate.by)} says"
                f" {_told(rule)}, and the {len(scores):,} scores give {told}. Certify again."
            )
    raise CertificateError(
        f"A saved certificate contradicts its calibration scores: it speaks of {certificate.m:,} cases,"
        f" {certificate.ties:,} of equal confidence, in {len(certificate.rules)} rules; the scores give {made.m:,},"
        f" {made.ties:,} and {len(made.rules)}. Certify again."
    )


def _same_claim(one: Certificate, other: Certificate) -> bool:
    if (one.m, one.ties, one.by is None, len(one.rules)) != (other.m, other.ties, other.by is None, len(other.rules)):
        return False
    pairs = list(zip(one.rules, other.rules, strict=True))
    return all(_place(rule) == _place(its) and _agree(rule, its) for rule, its in pairs)


def _place(rule: Rule) -> Any:
    """Which of the rules it is."""
    return frozenset(rule.risks.items()), group_key(rule.group)


def _agree(rule: Rule, other: Rule) -> bool:
    """Whether both say the same; sums of costs but for rounding, which depends on the order of adding."""
    of = rule.threshold, rule.n, rule.m, set(rule.errors), rule.costs, dict(rule.counted)
    return of == (other.threshold, other.n, other.m, set(other.errors), other.costs, dict(other.counted)) and all(
        math.isclose(count, other.errors[name], rel_tol=1e-9, abs_tol=1e-9) if name in rule.costs
        else count == other.errors[name]
        for name, count in rule.errors.items()
    )  # fmt: skip


def _told(rule: Rule) -> str:
    errors = " and ".join(f"{count:,} ({name})" for name, count in rule.errors.items())
    return f"a threshold of {rule.threshold!r} with {rule.n:,} of {rule.m:,} accepted and errors {errors}"


def _rule(
    ranked: Ranked,
    risks: Mapping[str, float],
    group: Any,
    level: float,
    method: str,
    options: Options,
    later: float,
) -> Rule:
    places = np.flatnonzero(shown_for_all(method, ranked, risks, level, options))
    tallies = {name: ranked.tallies[name] for name in risks}
    costs = tuple(name for name, tally in tallies.items() if tally.losses is not None)
    some = {name: tally for name, tally in tallies.items() if tally.m < ranked.m}
    if not len(places):
        needed, hopeless = labels_needed(ranked, risks, level * later, method, options)
        counted = {name: (0, tally.m) for name, tally in some.items()}
        none = dict.fromkeys(risks, 0)
        best = closest(ranked, risks) if hopeless else {}
        failing = _failing(ranked, risks, level, method, options)
        return Rule(
            dict(risks), group, np.inf, 0, ranked.m, none, level, needed, hopeless, counted, costs, best, failing
        )
    last = int(places[-1])
    errors = {name: tally.errors[last].item() for name, tally in tallies.items()}
    counted = {name: (int(tally.n[last]), tally.m) for name, tally in some.items()}
    threshold, n = float(ranked.threshold[last]), int(ranked.n[last])
    return Rule(dict(risks), group, threshold, n, ranked.m, errors, level, counted=counted, costs=costs)


def _failing(
    ranked: Ranked, risks: Mapping[str, float], level: float, method: str, options: Options
) -> dict[str, tuple[float, int]]:
    """Of several harms, those that could not be shown even alone, with their errors if all cases were accepted."""
    if len(risks) == 1 or not len(ranked.n):
        return {}
    tallies = {
        name: ranked.tallies[name]
        for name, risk in risks.items()
        if not shown_for_all(method, ranked, {name: risk}, level, options).any()
    }
    return {name: (tally.errors[-1].item(), int(tally.n[-1])) for name, tally in tallies.items()}


def check_targets(risk: Risk | Sequence[Risk], harms: Mapping[str, Any]) -> list[dict[str, float]]:
    """Targets as mappings from harm to risk, each of them known."""
    many: Any = risk.tolist() if isinstance(risk, (np.ndarray, torch.Tensor)) else risk
    given = list(many) if isinstance(many, (list, tuple, set)) else [many]
    if not given:
        raise ArgumentError.of("risk", "nothing", "a share of wrong answers, such as .02")
    targets: list[dict[str, float]] = []
    for one in given:
        target = dict(one) if isinstance(one, Mapping) else {WRONG: one}
        if not target:
            raise ArgumentError.of("risk", "an empty mapping", "a risk for one harm at least")
        for name in target:
            if name not in harms:
                hint = "" if len(harms) > 1 else "Give the losses of others with harms={name: ...}."
                raise ArgumentError.of("risk", repr(name), f"for a harm that is known ({', '.join(harms)})", hint)
        checked = {name: check_share("risk", value) for name, value in target.items()}
        if checked in targets:
            raise ArgumentError.of("risk", f"{one} twice", "each target once")
        targets.append(checked)
    return targets


def _thresholds(method: str, given: Any) -> NDArray[np.float64] | None:
    """The user's thresholds, the strictest first."""
    if method != "grid":
        if given is not None:
            raise ArgumentError(f"thresholds are for the method grid; the method is {method}. Leave them out.")
        return None
    if given is None:
        raise ArgumentError.of("thresholds", None, "named for the method grid, such as [.99, .95, .9]")
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError.of("thresholds", repr(given)[:60], "a list of numbers") from None
    if found.ndim != 1 or not found.size or np.isnan(found).any() or (found == np.inf).any():
        raise ArgumentError.of("thresholds", repr(given)[:60], "a list of numbers below infinity, one at least")
    return np.unique(found)[::-1]


def _groups(scores: Scores) -> list[tuple[Any, Scores]]:
    """The cases of each group."""
    assert scores.by is not None
    groups, codes = group_codes(scores.by)
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.searchsorted(codes[order], np.arange(1, len(groups))))
    return [(group, scores.only(rows)) for group, rows in zip(groups, parts, strict=True)]


@functools.cache
def _version() -> str:
    return versions().get("squad-torch", "unknown")
