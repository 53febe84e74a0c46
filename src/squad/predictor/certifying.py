"""From a predictor and labelled rows to a certificate that belongs to it; and from that to decisions.

A certificate is about one function from rows to confidences: these weights and seeds, this transformation, so many
samples taken in this way.  Its identity is a hash of all of that.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from squad.data.cells import cell_text
from squad.data.memory import NOTHING_KNOWN, check_groups, check_repeats, row_hashes
from squad.data.tables import Table, labels
from squad.errors import ArgumentError, SquadError
from squad.predictor.answer import ACCEPTED, REFERRED, Answer
from squad.records import versions
from squad.selective.certificate import Certificate, plain
from squad.selective.certify import Risk, certify_scores, check_targets
from squad.selective.methods import Options, least_cases
from squad.selective.scores import WRONG, Scores

if TYPE_CHECKING:
    from squad.predictor.predictor import Predictor

__all__ = [
    "LABEL",
    "CertificationError",
    "Labelled",
    "certificate_for",
    "decide",
    "group_texts",
    "harm_of",
    "identity",
    "labelled",
]

#: The group that an answer's own label makes.
LABEL = "label"


class CertificationError(SquadError):
    """A certificate that cannot be made from these rows, or does not belong to this model."""


def identity(predictor: "Predictor") -> str:
    """A hash of everything a confidence depends on, beside the row."""
    digest = hashlib.sha256()
    for name, tensor in sorted(predictor.network.state_dict().items()):
        flat = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {flat.dtype} {tuple(flat.shape)}\n".encode())
        digest.update(flat.reshape(-1).numpy().tobytes())
    rest = {
        "network": {"name": predictor.config.name, **predictor.config.to_dict()},
        "transform": predictor.transform.to_json(),
        "classes": list(predictor.classes),
        "sampling": [predictor.sampling, predictor.num_samples],
        "recalibration": predictor.recalibration and predictor.recalibration.to_json(),
    }
    digest.update(json.dumps(rest, sort_keys=True).encode())
    return digest.hexdigest()


def _seeds(predictor: "Predictor") -> dict[str, list[int]]:
    """The seeds of the layers that draw, one a member; they are saved with the weights."""
    found = predictor.network.state_dict().items()
    return {name: tensor.reshape(-1).tolist() for name, tensor in found if name.rpartition(".")[2] == "seed"}


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows that were answered, with their right answers; those that cannot be read are left out.

    Attributes:
        answer: to the rows that were kept.
        positions: (N,), the place of each one's right class.
        kept: (rows,), which of the given rows they are.
        hashes: (N,), one a row.
        repeats: how many of them fit has seen; None if the model keeps no hashes.
    """

    answer: Answer
    positions: NDArray[np.int64]
    kept: NDArray[np.bool_]
    hashes: NDArray[np.uint64]
    repeats: int | None

    @property
    def correct(self) -> NDArray[np.bool_]:
        """(N,), whether each answer is right."""
        return np.asarray(self.answer.probabilities.argmax(1) == self.positions)


def labelled(predictor: "Predictor", x: Any, y: Sequence[Any] | NDArray[Any], groups: ArrayLike | None) -> Labelled:
    """Answer rows that must be new to the model: neither they nor their groups may have been seen by fit."""
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
    _check_groups(predictor, groups, len(rows))
    encoded = predictor.encode(rows)
    kept = np.ones(len(rows), dtype=np.bool_)
    kept[list(encoded.problems)] = False
    repeats = None
    if predictor.memory is not None:
        repeats = predictor.memory.repeats(encoded.x[kept])
        check_repeats(repeats, int(kept.sum()), **predictor.record.get("repeats", NOTHING_KNOWN))
    answer = predictor.undecided(rows)
    kept &= answer.reason == ""
    if not kept.any():
        raise CertificationError(f"None of the {len(rows):,} rows can be used; the first: {answer.reason[0]}.")
    fields = {name: value[kept] for name, value in vars(answer).items()}
    return Labelled(Answer(**fields), positions[kept], kept, row_hashes(encoded.x[kept]), repeats)


def group_texts(groups: ArrayLike | None) -> list[str]:
    """Groups as text, as tables have them: 5 and 5.0 are one."""
    return [] if groups is None else [cell_text(group) or "" for group in np.asarray(groups).tolist()]


def _check_groups(predictor: "Predictor", groups: ArrayLike | None, count: int) -> None:
    if groups is None:
        return
    if np.shape(groups) != (count,):
        raise ArgumentError.of("groups", f"the shape {np.shape(groups)}", f"of shape ({count},), one a row")
    if predictor.memory is not None:
        check_groups(predictor.memory, group_texts(groups))


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
    groups: ArrayLike | None,
    options: Mapping[str, Any],
    source: str | None,
) -> tuple[Certificate, Scores]:
    """The certificate, and the scores it was made from."""
    losses = {name: np.asarray(loss)[found.kept] for name, loss in _lengths(harms, len(found.kept)).items()}
    for name in _harm_names(risk):
        if name != WRONG and name not in losses:
            losses[name] = harm_of(name, predictor.classes, found.answer.probabilities.argmax(1), found.positions)
    called, values = _by(predictor, x, by, found)
    scores = Scores.of(found.answer.confidence, found.correct, losses, values)
    targets = check_targets(risk, scores.harms)
    details = {
        "model": identity(predictor),
        "sampling": predictor.sampling,
        "num_samples": predictor.num_samples,
        "seeds": _seeds(predictor),
        "calibration": {
            "source": source,
            "rows": len(found.kept),
            "unreadable": int((~found.kept).sum()),
            "repeats": found.repeats,
            "sha256": hashlib.sha256(found.hashes.tobytes() + found.positions.tobytes()).hexdigest(),
        },
        "assumptions": _notes(predictor, found, groups),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
    }
    made = certify_scores(scores, targets, delta, method, options, called, details)
    _check_size(made, options)
    return made, scores


