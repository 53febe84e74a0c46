"""Resampling of calibration samples from another distribution than future cases, before anything is tested.

*Weights*: let w(x) be proportional to how much more frequent a case is among new cases than in the calibration sample
(known covariate shift), or to the inverse of its probability of inclusion.  If each case is kept independently with
probability w(x) / W, where W is the largest possible weight, the kept cases are an independent sample of the new
population (rejection sampling), and every exact test stays exact.

*Strata*: a sample with a fixed number of cases per stratum is not a sample of the population.  But numbers drawn from a
multinomial distribution with the population's fractions, and then that many cases of each stratum, are a sample of M
independent cases.  M is determined by the sizes of the strata alone: as large as possible if a stratum may run out once
in 10,000 times, in which case nothing is certified.  A certificate is thus false no more often than with unlimited
strata: with probability at most delta.

Which cases are drawn is determined by a generator whose key is a hash of the cases themselves: the same every time, on
every machine, and in any order of cases.  There is no seed; changing the scale of the confidences, or the largest
weight, until the result suits amounts to certifying several times.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import special

from squad.core.checks import check_number
from squad.errors import ArgumentError
from squad.selective.bounds import MAX_CASES
from squad.selective.groups import ByGroup, group_codes, plain_group
from squad.selective.scored_cases import WRONG, Scores, as_array, as_groups

__all__ = ["Resampled", "resample", "sampling_assumption"]

#: Probability that a stratum has fewer cases than are drawn from it, in which case nothing is certified.
RUNS_OUT = 1e-4
#: Maximum number of strata named in a certificate.
MAX_STRATA_NAMED = 4


class Resampled:
    """A sample from the same distribution as future cases.

    Attributes:
        scores: Scores of the cases that were drawn.
        details: Plain data for the certificate: how the cases were drawn, and from how many.
        assumptions: Additional assumptions, each as a clause.
    """

    def __init__(self, scores: Scores, details: Mapping[str, Any], assumptions: list[str]) -> None:
        self.scores = scores
        self.details = details
        self.assumptions = assumptions

    def note(self, details: Mapping[str, Any]) -> dict[str, Any]:
        """Return the details of a certificate, with those of the resampling added."""
        if not self.details:
            return dict(details)
        known = [*details.get("assumptions", ()), *self.assumptions]
        return {**details, "resampling": dict(self.details), "assumptions": known}


def resample(
    scores: Scores,
    *,
    weights: ArrayLike | torch.Tensor | None = None,
    max_weight: float | None = None,
    estimated_weights: bool = False,
    strata: ArrayLike | torch.Tensor | None = None,
    population: Mapping[Any, float] | None = None,
) -> Resampled:
    """Draw cases by their weights or strata; all cases if neither is given.

    Args:
        scores: Scores of all cases.
        weights: (m,), non-negative: how much more frequent a case is among new cases than in the sample, up to a
            factor.
        max_weight: Largest weight that any case can have, known beforehand; None uses the largest of ``weights``, and
            the certificate says so.
        estimated_weights: Whether the weights were estimated; the certificate says so.
        strata: (m,), stratum of each case.
        population: Fraction of each stratum among new cases.

    Returns:
        The cases that were drawn, with a description of the draw for the certificate.
    """
    if weights is not None and strata is not None:
        raise ArgumentError("Pass either `weights` or `strata`, not both.")
    if weights is None and (max_weight is not None or estimated_weights):
        raise ArgumentError("`max_weight` and `estimated_weights` need `weights`. Pass `weights` as well.")
    if (strata is None) != (population is None):
        given, missing = ("strata", "population") if population is None else ("population", "strata")
        raise ArgumentError(
            f"`{given}` needs `{missing}`. Pass the stratum of each case, and the fraction of each among new cases."
        )
    if weights is not None:
        return _by_weights(scores, _check_weights(weights, len(scores)), max_weight, estimated_weights)
    if strata is not None and population is not None:
        return _by_strata(scores, as_groups("strata", strata), population)
    return Resampled(scores, {}, [])


def sampling_assumption(details: Mapping[str, Any]) -> str | None:
    """Describe how new cases must be distributed after sampling by weights or strata; None without such sampling.

    Args:
        details: Details of a certificate.

    Returns:
        A clause of the guarantee, or None.
    """
    found = details.get("resampling")
    if not isinstance(found, Mapping):
        return None
    which = f"{found['drawn']:,} of {found['cases']:,} were drawn"
    if found.get("by") == "weights":
        return f"new cases are drawn independently, and are distributed like the weighted calibration cases ({which})"
    strata = found["strata"]
    shares = ", ".join(f"{one['stratum']}: {100 * one['share']:.4g} %" for one in strata[:MAX_STRATA_NAMED])
    more = f" and {len(strata) - MAX_STRATA_NAMED:,} more" if len(strata) > MAX_STRATA_NAMED else ""
    return (
        f"new cases are drawn independently from the strata {shares}{more}, and within a stratum are distributed like"
        f" the calibration cases ({which})"
    )


def _by_weights(scores: Scores, weights: NDArray[np.float64], max_weight: float | None, estimated: bool) -> Resampled:
    observed = float(weights.max())
    most = observed if max_weight is None else check_number("max_weight", max_weight, 0.0, exclude=0.0)
    if observed > most:
        row = int(weights.argmax())
        hint = "It must be the largest weight that any case can have; clipped weights are not the true ratios."
        raise ArgumentError.of("max_weight", f"{most:g}", f"at least {observed:g}, the weight of case {row + 1}", hint)
    order, key = _key(scores, weights)
    kept = np.zeros(len(scores), dtype=np.bool_)
    kept[order] = _uniform(key, len(scores)) * most < weights[order]
    if not kept.any():
        raise ArgumentError(
            f"None of the {len(scores):,} cases is drawn: their weights are far below max_weight, {most:g}. Check for a"
            " weight that is too large."
        )
    effective = float(weights.sum()) ** 2 / float(np.sum(weights**2))
    details = {
        "by": "weights",
        "cases": len(scores),
        "drawn": int(kept.sum()),
        "effective": round(effective, 1),
        "max_weight": most,
        "max_weight_given": max_weight is not None,
        "estimated": bool(estimated),
        "key": key.hex(),
    }
    weights_are = "the weights, which were estimated, are" if estimated else "the weights are"
    largest = "" if max_weight is not None else ", the largest one observed"
    note = f"{weights_are} the true ratios of frequencies, and no weight can exceed {most:g}{largest}"
    return Resampled(scores.only(kept), details, [note])


def _by_strata(scores: Scores, strata: NDArray[Any], population: Mapping[Any, float]) -> Resampled:
    names, codes, shares = _strata(strata, population, len(scores))
    sizes = np.bincount(codes, minlength=len(names))
    if len(empty := np.flatnonzero((sizes == 0) & (shares > 0))):
        raise ArgumentError(
            f"population contains {names[empty[0]]!r}, but there is no case of this stratum. Collect cases of it, or"
            " leave it out of the population."
        )
    total = _most_drawn(sizes, shares)
    order, key = _key(scores, codes)
    drawn = _uniform(key, len(scores) + total)
    wanted = np.bincount(
        np.searchsorted(np.cumsum(shares)[:-1], drawn[len(scores) :], side="right"), minlength=len(names)
    )
    if len(short := np.flatnonzero(wanted > sizes)):
        name = names[short[0]]
        raise ArgumentError(
            f"The stratum {name!r} has {int(sizes[short[0]]):,} cases, but {int(wanted[short[0]]):,} were drawn, which"
            f" happens once in {1 / RUNS_OUT:,.0f} times. Add cases of {name!r}."
        )
    luck = np.empty(len(scores))
    luck[order] = drawn[: len(scores)]
    by_luck = np.lexsort((luck, codes))
    begin = np.cumsum(sizes) - sizes
    rank = np.arange(len(scores)) - begin[codes[by_luck]]
    kept = np.zeros(len(scores), dtype=np.bool_)
    kept[by_luck] = rank < wanted[codes[by_luck]]
    details = {
        "by": "strata",
        "cases": len(scores),
        "drawn": total,
        "strata": [
            {"stratum": plain_group(name), "share": float(share), "cases": int(size), "drawn": int(count)}
            for name, share, size, count in zip(names, shares, sizes, wanted, strict=True)
        ],
        "key": key.hex(),
    }
    return Resampled(scores.only(kept), details, [])


def _most_drawn(sizes: NDArray[np.int64], shares: NDArray[np.float64]) -> int:
    """Return the largest sample size at which a stratum runs out with probability at most :data:`RUNS_OUT`."""
    some = (shares > 0) & (shares < 1)
    low, high = 1, int(min(sizes[shares == 1], default=MAX_CASES))  # a single stratum can be drawn completely
    high = min(high, int(sizes[shares > 0].sum()))

    def fits(total: int) -> bool:
        # A stratum at least as large as the sample cannot run out.
        over = np.where(sizes[some] >= total, 0.0, special.bdtrc(sizes[some], total, shares[some]))
        return float(np.sum(over)) <= RUNS_OUT

    if fits(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _strata(
    strata: NDArray[Any], population: Mapping[Any, float], count: int
) -> tuple[list[Any], NDArray[np.int64], NDArray[np.float64]]:
    """Return the strata of the population, the index of each case's stratum, and their fractions."""
    if strata.shape != (count,):
        raise ArgumentError.of("strata", f"shape {strata.shape}", f"of shape ({count},), one per case")
    if not isinstance(population, Mapping) or not population:
        raise ArgumentError.of("population", repr(population)[:60], "a mapping from stratum to fraction")
    shares = np.array([check_number(f"population[{name!r}]", one, 0.0, 1.0) for name, one in population.items()])
    if abs(shares.sum() - 1) > 1e-6:
        raise ArgumentError.of("population", f"a sum of {shares.sum():.6g}", "fractions that sum to 1")
    indices = ByGroup((name, index) for index, name in enumerate(population))
    found = [indices.find(one) for one in strata.tolist()]
    for one, index in zip(strata.tolist(), found, strict=True):
        if index is None:
            hint = "Add it; a fraction of 0 excludes its cases."
            raise ArgumentError.of(
                "population", f"none for {one!r}", "a mapping with the fraction of every stratum", hint
            )
    return list(population), np.array(found, dtype=np.int64), shares / shares.sum()


