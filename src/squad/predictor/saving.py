"""Save a predictor to a folder, and load it."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from squad import artifact
from squad.artifact import ArtifactError
from squad.data.chance_repeats import NOTHING_KNOWN
from squad.data.novelty import RowDistance
from squad.data.seen_rows import SeenRows
from squad.data.transforms import from_json
from squad.errors import ArgumentError, SquadError, SquadWarning
from squad.models import network_config, restore
from squad.predictor.piloting import ValidationScores
from squad.selective.attempts import attempts_in, merge_attempts
from squad.selective.certificate import Certificate
from squad.selective.certify import check_scores
from squad.selective.groups import group_key, plain_group
from squad.selective.recalibration import Recalibration
from squad.selective.scored_cases import WRONG, Scores

if TYPE_CHECKING:
    from squad.predictor.predictor import Predictor

__all__ = ["load", "save", "with_attempts", "with_attempts_of"]

#: Names of the optional files next to the weights and config.json.
ROWS, CALIBRATION, NOVELTY, VALIDATION = "rows", "calibration", "novelty", "validation"


def with_attempts(predictor: "Predictor", attempts: Sequence[Mapping[str, Any]]) -> "Predictor":
    """Return the predictor with these attempts to certify it in its record; weights are shared."""
    return predictor._replace(record={**predictor.record, "attempts": attempts_in({"attempts": list(attempts)})})


def with_attempts_of(predictor: "Predictor", path: str | Path) -> "Predictor":
    """Return the predictor with the attempts to certify it that a folder of the same network has recorded, if any.

    Copies that were certified independently may together have used more than delta; then a warning is given.

    Args:
        predictor: The model that will be certified, or saved there.
        path: The folder.
    """
    try:
        tensors, saved = artifact.load(path)
        others = attempts_in(_entry(saved, "record", dict))
    except (SquadError, OSError):
        return predictor  # no model, or a damaged one
    mine = predictor.network.state_dict()
    if set(tensors) != set(mine) or any(not one.equal(mine[name].cpu()) for name, one in tensors.items()):
        return predictor
    own = predictor.attempts
    both = merge_attempts(own, others)
    if len(both) == len(own):
        return predictor
    if len(both) > len(others):
        warnings.warn(
            f"{path} has recorded attempts to certify this model that the model has not, and vice versa: together they"
            " may have used more than delta. A certificate keeps delta for one of the two only.",
            SquadWarning,
            stacklevel=4,
        )
    return with_attempts(predictor, both)


def save(predictor: "Predictor", path: str | Path, overwrite: bool) -> Path:
    """Write the folder atomically.  Attempts to certify a model that it replaces are kept."""
    if overwrite:
        predictor = with_attempts_of(predictor, path)
    certificate, calibration = predictor.certificate, predictor.calibration
    config: dict[str, Any] = {
        "network": {"name": predictor.config.name, **predictor.config.to_dict()},
        "members": predictor.members,
        "in_features": predictor.network.in_features,
        "classes": list(predictor.classes),
        "transform": predictor.transform.to_json(),
        "prediction": {"sampling": predictor.sampling, "num_samples": predictor.num_samples},
        "record": predictor.record,
    }
    extras: dict[str, Mapping[str, Tensor]] = {}
    if predictor.recalibration is not None:
        config["recalibration"] = predictor.recalibration.to_json()
    if certificate is not None:
        config["certificate"] = certificate.to_json()
    if calibration is not None:
        names = list(calibration.harms)
        groups = None
        if calibration.by is not None:
            groups = list({group_key(group): plain_group(group) for group in calibration.by.tolist()}.values())
        config["calibration"] = {"harms": names, "groups": groups}
        extras[CALIBRATION] = _scores_to_tensors(calibration, groups)
    if predictor.seen_rows is not None:
        extras[ROWS] = predictor.seen_rows.to_tensors()
    if predictor.row_distance is not None:
        extras[NOVELTY] = predictor.row_distance.to_tensors()
    if (stored := predictor.validation_scores) is not None:
        config["validation"] = {"sampling": stored.sampling, "num_samples": stored.num_samples}
        extras[VALIDATION] = stored.to_tensors()
    return artifact.save(path, predictor.network.state_dict(), config, overwrite, extras=extras)


def load(path: str | Path, make: "type[Predictor]", public_key: str | Path | bytes | None = None) -> "Predictor":
    """Read the folder; with a public key, only if it is signed with that key."""
    tensors, saved = artifact.load(path, public_key)
    rows, calibration, novelty, validation = (
        artifact.load_extra(path, name, saved) for name in (ROWS, CALIBRATION, NOVELTY, VALIDATION)
    )
    try:
        settings = dict(_entry(saved, "network", dict))
        config = network_config(_entry(settings, "name", str), {k: v for k, v in settings.items() if k != "name"})
        classes = _entry(saved, "classes", list)
        in_features, members = (_entry(saved, name, int) for name in ("in_features", "members"))
        prediction = _entry(saved, "prediction", dict)
        certificate = Certificate.from_json(saved["certificate"]) if "certificate" in saved else None
        scores = None if calibration is None else _scores(calibration, _entry(saved, "calibration", dict))
        if certificate is not None and scores is not None:
            check_scores(certificate, scores)
        parts = {
            "network": restore(config, in_features, len(classes), members, tensors),
            "config": config,
            "transform": from_json(_entry(saved, "transform", dict)),
            "classes": classes,
            "sampling": _entry(prediction, "sampling", str),
            "num_samples": _entry(prediction, "num_samples", int),
            "record": _checked_record(_entry(saved, "record", dict)),
            "recalibration": Recalibration.from_json(saved["recalibration"]) if "recalibration" in saved else None,
            "certificate": certificate,
            "calibration": scores,
            "seen_rows": None if rows is None else SeenRows.from_tensors(rows),
            "row_distance": None if novelty is None else RowDistance.from_tensors(novelty),
            "validation_scores": _validation(validation, saved, len(classes)),
        }
        return make(**parts)
    except (SquadError, ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as cause:
        raise ArtifactError(f"{path} does not describe a model that can be built: {str(cause)[:400]}") from cause


def _scores_to_tensors(scores: Scores, groups: list[Any] | None) -> dict[str, Tensor]:
    """Return calibration scores as tensors; groups as positions in ``groups``."""
    found = {
        "confidence": torch.from_numpy(scores.confidence),
        "harms": torch.from_numpy(np.stack(list(scores.harms.values()))),  # booleans, unless costs are among them
    }
    if groups is not None and scores.by is not None:
        positions = {group_key(name): position for position, name in enumerate(groups)}
        found["by"] = torch.tensor([positions[group_key(group)] for group in scores.by.tolist()])
    return found


def _scores(tensors: Mapping[str, Tensor], names: Mapping[str, Any]) -> Scores:
    """Read what :func:`_scores_to_tensors` returned."""
    harms = dict(zip(_entry(names, "harms", list), tensors["harms"].numpy(), strict=True))
    by = None
    if "by" in tensors:
        by = np.array(_entry(names, "groups", list), dtype=object)[tensors["by"].numpy()]
    return Scores.of(tensors["confidence"], harms.pop(WRONG) == 0, harms, by)


def _validation(
    tensors: Mapping[str, Tensor] | None, saved: Mapping[str, Any], classes: int
) -> ValidationScores | None:
    """Read the validation scores, if there are any."""
    if tensors is None:
        return None
    settings = _entry(saved, "validation", dict)
    sampling, num_samples = _entry(settings, "sampling", str), _entry(settings, "num_samples", int)
    found = ValidationScores.from_tensors(tensors, sampling, num_samples)
    for positions in (found.predicted, found.right):
        if len(positions) and not (positions.min() >= 0 and positions.max() < classes):
            raise ArgumentError.of(
                "validation scores", "positions of other classes", f"positions among {classes} classes"
            )
    return found


def _checked_record(record: dict[str, Any]) -> dict[str, Any]:
    """Check the counts of rows and the attempts in a record, which later checks rely on."""
    attempts_in(record)
    counts = record.get("repeats", NOTHING_KNOWN)
    known = isinstance(counts, dict) and counts.keys() <= NOTHING_KNOWN.keys()
    if not known or any(type(count) is not int or not 0 <= count < 2**53 for count in counts.values()):
        raise ArgumentError.of("'repeats' of the record", repr(counts)[:60], f"counts named {', '.join(NOTHING_KNOWN)}")
    for kind in ("chance", "all"):
        if counts.get(f"{kind}_repeats", 0) > counts.get(f"{kind}_rows", 0):
            raise ArgumentError.of("'repeats' of the record", repr(counts)[:60], "no more repeats than rows")
    return record


#: Types of the entries of config.json, as error messages call them.
_TYPE_NAMES = {dict: "an object", list: "a list", str: "text", int: "an integer"}


def _entry(data: Mapping[str, Any], name: str, kind: type) -> Any:
    """Return an entry of config.json, after a check of its type."""
    if name not in data:
        raise ArgumentError(f"{name!r} is missing.")
    if type(data[name]) is not kind:
        raise ArgumentError.of(repr(name), repr(data[name])[:60], _TYPE_NAMES[kind])
    return data[name]
