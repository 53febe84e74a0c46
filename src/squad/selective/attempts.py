"""Certifying again: how much of delta each attempt may use, so that all attempts together keep it.

The first attempt of a model is made at ``FIRST`` of delta, the second at half of the rest, and so on.  The shares add
up to 1 at most, however many attempts there are; so the chance that any of the certificates is false is at most delta
(docs/selection.md has the proof, and what it takes for granted).  An attempt with so few cases, or so few of a class
whose miss rate is to be bounded, that it could not succeed however many predictions were right uses nothing, and does
not count.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from squad.core.checks import check_count
from squad.errors import ArgumentError
from squad.selective.methods import Options, could_show

if TYPE_CHECKING:
    from squad.selective.certificate import Certificate

__all__ = [
    "FIRST",
    "MOST_ATTEMPTS",
    "advice",
    "assumption",
    "attempts_in",
    "can_succeed",
    "check_attempt",
    "merged",
    "next_attempt",
    "noted",
    "share",
    "spends",
    "statement",
]

#: The share of delta of the first attempt: most models are certified once, and should pay little for the others.
FIRST = 0.9
#: More attempts than this are refused: what is left of delta could not be told from 0.
MOST_ATTEMPTS = 40


def share(attempt: int | None) -> float:
    """The share of delta that an attempt may use.

    Args:
        attempt: 1 for the first; None for the only one there will ever be, which may use all of it.

    >>> [share(number) for number in (1, 2, 3)]
    [0.9, 0.04999999999999999, 0.024999999999999994]
    """
    if attempt is None:
        return 1.0
    # 1 - FIRST and its halves are exact, so that the shares add up to 1 and not to a hair more.
    return FIRST if attempt == 1 else (1 - FIRST) * 0.5 ** (attempt - 1)


def check_attempt(attempt: Any) -> int | None:
    """The number of an attempt, or None."""
    return None if attempt is None else check_count("attempt", attempt, 1, MOST_ATTEMPTS)


def attempts_in(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The attempts that a model's record remembers, the first one first; checked."""
    found = record.get("attempts", [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ArgumentError.of("'attempts' of the record", repr(found)[:60], "a list of objects")
    for number, one in enumerate(found, 1):
        delta = one.get("delta")
        if one.get("attempt") != number or not isinstance(delta, float) or not 0 < delta < 1:
            raise ArgumentError.of("'attempts' of the record", repr(one)[:60], f"attempt {number} with its delta")
    return [dict(one) for one in found]


def merged(attempts: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The attempts that two copies of a model remember, those before they were copied once; numbered anew."""
    common = 0
    while common < min(len(attempts), len(others)) and attempts[common] == others[common]:
        common += 1
    return [{**one, "attempt": number} for number, one in enumerate([*attempts, *others[common:]], 1)]


def next_attempt(earlier: Sequence[Mapping[str, Any]], delta: float) -> int:
    """The number of the next attempt.

    Args:
        earlier: the attempts so far.
        delta: of the next one; at least that of the others, or what they have used might be more than it.
    """
    if len(earlier) >= MOST_ATTEMPTS:
        raise ArgumentError(
            f"This model was certified {len(earlier)} times, and next to nothing of delta is left. Fit a new model, and"
            " certify it on rows that no attempt has used."
        )
    largest = max((one["delta"] for one in earlier), default=0.0)
    if delta < largest:
        raise ArgumentError(
            f"delta must be at least {largest:g}, as in an earlier attempt to certify this model: attempts share delta;"
            f" got {delta:g}. Take {largest:g}, or fit a new model and certify it on rows that no attempt has used."
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
    """Whether any labels of so many cases would give a certificate.

    Args:
        sizes: of each group, on how many cases each harm is counted.
        targets: risks by harm.
        level: of each statement.
        method: the method.
        options: of the method.
        costs: the harms that have costs between 0 and 1.
    """

    def could(name: str, cases: int, risk: float) -> bool:
        # Costs that are all 0 or 1 are tested as errors, if nobody said that others are possible.
        kinds = (False, True) if name in costs else (False,)
        return any(could_show(method, cases, risk, level, options, kind) for kind in kinds)

    return any(
        all(could(name, size[name], risk) for name, risk in target.items()) for target in targets for size in sizes
    )


def spends(certificate: "Certificate") -> bool:
    """Whether an attempt counts: whether labels of its cases, these or others, could give a certificate."""
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


def noted(certificate: "Certificate") -> dict[str, Any]:
    """What a model remembers of an attempt: plain data."""
    calibration = certificate.details.get("calibration", {})
    return {
        "attempt": certificate.attempt,
        "date": certificate.details.get("date"),
        "delta": certificate.delta,
        "spent": certificate.delta * share(certificate.attempt),
        "risks": [dict(target) for target in certificate.targets],
        "method": certificate.method,
        "m": certificate.m,
        "certified": certificate.certified,
        "sha256": calibration.get("sha256"),
        "source": calibration.get("source"),
    }


def statement(certificate: "Certificate") -> str:
    """Which attempt a certificate is, and what it used of delta; nothing for the only one, or one that used nothing."""
    if certificate.attempt is None or not spends(certificate):
        return ""
    used = share(certificate.attempt)
    return f"attempt {certificate.attempt} of this model, at {100 * used:.3g} % of delta"


def assumption(certificate: "Certificate") -> str:
    """What is taken for granted about the use of the calibration cases, as a part of a sentence."""
    unused = "no calibration case was used to make the model"
    if certificate.attempt is None:
        return f"{unused}, nor for another certificate"
    if certificate.attempt == 1:
        return f"{unused}, nor for a certificate that the model does not remember"
    return f"{unused}, and labels that are used again did not decide which cases, or which risk, to try next"


def advice(certificate: "Certificate", needed: int) -> str:
    """What to do next where there were too few rows, in a sentence or two.

    Args:
        certificate: of the attempt that failed.
        needed: about how many rows the next attempt takes.
    """
    attempt = certificate.attempt
    if not spends(certificate):
        uncounted = "" if attempt is None else " This does not count as an attempt."
        return f"As things look, it would take about {needed:,}.{uncounted}"
    if attempt is None:
        return f"It would take about {needed:,} new ones; adding to these until it succeeds would not keep delta."
    return (
        f"Attempt {attempt + 1}, at {100 * share(attempt + 1):.3g} % of delta, would take about {needed:,} new ones,"
        " without these; more make it more likely (squad plan)."
    )
