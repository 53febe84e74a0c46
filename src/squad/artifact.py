"""The folder a model is saved in: model.safetensors and config.json.

Loading runs nothing that is in the files.  config.json holds a checksum of the weights and one of itself, so that a
file that was cut short or edited is noticed: a model is certified as it is, and must stay so.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from squad.errors import SquadError
from squad.records import versions

__all__ = ["FORMAT", "ArtifactError", "load", "save"]

#: Raised with every change that an older version would misread.
FORMAT = 1
KIND = "squad-torch model"
WEIGHTS, CONFIG = "model.safetensors", "config.json"


class ArtifactError(SquadError):
    """A folder that is not a model this version can read, or one that would be overwritten."""


def save(path: str | Path, tensors: Mapping[str, Tensor], config: Mapping[str, Any], overwrite: bool = False) -> Path:
    """Write the folder ``path``, whole or not at all.

    Args:
        path: the folder; its parents are made.
        tensors: of model.safetensors.
        config: of config.json, plain data.
        overwrite: put it in the place of a model that is there.  Other folders are never replaced.
    """
    from safetensors.torch import save as to_bytes

    path = Path(path)
    check_target(path, overwrite)
    weights = to_bytes({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})
    data = {
        "kind": KIND,
        "format": FORMAT,
        **config,
        "versions": versions(),
        "weights": {"sha256": hashlib.sha256(weights).hexdigest(), "bytes": len(weights)},
    }
    data["checksum"] = _checksum(data)
    text = json.dumps(data, indent=1, allow_nan=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    except OSError as cause:
        raise ArtifactError(f"{path} cannot be written: {cause.strerror}. Name another folder.") from cause
    try:
        os.chmod(scratch, 0o755)
        _write(scratch / WEIGHTS, weights)
        _write(scratch / CONFIG, text.encode())
        _put(scratch, path)
    except OSError as cause:
        raise ArtifactError(f"{path} cannot be written: {cause.strerror}. Name another folder.") from cause
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return path


def check_target(path: str | Path, overwrite: bool = False) -> None:
    """That a model may be saved at ``path``: before hours of training, not after."""
    path = Path(path)
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not path.is_dir():
        raise ArtifactError(f"{path} must be a folder to save a model in; it is a file.")
    if not (path / CONFIG).exists() or not (path / WEIGHTS).exists():
        raise ArtifactError(f"{path} holds other things than a model, and is left alone. Name a new folder.")
    if not overwrite:
        raise ArtifactError(f"{path} holds a model already. Name another folder, or say --overwrite (overwrite=True).")


def load(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the settings of a saved model, checked against their checksums."""
    from safetensors import SafetensorError
    from safetensors.torch import load as from_bytes

    path = Path(path)
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        raise ArtifactError(f"{path} must be a folder with a saved model; it {what}.")
    try:
        text, weights = (path / CONFIG).read_bytes(), (path / WEIGHTS).read_bytes()
    except OSError as cause:
        raise ArtifactError(f"{path} must hold {CONFIG} and {WEIGHTS}: {cause.strerror}, {cause.filename}.") from cause
    try:
        config = json.loads(text)
    except ValueError as cause:
        raise ArtifactError(f"{path / CONFIG} is damaged: {cause}. Save the model again.") from cause
    if not isinstance(config, dict) or config.get("kind") != KIND:
        raise ArtifactError(f"{path / CONFIG} must describe a {KIND}; it describes something else.")
    if config.get("format") != FORMAT:
        raise ArtifactError(
            f"{path} is of format {config.get('format')}; this version reads format {FORMAT}. "
            f"It was written by squad-torch {_writer(config)}: install that version or a newer one."
        )
    if config.get("checksum") != _checksum(config):
        raise ArtifactError(f"{path / CONFIG} was changed after it was saved. Save the model again.")
    if config["weights"]["sha256"] != hashlib.sha256(weights).hexdigest():
        expected = config["weights"]["bytes"]
        problem = (
            f"has {len(weights)} bytes of {expected}" if len(weights) != expected else "was changed after it was saved"
        )
        raise ArtifactError(f"{path / WEIGHTS} {problem}. Save the model again, or copy it again.")
    try:
        return from_bytes(weights), config
    except SafetensorError as cause:
        raise ArtifactError(f"{path / WEIGHTS} cannot be read: {cause}.") from cause


def _writer(config: Mapping[str, Any]) -> str:
    found = config.get("versions")
    return str(found.get("squad-torch", "of unknown version")) if isinstance(found, dict) else "of unknown version"


def _checksum(config: Mapping[str, Any]) -> str:
    """Of everything but itself, however it is laid out."""
    rest = {name: value for name, value in config.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _write(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _put(scratch: Path, path: Path) -> None:
    """Move the finished folder into its place; one that is there is moved aside first and removed last."""
    aside = None
    if path.exists():
        aside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.old.")) / path.name
        os.rename(path, aside)
    try:
        os.rename(scratch, path)
    except OSError:
        if aside is not None:
            with contextlib.suppress(OSError):
                os.rename(aside, path)
        raise
    finally:
        if aside is not None:
            shutil.rmtree(aside.parent, ignore_errors=True)