def _check_weights(weights: ArrayLike | torch.Tensor, count: int) -> NDArray[np.float64]:
    found = as_array("weights", weights)
    if found.shape != (count,) or (found.dtype.kind not in "biuf" and found.size):
        raise ArgumentError.of("weights", f"{found.dtype} of shape {found.shape}", f"numbers of shape ({count},)")
    found = found.astype(np.float64)
    if len(bad := np.flatnonzero(~(np.isfinite(found) & (found >= 0)))):
        raise ArgumentError.of("weights", f"{found[bad[0]]:g} in case {bad[0] + 1}", "finite and non-negative")
    if not found.any():
        raise ArgumentError.of("weights", "only zeros", "positive for at least one case")
    return found


def _key(scores: Scores, more: NDArray[Any]) -> tuple[NDArray[np.int64], bytes]:
    """Return the cases in a canonical order, independent of the order they came in, and a hash of them in that order.

    Cases of equal confidence are ordered by everything known about them (``more`` is their weight or stratum); cases
    that are still equal are interchangeable.
    """
    wrong = scores.harms[WRONG]
    groups = [] if scores.by is None else [group_codes(scores.by)[1]]
    losses = [loss.astype(np.float64) for name, loss in sorted(scores.harms.items()) if name != WRONG]
    order = np.lexsort((more, *groups, *losses, wrong, scores.confidence))
    digest = hashlib.sha256(b"squad-torch resampling 1\n")
    for part, kind in (
        (scores.confidence, "<f8"),
        (wrong, "<u1"),
    ):  # not the weights, which could be varied like a seed until one suits
        digest.update(part[order].astype(kind).tobytes())
    return order, digest.digest()[:16]


def _uniform(key: bytes, count: int) -> NDArray[np.float64]:
    """Return numbers in [0, 1) from Philox, whose stream is the same in all versions of NumPy."""
    raw = np.random.Philox(key=int.from_bytes(key, "little")).random_raw(count)
    return np.asarray((raw >> np.uint64(11)) * 2.0**-53)
