"""Scores of a calibration set: confidences, and for each harm whether a case, once accepted, has suffered it."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squad.errors import ArgumentError
from squad.selective.risk_text import WRONG
from squad.selective.tallies import Tally

__all__ = ["WRONG", "Ranked", "Scores", "as_array", "as_groups", "rank"]


@dataclass(frozen=True, eq=False)
class Scores:
    """What a guarantee is made from.

    Attributes:
        confidence: (m,), the higher the surer, float64.
        harms: by name, (m,): what an accepted case must not do too often.  Booleans, or costs between 0 and 1 with NaN
            where the harm is not counted.  "wrong" is among them.
        by: (m,) groups that get a threshold each; None for one threshold.
        costs: the harms that may cost something between 0 and 1, even if none of these cases does.
    """

    confidence: NDArray[np.float64]
    harms: Mapping[str, NDArray[Any]]
    by: NDArray[Any] | None = None
    costs: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.confidence)

    @classmethod
    def of(
        cls,
        confidence: ArrayLike | torch.Tensor,
        correct: ArrayLike | torch.Tensor,
        harms: Mapping[str, ArrayLike | torch.Tensor] | None = None,
        by: ArrayLike | torch.Tensor | None = None,
        costs: Collection[str] = (),
    ) -> "Scores":
        """Check what came, of whatever type; a harm with a number between 0 and 1 is one of the costs."""
        numbers = as_array("confidence", confidence)
        if numbers.ndim != 1 or (numbers.dtype.kind not in "biuf" and numbers.size):
            got = f"{numbers.dtype} of shape {numbers.shape}"
            raise ArgumentError.of("confidence", got, "a list of numbers, one a case")
        numbers = numbers.astype(np.float64)
        if np.isnan(numbers).any():
            row = int(np.flatnonzero(np.isnan(numbers))[0])
            hint = "Leave out cases that have no answer: they are referred whatever the threshold is."
            raise ArgumentError.of("confidence", f"NaN in case {row + 1} (from 1)", "a number for every case", hint)
        if (numbers == -np.inf).any():  # "accept all" is a threshold of -inf, and nothing is below that
            row = int(np.flatnonzero(numbers == -np.inf)[0])
            raise ArgumentError.of("confidence", f"-infinity in case {row + 1} (from 1)", "above -infinity")
        if not isinstance(harms or {}, Mapping):
            raise ArgumentError.of("harms", type(harms).__name__, "a mapping from names to losses")
        losses: dict[str, NDArray[Any]] = {WRONG: ~_flags("correct", correct, len(numbers))}
        for name, loss in (harms or {}).items():
            if name == WRONG:
                raise ArgumentError.of("harms", repr(WRONG), "of other names: this one is made from correct")
            losses[str(name)] = _losses(f"harms[{name!r}]", loss, len(numbers))
        groups = None if by is None else as_groups("by", by)
        if groups is not None and any(_missing(group) for group in groups.ravel().tolist()):
            hint = "Leave such cases out, or name the group if it is one."
            raise ArgumentError.of("by", "a missing value", "the group of every case", hint)
        if groups is not None and groups.shape != numbers.shape:
            raise ArgumentError.of("by", f"the shape {groups.shape}", f"of shape ({len(numbers)},): a group a case")
        fractions = {name for name, loss in losses.items() if not _only_errors(loss)}
        return cls(numbers, losses, groups, frozenset({*costs, *fractions}))

    def sha256(self) -> str:
        """A hash of the confidences, losses and groups, in their order."""
        digest = hashlib.sha256(self.confidence.astype("<f8").tobytes())
        for name, loss in self.harms.items():
            digest.update(f"\n{name!r} {len(loss)}\n".encode() + loss.tobytes())
        digest.update(repr([] if self.by is None else [str(group) for group in self.by.tolist()]).encode())
        return digest.hexdigest()

    def only(self, rows: NDArray[Any]) -> "Scores":
        """Some of the cases."""
        losses = {name: loss[rows] for name, loss in self.harms.items()}
        return Scores(self.confidence[rows], losses, None if self.by is None else self.by[rows], self.costs)


@dataclass(frozen=True, eq=False)
class Ranked:
    """Rules "accept above a threshold", from the strictest to the one that accepts most.

    Attributes:
        m: cases in all.
        n: (rules,), how many of them each rule accepts, ascending.
        threshold: (rules,), what a confidence must exceed.
        tallies: by harm, how often it was suffered.
    """

    m: int
    n: NDArray[np.int64]
    threshold: NDArray[np.float64]
    tallies: Mapping[str, Tally]

    @property
    def errors(self) -> dict[str, NDArray[Any]]:
        """By harm, (rules,): how many of the accepted have suffered it."""
        return {name: tally.errors for name, tally in self.tallies.items()}

    @property
    def ties(self) -> int:
        """How many cases share their confidence with another, if the rules are those of the cases themselves."""
        sizes = np.diff(self.n, prepend=0)
        return int(sizes[sizes > 1].sum())


def rank(scores: Scores, thresholds: NDArray[np.float64] | None = None) -> Ranked:
    """The rules that the cases themselves suggest, or those of given thresholds (descending).

    Equal confidences are accepted together or not at all: only the ends of such groups count.  The threshold of a rule
    is the highest confidence that it does not accept; none for the last, which accepts everything.
    """
    m = len(scores)
    order = np.argsort(-scores.confidence, kind="stable")  # sums of costs depend on their order, in the last digit
    sorted_ = scores.confidence[order]
    if thresholds is not None:
        n = np.searchsorted(-sorted_, -thresholds, side="left").astype(np.int64)
        kappa = thresholds
    elif m:
        n = np.flatnonzero(np.append(sorted_[1:] != sorted_[:-1], True)) + 1
        kappa = np.append(sorted_[n[:-1]], -np.inf)
    else:
        n, kappa = np.empty(0, dtype=np.int64), np.empty(0)
    tallies = {name: Tally.of(loss, order, n, name in scores.costs) for name, loss in scores.harms.items()}
    return Ranked(m, n, kappa, tallies)


def as_array(name: str, value: ArrayLike | torch.Tensor) -> NDArray[Any]:
    """A tensor of any device, an array or a list as an array."""
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError.of(
            name, "a masked array", "an array without a mask", "Leave such cases out: x.compressed()."
        )
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = (value.float() if value.dtype is torch.bfloat16 else value).numpy()  # numpy has no bfloat16
    try:
        return np.asarray(value)
    except ValueError as cause:
        raise ArgumentError(f"{name} must be an array; {cause}.") from cause


def as_groups(name: str, value: ArrayLike | torch.Tensor) -> NDArray[Any]:
    """Groups as an array.  A list keeps its types: numpy would make text of 1 beside "a"."""
    if isinstance(value, (list, tuple)):
        found = np.empty(len(value), dtype=object)
        for place, group in enumerate(value):
            found[place] = group
        return found
    return as_array(name, value)


def _missing(group: object) -> bool:
    return group is None or group != group or str(group) in ("NaT", "<NA>")  # NaN is not itself


def _flags(name: str, value: ArrayLike | torch.Tensor, count: int) -> NDArray[np.bool_]:
    """One truth a case: booleans, or the numbers 0 and 1."""
    flags = as_array(name, value)
    if flags.shape != (count,):
        raise ArgumentError.of(name, f"the shape {flags.shape}", f"of shape ({count},), one a confidence")
    if flags.dtype.kind not in "biuf" and flags.size:
        raise ArgumentError.of(name, flags.dtype, "booleans, or 0 and 1")
    truth = flags.astype(np.bool_)
    if (odd := truth != flags).any():
        raise ArgumentError.of(name, flags[odd][0], "booleans, or 0 and 1")
    return truth


def _losses(name: str, value: ArrayLike | torch.Tensor, count: int) -> NDArray[Any]:
    """What each case suffers: booleans; or, with costs between 0 and 1 or NaN (not counted) among them, float64."""
    given = as_array(name, value)
    if given.dtype.kind != "f" or given.shape != (count,):
        return _flags(name, given, count)
    losses = given.astype(np.float64)
    if (odd := ~np.isnan(losses) & ~((losses >= 0) & (losses <= 1))).any():
        hint = "Divide costs by the largest that there can be; NaN leaves a case out."
        raise ArgumentError.of(name, losses[odd][0], "0 or 1, or costs between them", hint)
    return losses.astype(np.bool_) if np.isin(losses, (0.0, 1.0)).all() else losses


def _only_errors(loss: NDArray[Any]) -> bool:
    """Whether each case suffers it or not, or is not counted."""
    return loss.dtype == np.bool_ or bool((np.isnan(loss) | np.isin(loss, (0.0, 1.0))).all())
