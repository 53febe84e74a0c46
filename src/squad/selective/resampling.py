"""Calibration samples that were not drawn like the cases to come, made so before anything is tested.

*Weights*: let w(x) be proportional to how much more frequent a case is among new cases than in the calibration sample
(known covariate shift), or to one over its chance to get into the sample.  A case that is kept with probability
w(x) / W, where W is the largest weight there is, independently of all others, has the law of new cases: the kept ones
are an independent sample of these (rejection sampling), and every test that is exact stays exact.

*Strata*: with so many cases of each stratum, however they were chosen, a sample is none of the population.  But numbers
of a multinomial law with the population's shares, and then so many cases of each stratum, are one of M independent
cases.  M is found from the sizes of the strata alone, as large as it may be if a stratum shall run out once in 10,000
times; then nothing is certified.  A certificate is thus false no more often than with endless strata: delta at most.

Which cases are drawn is decided by a generator whose key is a hash of the cases themselves: the same every time, on
every machine, in whatever order they come.  There is no seed; to change the scale of the confidences, or the largest
weight, until the result suits is to certify several times.
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
from squad.selective.bounds import MOST
from squad.selective.groups import ByGroup, group_codes, plain
from squad.selective.scored_cases import WRONG, Scores, as_array, as_groups

__all__ = ["Resampled", "drawn_text", "resample"]

#: The chance that a stratum has fewer cases than are drawn of it: then nothing is certified.
RUNS_OUT = 1e-4
#: So many strata are named in a certificate, at the most.
MANY = 4


class Resampled:
    """A sample that is like the cases to come.

    Attributes:
        scores: of the cases that were drawn.
        details: plain data for the certificate: how they were drawn, of how many.
        assumptions: what is taken for granted because of that, each as a part of a sentence.
    """

    def __init__(self, scores: Scores, details: Mapping[str, Any], assumptions: list[str]) -> None:
        self.scores = scores
        self.details = details
        self.assumptions = assumptions

    def note(self, details: Mapping[str, Any]) -> dict[str, Any]:
        """The details of a certificate, with these."""
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
    """Draw cases by their weights or strata; all of them where neither is given.

    Args:
        scores: of all cases.
        weights: (m,), 0 or more: how much more frequent a case is among new cases than in the sample, up to a factor.
        max_weight: the largest weight that any case can have, known beforehand; None takes the largest of these, and
            says so.
        estimated_weights: they were estimated, which the certificate says.
        strata: (m,), the stratum of each case.
        population: the share of each stratum among new cases.
    """
    if weights is not None and strata is not None:
        raise ArgumentError("Pass either weights or strata, not both. Strata are weights where no number is fixed.")
    if weights is None and (max_weight is not None or estimated_weights):
        raise ArgumentError("max_weight and estimated_weights are about weights. Pass weights as well.")
    if (strata is None) != (population is None):
        given, missing = ("strata", "population") if population is None else ("population", "strata")
        raise ArgumentError(f"{given} needs {missing}: the share of each stratum among new cases. Pass both.")
    if weights is not None:
        return _by_weights(scores, _weights(weights, len(scores)), max_weight, estimated_weights)
    if strata is not None and population is not None:
        return _by_strata(scores, as_groups("strata", strata), population)
    return Resampled(scores, {}, [])


def drawn_text(details: Mapping[str, Any]) -> str | None:
    """How new cases must come, in words, if the calibration cases were drawn by weights or strata."""
    found = details.get("resampling")
    if not isinstance(found, Mapping):
        return None
    which = f"{found['drawn']:,} of {found['cases']:,} were drawn"
    if found.get("by") == "weights":
        return f"new cases are drawn independently, and are distributed as the weighted calibration cases ({which})"
    strata = found["strata"]
    shares = ", ".join(f"{one['stratum']}: {100 * one['share']:.4g} %" for one in strata[:MANY])
    more = f" and {len(strata) - MANY:,} more" if len(strata) > MANY else ""
    return (
        f"new cases are drawn independently from the strata {shares}{more}, within which they are like the calibration"
        f" cases ({which})"
    )


def _by_weights(scores: Scores, weights: NDArray[np.float64], max_weight: float | None, estimated: bool) -> Resampled:
    observed = float(weights.max())
    most = observed if max_weight is None else check_number("max_weight", max_weight, 0.0, exclude=0.0)
    if observed > most:
        row = int(weights.argmax())
        hint = "It must be the largest weight that any case can have; weights that are cut are no true ratios."
        raise ArgumentError.of("max_weight", f"{most:g}", f"at least {observed:g}, the weight of case {row + 1}", hint)
    order, key = _key(scores, weights)
    kept = np.zeros(len(scores), dtype=np.bool_)
    kept[order] = _uniform(key, len(scores)) * most < weights[order]
    if not kept.any():
        raise ArgumentError(
            f"None of {len(scores):,} cases is drawn: their weights are far below max_weight, {most:g}. Look for a"
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
    largest = "" if max_weight is not None else ", the largest that was observed"
    note = f"{weights_are} the true ratios of frequencies, and none can exceed {most:g}{largest}"
    return Resampled(scores.only(kept), details, [note])


def _by_strata(scores: Scores, strata: NDArray[Any], population: Mapping[Any, float]) -> Resampled:
    names, codes, shares = _strata(strata, population, len(scores))
    sizes = np.bincount(codes, minlength=len(names))
    if len(empty := np.flatnonzero((sizes == 0) & (shares > 0))):
        raise ArgumentError(
            f"population has a share of {names[empty[0]]!r}, but strata has no case of it. Collect cases of this"
            " stratum, or leave it out of the population."
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
            f"strata has {int(sizes[short[0]]):,} cases of {name!r}, and chance draws {int(wanted[short[0]]):,}, which"
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
            {"stratum": plain(name), "share": float(share), "cases": int(size), "drawn": int(count)}
            for name, share, size, count in zip(names, shares, sizes, wanted, strict=True)
        ],
        "key": key.hex(),
    }
    return Resampled(scores.only(kept), details, [])


def _most_drawn(sizes: NDArray[np.int64], shares: NDArray[np.float64]) -> int:
    """The most cases that can be drawn if a stratum shall run out with a chance of :data:`RUNS_OUT` at most."""
    some = (shares > 0) & (shares < 1)
    low, high = 1, int(min(sizes[shares == 1], default=MOST))  # of one stratum alone all can be drawn
    high = min(high, int(sizes[shares > 0].sum()))

    def fits(total: int) -> bool:
        # Of fewer than there are, none can be too many.
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
    """The strata of the population, the place of each case's among them, and their shares."""
    if strata.shape != (count,):
        raise ArgumentError.of("strata", f"the shape {strata.shape}", f"of shape ({count},), one per case")
    if not isinstance(population, Mapping) or not population:
        raise ArgumentError.of("population", repr(population)[:60], "a mapping from stratum to share")
    shares = np.array([check_number(f"population[{name!r}]", one, 0.0, 1.0) for name, one in population.items()])
    if abs(shares.sum() - 1) > 1e-6:
        raise ArgumentError.of("population", f"shares that add up to {shares.sum():.6g}", "shares that add up to 1")
    places = ByGroup((name, place) for place, name in enumerate(population))
    found = [places.find(one) for one in strata.tolist()]
    for one, place in zip(strata.tolist(), found, strict=True):
        if place is None:
            hint = "Give its share; 0 leaves its cases out."
            raise ArgumentError.of("population", f"no share of {one!r}", "complete: every stratum needs one", hint)
    return list(population), np.array(found, dtype=np.int64), shares / shares.sum()


