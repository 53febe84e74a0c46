"""Which rows a model was made from, as hashes: a guarantee is worth nothing if it was made with them again.

A model is surer of rows that it has seen, and more often right about them, than of new ones.  So it keeps a hash of
every row that its fit saw, and calibration rows are looked up there.  Tables with few columns repeat rows by chance;
rows are refused only where there are more repeats than chance explains.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squad.core.checks import check_count
from squad.data.names import listed
from squad.data.problems import DataError
from squad.errors import ArgumentError

__all__ = [
    "NOTHING_KNOWN",
    "LeakError",
    "Memory",
    "chance",
    "check_groups",
    "check_other_rows",
    "check_repeats",
    "copies_among",
    "group_hashes",
    "repeats_by_chance",
    "row_hashes",
    "rows_digest",
    "rows_seen",
    "share",
    "usually_repeated",
    "with_more",
]

#: Rows are refused where chance alone would give so many repeats less often than this.
LEVEL = 1e-3

#: The same for a comparison with all rows of fit.
LEVEL_OF_ALL = 1e-6

#: In a table where a smaller share of the training rows occurs twice, equal rows are copies, not chance.
RARE = 0.01

#: A file in which every row occurs equally often was repeated as a whole, if it has so many different rows at least.
DIFFERENT = 8

#: Rows that are copied at once, to take the signs off their zeros.
BLOCK = 4096

#: Hashes of one kind are never those of the other.
ROW, GROUP = b"squad row", b"squad group"

Hashes = NDArray[np.uint64]


class LeakError(DataError):
    """Rows that the model has seen before, where only new ones will do."""


def row_hashes(x: NDArray[np.float32]) -> Hashes:
    """A hash of 64 bits for each row, (N,): that of its bytes, -0.0 being 0.0; the same on every machine.

    Args:
        x: (N, features), rows as a transform encodes them.  Leave out rows with a problem: they are all zeros.
    """
    if not isinstance(x, np.ndarray) or x.dtype.newbyteorder("=") != np.float32 or x.ndim != 2:
        got = f"{x.dtype} of shape {x.shape}" if isinstance(x, np.ndarray) else type(x).__name__
        raise ArgumentError.of("x", got, "encoded rows, a float32 array of shape (rows, features)")
    found = bytearray()
    width = 4 * x.shape[1]
    for start in range(0, len(x), BLOCK):
        # Adding 0 turns -0.0 into 0.0 and nothing else into anything else.
        block = np.ascontiguousarray(x[start : start + BLOCK] + np.float32(0), dtype="<f4")
        if not np.isfinite(block).all():
            row = start + int(np.flatnonzero(~np.isfinite(block).all(1))[0])
            raise ArgumentError.of("x", f"NaN or infinity in row {row + 1} (from 1)", "finite")
        data = block.tobytes()
        for place in range(0, len(block) * width, width) if width else [0] * len(block):
            found += hashlib.blake2b(data[place : place + width], digest_size=8, person=ROW).digest()
    return np.frombuffer(bytes(found), dtype="<u8").astype(np.uint64)


def group_hashes(groups: Sequence[str]) -> Hashes:
    """The hashes of the groups, each once, ascending; a group is what it is called as text."""
    return np.unique(np.asarray([_group_hash(group) for group in dict.fromkeys(groups)], dtype=np.uint64))


def _group_hash(group: str) -> int:
    if not isinstance(group, str):
        raise ArgumentError.of("groups", repr(group), "texts", "Write str(group) for each.")
    # Files are read with surrogates where a byte is no character: they are text, too.
    digest = hashlib.blake2b(group.encode("utf-8", "surrogatepass"), digest_size=8, person=GROUP).digest()
    return int.from_bytes(digest, "little")


@dataclass(frozen=True, eq=False)
class Memory:
    """What a model was made from.

    Attributes:
        rows: hashes of the rows that fit saw, to train or to validate, ascending, each once.
        groups: hashes of their groups, likewise; none if rows have no groups.
    """

    rows: Hashes
    groups: Hashes

    def __post_init__(self) -> None:
        for name in ("rows", "groups"):
            hashes = getattr(self, name)
            if not isinstance(hashes, np.ndarray) or hashes.dtype != np.uint64 or hashes.ndim != 1:
                raise DataError(f"{name} of a memory must be a list of hashes, uint64; got {_kind(hashes)}.")
            if not (hashes[1:] > hashes[:-1]).all():
                raise DataError(f"{name} of a memory must be in ascending order, each hash once; they are not.")

    @classmethod
    def of(cls, x: NDArray[np.float32], groups: Sequence[str] = ()) -> "Memory":
        """Of encoded rows (N, features) and the groups that they belong to."""
        return cls(np.unique(row_hashes(x)), group_hashes(groups))

    def __repr__(self) -> str:
        return f"Memory({len(self.rows):,} rows, {len(self.groups):,} groups)"

    def with_rows(self, hashes: Hashes, groups: Sequence[str] = ()) -> "Memory":
        """One that knows more rows, and the groups they belong to: those that a recalibration saw, say."""
        return Memory(np.union1d(self.rows, hashes), np.union1d(self.groups, group_hashes(groups)))

    def repeats(self, hashes: Hashes) -> int:
        """How many of the rows (N,) fit saw."""
        return int(self.seen(hashes).sum())

    def seen(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Which of the rows (N,) fit saw."""
        return _among(hashes, self.rows)

    def seen_groups(self, groups: Sequence[str]) -> list[str]:
        """Those of the groups that fit saw, each once, in the order they come."""
        names = list(dict.fromkeys(groups))
        seen = _among(np.asarray([_group_hash(name) for name in names], dtype=np.uint64), self.groups)
        return [name for name, known in zip(names, seen.tolist(), strict=True) if known]

    def to_tensors(self) -> dict[str, Tensor]:
        """As int64 of the same bits, which every library can save."""
        return {name: torch.from_numpy(getattr(self, name).view(np.int64).copy()) for name in ("rows", "groups")}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Memory":
        """What :meth:`to_tensors` made."""
        if set(tensors) != {"rows", "groups"}:
            held = listed(sorted(tensors)) or "nothing"
            raise DataError(f"A saved memory must hold 'rows' and 'groups'; it holds {held}.")
        for name, tensor in tensors.items():
            if tensor.dtype != torch.int64 or tensor.ndim != 1:
                raise DataError(f"{name} of a saved memory must be a list of int64; got {_kind(tensor)}.")
        return cls(*(tensors[name].cpu().contiguous().numpy().view(np.uint64) for name in ("rows", "groups")))