def _check_size(certificate: Certificate, options: Mapping[str, Any]) -> None:
    """That there are as many rows as a promise takes even if no answer is wrong."""
    settings = Options(options.get("ranks", 20), options.get("r_max", 0.1))
    least = [
        max(least_cases(certificate.method, risk, rule.level, settings) for risk in rule.risks.values())
        for rule in certificate.rules
    ]
    if all(rule.m < few for rule, few in zip(certificate.rules, least, strict=True)):
        of = "" if certificate.by is None else f" in a group of one {certificate.by}"
        raise CertificationError(
            f"{max(rule.m for rule in certificate.rules):,} calibration rows{of} are too few: with fewer than"
            f" {min(least):,}, nothing can be promised even if all answers are right. Label more rows (squad plan says"
            " how many), or allow a higher risk or delta."
        )


def _notes(predictor: "Predictor", found: Labelled, groups: ArrayLike | None) -> list[str]:
    """What is taken for granted beyond what every certificate is."""
    notes = []
    if found.repeats is None:
        notes.append("none of the calibration rows was trained on (not checked: the model keeps no hashes of its rows)")
    if groups is not None:
        many = len(set(np.asarray(groups)[found.kept].tolist()))
        if many < len(found.answer):
            notes.append(
                f"rows of one group are independent ({len(found.answer):,} rows came from {many:,} groups; where they"
                " are not, certify on one row a group)"
            )
    return notes


def _lengths(harms: Mapping[str, ArrayLike] | None, count: int) -> Mapping[str, ArrayLike]:
    for name, loss in (harms or {}).items():
        if np.shape(loss) != (count,):
            raise ArgumentError.of(f"harms[{name!r}]", f"the shape {np.shape(loss)}", f"of shape ({count},), one a row")
    return harms or {}


def _harm_names(risk: Any) -> list[str]:
    targets = list(risk) if isinstance(risk, (list, tuple)) else [risk]
    return list(dict.fromkeys(str(name) for target in targets if isinstance(target, Mapping) for name in target))


def harm_of(
    name: str, classes: Sequence[Any], predicted: NDArray[np.int64], right: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether each answer does the harm called ``name``.

    "wrong": it is wrong; "missed CLASS": a case of the class got another label; "false CLASS": it wrongly says so.
    """
    if name == WRONG:
        return np.asarray(predicted != right)
    kind, _, label = name.partition(" ")
    places = {str(one): place for place, one in enumerate(classes)}
    if kind not in ("missed", "false") or label not in places:
        shown = ", ".join(list(places)[:6]) + (", ..." if len(places) > 6 else "")
        raise ArgumentError.of(
            "risk", repr(name), f"for 'wrong', 'missed CLASS' or 'false CLASS' with a class of training ({shown})"
        )
    side = right if kind == "missed" else predicted
    return np.asarray((side == places[label]) & (predicted != right))


def _by(predictor: "Predictor", x: Any, by: str | ArrayLike | None, found: Labelled) -> tuple[str, NDArray[Any] | None]:
    """What groups are called, and the group of each row that was kept."""
    if by is None:
        return "group", None
    values = _groups_of(predictor, x, by, found.answer.label, len(found.kept), found.kept)
    if isinstance(by, str) and by != LABEL and (values == "").any():
        raise CertificationError(f"Every calibration row must have a group; column {by!r} is empty in some.")
    return (by if isinstance(by, str) else "group"), values


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
    values = np.asarray(by)
    if values.shape != (count,):
        raise ArgumentError.of("by", f"the shape {values.shape}", f"of shape ({count},): a group a row")
    return values[kept]


def decide(
    predictor: "Predictor", x: Any, answer: Answer, by: ArrayLike | None, risk: float | Mapping[str, float] | None
) -> Answer:
    """The answers, accepted or referred by the predictor's certificate; those without a number stay referred."""
    certificate = predictor.certificate
    assert certificate is not None
    rules = certificate.target(risk)
    groups: NDArray[Any] | None = None
    if certificate.by is not None:
        # "group" is an array's, which comes with the rows; a column stands in them; a label is the answer's own.
        name: Any = by if by is not None else certificate.by
        if by is None and certificate.by == "group":
            raise ArgumentError.of("by", None, "a group a row: the certificate has a threshold for each")
        groups = _groups_of(predictor, x, name, answer.label, len(answer), np.ones(len(answer), dtype=np.bool_))
    elif by is not None:
        raise ArgumentError.of("by", "groups", "left out: the certificate has one threshold for all")
    good = certificate.accepts(answer.confidence, groups, rules[0].risks)
    answer.decision[:] = np.where(good, ACCEPTED, REFERRED)
    if groups is not None:
        known = {rule.group for rule in rules}
        for row, group in enumerate(groups.tolist()):
            if not answer.reason[row] and plain(group) not in known:
                answer.reason[row] = f"nothing was certified where {certificate.by} is {group or 'missing'}"
    return answer
