"""The identity of a model: a hash of everything that its confidences depend on, apart from the row."""

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from squad.predictor.predictor import Predictor

__all__ = ["identity", "layer_seeds"]


def identity(predictor: "Predictor") -> str:
    """Return the SHA-256 of weights, seeds, input transform, classes, sampling mode and recalibration.

    A certificate is valid for one function from rows to confidences, and stores this hash.
    """
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


def layer_seeds(predictor: "Predictor") -> dict[str, list[int]]:
    """Return the seeds of the stochastic layers, one per member; they are saved with the weights."""
    state = predictor.network.state_dict().items()
    return {name: tensor.reshape(-1).tolist() for name, tensor in state if name.rpartition(".")[2] == "seed"}