def share(train: Hashes, validation: Hashes) -> tuple[int, int]:
    """How often rows repeat by chance: (repeats, rows) of the validation rows, for :func:`check_repeats`.

    A repeat is a row that occurs in training, or elsewhere in validation: the memory holds both parts, and so a new row
    finds its like in either.  Counted against training alone, the share is too low, and honest rows are refused.

    Args:
        train: hashes of the rows that were trained on.
        validation: hashes of all validation rows, in any order, equal ones as often as they occur.
    """
    _, place, counts = np.unique(validation, return_inverse=True, return_counts=True)
    again = _among(validation, np.unique(train)) | (counts[place] > 1)
    return int(again.sum()), len(validation)


#: What :func:`check_repeats` takes where nothing was recorded.
NOTHING_KNOWN = {"chance_repeats": 0, "chance_rows": 0, "all_repeats": 0, "all_rows": 0}


def chance(hashes: Hashes, train: NDArray[np.int64], validation: NDArray[np.int64]) -> dict[str, int]:
    """What a fit records about repeats, for :func:`check_repeats`: plain data.

    Args:
        hashes: of all rows that fit saw.
        train: which of them it trained on.
        validation: which of them it validated on.
    """
    repeats, rows = share(hashes[train], hashes[validation])
    _, place, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    again = int((counts[place] > 1).sum())
    return {"chance_repeats": repeats, "chance_rows": rows, "all_repeats": again, "all_rows": len(hashes)}


