"""Labelled rows that are new to a model: checked for leakage and copies, encoded and predicted once.

``certify`` and ``recalibrate`` need rows that the model was not trained on, each of them an independent case.
"""

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from squad.data.cells import group_names
from squad.data.chance_repeats import NOTHING_KNOWN, RARE
from squad.data.duplicates import count_copies, find_duplicates
from squad.data.encoding import Encoded
from squad.data.leakage import check_rows, find_leaked_rows
from squad.data.seen_rows import check_groups, row_hashes
from squad.data.splits import row_order
from squad.data.tables import Table, labels
from squad.errors import ArgumentError, SquadError, SquadWarning
from squad.predictor.answer import Answer
from squad.predictor.input_rows import class_positions, input_rows
from squad.predictor.row_pass import Progress, encode, predict

if TYPE_CHECKING:
    from squad.predictor.predictor import Predictor

__all__ = ["CalibrationRows", "CertificationError", "calibration_rows", "check_pilot_rows", "seen_in_training"]

#: Fractions of novel rows above which a warning is given, and above which the rows are refused.
NOVEL_WARNED, NOVEL_REFUSED = 0.02, 0.5


class CertificationError(SquadError):
    """A certificate cannot be made from these rows, or does not belong to this model."""


@dataclass(frozen=True, eq=False)
class CalibrationRows:
    """Predicted rows with their true classes, without rows that are unreadable, novel, seen in training, or copies.

    Attributes:
        rows: All given rows, as the model takes them.
        answer: Predictions for the rows that are used.
        positions: (N,), the position of the true class of each used row.
        used: (rows,), which of the given rows are used.
        hashes: (N,), a hash per used row.
        sha256: Hash of all usable rows and their true classes.
        repeats: Number of rows that fit has seen, or near copies of them; None if the model stores no row hashes.
        notes: Assumptions that these rows add to the certificate.
        warnings: What the user should look at.
        groups: (N,), the group of each used row as text; empty if rows have no groups.
        cells: (grids, N), cells of the rows for finding near copies; None if the model stores none.
    """

    rows: Any
    answer: Answer
    positions: NDArray[np.int64]
    used: NDArray[np.bool_]
    hashes: NDArray[np.uint64]
    sha256: str
    repeats: int | None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    cells: NDArray[np.uint64] | None = None

    def warn(self) -> None:
        """Issue the warnings."""
        for text in self.warnings:
            warnings.warn(text, SquadWarning, stacklevel=3)

    @property
    def correct(self) -> NDArray[np.bool_]:
        """(N,), whether each prediction is correct."""
        return np.asarray(self.answer.probabilities.argmax(1) == self.positions)


