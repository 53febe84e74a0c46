"""Hashes by which a near copy of a row is found: one rounded, cast to float32, printed with few digits, with noise.

A row falls into a cell of each of seven grids, which are shifted against each other, and the hash of each cell is kept.
A near copy shares most cells with its original.  A grid has at most 16 axes: features where they are few, else sums of
features with random signs, in which the noise of single features averages out; so any number of features will do.
Three grids have all features and four a half of them, so that one column that was rounded to nothing hides no copy
(all have all features where these are fewer than four).

How wide cells are is chosen at fit: as wide as they can be while different rows of fit hardly ever share one.  Then
honest rows hardly ever do, and how many do is counted, for calibration rows to be compared with.

All of it is arithmetic of whole numbers, the same on every machine: features are rounded down to multiples of 2**-24,
sums of them stay below 2**53 and are exact in any order, and widths are powers of two.
"""

import hashlib
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["AXES", "GRIDS", "UNUSED", "cell_hashes", "choose_widths", "drawn", "halves"]

#: Grids, and how many of them have all features; axes of a grid, at the most.
GRIDS, WHOLE, AXES = 7, 3, 16

#: With fewer features all grids have all of them: cells of a single one would have to be so fine that they tell it.
HALVED = 4

#: Binary digits of a feature after the point; larger features are cut off, so that sums are exact in float64.
DIGITS, LARGEST = 24, 2.0**31

#: Cells are at most half a standard deviation wide (2**-1).
WIDEST = 1

#: Cells are halved while that leaves at least this share of the rows fewer in the cell of another.
WORTH = 0.003

#: A grid in which more of the different rows of fit share a cell than this tells nothing, and is not used.
CROWDED = 0.3

#: The width of a grid that is not used.
UNUSED = -1

#: Rows of a block, so that memory stays bounded.
BLOCK = 8192

#: Hashes of cells are never those of rows or groups.
CELL = b"squad cell"

Hashes = NDArray[np.uint64]
Whole = NDArray[np.int64]


class Grid(NamedTuple):
    """Which features a grid has, the axes that are made of them, and where its lines stand.

    Attributes:
        part: which features, ascending.
        signs: (features of the part, axes), 1 and -1; None if each feature is an axis.
        shifts: (axes,), in parts of 2**16 of a width.
    """

    part: Whole
    signs: NDArray[np.float64] | None
    shifts: Whole

    def axes(self, x: NDArray[np.float32]) -> Whole:
        """Where rows (N, features) stand on the axes, (N, axes), in steps of 2**-24."""
        found = np.empty((len(x), len(self.shifts)), dtype=np.int64)
        for start in range(0, len(x), BLOCK):
            block = x[start : start + BLOCK, self.part].astype(np.float64)
            block = np.clip(np.floor(block * 2.0**DIGITS), -LARGEST, LARGEST)
            found[start : start + BLOCK] = block if self.signs is None else block @ self.signs
        return found