def with_more(known: Mapping[str, int], memory: Memory, hashes: Hashes) -> dict[str, int]:
    """The record after more rows were seen, which were new to the memory: they tell about chance as well."""
    repeats, rows = share(memory.rows, hashes)
    more = {"chance_repeats": repeats, "chance_rows": rows, "all_repeats": repeats, "all_rows": rows}
    return {name: int(known[name]) + count for name, count in more.items()}


def repeats_by_chance(repeats: int, rows: int, chance_repeats: int, chance_rows: int) -> float:
    """The probability of so many repeats or more, if calibration rows repeat as often as validation rows do.

    Both counts are binomial with one unknown share, so given their sum the first is hypergeometric, whatever the share:
    Fisher's exact test.  A binomial test against the share that was observed, k / n or (k + 1) / (n + 2), would take it
    for known; with as many validation as calibration rows it refuses honest ones ten times as often as it says.
    """
    from scipy.special import gammaln

    drawn, total, marked = rows, rows + chance_rows, repeats + chance_repeats
    found = np.arange(repeats, min(drawn, marked) + 1, dtype=np.float64)

    def choices(of: Any, take: Any) -> Any:
        return gammaln(of + 1.0) - gammaln(take + 1.0) - gammaln(of - take + 1.0)

    logs = choices(marked, found) + choices(total - marked, drawn - found) - choices(total, drawn)
    return min(1.0, float(np.exp(logs).sum()))


def check_repeats(
    repeats: int, rows: int, chance_repeats: int, chance_rows: int, all_repeats: int = 0, all_rows: int = 0
) -> None:
    """That calibration rows are new to the model, as far as their repeats can tell; a :class:`LeakError` if not.

    They are compared with the validation rows, and refused where chance gives so many repeats with a probability below
    0.001 (:func:`repeats_by_chance`).  Validation rows may be few; so they are also compared with all rows of fit, each
    looked for among the others.  These lean on each other, which makes that test too sure of itself: it refuses only
    below 1e-6.  Repeats that chance does explain are no fault: new cases repeat old ones just as often.

    Args:
        repeats: how many of the calibration rows fit saw (:meth:`Memory.repeats`).
        rows: how many calibration rows there are.
        chance_repeats: of :func:`share`, noted at fit.
        chance_rows: likewise.
        all_repeats: how many of all rows of fit occur again among them.
        all_rows: how many these are.
    """
    rows, chance_rows = check_count("rows", rows, 0), check_count("chance_rows", chance_rows, 0)
    repeats = check_count("repeats", repeats, 0, rows)
    chance_repeats = check_count("chance_repeats", chance_repeats, 0, chance_rows)
    all_repeats = check_count("all_repeats", all_repeats, 0, all_rows)
    if (
        repeats_by_chance(repeats, rows, chance_repeats, chance_rows) >= LEVEL
        and repeats_by_chance(repeats, rows, all_repeats, all_rows) >= LEVEL_OF_ALL
    ):
        return
    known, among = max((chance_repeats, chance_rows), (all_repeats, all_rows), key=lambda pair: pair[1])
    expected = rows * (known + 1) / (among + 2)
    raise LeakError(
        f"The rows must be new to the model; it has seen {repeats:,} of these {rows:,}. Chance explains about"
        f" {expected:,.0f}: {known:,} of the {among:,} that it has seen occur twice. A model is surer of rows that it"
        " has seen than of new ones, so what is made with them would be false. Keep rows apart before fit (squad split"
        " does), and take the part that the model did not get."
    )


def usually_repeated(known: Mapping[str, int]) -> float:
    """The share of the training rows that occur more than once among them, by what a fit recorded."""
    return known.get("all_repeats", 0) / max(known.get("all_rows", 0), 1)


def rows_seen(memory: Memory, hashes: Hashes, known: Mapping[str, int], digest: str | None) -> int:
    """How many of the rows fit saw, where that is more than chance explains; else 0.

    Args:
        memory: of the model.
        hashes: of the rows.
        known: what fit recorded about repeats.
        digest: of all rows of fit, if it was recorded.
    """
    repeats = memory.repeats(hashes)
    if usually_repeated(known) < RARE:
        return repeats
    try:
        check_repeats(repeats, len(hashes), **known)
        check_other_rows(hashes, digest)
    except LeakError:
        return repeats
    return 0


