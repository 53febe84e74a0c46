"""Stereotypical shapes of distributions, and the predicted distributions nearest to them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from squad.analysis.latents import Posteriors
from squad.analysis.stored_result import Plain
from squad.core.checks import check_count
from squad.errors import ArgumentError

__all__ = ["THRESHOLDS", "Found", "Nearest", "Stereotype", "cases", "divergences", "nearest", "stereotypes"]

Floats = NDArray[np.float64]

#: Fraction of a stereotype's mass that is spread evenly, so that it has mass on every bin.
UNIFORM_FRACTION = 1e-3
#: Lower bound on probabilities inside logarithms.
MIN_PROBABILITY = 1e-300
#: KL divergences, in nats, below which distributions are counted.
THRESHOLDS = (0.05, 0.1, 0.2, 0.5, 1.0)
#: Bin edges of the histogram of KL divergences; values beyond them are counted in the outermost bins.
KL_EDGES = np.logspace(-3, 1.5, 46)
#: Number of distributions whose KL divergences are computed at once.
BLOCK = 1 << 16


@dataclass(frozen=True)
class Stereotype(Plain):
    """A shape of a distribution over C bins, ordered by value.

    Attributes:
        name: Name of the shape.
        probs: (C,), the variant that is drawn.
        variants: (V, C), all variants, including ``probs``: a single peak, for example, may be anywhere.

    See Also:
        :func:`stereotypes`: All stereotypes.

    Examples:
        >>> stereotypes(5)["even"].probs
        array([0.2, 0.2, 0.2, 0.2, 0.2])
        >>> stereotypes(5)["one value"].variants.shape[1]
        5
    """

    name: str
    probs: Floats
    variants: Floats


def stereotypes(bins: int) -> dict[str, Stereotype]:
    """Return the stereotypes by name, in the order in which they are shown; each has mass on every bin.

    "one value" may be at any bin and as sharp as a single bin, "bell" and "two apart" may be shifted as long as they
    stay complete, and "one half" and "end and tail" may be mirrored.

    Args:
        bins: Number of bins C, at least 3.

    Returns:
        Stereotype by name.

    Examples:
        >>> list(stereotypes(5))
        ['one value', 'bell', 'even', 'one half', 'end and tail', 'two apart', 'both ends', 'three']
    """
    check_count("bins", bins, 3)
    positions = np.linspace(0.0, 1.0, bins)
    step = 1 / (bins - 1)
    narrow = max(0.05, 0.6 * step)  # with few bins, a peak still extends to its neighbours

    def peaks(*centers: float, width: float = narrow) -> Floats:
        shape: Floats = sum((_bump(positions, center, width) for center in centers), np.zeros(bins))
        return shape

    def bell(center: float) -> Floats:
        return _bump(positions, center, max(0.15, 1.2 * step))

    half = 1 / (1 + np.exp((positions - 0.5) / (0.3 * step)))
    tail = np.exp(-positions / 0.2)
    shifts = [shift for shift in positions - positions[(bins - 1) // 2] if abs(shift) <= 0.2]
    return {
        name: _stereotype(name, shapes)
        for name, shapes in {
            "one value": [
                peaks(0.5),
                *(
                    peaks(center, width=width)
                    for center in positions
                    for width in sorted({0.3 * step, 0.6 * step, narrow})
                ),
            ],
            "bell": [bell(0.5), *(bell(0.5 + shift) for shift in shifts)],
            "even": [np.ones(bins)],
            "one half": [half, half[::-1]],
            "end and tail": [tail, tail[::-1]],
            "two apart": [peaks(0.25, 0.75), *(peaks(0.25 + shift, 0.75 + shift) for shift in shifts)],
            "both ends": [peaks(0.0, 1.0)],
            "three": [peaks(1 / 6, 0.5, 5 / 6)],
        }.items()
    }


def _bump(positions: Floats, center: float, width: float) -> Floats:
    """Return a Gaussian peak with sum 1, so that all peaks of a shape have the same mass, even at an end."""
    heights = np.exp(-0.5 * ((positions - center) / width) ** 2)
    normalized: Floats = heights / heights.sum()
    return normalized


def _stereotype(name: str, shapes: Sequence[Floats]) -> Stereotype:
    variants = np.stack([shape / shape.sum() for shape in shapes])
    variants = (1 - UNIFORM_FRACTION) * variants + UNIFORM_FRACTION / variants.shape[1]
    return Stereotype(name, variants[0], variants)


@dataclass(frozen=True)
class Found(Plain):
    """A predicted distribution and the stereotype it is near.

    Attributes:
        row: Index of the row, from 0.
        unit: Unit, counted from 1.
        stereotype: Name of the stereotype.
        kl: KL(stereotype || predicted) in nats.
        probs: (C,), predicted distribution.
        values: (C,), values of the bins, ascending.
        match: (C,), nearest variant of the stereotype.

    See Also:
        :func:`nearest`, :func:`cases`: Find them.

    Examples:
        >>> predicted = Posteriors(1, np.full((3, 1, 5), 0.2), np.arange(5.0)[None])
        >>> (found,) = cases(predicted, unit=1, kinds={"even": stereotypes(5)["even"]})
        >>> found.stereotype, found.unit, found.kl
        ('even', 1, 0.0)
    """

    row: int
    unit: int
    stereotype: str
    kl: float
    probs: Floats
    values: Floats
    match: Floats


@dataclass(frozen=True)
class Nearest(Plain):
    """Predicted distributions nearest to one stereotype, and the KL divergences of all.

    Attributes:
        name: Name of the stereotype.
        target: (C,), shape of the stereotype.
        found: Nearest predicted distributions, nearest first.
        total: Number of predicted distributions searched.
        thresholds: (H,), KL divergences in nats.
        shares: (H,), fraction of all predicted distributions whose KL divergence is below each threshold.
        edges: (E + 1,), bin edges of the histogram of all KL divergences, in nats; values beyond them are counted in
            the outermost bins.
        counts: (E,), number of distributions per bin.

    See Also:
        :func:`nearest`: Compute them.

    Examples:
        >>> predicted = Posteriors(1, np.full((3, 1, 5), 0.2), np.arange(5.0)[None])
        >>> (even,) = nearest(predicted, {"even": stereotypes(5)["even"]}, count=2)
        >>> even.total, len(even.found)
        (3, 2)
    """

    name: str
    target: Floats
    found: tuple[Found, ...]
    total: int
    thresholds: Floats
    shares: Floats
    edges: Floats
    counts: NDArray[np.int64]


def divergences(probs: Floats, stereotype: Stereotype) -> tuple[Floats, NDArray[np.int64]]:
    """Compute KL(stereotype || predicted) in nats for the nearest variant of a stereotype.

    This direction requires the predicted distribution to cover all modes of the stereotype: by
    KL(predicted || stereotype), a single peak would be near two peaks, since they cover it.  It does not penalize extra
    mass much, though: two equal peaks are log 2 = 0.69 from one of them, and an even distribution is log C minus the
    stereotype's entropy from any stereotype.  Only values well below that are near.

    Args:
        probs: (..., C), predicted distributions.
        stereotype: Stereotype with the same number of bins C.

    Returns:
        (...,), KL divergences, and (...,), indices of the nearest variants.

    Raises:
        ArgumentError: If the numbers of bins differ.

    Examples:
        >>> kl, _ = divergences(np.full(5, 0.2), stereotypes(5)["even"])
        >>> float(kl)
        0.0
    """
    if probs.shape[-1] != stereotype.probs.shape[-1]:
        bins = f"{probs.shape[-1]} and {stereotype.probs.shape[-1]} bins"
        raise ArgumentError(f"probs and stereotype must have the same number of bins, got {bins}.")
    rows = probs.reshape(-1, probs.shape[-1])
    kls, variants = np.empty(len(rows)), np.empty(len(rows), dtype=np.int64)
    negentropy = np.sum(stereotype.variants * np.log(stereotype.variants), axis=1)
    for start in range(0, len(rows), BLOCK):
        block = slice(start, start + BLOCK)
        each = negentropy - np.log(np.maximum(rows[block], MIN_PROBABILITY)) @ stereotype.variants.T
        variants[block] = each.argmin(axis=1)
        kls[block] = np.maximum(each.min(axis=1), 0.0)  # rounding could make it negative
    return kls.reshape(probs.shape[:-1]), variants.reshape(probs.shape[:-1])


def nearest(found: Posteriors, kinds: Mapping[str, Stereotype], count: int = 3) -> tuple[Nearest, ...]:
    """Find the predicted distributions nearest to each stereotype.

    They are taken from different units and different rows as far as possible.

    Args:
        found: Posteriors to search.
        kinds: Stereotypes by name.
        count: Number of distributions per stereotype.

    Returns:
        One result per stereotype, in their order.

    See Also:
        :func:`divergences`: The measure of nearness.

    Examples:
        >>> probs = np.random.default_rng(0).dirichlet(np.ones(5), (20, 2))
        >>> found = Posteriors(1, probs, np.tile(np.arange(5.0), (2, 1)))
        >>> [len(one.found) for one in nearest(found, stereotypes(5), count=2)]
        [2, 2, 2, 2, 2, 2, 2, 2]
    """
    check_count("count", count, 0)
    return tuple(_nearest_to(found, kind, count) for kind in kinds.values())


def _nearest_to(found: Posteriors, kind: Stereotype, count: int) -> Nearest:
    kls, variants = divergences(found.probs, kind)
    return Nearest(
        kind.name,
        kind.probs,
        tuple(
            _make_found(found, kind, row, unit, kls[row, unit], variants[row, unit])
            for row, unit in _lowest_distinct(kls, min(count, kls.size))
        ),
        kls.size,
        np.array(THRESHOLDS),
        np.array([np.mean(kls < threshold) for threshold in THRESHOLDS]),
        KL_EDGES,
        np.histogram(np.clip(kls, KL_EDGES[0], KL_EDGES[-1]), KL_EDGES)[0],
    )


def _make_found(found: Posteriors, kind: Stereotype, row: int, unit: int, kl: np.float64, variant: np.int64) -> Found:
    """Build a result; ``unit`` is counted from 0."""
    match = kind.variants[variant]
    return Found(row, unit + 1, kind.name, float(kl), found.probs[row, unit], found.values[unit], match)


def _lowest_distinct(kls: Floats, count: int) -> list[tuple[int, int]]:
    """Return rows and units, from 0, of the lowest KLs: first of distinct rows and units, then of any others."""
    rows, units = kls.shape
    order = np.argsort(kls, axis=None, kind="stable")
    taken: dict[tuple[int, int], None] = {}
    taken_rows, taken_units = set[int](), set[int]()
    for row, unit in _unravel(order, units):
        if len(taken) == min(count, rows, units):
            break
        if row not in taken_rows and unit not in taken_units:
            taken[row, unit] = None
            taken_rows.add(row)
            taken_units.add(unit)
    for row, unit in _unravel(order, units):
        if len(taken) == count:
            break
        taken[row, unit] = None
    return sorted(taken, key=lambda index: float(kls[index]))


def _unravel(order: NDArray[np.int64], units: int) -> Iterator[tuple[int, int]]:
    """Iterate over (row, unit) for flat indices, lazily since few are needed."""
    for flat in order:
        row, unit = divmod(int(flat), units)
        yield row, unit


def cases(found: Posteriors, unit: int, kinds: Mapping[str, Stereotype], count: int = 5) -> tuple[Found, ...]:
    """Find rows for which a unit predicts a stereotypical distribution: one row per stereotype, in their order.

    The stereotypes are those that the unit comes nearest to, and each row is used once.  A row that is nearer to an
    even distribution than to a stereotype does not count for it: by this KL divergence, a nearly even distribution is
    not far from any stereotype.

    Args:
        found: Posteriors of the layer.
        unit: Unit, counted from 1.
        kinds: Stereotypes by name.
        count: Maximum number of rows; a unit with few shapes has fewer.

    Returns:
        One result per stereotype found.

    Examples:
        >>> probs = np.random.default_rng(0).dirichlet(np.full(5, 0.5), (50, 2))
        >>> found = Posteriors(1, probs, np.tile(np.arange(5.0), (2, 1)))
        >>> len(cases(found, 1, stereotypes(5), count=3))
        3
    """
    index = check_count("unit", unit, 1, found.probs.shape[1]) - 1
    check_count("count", count, 1)
    own = found.probs[:, index]
    even = _stereotype("even", [np.ones(own.shape[1])])
    limit, _ = divergences(own, even)
    measured = {name: divergences(own, kind) for name, kind in kinds.items()}
    typical = {name: np.where(kls <= limit + 1e-12, kls, np.inf) for name, (kls, _) in measured.items()}
    chosen: dict[str, int] = {}
    while typical and len(chosen) < count:
        name = min(typical, key=lambda name: float(typical[name].min()))
        row = int(typical[name].argmin())
        if not np.isfinite(typical.pop(name)[row]):
            break
        chosen[name] = row
        for kls in typical.values():
            kls[row] = np.inf
    return tuple(
        _make_found(found, kinds[name], chosen[name], index, kls[chosen[name]], variants[chosen[name]])
        for name, (kls, variants) in measured.items()
        if name in chosen
    )
