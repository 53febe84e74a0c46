"""How often rows repeat by chance, and whether calibration rows repeat those of training more often than that."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.core.checks import check_count
from squad.data.near_copies import among
from squad.data.seen_rows import LeakError, SeenRows

__all__ = [
    "LEVEL",
    "LEVEL_OF_ALL",
    "NOTHING_KNOWN",
    "RARE",
    "chance",
    "check_repeats",
    "repeats_by_chance",
    "share",
    "told",
    "too_many",
    "usually_repeated",
    "with_more",
]

#: Rows are refused where chance alone would give so many repeats less often than this.
LEVEL = 1e-3

#: The same for a comparison with all rows of fit.
LEVEL_OF_ALL = 1e-6

#: In a table where a smaller share of the training rows occurs twice, equal rows are copies, not chance.
RARE = 0.01

Hashes = NDArray[np.uint64]


def share(train: Hashes, validation: Hashes) -> tuple[int, int]:
    """How often rows repeat by chance: (repeats, rows) of the validation rows, for :func:`check_repeats`.

    A repeat is a row that occurs in training, or elsewhere in validation: the memory holds both parts, and so a new row
    finds its like in either.  Counted against training alone, the share is too low, and honest rows are refused.

    Args:
        train: hashes of the rows that were trained on.
        validation: hashes of all validation rows, in any order, equal ones as often as they occur.
    """
    _, place, counts = np.unique(validation, return_inverse=True, return_counts=True)
    again = among(validation, np.unique(train)) | (counts[place] > 1)
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


def with_more(known: Mapping[str, int], seen_rows: SeenRows, hashes: Hashes) -> dict[str, int]:
    """The record after more rows were seen, which were new to the memory: they tell about chance as well."""
    repeats, rows = share(seen_rows.rows, hashes)
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
    if too_many(repeats, rows, chance_repeats, chance_rows, all_repeats, all_rows):
        raise LeakError(told(repeats, rows, chance_repeats, chance_rows, all_repeats, all_rows))


def too_many(
    repeats: int,
    rows: int,
    chance_repeats: int,
    chance_rows: int,
    all_repeats: int = 0,
    all_rows: int = 0,
    tests: int = 1,
) -> bool:
    """Whether chance does not explain so many repeats, as :func:`check_repeats` has it; one of several such tests."""
    return (
        repeats_by_chance(repeats, rows, chance_repeats, chance_rows) < LEVEL / tests
        or repeats_by_chance(repeats, rows, all_repeats, all_rows) < LEVEL_OF_ALL / tests
    )


def told(
    repeats: int, rows: int, chance_repeats: int, chance_rows: int, all_repeats: int = 0, all_rows: int = 0
) -> str:
    """What is said of so many repeats; the arguments are those of :func:`check_repeats`."""
    known, among_rows = max((chance_repeats, chance_rows), (all_repeats, all_rows), key=lambda pair: pair[1])
    expected = rows * (known + 1) / (among_rows + 2)
    return (
        f"{repeats:,} of these {rows:,} rows are copies or near copies of rows that the model has seen; chance explains"
        f" about {expected:,.0f}. Use rows that neither fit nor recalibrate got (squad split keeps them apart)."
    )


def usually_repeated(known: Mapping[str, int]) -> float:
    """The share of the training rows that occur more than once among them, by what a fit recorded."""
    return known.get("all_repeats", 0) / max(known.get("all_rows", 0), 1)
