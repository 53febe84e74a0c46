"""From a predictor and labelled rows to a certificate that belongs to it; and from that to decisions.

A certificate is about one function from rows to confidences: these weights and seeds, this transformation, so many
samples taken in this way.  Its identity is a hash of all of that.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from squad.data.cells import cell_text
from squad.data.chance_repeats import NOTHING_KNOWN, RARE
from squad.data.duplicates import copies_among, copies_between
from squad.data.leakage import check_rows, leaked
from squad.data.seen_rows import check_groups, row_hashes
from squad.data.splits import row_order
from squad.data.tables import Table, labels
from squad.errors import ArgumentError, SquadError, SquadWarning
from squad.predictor.answer import ACCEPTED, REFERRED, Answer
from squad.predictor.harms import COST, Costs, cost_matrix, harm_names, harm_of
from squad.predictor.sampling_design import sample_of
from squad.records import versions
from squad.selective.certificate import Certificate
from squad.selective.certify import Risk, certify_scores, check_targets
from squad.selective.groups import ByGroup, plain
from squad.selective.resampling import resample
from squad.selective.scored_cases import WRONG, Scores, as_groups

if TYPE_CHECKING:
    from squad.predictor.predictor import Predictor

__all__ = [
    "ARRAY",
    "LABEL",
    "CertificationError",
    "Labelled",
    "certificate_for",
    "check_pilot_rows",
    "decide",
    "group_texts",
    "identity",
    "labelled",
    "seen_in_training",
]

#: Where groups with a threshold each stand: the answer's own label, a column of the rows, or an array beside them.
LABEL, COLUMN, ARRAY = "label", "column", "array"


#: Above this share of rows that are unlike those of training a warning is given, and rows are refused.
NOVEL_WARNED, NOVEL_REFUSED = 0.02, 0.5


class CertificationError(SquadError):
    """A certificate that cannot be made from these rows, or does not belong to this model."""


def identity(predictor: "Predictor") -> str:
    """A hash of everything a confidence depends on, beside the row."""
    digest = hashlib.sha256()
    for name, tensor in sorted(predictor.network.state_dict().items()):
        flat = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {flat.dtype} {tuple(flat.shape)}\n".encode())
        digest.update(flat.reshape(-1).numpy().tobytes())
    rest: dict[str, Any] = {
        "network": {"name": predictor.config.name, **predictor.config.to_dict()},
        "transform": predictor.transform.to_json(),
        "classes": list(predictor.classes),
        "sampling": [predictor.sampling, predictor.num_samples],
        "recalibration": predictor.recalibration and predictor.recalibration.to_json(),
    }
    if predictor.row_distance is not None:  # models of earlier versions have none, and keep their identity
        rest["row_distance"] = predictor.row_distance.digest()
    digest.update(json.dumps(rest, sort_keys=True).encode())
    return digest.hexdigest()


def _seeds(predictor: "Predictor") -> dict[str, list[int]]:
    """The seeds of the layers that draw, one a member; they are saved with the weights."""
    found = predictor.network.state_dict().items()
    return {name: tensor.reshape(-1).tolist() for name, tensor in found if name.rpartition(".")[2] == "seed"}


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows that were answered, with their right answers; without those that cannot be read, are novel or are copies.

    Attributes:
        answer: to the rows that were kept.
        positions: (N,), the place of each one's right class.
        kept: (rows,), which of the given rows they are.
        hashes: (N,), one a row.
        sha256: of all rows that can be used, and their right classes.
        repeats: how many of them fit has seen, or near copies of them; None if the model keeps no hashes.
        notes: what is taken for granted because of these rows.
        warnings: what the user should look at.
        groups: (N,), the group of each row as text; empty if rows have none.
        cells: (grids, N), the cells of the rows; None if the model keeps none.
    """

    answer: Answer
    positions: NDArray[np.int64]
    kept: NDArray[np.bool_]
    hashes: NDArray[np.uint64]
    sha256: str
    repeats: int | None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    cells: NDArray[np.uint64] | None = None

    def warn(self) -> None:
        """Say what the user should look at."""
        for text in self.warnings:
            warnings.warn(text, SquadWarning, stacklevel=3)

    @property
    def correct(self) -> NDArray[np.bool_]:
        """(N,), whether each answer is right."""
        return np.asarray(self.answer.probabilities.argmax(1) == self.positions)


