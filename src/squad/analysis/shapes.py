"""Shapes of distributions that one hopes to find, and the predicted ones that are nearest to them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from squad.analysis.latents import Posteriors
from squad.analysis.plain import Plain
from squad.core.checks import check_count
from squad.errors import ArgumentError

__all__ = ["THRESHOLDS", "Found", "Nearest", "Stereotype", "cases", "divergences", "nearest", "stereotypes"]

Floats = NDArray[np.float64]

#: The share of a stereotype that is spread evenly, so that it has mass everywhere.
FLOOR = 1e-3
#: Nothing is less probable than this when its logarithm is taken.
TINY = 1e-300
#: Distributions below so many nats are counted.
THRESHOLDS = (0.05, 0.1, 0.2, 0.5, 1.0)
#: Edges of the histogram of KLs; what lies beyond is counted at the ends.
EDGES = np.logspace(-3, 1.5, 46)
#: Distributions whose KLs are computed at once.
BLOCK = 1 << 16


@dataclass(frozen=True)
class Stereotype(Plain):
    """A shape over the ranks of C bins, the lowest value first.

    Attributes:
        name: in words.
        probs: (C,), what is drawn.
        variants: (V, C), all that counts as this shape, ``probs`` among them: a single peak is one wherever it is.
    """

    name: str
    probs: Floats
    variants: Floats


def stereotypes(bins: int) -> dict[str, Stereotype]:
    """By name, in the order in which they are shown; every one has mass on every bin.

    "one value" may stand anywhere and be as sharp as one bin, "bell" and "two apart" may be shifted as long as they
    stay whole, and "one half" and "end and tail" may be mirrored.
    """
    check_count("bins", bins, 3)
    at = np.linspace(0.0, 1.0, bins)
    step = 1 / (bins - 1)
    narrow = max(0.05, 0.6 * step)  # in few bins a peak still has neighbours

    def peaks(*places: float, width: float = narrow) -> Floats:
        found: Floats = sum((_bump(at, index, width) for index in places), np.zeros(bins))
        return found

    def bell(index: float) -> Floats:
        return _bump(at, index, max(0.15, 1.2 * step))

    half = 1 / (1 + np.exp((at - 0.5) / (0.3 * step)))
    tail = np.exp(-at / 0.2)
    near = [shift for shift in at - at[(bins - 1) // 2] if abs(shift) <= 0.2]
    return {
        name: _stereotype(name, shapes)
        for name, shapes in {
            "one value": [
                peaks(0.5),
                *(peaks(index, width=width) for index in at for width in sorted({0.3 * step, 0.6 * step, narrow})),
            ],
            "bell": [bell(0.5), *(bell(0.5 + shift) for shift in near)],
            "even": [np.ones(bins)],
            "one half": [half, half[::-1]],
            "end and tail": [tail, tail[::-1]],
            "two apart": [peaks(0.25, 0.75), *(peaks(0.25 + shift, 0.75 + shift) for shift in near)],
            "both ends": [peaks(0.0, 1.0)],
            "three": [peaks(1 / 6, 0.5, 5 / 6)],
        }.items()
    }


def _bump(at: Floats, index: float, width: float) -> Floats:
    """Of sum 1, so that the peaks of one shape weigh the same even at an end."""
    heights = np.exp(-0.5 * ((at - index) / width) ** 2)
    found: Floats = heights / heights.sum()
    return found


def _stereotype(name: str, shapes: Sequence[Floats]) -> Stereotype:
    variants = np.stack([shape / shape.sum() for shape in shapes])
    variants = (1 - FLOOR) * variants + FLOOR / variants.shape[1]
    return Stereotype(name, variants[0], variants)


@dataclass(frozen=True)
class Found(Plain):
    """A predicted distribution, and the shape it is near.

    Attributes:
        row: index of the row, from 0.
        unit: from 1.
        stereotype: name of the shape.
        kl: KL(shape || predicted) in nats.
        probs: (C,), as predicted.
        values: (C,), where the bins stand, ascending.
        match: (C,), the variant of the shape that is nearest.
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
    """What is near one stereotype.

    Attributes:
        name: of the stereotype.
        target: (C,), its shape.
        found: the nearest predicted distributions, nearest first.
        total: of how many predicted distributions.
        thresholds: (H,), in nats.
        shares: (H,), the share of all predicted distributions whose KL is below each.
        edges: (E + 1,), of the histogram of all KLs, in nats; what lies beyond is counted at the ends.
        counts: (E,).
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
    """KL(stereotype || predicted) in nats of distributions (..., C), and which variant is nearest; both (...,).

    This way round because it asks that the predicted one covers all that the stereotype has: by
    KL(predicted || stereotype), one peak alone would be near two, since two cover it.  It asks no more, though: two
    equal peaks are log 2 = 0.69 from one of them, and an even distribution is log C minus the shape's entropy from any
    shape.  Only what is well below that is near.
    """
    if probs.shape[-1] != stereotype.probs.shape[-1]:
        raise ArgumentError.of("probs", f"{probs.shape[-1]} bins", f"of {stereotype.probs.shape[-1]} as the stereotype")
    rows = probs.reshape(-1, probs.shape[-1])
    kls, variants = np.empty(len(rows)), np.empty(len(rows), dtype=np.int64)
    negentropy = np.sum(stereotype.variants * np.log(stereotype.variants), axis=1)
    for start in range(0, len(rows), BLOCK):
        part = slice(start, start + BLOCK)
        each = negentropy - np.log(np.maximum(rows[part], TINY)) @ stereotype.variants.T
        variants[part] = each.argmin(axis=1)
        kls[part] = np.maximum(each.min(axis=1), 0.0)  # not below it for rounding
    return kls.reshape(probs.shape[:-1]), variants.reshape(probs.shape[:-1])


def nearest(found: Posteriors, kinds: Mapping[str, Stereotype], count: int = 3) -> tuple[Nearest, ...]:
    """For each stereotype the predicted distributions that are nearest to it, and how near all of them are.

    Those that are returned are of different units and different rows as far as there are enough; see
    :func:`divergences` for what is near.
    """
    check_count("count", count, 0)
    return tuple(_nearest(found, kind, count) for kind in kinds.values())


def _nearest(found: Posteriors, kind: Stereotype, count: int) -> Nearest:
    kls, variants = divergences(found.probs, kind)
    return Nearest(
        kind.name,
        kind.probs,
        tuple(
            _found(found, kind, row, unit, kls[row, unit], variants[row, unit])
            for row, unit in _apart(kls, min(count, kls.size))
        ),
        kls.size,
        np.array(THRESHOLDS),
        np.array([np.mean(kls < threshold) for threshold in THRESHOLDS]),
        EDGES,
        np.histogram(np.clip(kls, EDGES[0], EDGES[-1]), EDGES)[0],
    )


def _found(found: Posteriors, kind: Stereotype, row: int, unit: int, kl: np.float64, variant: np.int64) -> Found:
    """With the unit from 0."""
    match = kind.variants[variant]
    return Found(row, unit + 1, kind.name, float(kl), found.probs[row, unit], found.values[unit], match)


def _apart(kls: Floats, count: int) -> list[tuple[int, int]]:
    """Rows and units, from 0, of the lowest KLs: of different rows and units while there are any, then any others."""
    rows, units = kls.shape
    order = np.argsort(kls, axis=None, kind="stable")
    taken: dict[tuple[int, int], None] = {}
    seen: tuple[set[int], set[int]] = set(), set()
    for index in _places(order, units):
        if len(taken) == min(count, rows, units):
            break
        if index[0] not in seen[0] and index[1] not in seen[1]:
            taken[index] = None
            seen[0].add(index[0])
            seen[1].add(index[1])
    for index in _places(order, units):
        if len(taken) == count:
            break
        taken[index] = None
    return sorted(taken, key=lambda index: float(kls[index]))


def _places(order: NDArray[np.int64], units: int) -> Iterator[tuple[int, int]]:
    for flat in order:
        row, unit = divmod(int(flat), units)
        yield row, unit


def cases(found: Posteriors, unit: int, kinds: Mapping[str, Stereotype], count: int = 5) -> tuple[Found, ...]:
    """Rows for which a unit predicts something typical: one for each of ``count`` stereotypes, in their order.

    The stereotypes are those that the unit comes nearest to, and a row is taken once.  A row that is nearer to an even
    distribution than to a stereotype is no case of it: by this KL, what is nearly even is not far from anything.

    Args:
        found: of the layer.
        unit: from 1.
        kinds: the stereotypes.
        count: how many, at the most; a unit with few shapes has fewer.
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
        _found(found, kinds[name], chosen[name], index, kls[chosen[name]], variants[chosen[name]])
        for name, (kls, variants) in measured.items()
        if name in chosen
    )