def calibration_rows(
    predictor: "Predictor",
    x: Any,
    y: Sequence[Any] | NDArray[Any],
    groups: ArrayLike | None,
    one_per_group: bool = False,
    progress: Progress | None = None,
) -> CalibrationRows:
    """Check and predict labelled rows; neither they nor their groups may have been seen by fit.

    Args:
        predictor: The model.
        x: Rows, as ``Predictor.answer`` takes them.
        y: (rows,), their true labels.
        groups: (rows,), the group of each row.  None: the column of groups that fit used, if ``x`` has it.
        one_per_group: Use one row of each group only, picked by a hash.
        progress: Called with the number of rows predicted so far, and of all rows.
    """
    if isinstance(y, np.ma.MaskedArray):
        raise ArgumentError.of("y", "a masked array", "labels without a mask", "Leave masked rows out.")
    names = np.asarray(y)
    rows = input_rows(predictor.transform, x)
    if names.shape != (len(rows),):
        raise ArgumentError.of("y", f"shape {names.shape}", f"of shape ({len(rows)},), one label per row")
    if not len(rows):
        raise ArgumentError.of("x", "no rows", "rows with their labels")
    # Unreadable lines of a file have no label.  Unknown labels of other rows are found before the long work.
    unreadable = np.zeros(len(rows), dtype=np.bool_)
    unreadable[list(rows.unreadable) if isinstance(rows, Table) else []] = True
    positions = np.full(len(rows), -1)
    positions[~unreadable] = class_positions(predictor.classes, names[~unreadable])
    texts = _check_groups(predictor, rows, groups, unreadable)
    encoded = encode(predictor, rows)
    used = np.ones(len(rows), dtype=np.bool_)
    used[list(encoded.problems)] = False
    hashes = np.zeros(len(rows), dtype=np.uint64)
    hashes[used] = row_hashes(encoded.x[used])
    known = predictor.record.get("repeats", NOTHING_KNOWN)
    seen, repeats, cells = np.zeros_like(used), None, None
    if predictor.seen_rows is not None:
        cells = predictor.seen_rows.cells(encoded.x)
        own = None if cells is None else cells[:, used]
        seen[used] = check_rows(predictor.seen_rows, hashes[used], own, known, predictor.record.get("rows_sha256"))
        repeats = int((predictor.seen_rows.seen(hashes[used]) | seen[used]).sum())
    answer = predict(predictor, encoded, len(rows), progress)
    used &= np.isfinite(answer.confidence)
    unreadable = ~used
    novel = answer.novel & used
    _check_novel(answer, novel, used)
    used &= ~novel
    if not used.any():
        raise CertificationError(f"None of the {len(rows):,} rows can be used; the first: {answer.reason[0]}.")
    sha256 = hashlib.sha256(hashes[used].tobytes() + positions[used].tobytes()).hexdigest()
    seen &= used
    copies = np.zeros_like(used)
    fresh = used & ~seen
    copies[fresh] = find_duplicates(hashes[fresh], positions[fresh], predictor.seen_rows, known)
    left_out = LeftOut(len(rows), int(unreadable.sum()), int(novel.sum()), int(seen.sum()), int(copies.sum()))
    used &= ~(seen | copies)
    if not used.any():
        raise CertificationError(f"All {len(rows):,} rows also occur in the training set. Calibrate with other rows.")
    by_chance = None if predictor.seen_rows is None else predictor.seen_rows.repeats(hashes[used])
    used_groups = None if texts is None else [text for text, one in zip(texts, used, strict=True) if one]
    notes = _notes(predictor, hashes[used], by_chance, used_groups, left_out, one_per_group)
    if one_per_group and texts is not None:
        used &= _one_per_group(texts, used)
    return CalibrationRows(
        rows,
        Answer(**{name: value[used] for name, value in vars(answer).items()}),
        positions[used],
        used,
        hashes[used],
        sha256,
        repeats,
        notes,
        left_out.warnings(answer),
        () if texts is None else tuple(text for text, one in zip(texts, used, strict=True) if one),
        None if cells is None else cells[:, used],
    )


class LeftOut(NamedTuple):
    """How many rows there were, and how many were left out; each counts once, for the first reason that applies."""

    rows: int
    unreadable: int
    novel: int
    seen: int
    copies: int

    def warnings(self, answer: Answer) -> tuple[str, ...]:
        """Return what the user should look at, a sentence or two each."""
        found = []
        if self.novel > NOVEL_WARNED * self.rows:
            first = answer.reason[np.flatnonzero(answer.novel)[0]]
            found.append(
                f"{self.novel:,} of {self.rows:,} rows are unlike the training rows and are not used; the first:"
                f" {first}. Check the units and the columns."
            )
        if self.seen:
            found.append(
                f"{self.seen:,} of {self.rows:,} rows also occur in the training set, or nearly so, and are not used."
                " Calibrate with rows that were not used for fitting."
            )
        if self.copies:
            found.append(
                f"{self.copies:,} of {self.rows:,} rows are copies of others and are not used as evidence: a case"
                " counts once. Remove the copies, or check how the file was put together."
            )
        return tuple(found)


def seen_in_training(predictor: "Predictor", encoded: Encoded, used: NDArray[np.bool_]) -> int:
    """Return the number of rows that fit has seen, or near copies of them, beyond what chance explains.

    Args:
        predictor: The model; 0 is returned if it stores no row hashes.
        encoded: The encoded rows.
        used: (rows,), which of them count.
    """
    if predictor.seen_rows is None:
        return 0
    readable = used.copy()
    readable[list(encoded.problems)] = False
    hashes, cells = row_hashes(encoded.x[readable]), predictor.seen_rows.cells(encoded.x[readable])
    known, digest = predictor.record.get("repeats", NOTHING_KNOWN), predictor.record.get("rows_sha256")
    return find_leaked_rows(predictor.seen_rows, hashes, cells, known, digest).total


def check_pilot_rows(predictor: "Predictor", x: Any, calibration: CalibrationRows) -> None:
    """Check that the pilot rows are not in the calibration set: they choose the thresholds that are tested on it.

    Args:
        predictor: The model.
        x: Rows of the pilot.
        calibration: The calibration rows.
    """
    rows = input_rows(predictor.transform, x)
    column = predictor.record.get("group")
    if calibration.groups and column is not None and isinstance(rows, Table) and column in rows.columns:
        both = set(calibration.groups) & {str(text) for text in labels(rows, column, strict=False).tolist() if text}
        if both:
            raise CertificationError(
                f"{len(both):,} groups of the pilot are in the calibration set, such as {sorted(both)[0]!r}: thresholds"
                " must be chosen with other cases. Pass rows of other groups."
            )
    encoded = encode(predictor, rows)
    usable = np.ones(len(encoded.x), dtype=np.bool_)
    usable[list(encoded.problems)] = False
    alike = count_copies(
        encoded.x[usable], calibration.hashes, calibration.cells, predictor.seen_rows, predictor.record
    )
    if alike:
        raise CertificationError(
            f"{alike:,} of {int(usable.sum()):,} rows of the pilot are in the calibration set, or nearly so: thresholds"
            " must be chosen with other cases. Pass rows that are not in it."
        )