def labelled(
    predictor: "Predictor",
    x: Any,
    y: Sequence[Any] | NDArray[Any],
    groups: ArrayLike | None,
    one_per_group: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Labelled:
    """Answer rows that must be new to the model: neither they nor their groups may have been seen by fit.

    Args:
        predictor: the model.
        x: rows, as it takes them.
        y: (rows,), their right labels.
        groups: (rows,), or None: then those of the column that fit was told of, if ``x`` has it.
        one_per_group: use one row of each group only, whichever a hash picks.
        progress: is called with the number of rows answered so far, and of all.
    """
    if isinstance(y, np.ma.MaskedArray):
        raise ArgumentError.of("y", "a masked array", "labels without a mask", "Leave such rows out.")
    names = np.asarray(y)
    rows = predictor.checked(x)
    if names.shape != (len(rows),):
        raise ArgumentError.of("y", f"the shape {names.shape}", f"of shape ({len(rows)},), one label a row")
    if not len(rows):
        raise ArgumentError.of("x", "no rows", "rows with their labels")
    # Unreadable lines of a file have no label; an unknown label of any other row is told before the work.
    unreadable = np.zeros(len(rows), dtype=np.bool_)
    unreadable[list(rows.unreadable) if isinstance(rows, Table) else []] = True
    positions = np.full(len(rows), -1)
    positions[~unreadable] = predictor.positions(names[~unreadable])
    texts = _checked_groups(predictor, rows, groups, unreadable)
    encoded = predictor.encode(rows)
    kept = np.ones(len(rows), dtype=np.bool_)
    kept[list(encoded.problems)] = False
    hashes = np.zeros(len(rows), dtype=np.uint64)
    hashes[kept] = row_hashes(encoded.x[kept])
    known = predictor.record.get("repeats", NOTHING_KNOWN)
    seen, repeats, cells = np.zeros_like(kept), None, None
    if predictor.seen_rows is not None:
        cells = predictor.seen_rows.cells(encoded.x)
        own = None if cells is None else cells[:, kept]
        seen[kept] = check_rows(predictor.seen_rows, hashes[kept], own, known, predictor.record.get("rows_sha256"))
        repeats = int((predictor.seen_rows.seen(hashes[kept]) | seen[kept]).sum())
    answer = predictor.undecided(rows, progress)
    kept &= np.isfinite(answer.confidence)
    unreadable = ~kept
    novel = answer.novel & kept
    _check_novel(answer, novel, kept)
    kept &= ~novel
    if not kept.any():
        raise CertificationError(f"None of the {len(rows):,} rows can be used; the first: {answer.reason[0]}.")
    sha256 = hashlib.sha256(hashes[kept].tobytes() + positions[kept].tobytes()).hexdigest()
    seen &= kept
    copies = np.zeros_like(kept)
    fresh = kept & ~seen
    copies[fresh] = copies_among(hashes[fresh], positions[fresh], predictor.seen_rows, known)
    counts = Counts(len(rows), int(unreadable.sum()), int(novel.sum()), int(seen.sum()), int(copies.sum()))
    kept &= ~(seen | copies)
    if not kept.any():
        raise CertificationError(f"All {len(rows):,} rows also occur in the training set. Calibrate with other rows.")
    chance_repeats = None if predictor.seen_rows is None else predictor.seen_rows.repeats(hashes[kept])
    theirs = None if texts is None else [text for text, used in zip(texts, kept, strict=True) if used]
    notes = _notes(predictor, hashes[kept], chance_repeats, theirs, counts, one_per_group)
    if one_per_group and texts is not None:
        kept &= _one_each(texts, kept)
    fields = {name: value[kept] for name, value in vars(answer).items()}
    return Labelled(
        Answer(**fields),
        positions[kept],
        kept,
        hashes[kept],
        sha256,
        repeats,
        notes,
        counts.warnings(answer),
        () if texts is None else tuple(text for text, used in zip(texts, kept, strict=True) if used),
        None if cells is None else cells[:, kept],
    )


class Counts(NamedTuple):
    """How many rows there were, and how many were left out: each once, for the first reason that applies."""

    rows: int
    unreadable: int
    novel: int
    seen: int
    copies: int

    def warnings(self, answer: Answer) -> tuple[str, ...]:
        """What the user should look at, a sentence or two each."""
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
                " Calibrate with rows that fit did not get."
            )
        if self.copies:
            found.append(
                f"{self.copies:,} of {self.rows:,} rows are copies of others and are not used as evidence: a case"
                " counts once. Remove the copies, or check how the file was put together."
            )
        return tuple(found)


