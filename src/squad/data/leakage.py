"""The leakage check: which calibration rows are copies, or near copies, of rows that fit saw.

Rows are compared by their hashes, and by the cells they share with rows of fit in at least 1, 2, ... of seven grids.
Each comparison counts how many calibration rows are like a row of fit, and refuses them where chance explains fewer.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from squad.data.chance_repeats import LEVEL, NOTHING_KNOWN, RARE, repeats_by_chance, told, too_many, usually_repeated
from squad.data.deduplicated import Distinct, equal_pairs
from squad.data.seen_rows import LeakError, SeenRows, rows_digest

__all__ = ["Leaked", "check_rows", "leaked"]

#: Copies that could be chance are left out one by one where chance explains so many of them less often than this.
DROPPED = 0.01

#: Up to this share of the rows is left out, if so many of what is found are exact copies.
A_FEW, NEARLY_ALL = 0.1, 0.9

#: Training rows drawn several times repeat each other evenly; with so many times as many equal pairs, rows do not.
UNEVEN = 1.5

#: Axes of a grid from which on a row that agrees in all grids is a copy, if no two rows of fit agree in any.
CONCLUSIVE = 8

#: A comparison that finds so many of the rows that any of them does is clear enough.
CLEAR = 0.8

Hashes = NDArray[np.uint64]
Mask = NDArray[np.bool_]


class Leaked(NamedTuple):
    """What the check found.

    Attributes:
        rows: (N,), which rows are copies or near copies of training rows, and no evidence.
        refusal: why none of the rows may be used; None if the others may.
        total: how many rows fit saw, where chance does not explain them.
    """

    rows: Mask
    refusal: str | None
    total: int


class Likeness(NamedTuple):
    """One way of saying that two rows are alike.

    Attributes:
        seen: (N,), which rows are like a row of fit.
        own: (N,), which rows are like another of them.
        pairs: how many pairs of them are alike.
        known: how many rows of fit are like another one, as :func:`~squad.data.chance_repeats.check_repeats` takes it.
        tests: how many such tests there are.
    """

    seen: Mask
    own: Mask
    pairs: float
    known: Mapping[str, int]
    tests: int

    @property
    def total(self) -> int:
        """How many rows are like a row of fit."""
        return int(self.seen.sum())

    @property
    def refused(self) -> bool:
        """Whether chance does not explain them."""
        return too_many(self.total, len(self.seen), **self.known, tests=self.tests)

    @property
    def repeating(self) -> bool:
        """Whether the rows are like each other more often than rows of fit are."""
        among = self.known["all_repeats"], self.known["all_rows"]
        return repeats_by_chance(int(self.own.sum()), len(self.own), *among) < LEVEL

    def unlikely(self, expected: int) -> bool:
        """Whether there are enough of them to leave them out one by one, if so many rows of fit should be alike."""
        rows = self.known["all_rows"]
        among = min(max(self.known["all_repeats"], expected), rows)
        return repeats_by_chance(self.total, len(self.seen), among, rows) < DROPPED

    @property
    def excess(self) -> float:
        """How many there are beyond what chance explains, about."""
        return self.total - len(self.seen) * (self.known["all_repeats"] + 1) / (self.known["all_rows"] + 2)


def leaked(
    seen_rows: SeenRows, hashes: Hashes, cells: Hashes | None, known: Mapping[str, int], digest: str | None
) -> Leaked:
    """Look rows up among those of fit.

    Args:
        seen_rows: of the model.
        hashes: (N,), of the rows.
        cells: (grids, N), theirs, of :meth:`Memory.cells`.
        known: what fit recorded about repeats.
        digest: of all rows of fit, if it was recorded.
    """
    rows, none = len(hashes), np.zeros(len(hashes), dtype=np.bool_)
    ways = _ways(seen_rows, hashes, cells, known)
    exact = ways[0]
    refused = [way for way in ways if way.refused]
    verdicts = [_explained(seen_rows.distinct, way, exact) for way in refused]
    if REFUSED in verdicts:
        worst = _clearest([way for way, said in zip(refused, verdicts, strict=True) if said == REFUSED])
        return Leaked(worst.seen, told(worst.total, rows, **worst.known), worst.total)
    if _very_rows(seen_rows, hashes, cells, digest):
        return Leaked(
            ~none,
            f"These {rows:,} rows are the very ones that the model was fitted on. Use rows that fit did not get"
            " (squad split keeps them apart before fit).",
            rows,
        )
    if LEFT_OUT in verdicts:
        worst = _clearest([way for way, said in zip(refused, verdicts, strict=True) if said == LEFT_OUT])
        return Leaked(worst.seen, None, worst.total)
    if refused or (seen_rows.distinct is not None and seen_rows.distinct.removed):
        return Leaked(none, None, 0)
    found = none
    expected = 0 if seen_rows.distinct is None else 2 * seen_rows.distinct.expected
    if usually_repeated(known) < RARE and (not expected or (exact.unlikely(expected) and not exact.repeating)):
        # A row that is frequent here is no copy of the one in training: both come from a population that repeats it.
        found = exact.seen & ~exact.own
    # Widths were chosen so that rows of fit share few cells: only where most grids agree is the share of these fair.
    most = ways[1 + len(ways) // 2 :] if len(ways) > 2 else []
    if most and seen_rows.near is not None and seen_rows.near.axes >= CONCLUSIVE and not ways[1].known["all_repeats"]:
        # Where no two rows of fit agree in any grid of many axes, one that agrees in all of them is no chance.
        found = found | (most[-1].seen & ~most[-1].own)
    for way in most:
        if way.known["all_repeats"] < RARE * way.known["all_rows"] and way.unlikely(expected):
            found = found | (way.seen & ~way.own)
            break
    return Leaked(found, None, int(found.sum()))


def check_rows(
    seen_rows: SeenRows, hashes: Hashes, cells: Hashes | None, known: Mapping[str, int], digest: str | None
) -> Mask:
    """Which rows are copies of training rows and should be left out; a :class:`LeakError` if none may be used.

    The arguments are those of :func:`leaked`.
    """
    found = leaked(seen_rows, hashes, cells, known, digest)
    if found.refusal is not None:
        raise LeakError(found.refusal)
    return found.rows


def _ways(seen_rows: SeenRows, hashes: Hashes, cells: Hashes | None, known: Mapping[str, int]) -> list[Likeness]:
    """All comparisons, by hashes first."""
    _, place, often = np.unique(hashes, return_inverse=True, return_counts=True)
    ways = [Likeness(seen_rows.seen(hashes), often[place] > 1, equal_pairs(hashes), {**NOTHING_KNOWN, **known}, 1)]
    if seen_rows.near is None or cells is None:
        return ways
    near = seen_rows.near
    matches, own = near.matches(cells), near.own(cells)
    tests = int(near.used.sum())
    pairs = max((equal_pairs(one) for one in cells[near.used]), default=0.0)
    for least in range(1, tests + 1):
        counts = {
            "chance_repeats": int(near.chance[least - 1]),
            "chance_rows": int(near.chance[-1]),
            "all_repeats": int(near.every[least - 1]),
            "all_rows": int(near.every[-1]),
        }
        ways.append(Likeness(matches >= least, own >= least, pairs, counts, tests))
    return ways


#: What becomes of rows that are like rows of fit more often than these are like each other.
REFUSED, LEFT_OUT, KEPT = "refused", "left out", "kept"


def _explained(distinct: Distinct | None, way: Likeness, exact: Likeness) -> str:
    """Whether equal rows were removed before fit, so that chance repeats more often than rows of fit tell.

    If they were, new rows repeat old ones as well as each other.  They are kept where rows of fit hardly ever repeat,
    and either the columns take so few values that new rows must, or some of them repeat far more often than training
    rows would if they were drawn several times.  Else rows that repeat each other may come from a population that
    repeats itself, or may be training rows: nothing tells which, so the ones that fit saw are left out, which is on the
    safe side.  Whether rows repeat each other is told by hashes, whichever the comparison: equal
    rows stay equal if all of them are rounded.
    """
    if distinct is None:
        return REFUSED
    rows = len(way.own)
    if exact.repeating:
        removed = distinct.removed or not distinct.pairs
        pairs = rows * (rows - 1) / 2
        by_chance = distinct.explains(pairs, exact.pairs) or exact.pairs > UNEVEN * pairs / max(distinct.distinct, 1)
        return KEPT if removed and by_chance and not distinct.removed_from(rows, exact.pairs) else LEFT_OUT
    # A few exact copies, where rows of fit never repeat: some rows of the population may, and all of these are known.
    few = not distinct.pairs and way.total <= A_FEW * rows and exact.total >= NEARLY_ALL * way.total
    explained = few or distinct.removed or distinct.explains(rows * distinct.distinct, way.total)
    return LEFT_OUT if explained else REFUSED


def _very_rows(seen_rows: SeenRows, hashes: Hashes, cells: Hashes | None, digest: str | None) -> bool:
    """Whether these are the rows of fit, which in a table of few different rows repeats alone do not tell."""
    near = seen_rows.near is not None and cells is not None and seen_rows.near.very_rows(cells)
    return near or rows_digest(hashes) == digest


def _clearest(ways: Sequence[Likeness]) -> Likeness:
    """The strictest comparison that finds nearly as many rows as any: it counts the fewest that are chance."""
    most = max(way.excess for way in ways)
    return next(way for way in (ways[0], *ways[:0:-1]) if way.excess >= CLEAR * most)
