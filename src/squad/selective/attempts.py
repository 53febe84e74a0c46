"""Repeated certification: the share of delta that each attempt may use, so that all attempts together keep delta.

The first attempt to certify a model is tested at :data:`FIRST_SHARE` of delta, the second at half of the rest, and so
on.  The shares sum to at most 1 for any number of attempts, so the probability that any of the certificates is false is
at most delta (docs/explanation/guarantees.md has the proof and its assumptions).  An attempt that could not
have succeeded whatever the labels, because it has too few cases, or too few of a class whose miss rate is to be
bounded, uses nothing and does not count.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from squad.core.checks import check_count
from squad.errors import ArgumentError
from squad.selective.methods import Options, could_show

if TYPE_CHECKING:
    from squad.selective.certificate import Certificate

__all__ = [
    "FIRST_SHARE",
    "MAX_ATTEMPTS",
    "attempt_record",
    "attempt_text",
    "attempts_in",
    "can_succeed",
    "check_attempt",
    "counts_as_attempt",
    "data_use_assumption",
    "delta_share",
    "merge_attempts",
    "next_attempt",
    "next_attempt_advice",
]

#: Share of delta of the first attempt: most models are certified once, and should pay little for further attempts.
FIRST_SHARE = 0.9
#: Maximum number of attempts: beyond it, the share of delta is indistinguishable from 0.
MAX_ATTEMPTS = 40


def delta_share(attempt: int | None) -> float:
    """Return the share of delta that an attempt may use.

    Args:
        attempt: Number of the attempt, from 1; None if it is the only one, which may use all of delta.

    Returns:
        Fraction of delta; all shares add up to at most 1.

    Examples:
        >>> [delta_share(number) for number in (1, 2, 3)]
        [0.9, 0.04999999999999999, 0.024999999999999994]
    """
    if attempt is None:
        return 1.0
    # 1 - FIRST_SHARE and its halves are exact in floating point, so the sum of all shares does not exceed 1.
    return FIRST_SHARE if attempt == 1 else (1 - FIRST_SHARE) * 0.5 ** (attempt - 1)


def check_attempt(attempt: Any) -> int | None:
    """Check the number of an attempt, or None.

    Returns:
        The number, or None.
    """
    return None if attempt is None else check_count("attempt", attempt, 1, MAX_ATTEMPTS)


def attempts_in(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the attempts stored in a model's record, oldest first, after checking them."""
    found = record.get("attempts", [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ArgumentError.of("'attempts' of the record", repr(found)[:60], "a list of objects")
    for number, one in enumerate(found, 1):
        delta = one.get("delta")
        if one.get("attempt") != number or not isinstance(delta, float) or not 0 < delta < 1:
            raise ArgumentError.of("'attempts' of the record", repr(one)[:60], f"attempt {number} with its delta")
    return [dict(one) for one in found]


def merge_attempts(attempts: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Merge the attempts of two copies of a model, renumbered; attempts from before the copy appear once.

    Args:
        attempts: Attempts recorded in one copy.
        others: Attempts recorded in the other copy.

    Returns:
        The attempts of both copies, numbered from 1.

    Examples:
        >>> first, second, other = ({"delta": delta} for delta in (0.01, 0.02, 0.03))
        >>> [one["delta"] for one in merge_attempts([first, second], [first, other])]
        [0.01, 0.02, 0.03]
    """
    common = 0
    while common < min(len(attempts), len(others)) and attempts[common] == others[common]:
        common += 1
    return [{**one, "attempt": number} for number, one in enumerate([*attempts, *others[common:]], 1)]


def next_attempt(earlier: Sequence[Mapping[str, Any]], delta: float) -> int:
    """Return the number of the next attempt.

    Args:
        earlier: Attempts so far.
        delta: Delta of the next attempt; at least that of all others, which might otherwise have used more than it.

    Returns:
        Number of the next attempt, from 1.

    Raises:
        ArgumentError: If there are too many attempts already, or ``delta`` is below that of an earlier attempt.

    Examples:
        >>> next_attempt([{"delta": 0.01}], delta=0.01)
        2
    """
    if len(earlier) >= MAX_ATTEMPTS:
        raise ArgumentError(
            f"This model has used all of its {len(earlier)} attempts: next to nothing of delta is left. Fit a new model"
            " and certify it on rows that no attempt has used."
        )
    largest = max((one["delta"] for one in earlier), default=0.0)
    if delta < largest:
        raise ArgumentError(
            f"delta must be at least {largest:g}, got {delta:g}: attempts to certify a model share one delta, and an"
            f" earlier one used {largest:g}. Pass delta={largest:g}, or fit a new model and certify it on rows that no"
            " attempt has used."
        )
    return len(earlier) + 1


def can_succeed(
    sizes: Sequence[Mapping[str, int]],
    targets: Sequence[Mapping[str, float]],
    level: float,
    method: str,
    options: Options,
    costs: Collection[str],
) -> bool:
    """Whether a certificate is possible with this many cases, for the most favourable labels.

    Args:
        sizes: Per group, the number of cases that each harm is counted on.
        targets: Risks by harm, one mapping per target.
        level: Significance level of each statement.
        method: Name of the method.
        options: Options of the method.
        costs: Harms with costs between 0 and 1.

    Returns:
        Whether all harms of some target could be certified in some group.

    Examples:
        >>> can_succeed([{"wrong": 100}], [{"wrong": 0.02}], 0.01, "fallback", Options(), ())
        False
        >>> can_succeed([{"wrong": 300}], [{"wrong": 0.02}], 0.01, "fallback", Options(), ())
        True
    """

    def could(name: str, cases: int, risk: float) -> bool:
        # Costs that are all 0 or 1 are tested as errors, unless other values are known to be possible.
        kinds = (False, True) if name in costs else (False,)
        return any(could_show(method, cases, risk, level, options, kind) for kind in kinds)

    return any(
        all(could(name, size[name], risk) for name, risk in target.items()) for target in targets for size in sizes
    )


def counts_as_attempt(certificate: "Certificate") -> bool:
    """Whether an attempt counts: whether some labels of its cases could have given a certificate.

    Returns:
        Whether it counts; False if there were too few cases for any certificate.
    """
    given = {name: value for name, value in certificate.options.items() if name in ("ranks", "r_max")}
    return certificate.certified or any(
        can_succeed(
            [{name: rule.counts(name)[1] for name in rule.risks}],
            [rule.risks],
            rule.level,
            certificate.method,
            Options(**given),
            rule.costs,
        )
        for rule in certificate.rules
    )


def attempt_record(certificate: "Certificate") -> dict[str, Any]:
    """Return the record of an attempt that is stored with the model: plain data."""
    calibration = certificate.details.get("calibration", {})
    return {
        "attempt": certificate.attempt,
        "date": certificate.details.get("date"),
        "delta": certificate.delta,
        "spent": certificate.delta * delta_share(certificate.attempt),
        "risks": [dict(target) for target in certificate.targets],
        "method": certificate.method,
        "m": certificate.m,
        "certified": certificate.certified,
        "sha256": calibration.get("sha256"),
        "source": calibration.get("source"),
    }


def attempt_text(certificate: "Certificate") -> str:
    """Describe which attempt a certificate is and its share of delta; empty if it is the only one or does not count.

    Returns:
        Text such as "attempt 1 of this model, at 90 % of delta".
    """
    if certificate.attempt is None or not counts_as_attempt(certificate):
        return ""
    used = delta_share(certificate.attempt)
    return f"attempt {certificate.attempt} of this model, at {100 * used:.3g} % of delta"


def data_use_assumption(certificate: "Certificate") -> str:
    """Describe how calibration cases may have been used, as a clause of the guarantee.

    Returns:
        The clause, without a full stop.
    """
    unused = "no calibration case was used to train, select or recalibrate the model"
    if certificate.attempt is None:
        return f"{unused}, or for another certificate"
    if certificate.attempt == 1:
        return f"{unused}, or for a certificate that is not recorded with the model"
    reused = "labels reused from earlier attempts, if any, did not influence which cases or which risk came next"
    return f"{unused}, and {reused}"


def next_attempt_advice(certificate: "Certificate", needed: int) -> str:
    """Say what to do next after an attempt with too few cases, in one or two sentences.

    Args:
        certificate: Certificate of the failed attempt.
        needed: Approximate number of cases that the next attempt needs.

    Returns:
        The sentences, with a full stop each.
    """
    attempt = certificate.attempt
    if not counts_as_attempt(certificate):
        uncounted = "" if attempt is None else " This does not count as an attempt."
        return f"At the observed error rates, at least about {needed:,} would be needed.{uncounted}"
    if attempt is None:
        return (
            f"At least about {needed:,} new cases would be needed; adding cases to these until certification succeeds"
            " would exceed delta."
        )
    return (
        f"Attempt {attempt + 1}, at {100 * delta_share(attempt + 1):.3g} % of delta, would need at least about"
        f" {needed:,} new cases, without these, and more for a good chance of success (squad plan)."
    )