def _check_novel(answer: Answer, novel: NDArray[np.bool_], readable: NDArray[np.bool_]) -> None:
    """Check that most rows are like the training rows; otherwise units or transformations differ."""
    if novel.sum() > NOVEL_REFUSED * readable.sum():
        raise CertificationError(
            f"{int(novel.sum()):,} of {int(readable.sum()):,} rows are unlike the training rows; the first:"
            f" {answer.reason[np.flatnonzero(novel)[0]]}. Check the units and the columns; if the classifier is the"
            " last step of a Pipeline, pass rows that the other steps have transformed: pipe[:-1].transform(X)."
        )


def _one_per_group(texts: Sequence[str], usable: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Pick one usable row of each group by a hash: the first row of a group may be special."""
    seen: set[str] = set()
    chosen = np.zeros(len(texts), dtype=np.bool_)
    for row in row_order(len(texts)).tolist():
        if usable[row] and texts[row] not in seen:
            seen.add(texts[row])
            chosen[row] = True
    return chosen


def _check_groups(
    predictor: "Predictor", rows: Any, groups: ArrayLike | None, unreadable: NDArray[np.bool_]
) -> list[str] | None:
    """Return the group of each row; groups that fit has seen, given or in the column that fit used, are an error."""
    column = predictor.record.get("group")
    found = []
    if column is not None and isinstance(rows, Table) and column in rows.columns:
        found.append([str(text) for text in labels(rows, column, strict=False).tolist()])
    if groups is not None:
        if np.shape(groups) != (len(rows),):
            raise ArgumentError.of("groups", f"shape {np.shape(groups)}", f"of shape ({len(rows)},), one per row")
        found.append(group_names(groups))
    for texts in found:
        missing = np.array([not text for text in texts]) & ~unreadable
        if missing.any():
            raise ArgumentError(
                f"Every row needs a group; {int(missing.sum())} rows have none (missing values). Leave such rows out."
            )
        if predictor.seen_rows is not None:
            check_groups(predictor.seen_rows, [text for text in texts if text])
    return found[-1] if found else None


def _notes(
    predictor: "Predictor",
    hashes: NDArray[np.uint64],
    by_chance: int | None,
    groups: Sequence[str] | None,
    left_out: LeftOut,
    one_per_group: bool,
) -> tuple[str, ...]:
    """Return the assumptions that these rows add to those of every certificate."""
    notes, rows = [], len(hashes)
    if by_chance is None:
        notes.append("no calibration row is in the training set (not checked: the model stores no row hashes)")
    elif by_chance:
        notes.append(f"it is by chance that {by_chance:,} of {rows:,} calibration rows also occur in the training set")
    different = len(np.unique(hashes))
    if rows - different > RARE * rows:
        notes.append(
            f"equal rows are independent cases (of {rows:,} calibration rows only {different:,} are different)"
        )
    if left_out.seen:
        notes.append(
            "the guarantee does not cover cases that also occur in the training set"
            f" ({_rows_were(left_out.seen)} therefore left out)"
        )
    if left_out.copies:
        notes.append(
            f"{_rows_were(left_out.copies)} left out as {'a copy' if left_out.copies == 1 else 'copies'} of others"
        )
    if groups is not None:
        many = len({text for text in groups if text})
        if one_per_group and many < rows:
            notes.append(f"a case is one row of a new group (one row of each of {many:,} groups was used)")
        elif many < rows:
            notes.append(f"rows of one group are independent ({rows:,} rows came from {many:,} groups)")
    elif predictor.seen_rows is not None and len(predictor.seen_rows.groups):
        notes.append("no group of the calibration rows was trained on (not checked: their groups were not given)")
    if left_out.unreadable:
        notes.append(f"cases that cannot be read are referred ({_rows_were(left_out.unreadable)} left out as such)")
    if left_out.novel:
        notes.append(f"cases unlike the training rows are referred ({_rows_were(left_out.novel)} left out as such)")
    return tuple(notes)


def _rows_were(number: int) -> str:
    return f"{number:,} calibration row{' was' if number == 1 else 's were'}"