def copies_among(
    hashes: Hashes, labels: NDArray[np.int64], memory: "Memory | None", known: Mapping[str, int]
) -> NDArray[np.bool_]:
    """Which rows are copies of others among them, (N,): they are no evidence of their own.

    Equal rows need not be copies: a table of few different rows has many, and each is a case of its own, without which
    a certificate would be about other cases than those to come.  So rows count as copies on strong evidence only:

    - Every row with its label occurs a multiple of g times, so the file was repeated g times.  A g-th of each is kept.
    - Rows that occur several times here hardly ever occur in training.  If both sets come from one population, each of
      the values that occur twice or more in all is divided between them at random, so that all of its t rows are here
      with probability (m / (m + n))^t; so many values that are here alone are then no chance (``LEVEL_OF_ALL``).  Of
      each of these values one row is kept, whichever its label.

    Args:
        hashes: of the rows.
        labels: their classes, as positions.
        memory: of the model; without it only the first is looked for.
        known: what fit recorded about repeats.
    """
    copies = np.zeros(len(hashes), dtype=np.bool_)
    if not len(hashes):
        return copies
    pairs = np.stack([hashes, labels.astype(np.uint64)], 1)
    _, place, counts = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    times = int(np.gcd.reduce(counts))
    if times > 1 and len(counts) >= DIFFERENT:
        copies = _nth(place.reshape(-1), counts) >= (counts // times)[place.reshape(-1)]
    if memory is None or not known.get("all_rows"):
        return copies
    left = np.flatnonzero(~copies)
    values, place, counts = np.unique(hashes[left], return_inverse=True, return_counts=True)
    here_alone = (counts > 1) & ~memory.seen(values)
    shared = int(memory.seen(values).sum()) + known.get("all_repeats", 0) // 2
    share = len(left) / (len(left) + known["all_rows"])
    if _at_least(int(here_alone.sum()), int(here_alone.sum()) + shared, share**2) < LEVEL_OF_ALL:
        copies[left] = here_alone[place] & (_nth(place, counts) > 0)
    return copies


def _nth(place: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The how-manieth of its like each row is, from 0; ``place`` says which of the values it has."""
    order = np.argsort(place, kind="stable")
    found = np.empty(len(place), dtype=np.int64)
    found[order] = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
    return found


def _at_least(successes: int, trials: int, probability: float) -> float:
    """The probability of so many successes or more."""
    from scipy.special import bdtrc

    return 1.0 if not successes else float(bdtrc(successes - 1, trials, probability))


def rows_digest(hashes: Hashes) -> str:
    """A hash of a set of rows, in whatever order they stand."""
    return hashlib.sha256(np.sort(hashes).astype("<u8").tobytes()).hexdigest()


def check_other_rows(hashes: Hashes, seen: str | None) -> None:
    """That rows are not the very ones of fit, which in a table of few different rows repeats alone do not tell."""
    if rows_digest(hashes) == seen:
        raise LeakError(
            f"The rows must be new to the model; these {len(hashes):,} are the very ones that it was fitted on. Take"
            " the part that fit did not get (squad split)."
        )


def check_groups(memory: Memory, groups: Sequence[str]) -> None:
    """That no group of the calibration rows is one that fit saw; a :class:`LeakError` if one is."""
    seen = memory.seen_groups(groups)
    if seen:
        raise LeakError(
            f"The groups of the calibration rows must be new to the model; fit saw {len(seen):,} of these"
            f" {len(set(groups)):,}: {listed(seen, 5)}. Rows of one group are alike, so a promise made with them would"
            " be false for new groups. Split by group before fit (squad split --group), and calibrate with the others."
        )


def _among(hashes: Hashes, known: Hashes) -> NDArray[np.bool_]:
    """Which of the hashes are in ``known``, which is ascending."""
    if not len(known):
        return np.zeros(len(hashes), dtype=np.bool_)
    place = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return np.asarray(known[place] == hashes, dtype=np.bool_)


def _kind(value: Any) -> str:
    return f"{value.dtype} of shape {tuple(value.shape)}" if hasattr(value, "dtype") else type(value).__name__
