"""Locality-sensitive hashes that find near copies of rows: rounded, cast to float32, printed with few digits, or noisy.

A row falls into one cell of each of seven grids, which are shifted against each other; the hash of each cell is stored.
A near copy shares most cells with its original.  A grid has at most 16 axes: features if they are few, otherwise sums
of features with random signs, in which the noise of single features averages out; so any number of features works.
Three grids use all features and four use half of them, so that a column rounded to nothing does not hide a copy (with
fewer than four features, all grids use all of them).

Cell widths are chosen at fit: as wide as possible while different rows of fit hardly ever share a cell.  New rows then
hardly ever do either; how many rows do is counted, as a baseline for calibration rows.

All arithmetic is exact and identical on every machine: features are rounded down to multiples of 2**-24, sums of them
stay below 2**53 and are exact in any order, and widths are powers of two.
"""

import hashlib
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["AXES", "GRIDS", "UNUSED", "cell_hashes", "choose_widths", "fixed_random_bytes", "halves"]

#: Number of grids, number of grids that use all features, and maximum number of axes per grid.
GRIDS, FULL_GRIDS, AXES = 7, 3, 16

#: With fewer features than this, all grids use all of them: cells of a single feature would have to be so fine that
#: they disclose its value.
MIN_FEATURES_TO_HALVE = 4

#: Fractional bits of a feature; and the value at which features are clipped, so that sums are exact in float64.
FRACTION_BITS, MAX_UNITS = 24, 2.0**31

#: Cells are at most half a standard deviation (2**-1) wide.
FIRST_LEVEL = 1

#: Cells are halved as long as that reduces the fraction of rows that share a cell by at least this much.
MIN_GAIN = 0.003

#: A grid in which a larger fraction of the distinct rows of fit share a cell is not informative, and not used.
MAX_SHARED = 0.3

#: Width of an unused grid.
UNUSED = -1

#: Rows per block; bounds memory.
BLOCK_ROWS = 8192

#: Personalization string of the hash function, so that hashes of cells never coincide with those of rows or groups.
CELL = b"squad cell"

Hashes = NDArray[np.uint64]
Integers = NDArray[np.int64]


class Grid(NamedTuple):
    """A grid: its features, axes and shifts.

    Attributes:
        part: Positions of the features it uses, ascending.
        signs: (features used, axes), 1 and -1: each axis is a signed sum of features; None if each feature is an axis.
        shifts: (axes,), shift of the grid lines, in units of 2**-16 of a cell width.
    """

    part: Integers
    signs: NDArray[np.float64] | None
    shifts: Integers

    def axes(self, x: NDArray[np.float32]) -> Integers:
        """Project rows (N, features) onto the axes: (N, axes), in units of 2**-24."""
        coordinates = np.empty((len(x), len(self.shifts)), dtype=np.int64)
        for start in range(0, len(x), BLOCK_ROWS):
            block = x[start : start + BLOCK_ROWS, self.part].astype(np.float64)
            block = np.clip(np.floor(block * 2.0**FRACTION_BITS), -MAX_UNITS, MAX_UNITS)
            coordinates[start : start + BLOCK_ROWS] = block if self.signs is None else block @ self.signs
        return coordinates