def _weights(weights: ArrayLike | torch.Tensor, count: int) -> NDArray[np.float64]:
    found = as_array("weights", weights)
    if found.shape != (count,) or (found.dtype.kind not in "biuf" and found.size):
        raise ArgumentError.of("weights", f"{found.dtype} of shape {found.shape}", f"numbers of shape ({count},)")
    found = found.astype(np.float64)
    if len(bad := np.flatnonzero(~(np.isfinite(found) & (found >= 0)))):
        raise ArgumentError.of("weights", f"{found[bad[0]]:g} in case {bad[0] + 1}", "finite, and 0 or more")
    if not found.any():
        raise ArgumentError.of("weights", "only 0", "above 0 for some cases")
    return found


def _key(scores: Scores, more: NDArray[Any]) -> tuple[NDArray[np.int64], bytes]:
    """The cases in an order of their own, whatever order they came in, and a hash of them in that order.

    Cases of equal confidence are ordered by all that is known of them (``more`` is their weight or stratum): those that
    are still equal then may change places.
    """
    wrong = scores.harms[WRONG]
    groups = [] if scores.by is None else [group_codes(scores.by)[1]]
    losses = [loss.astype(np.float64) for name, loss in sorted(scores.harms.items()) if name != WRONG]
    order = np.lexsort((more, *groups, *losses, wrong, scores.confidence))
    digest = hashlib.sha256(b"squad-torch resampling 1\n")
    for part, kind in ((scores.confidence, "<f8"), (wrong, "<u1")):  # weights are no seed to try until one suits
        digest.update(part[order].astype(kind).tobytes())
    return order, digest.digest()[:16]


def _uniform(key: bytes, count: int) -> NDArray[np.float64]:
    """Numbers in [0, 1): Philox's, whose stream numpy does not change from version to version."""
    raw = np.random.Philox(key=int.from_bytes(key, "little")).random_raw(count)
    return np.asarray((raw >> np.uint64(11)) * 2.0**-53)
