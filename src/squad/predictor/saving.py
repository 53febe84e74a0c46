"""A predictor as a folder, and back."""

import warnings
from collections.abc import Mapping
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
from squad.selective.attempts import attempts_in, merged
from squad.selective.certificate import Certificate
from squad.selective.certify import check_scores
from squad.selective.groups import group_key, plain
from squad.selective.recalibration import Recalibration
from squad.selective.scored_cases import WRONG, Scores

if TYPE_CHECKING:
    from squad.predictor.predictor import Predictor

__all__ = ["load", "save", "with_attempts_of"]

#: The files beside the weights and config.json.
ROWS, CALIBRATION, NOVELTY, VALIDATION = "rows", "calibration", "novelty", "validation"


def with_attempts_of(predictor: "Predictor", path: str | Path) -> "Predictor":
    """The predictor, with the attempts to certify it that a folder of the same network remembers, if there is one.

    Copies that were certified apart have used more than delta together, which a warning says.

    Args:
        predictor: that will be certified, or saved there.
        path: of the folder.
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
    both = merged(own, others)
    if len(both) == len(own):
        return predictor
    if len(both) > len(others):
        warnings.warn(
            f"{path} remembers attempts to certify this model that the model does not, and the other way round:"
            " together they may have used more than delta. A certificate keeps delta for one of the two only.",
            SquadWarning,
            stacklevel=4,
        )
    return predictor.with_attempts(both)


def save(predictor: "Predictor", path: str | Path, overwrite: bool) -> Path:
    """Write the folder, whole or not at all.  A model that it replaces does not forget attempts to certify it."""
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
            groups = list({group_key(group): plain(group) for group in calibration.by.tolist()}.values())
        config["calibration"] = {"harms": names, "groups": groups}
        extras[CALIBRATION] = _scores_to_tensors(calibration, groups)
    if predictor.seen_rows is not None:
        extras[ROWS] = predictor.seen_rows.to_tensors()
    if predictor.row_distance is not None:
        extras[NOVELTY] = predictor.row_distance.to_tensors()
    if (kept := predictor.validation_scores) is not None:
        config["validation"] = {"sampling": kept.sampling, "num_samples": kept.num_samples}
        extras[VALIDATION] = kept.to_tensors()
    return artifact.save(path, predictor.network.state_dict(), config, overwrite, extras=extras)


def load(path: str | Path, make: "type[Predictor]", public_key: str | Path | bytes | None = None) -> "Predictor":
    """Read the folder; with a public key only if it is signed."""
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
    found = {
        "confidence": torch.from_numpy(scores.confidence),
        "harms": torch.from_numpy(np.stack(list(scores.harms.values()))),  # booleans, unless costs are among them
    }
    if groups is not None and scores.by is not None:
        places = {group_key(name): place for place, name in enumerate(groups)}
        found["by"] = torch.tensor([places[group_key(group)] for group in scores.by.tolist()])
    return found


def _scores(tensors: Mapping[str, Tensor], names: Mapping[str, Any]) -> Scores:
    harms = dict(zip(_entry(names, "harms", list), tensors["harms"].numpy(), strict=True))
    by = None
    if "by" in tensors:
        by = np.array(_entry(names, "groups", list), dtype=object)[tensors["by"].numpy()]
    return Scores.of(tensors["confidence"], harms.pop(WRONG) == 0, harms, by)


def _validation(
    tensors: Mapping[str, Tensor] | None, saved: Mapping[str, Any], classes: int
) -> ValidationScores | None:
    if tensors is None:
        return None
    noted = _entry(saved, "validation", dict)
    found = ValidationScores.from_tensors(tensors, _entry(noted, "sampling", str), _entry(noted, "num_samples", int))
    for places in (found.predicted, found.right):
        if len(places) and not (places.min() >= 0 and places.max() < classes):
            raise ArgumentError.of("validation scores", "places of other classes", f"places among {classes} classes")
    return found


def _checked_record(record: dict[str, Any]) -> dict[str, Any]:
    """What fit and certify noted, if its counts of rows and its attempts are such: checks go by them."""
    attempts_in(record)
    counts = record.get("repeats", NOTHING_KNOWN)
    known = isinstance(counts, dict) and counts.keys() <= NOTHING_KNOWN.keys()
    if not known or any(type(count) is not int or not 0 <= count < 2**53 for count in counts.values()):
        raise ArgumentError.of("'repeats' of the record", repr(counts)[:60], f"counts named {', '.join(NOTHING_KNOWN)}")
    for kind in ("chance", "all"):
        if counts.get(f"{kind}_repeats", 0) > counts.get(f"{kind}_rows", 0):
            raise ArgumentError.of("'repeats' of the record", repr(counts)[:60], "no more repeats than rows")
    return record


_WORDS = {dict: "an object", list: "a list", str: "text", int: "a whole number"}


def _entry(data: Mapping[str, Any], name: str, kind: type) -> Any:
    """One entry of config.json, of its type."""
    if name not in data:
        raise ArgumentError(f"{name!r} is missing.")
    if type(data[name]) is not kind:
        raise ArgumentError.of(repr(name), repr(data[name])[:60], _WORDS[kind])
    return data[name]