@cache
def grids(features: int) -> tuple[Grid, ...]:
    """Return the grids for rows with this number of features; always the same."""
    every = np.arange(features)
    half_parts = [part for pair in halves(features) for part in pair]
    parts = [every] * FULL_GRIDS + [part if features >= MIN_FEATURES_TO_HALVE else every for part in half_parts]
    result = []
    for grid, part in enumerate(parts):
        signs, axes = None, len(part)
        if len(part) > AXES:
            axes = AXES
            random = fixed_random_bytes(f"signs {grid}", -(-len(part) * AXES // 8))
            bits = np.unpackbits(np.frombuffer(random, dtype=np.uint8))
            signs = np.where(bits[: len(part) * AXES].reshape(len(part), AXES), 1.0, -1.0)
        # On each axis, the seven grids are a seventh of a width apart, in a different order per axis.
        steps = 1 + np.frombuffer(fixed_random_bytes("steps", axes), dtype=np.uint8).astype(np.int64) % (GRIDS - 1)
        first = np.frombuffer(fixed_random_bytes("first", 2 * axes), dtype="<u2").astype(np.int64)
        result.append(Grid(part, signs, ((grid * steps % GRIDS << 16) + first) // GRIDS))
    return tuple(result)


def halves(features: int) -> list[tuple[Integers, Integers]]:
    """Divide the features in halves, at random but always the same, once per pair of grids that use halves."""
    pairs = []
    for pair in range((GRIDS - FULL_GRIDS) // 2):
        keys = [fixed_random_bytes(f"order {pair} {feature}", 8) for feature in range(features)]
        order = np.asarray(sorted(range(features), key=keys.__getitem__), dtype=np.int64)
        half = (features + 1) // 2
        pairs.append((np.sort(order[:half]), np.sort(order[half:])))
    return pairs


def fixed_random_bytes(what: str, count: int) -> bytes:
    """Return pseudorandom bytes, always the same for the same purpose.

    Args:
        what: Purpose of the bytes; different purposes get independent bytes.
        count: Number of bytes.

    Returns:
        The bytes, the same on every machine.
    """
    return hashlib.shake_256(f"squad near {what}".encode()).digest(count)


def _cells(axes: Integers, shifts: Integers, widths: Integers) -> Integers:
    """Return the cell of each row, (N, axes); ``widths`` are exponents of 2."""
    return axes + (shifts << widths >> 16) >> widths


def choose_widths(x: NDArray[np.float32]) -> Integers:
    """Choose the cell widths.

    Cells start half a standard deviation wide, and are halved as long as different rows share cells and that helps.

    Args:
        x: (N, features), the distinct rows of fit.

    Returns:
        (grids, 16), exponents of 2 in units of 2**-24; -1 for unused grids and axes.
    """
    chosen = np.full((GRIDS, AXES), UNUSED)
    for grid, one in zip(chosen, grids(x.shape[1]), strict=True):
        if not len(one.shifts) or len(x) < 2:
            continue
        axes = one.axes(x)
        wide = np.maximum(np.frexp(axes.astype(np.float64).std(0))[1] - 1, 0).astype(np.int64)
        best = (np.inf, MAX_SHARED, wide)
        for level in range(FIRST_LEVEL, FRACTION_BITS + 1):
            widths = np.maximum(wide - level, 0)
            shared = _shared_fraction(_cells(axes, one.shifts, widths))
            best = min(best, (shared + MIN_GAIN * level, shared, widths), key=lambda pair: pair[0])
            if shared <= MIN_GAIN or not widths.any():
                break
        if best[1] < MAX_SHARED:
            # Halve once more if they were narrowed: the first width at which rows are alone is partly luck.
            narrowed = (best[2] < wide - FIRST_LEVEL).any()
            grid[: len(wide)] = np.maximum(best[2] - 1, 0) if narrowed else best[2]
    return chosen


def _shared_fraction(cells: Integers) -> float:
    """Fraction of rows that share their cell with another row."""
    random = np.frombuffer(fixed_random_bytes("odd", 8 * cells.shape[1]), dtype="<u8")
    odd = random.astype(np.uint64) | np.uint64(1)
    mixed = np.zeros(len(cells), dtype=np.uint64)
    for axis, factor in enumerate(odd):
        mixed += cells[:, axis].astype(np.uint64) * factor
        mixed ^= mixed >> np.uint64(29)
    mixed.sort()
    same = mixed[1:] == mixed[:-1]
    alone = ~np.r_[False, same] & ~np.r_[same, False]
    return 1 - float(alone.mean())


def cell_hashes(x: NDArray[np.float32], widths: Integers) -> Hashes:
    """Hash the cell of each row in each grid.

    Args:
        x: (N, features), rows encoded by a transform, all finite.
        widths: (grids, 16), from :func:`choose_widths`.

    Returns:
        (grids, N), uint64; 0 in unused grids.
    """
    hashes = np.zeros((GRIDS, len(x)), dtype=np.uint64)
    for grid, one in enumerate(grids(x.shape[1])):
        if widths[grid, 0] == UNUSED:
            continue
        cells = _cells(one.axes(x), one.shifts, widths[grid, : len(one.shifts)])
        # A cryptographic hash, since others can be inverted; it is personalized by the grid.
        data, size, person = cells.astype("<i8").tobytes(), 8 * cells.shape[1], CELL + bytes([grid])
        digests = bytearray()
        for offset in range(0, len(data), size):
            digests += hashlib.blake2b(data[offset : offset + size], digest_size=8, person=person).digest()
        hashes[grid] = np.frombuffer(bytes(digests), dtype="<u8")
    return hashes