def _check_novel(answer: Answer, novel: NDArray[np.bool_], readable: NDArray[np.bool_]) -> None:
    """That most rows are like those of training: if not, they are in other units, or not transformed as those were."""
    if novel.sum() > NOVEL_REFUSED * readable.sum():
        raise CertificationError(
            f"{int(novel.sum()):,} of {int(readable.sum()):,} rows are unlike the training rows; the first:"
            f" {answer.reason[np.flatnonzero(novel)[0]]}. Check the units and the columns; if the classifier is the"
            " last step of a Pipeline, pass rows that the other steps have transformed: pipe[:-1].transform(X)."
        )


def seen_in_training(predictor: "Predictor", x: Any, used: NDArray[np.bool_]) -> int:
    """How many rows fit saw, or near copies of them, where chance does not explain it; 0 if the model keeps no hashes.

    Args:
        predictor: the model.
        x: rows, as it takes them.
        used: (rows,), which of them count.
    """
    if predictor.seen_rows is None:
        return 0
    encoded = predictor.encode(predictor.checked(x))
    readable = used.copy()
    readable[list(encoded.problems)] = False
    hashes, cells = row_hashes(encoded.x[readable]), predictor.seen_rows.cells(encoded.x[readable])
    known, digest = predictor.record.get("repeats", NOTHING_KNOWN), predictor.record.get("rows_sha256")
    return leaked(predictor.seen_rows, hashes, cells, known, digest).total


