"""Scored calibration cases: confidences, harms and groups, and the rules that they suggest."""

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
    """Confidences, harms and groups of a calibration set: all that a guarantee is computed from.

    Attributes:
        confidence: (m,), confidence scores, float64; higher means more confident.
        harms: By name, (m,) losses: booleans, or costs between 0 and 1 with NaN where the harm is not counted.
            Includes "wrong".
        by: (m,), groups with a threshold each; None for a single threshold.
        costs: Names of the harms whose costs may lie between 0 and 1, even if none of these cases has such a cost.

    See Also:
        certify: Takes the same arrays.

    Examples:
        >>> scores = Scores.of([0.9, 0.4], [True, False])
        >>> len(scores), scores.harms["wrong"].tolist()
        (2, [False, True])
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
        """Validate arrays, lists or tensors; a harm with values strictly between 0 and 1 is a cost.

        Args:
            confidence: (m,), confidence scores on any scale; higher means more confident.
            correct: (m,), whether each prediction is correct.
            harms: By name, (m,) losses of further harms.
            by: (m,), group of each case.
            costs: Harms that are costs even if no case has a value between 0 and 1.

        Returns:
            The scores, with confidences in float64.

        Raises:
            ArgumentError: If shapes differ, a confidence is NaN, or a loss is outside [0, 1].
        """
        numbers = as_array("confidence", confidence)
        if numbers.ndim != 1 or (numbers.dtype.kind not in "biuf" and numbers.size):
            got = f"{numbers.dtype} of shape {numbers.shape}"
            raise ArgumentError.of("confidence", got, "a one-dimensional array of numbers, one per case")
        numbers = numbers.astype(np.float64)
        if np.isnan(numbers).any():
            row = int(np.flatnonzero(np.isnan(numbers))[0])
            hint = "Leave out cases without a prediction: the model abstains on them at any threshold."
            raise ArgumentError.of("confidence", f"NaN in case {row + 1} (from 1)", "a number for every case", hint)
        if (numbers == -np.inf).any():  # "accept all" is the threshold -inf, which must be exceeded
            row = int(np.flatnonzero(numbers == -np.inf)[0])
            raise ArgumentError.of("confidence", f"-infinity in case {row + 1} (from 1)", "above -infinity")
        if not isinstance(harms or {}, Mapping):
            raise ArgumentError.of("harms", type(harms).__name__, "a mapping from names to losses")
        losses: dict[str, NDArray[Any]] = {WRONG: ~_flags("correct", correct, len(numbers))}
        for name, loss in (harms or {}).items():
            if name == WRONG:
                raise ArgumentError(f"harms must not contain {WRONG!r}, which is derived from `correct`. Rename it.")
            losses[str(name)] = _losses(f"harms[{name!r}]", loss, len(numbers))
        groups = None if by is None else as_groups("by", by)
        if groups is not None and any(_missing(group) for group in groups.ravel().tolist()):
            hint = "Leave out such cases, or give them a group name."
            raise ArgumentError.of("by", "a missing value", "the group of every case", hint)
        if groups is not None and groups.shape != numbers.shape:
            raise ArgumentError.of("by", f"shape {groups.shape}", f"of shape ({len(numbers)},): one group per case")
        fractions = {name for name, loss in losses.items() if not _only_errors(loss)}
        return cls(numbers, losses, groups, frozenset({*costs, *fractions}))

    def sha256(self) -> str:
        """Return a hash of the confidences, losses and groups, in their order."""
        digest = hashlib.sha256(self.confidence.astype("<f8").tobytes())
        for name, loss in self.harms.items():
            digest.update(f"\n{name!r} {len(loss)}\n".encode() + loss.tobytes())
        digest.update(repr([] if self.by is None else [str(group) for group in self.by.tolist()]).encode())
        return digest.hexdigest()

    def only(self, rows: NDArray[Any]) -> "Scores":
        """Return a subset of the cases."""
        losses = {name: loss[rows] for name, loss in self.harms.items()}
        return Scores(self.confidence[rows], losses, None if self.by is None else self.by[rows], self.costs)


@dataclass(frozen=True, eq=False)
class Ranked:
    """Rules "accept above a threshold", from the strictest to the one with the largest coverage.

    Attributes:
        m: Number of cases.
        n: (rules,), number of cases that each rule accepts, ascending.
        threshold: (rules,), thresholds that a confidence must exceed.
        tallies: By harm, the error counts of each rule.

    Examples:
        >>> rank(Scores.of([0.9, 0.8, 0.8, 0.7], [True, True, False, False])).ties
        2
    """

    m: int
    n: NDArray[np.int64]
    threshold: NDArray[np.float64]
    tallies: Mapping[str, Tally]

    @property
    def errors(self) -> dict[str, NDArray[Any]]:
        """By harm, (rules,): number of accepted cases that suffered it."""
        return {name: tally.errors for name, tally in self.tallies.items()}

    @property
    def ties(self) -> int:
        """Number of cases that share their confidence with another one, if the rules come from the cases themselves."""
        sizes = np.diff(self.n, prepend=0)
        return int(sizes[sizes > 1].sum())


def rank(scores: Scores, thresholds: NDArray[np.float64] | None = None) -> Ranked:
    """Return the rules at the distinct confidences of the cases, or at given thresholds (descending).

    Cases of equal confidence are accepted together or not at all: there is one rule per distinct confidence.  The
    threshold of a rule is the highest confidence that it does not accept; the last one, -inf, accepts everything.

    Args:
        scores: Scored cases.
        thresholds: (rules,), descending; None for the rules of the cases themselves.

    Returns:
        The rules, strictest first, with the number of cases that each accepts and a tally per harm.

    Examples:
        >>> ranked = rank(Scores.of([0.9, 0.8, 0.8, 0.7], [True, True, False, False]))
        >>> ranked.n.tolist(), ranked.threshold.tolist(), ranked.errors["wrong"].tolist()
        ([1, 3, 4], [0.8, 0.7, -inf], [0, 1, 2])
    """
    m = len(scores)
    order = np.argsort(
        -scores.confidence, kind="stable"
    )  # stable: the last digit of a sum of costs depends on its order
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
    """Convert a tensor on any device, an array or a list to an array.

    Args:
        name: Name of the argument, used in error messages.
        value: Array, list, or tensor on any device.

    Returns:
        A NumPy array; bfloat16 becomes float32.

    Examples:
        >>> as_array("confidence", torch.tensor([0.5, 1.0]))
        array([0.5, 1. ], dtype=float32)
    """
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError.of(
            name, "a masked array", "an array without a mask", "Drop masked cases with x.compressed()."
        )
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = (value.float() if value.dtype is torch.bfloat16 else value).numpy()  # numpy has no bfloat16
    try:
        return np.asarray(value)
    except ValueError as cause:
        raise ArgumentError(f"{name} must be an array: {cause}.") from cause


def as_groups(name: str, value: ArrayLike | torch.Tensor) -> NDArray[Any]:
    """Convert groups to an array.  Elements of a list keep their types: NumPy would turn 1 and "a" into text.

    Args:
        name: Name of the argument, used in error messages.
        value: One group per case.

    Returns:
        (cases,), an array; of dtype object if a list or tuple was given.

    Examples:
        >>> as_groups("by", [1, "a"]).tolist()
        [1, 'a']
    """
    if isinstance(value, (list, tuple)):
        found = np.empty(len(value), dtype=object)
        for index, group in enumerate(value):
            found[index] = group
        return found
    return as_array(name, value)


def _missing(group: object) -> bool:
    return group is None or group != group or str(group) in ("NaT", "<NA>")  # NaN is not itself


def _flags(name: str, value: ArrayLike | torch.Tensor, count: int) -> NDArray[np.bool_]:
    """Check one boolean per case, given as booleans or as the numbers 0 and 1."""
    flags = as_array(name, value)
    if flags.shape != (count,):
        raise ArgumentError.of(name, f"shape {flags.shape}", f"of shape ({count},), one per confidence")
    if flags.dtype.kind not in "biuf" and flags.size:
        raise ArgumentError.of(name, flags.dtype, "boolean, or 0 and 1")
    truth = flags.astype(np.bool_)
    if (odd := truth != flags).any():
        raise ArgumentError.of(name, flags[odd][0], "boolean, or 0 and 1")
    return truth


def _losses(name: str, value: ArrayLike | torch.Tensor, count: int) -> NDArray[Any]:
    """Check the losses of a harm: booleans; or float64, with costs between 0 and 1 or NaN (not counted)."""
    given = as_array(name, value)
    if given.dtype.kind != "f" or given.shape != (count,):
        return _flags(name, given, count)
    losses = given.astype(np.float64)
    if (odd := ~np.isnan(losses) & ~((losses >= 0) & (losses <= 1))).any():
        hint = "Divide costs by the largest possible cost; NaN excludes a case."
        raise ArgumentError.of(name, losses[odd][0], "between 0 and 1", hint)
    return losses.astype(np.bool_) if np.isin(losses, (0.0, 1.0)).all() else losses


def _only_errors(loss: NDArray[Any]) -> bool:
    """Whether every loss is 0, 1 or not counted."""
    return loss.dtype == np.bool_ or bool((np.isnan(loss) | np.isin(loss, (0.0, 1.0))).all())