@cache
def grids(features: int) -> tuple[Grid, ...]:
    """The grids of rows that have so many features; always the same."""
    every = np.arange(features)
    parts = [every] * WHOLE + [part if features >= HALVED else every for pair in halves(features) for part in pair]
    found = []
    for grid, part in enumerate(parts):
        signs, axes = None, len(part)
        if len(part) > AXES:
            axes = AXES
            bits = np.unpackbits(np.frombuffer(drawn(f"signs {grid}", -(-len(part) * AXES // 8)), dtype=np.uint8))
            signs = np.where(bits[: len(part) * AXES].reshape(len(part), AXES), 1.0, -1.0)
        # On each axis the seven grids stand a seventh of a width apart, in an order of its own.
        steps = 1 + np.frombuffer(drawn("steps", axes), dtype=np.uint8).astype(np.int64) % (GRIDS - 1)
        first = np.frombuffer(drawn("first", 2 * axes), dtype="<u2").astype(np.int64)
        found.append(Grid(part, signs, ((grid * steps % GRIDS << 16) + first) // GRIDS))
    return tuple(found)


def halves(features: int) -> list[tuple[Whole, Whole]]:
    """Features divided in two, at random but always the same; as often as there are grids for it."""
    found = []
    for pair in range((GRIDS - WHOLE) // 2):
        keys = [drawn(f"order {pair} {feature}", 8) for feature in range(features)]
        order = np.asarray(sorted(range(features), key=keys.__getitem__), dtype=np.int64)
        half = (features + 1) // 2
        found.append((np.sort(order[:half]), np.sort(order[half:])))
    return found


def drawn(what: str, count: int) -> bytes:
    """Fixed random bytes."""
    return hashlib.shake_256(f"squad near {what}".encode()).digest(count)


def _cells(axes: Whole, shifts: Whole, widths: Whole) -> Whole:
    """The cell of each row, (N, axes); ``widths`` are the exponents of 2."""
    return axes + (shifts << widths >> 16) >> widths


def choose_widths(x: NDArray[np.float32]) -> Whole:
    """How wide cells should be, (grids, 16), as exponents of 2 in steps of 2**-24; -1 for grids and axes not used.

    Cells begin half a standard deviation wide and are halved as long as different rows share cells, if that helps.

    Args:
        x: (N, features), the rows of fit, each once.
    """
    found = np.full((GRIDS, AXES), UNUSED)
    for grid, one in zip(found, grids(x.shape[1]), strict=True):
        if not len(one.shifts) or len(x) < 2:
            continue
        axes = one.axes(x)
        wide = np.maximum(np.frexp(axes.astype(np.float64).std(0))[1] - 1, 0).astype(np.int64)
        best = (np.inf, CROWDED, wide)
        for level in range(WIDEST, DIGITS + 1):
            widths = np.maximum(wide - level, 0)
            shared = _shared(_cells(axes, one.shifts, widths))
            best = min(best, (shared + WORTH * level, shared, widths), key=lambda pair: pair[0])
            if shared <= WORTH or not widths.any():
                break
        if best[1] < CROWDED:
            # Halved once more where they had to be: the first width at which rows are alone is so by luck in part.
            narrowed = (best[2] < wide - WIDEST).any()
            grid[: len(wide)] = np.maximum(best[2] - 1, 0) if narrowed else best[2]
    return found


def _shared(cells: Whole) -> float:
    """The share of rows that are not alone in their cell."""
    odd = np.frombuffer(drawn("odd", 8 * cells.shape[1]), dtype="<u8").astype(np.uint64) | np.uint64(1)
    mixed = np.zeros(len(cells), dtype=np.uint64)
    for axis, factor in enumerate(odd):
        mixed += cells[:, axis].astype(np.uint64) * factor
        mixed ^= mixed >> np.uint64(29)
    mixed.sort()
    same = mixed[1:] == mixed[:-1]
    alone = ~np.r_[False, same] & ~np.r_[same, False]
    return 1 - float(alone.mean())


def cell_hashes(x: NDArray[np.float32], widths: Whole) -> Hashes:
    """The hash of the cell of each row in each grid, (grids, N); 0 in those that are not used.

    Args:
        x: (N, features), rows as a transform encodes them, all of them finite.
        widths: of :func:`choose_widths`.
    """
    found = np.zeros((GRIDS, len(x)), dtype=np.uint64)
    for grid, one in enumerate(grids(x.shape[1])):
        if widths[grid, 0] == UNUSED:
            continue
        cells = _cells(one.axes(x), one.shifts, widths[grid, : len(one.shifts)])
        # A cryptographic hash, since others could be solved for the cell; it also says which grid the cell is of.
        data, size, digests, person = (
            cells.astype("<i8").tobytes(),
            8 * cells.shape[1],
            bytearray(),
            CELL + bytes([grid]),
        )
        for place in range(0, len(data), size):
            digests += hashlib.blake2b(data[place : place + size], digest_size=8, person=person).digest()
        found[grid] = np.frombuffer(bytes(digests), dtype="<u8")
    return found