def _one_each(texts: Sequence[str], usable: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """One usable row of each group, picked by a hash: the first one may be special."""
    order = row_order(len(texts))
    seen: set[str] = set()
    chosen = np.zeros(len(texts), dtype=np.bool_)
    for row in order.tolist():
        if usable[row] and texts[row] not in seen:
            seen.add(texts[row])
            chosen[row] = True
    return chosen


def group_texts(groups: ArrayLike | None) -> list[str]:
    """Groups as text, as tables have them: 5 and 5.0 are one."""
    return [] if groups is None else [cell_text(group) or "" for group in np.asarray(groups).tolist()]


def _checked_groups(
    predictor: "Predictor", rows: Any, groups: ArrayLike | None, unreadable: NDArray[np.bool_]
) -> list[str] | None:
    """The group of each row, none of which fit may have seen; also those of the column that fit was told of."""
    known = predictor.record.get("group")
    columns = []
    if known is not None and isinstance(rows, Table) and known in rows.columns:
        columns.append([str(text) for text in labels(rows, known, strict=False).tolist()])
    if groups is not None:
        if np.shape(groups) != (len(rows),):
            raise ArgumentError.of("groups", f"the shape {np.shape(groups)}", f"of shape ({len(rows)},), one a row")
        columns.append(group_texts(groups))
    for texts in columns:
        missing = np.array([not text for text in texts]) & ~unreadable
        if missing.any():
            raise ArgumentError.of(
                "groups", f"{int(missing.sum())} missing", "one for every row", "Leave such rows out."
            )
        if predictor.seen_rows is not None:
            check_groups(predictor.seen_rows, [text for text in texts if text])
    return columns[-1] if columns else None


def certificate_for(
    predictor: "Predictor",
    x: Any,
    found: Labelled,
    risk: Risk | Sequence[Risk],
    delta: float,
    method: str,
    *,
    by: str | ArrayLike | None,
    harms: Mapping[str, ArrayLike] | None,
    options: Mapping[str, Any],
    source: str | None,
    attempt: int | None,
    costs: Costs | None = None,
    sample: Mapping[str, Any] | None = None,
) -> tuple[Certificate, Scores]:
    """The certificate, and the scores it was made from."""
    losses = {name: np.asarray(loss)[found.kept] for name, loss in _lengths(harms, len(found.kept)).items()}
    prices = None if costs is None else cost_matrix(costs, predictor.classes)
    named = harm_names(risk)
    if prices is not None and COST in losses:
        raise ArgumentError(f"Pass either costs or harms[{COST!r}], not both.")
    if prices is not None and COST not in named:
        raise ArgumentError(f"costs need a risk for their mean. Name one for {COST!r}, such as --risk cost=.03.")
    told = [name for name in named if name != WRONG and name not in losses]
    for name in told:
        predicted = found.answer.probabilities.argmax(1)
        losses[name] = harm_of(name, predictor.classes, predicted, found.positions, prices)
    called, kind, values = _by(predictor, x, by, found)
    fractions = {COST} if prices is not None and not np.isin(prices, (0.0, 1.0)).all() else set()
    scores = Scores.of(found.answer.confidence, found.correct, losses, values, fractions)
    targets = check_targets(risk, scores.harms)
    drawn = resample(scores, **sample_of(predictor, x, found.kept, sample or {}))
    details: dict[str, Any] = {
        "model": identity(predictor),
        "sampling": predictor.sampling,
        "num_samples": predictor.num_samples,
        "seeds": _seeds(predictor),
        "by": kind,
        "calibration": {
            "source": source,
            "rows": len(found.kept),
            "used": len(found.answer),
            "repeats": found.repeats,
            "sha256": found.sha256,
        },
        "assumptions": list(found.notes),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
    }
    if told:
        details["harms"] = told
    if prices is not None:
        details["costs"] = prices.tolist()
    made = certify_scores(drawn.scores, targets, delta, method, options, called, drawn.note(details), attempt)
    return made, drawn.scores


def check_pilot_rows(predictor: "Predictor", x: Any, found: Labelled) -> None:
    """That the rows of a pilot are not those of the calibration set, which they would choose the tests of.

    Args:
        predictor: the model.
        x: the rows of the pilot.
        found: the calibration rows.
    """
    rows = predictor.checked(x)
    known = predictor.record.get("group")
    if found.groups and known is not None and isinstance(rows, Table) and known in rows.columns:
        both = set(found.groups) & {str(text) for text in labels(rows, known, strict=False).tolist() if text}
        if both:
            raise CertificationError(
                f"{len(both):,} groups of the pilot are in the calibration set, such as {sorted(both)[0]!r}: thresholds"
                " must be chosen with other cases. Pass rows of other groups."
            )
    encoded = predictor.encode(rows)
    usable = np.ones(len(encoded.x), dtype=np.bool_)
    usable[list(encoded.problems)] = False
    alike = copies_between(encoded.x[usable], found.hashes, found.cells, predictor.seen_rows, predictor.record)
    if alike:
        raise CertificationError(
            f"{alike:,} of {int(usable.sum()):,} rows of the pilot are in the calibration set, or nearly so: thresholds"
            " must be chosen with other cases. Pass rows that are not in it."
        )


def _notes(
    predictor: "Predictor",
    hashes: NDArray[np.uint64],
    repeats: int | None,
    texts: Sequence[str] | None,
    counts: Counts,
    one_per_group: bool,
) -> tuple[str, ...]:
    """What is taken for granted beyond what every certificate is."""
    notes, rows = [], len(hashes)
    if repeats is None:
        notes.append("none of the calibration rows was trained on (not checked: the model keeps no hashes of its rows)")
    elif repeats:
        notes.append(f"it is chance that {repeats:,} of {rows:,} calibration rows are like rows of training")
    different = len(np.unique(hashes))
    if rows - different > RARE * rows:
        notes.append(
            f"equal rows are cases of their own (of {rows:,} calibration rows only {different:,} are different)"
        )
    if counts.seen:
        notes.append(
            "cases that also occur in the training set are not what the evidence is about"
            f" ({counts.seen:,} such calibration rows were left out)"
        )
    if counts.copies:
        notes.append(f"{counts.copies:,} calibration rows are copies of others and were left out")
    if texts is not None:
        many = len({text for text in texts if text})
        if one_per_group and many < rows:
            notes.append(f"a case is one row of a new group (of each of {many:,} groups one row was used)")
        elif many < rows:
            notes.append(f"rows of one group are independent ({rows:,} rows came from {many:,} groups)")
    elif predictor.seen_rows is not None and len(predictor.seen_rows.groups):
        notes.append("no group of the calibration rows was trained on (not checked: their groups were not given)")
    if counts.unreadable:
        notes.append(
            f"cases that cannot be read are referred ({counts.unreadable:,} calibration rows were left out as such)"
        )
    if counts.novel:
        notes.append(
            f"cases unlike the training rows are referred ({counts.novel:,} calibration rows were left out as such)"
        )
    return tuple(notes)


def _lengths(harms: Mapping[str, ArrayLike] | None, count: int) -> Mapping[str, ArrayLike]:
    for name, loss in (harms or {}).items():
        if np.shape(loss) != (count,):
            raise ArgumentError.of(f"harms[{name!r}]", f"the shape {np.shape(loss)}", f"of shape ({count},), one a row")
    return harms or {}


def _by(
    predictor: "Predictor", x: Any, by: str | ArrayLike | None, found: Labelled
) -> tuple[str, str | None, NDArray[Any] | None]:
    """What groups are called, where they stand (label, column or array), and the group of each row that was kept."""
    if by is None:
        return "group", None, None
    if isinstance(by, str) and by == getattr(predictor.transform, "target", None):
        raise ArgumentError.of("by", repr(by), "known before the right answer is; that is the right answer")
    values = _groups_of(predictor, x, by, found.answer.label, len(found.kept), found.kept)
    if isinstance(by, str) and by != LABEL and (empty := int((values == "").sum())):
        raise CertificationError(
            f"Every calibration row must have a group; column {by!r} is empty in {empty:,}. Fill it in, or leave such"
            " rows out."
        )
    if not isinstance(by, str):
        return "group", ARRAY, values
    return by, (LABEL if by == LABEL else COLUMN), values


def _groups_of(
    predictor: "Predictor", x: Any, by: Any, label: NDArray[Any], count: int, kept: NDArray[np.bool_]
) -> NDArray[Any]:
    if isinstance(by, str):
        if by == LABEL:
            return np.array([plain(name) for name in label.tolist()], dtype=object)
        rows = predictor.checked(x)
        if not isinstance(rows, Table):
            raise ArgumentError.of("by", repr(by), "'label' or one group a row: an array has no columns")
        return labels(rows, by, strict=False)[kept]
    values = as_groups("by", by)
    if values.shape != (count,):
        raise ArgumentError.of("by", f"the shape {values.shape}", f"of shape ({count},): a group per row")
    return values[kept]


def decide(
    predictor: "Predictor", x: Any, answer: Answer, by: ArrayLike | None, risk: float | Mapping[str, float] | None
) -> Answer:
    """The answers, accepted or referred by the predictor's certificate; those without a number stay referred."""
    certificate = predictor.certificate
    assert certificate is not None
    rules = certificate.target(risk)
    kind = certificate.details.get("by")
    groups: NDArray[Any] | None = None
    if kind != ARRAY and by is not None:
        what = {None: "has one threshold for all", LABEL: "goes by the answers' labels"}.get(
            kind, "goes by a column of x"
        )
        raise ArgumentError.of("by", "groups", f"left out: the certificate {what}")
    if kind == ARRAY and by is None:
        hint = "They stood in an array when it was certified: predictor.answer(x, by=groups), from Python."
        raise ArgumentError.of("by", None, "a group per row: the certificate has a threshold for each", hint)
    if kind is not None:
        every = np.ones(len(answer), dtype=np.bool_)
        groups = _groups_of(predictor, x, certificate.by if by is None else by, answer.label, len(answer), every)
    good = certificate.accepts(answer.confidence, groups, rules[0].risks) & (answer.decision != REFERRED)
    answer.decision[:] = np.where(good, ACCEPTED, REFERRED)
    if groups is not None:
        known = ByGroup((rule.group, rule) for rule in rules)
        for row, group in enumerate(groups.tolist()):
            rule = known.find(group)
            if not answer.reason[row] and (rule is None or not rule.certified):
                answer.reason[row] = f"nothing was certified where {certificate.by} is {group or 'missing'}"
    return answer
