"""The folder of a saved model: model.safetensors, config.json and a few optional files.

Loading executes nothing that is in the files.  config.json holds a checksum of the weights and one of itself, so that
truncated or edited files are detected: a model is certified as it is, and must stay so.  (A checksum detects accidents
and careless edits, but not somebody who computes it anew.  A signature does: signature.json, see
:mod:`squad.signing`.)

The optional files, with their checksums in config.json, are novelty.safetensors (detector of rows unlike the training
rows), rows.safetensors (hashes of the rows that fit has seen), calibration.safetensors (scores of the calibration set)
and validation.safetensors (scores of the validation rows).  The last three are not needed to predict.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from torch import Tensor

from squad import signing
from squad.errors import ArgumentError, SquadError
from squad.files import (
    abandoned_backups,
    make_folder,
    open_regular,
    remove_abandoned,
    scratch_path,
    sync_folder,
    write_bytes,
)
from squad.files.folders import StrandedError, replace_folder
from squad.records import versions

__all__ = ["EXTRAS", "FORMAT", "ArtifactError", "check_target", "load", "load_extra", "save", "sign"]

#: Format of the folder, incremented with every change that an older version would misread.  (A version that does not
#: know the optional files predicts the same without them, and does not overwrite a folder that holds them.)
FORMAT = 2
#: Formats that this version reads.  Format 1 has no ranges, no names of array columns and no novelty.safetensors.
READ = (1, 2)
KIND = "squad-torch model"
WEIGHTS, CONFIG = "model.safetensors", "config.json"

#: Name -> optional file.
EXTRAS = {
    "rows": "rows.safetensors",
    "calibration": "calibration.safetensors",
    "novelty": "novelty.safetensors",
    "validation": "validation.safetensors",
}

#: Maximum size of config.json: parsing takes twenty times its size in memory.  One with 30,000 categories with long
#: names has a megabyte.
CONFIG_BYTES = 16 << 20


class ArtifactError(SquadError):
    """The folder is not a model that this version can read, or would be overwritten."""


def save(
    path: str | Path,
    tensors: Mapping[str, Tensor],
    config: Mapping[str, Any],
    overwrite: bool = False,
    *,
    extras: Mapping[str, Mapping[str, Tensor]] | None = None,
) -> Path:
    """Write the folder ``path`` atomically.

    Args:
        path: The folder; its parents are created.  If it is a link, the folder it points to is written.
        tensors: Content of model.safetensors.
        config: Content of config.json, plain data.
        overwrite: Replace a model that is there, with all its files.  Other folders are never replaced.
        extras: Name in :data:`EXTRAS` -> tensors of that file.

    Returns:
        ``path``.

    Examples:
        >>> import tempfile
        >>> import torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = save(f"{folder}/model", {"weight": torch.ones(2)}, {"note": "two numbers"})
        ...     tensors, config = load(path)
        >>> tensors["weight"].tolist(), config["note"]
        ([1.0, 1.0], 'two numbers')
    """
    for name in extras or {}:
        if name not in EXTRAS:
            raise ArgumentError.of("extras", repr(name), "files among " + ", ".join(map(repr, EXTRAS)))
    check_target(path, overwrite)
    weights = _bytes(tensors)
    files = {EXTRAS[name]: _bytes(arrays) for name, arrays in (extras or {}).items()}
    data = {"kind": KIND, "format": FORMAT, **config, "versions": versions(), "weights": _note(weights)}
    data.pop("files", None)  # settings that were loaded from another folder list the files of that one
    if files:
        data["files"] = {name: _note(content) for name, content in files.items()}
    try:
        data["checksum"] = _checksum(data)
        text = json.dumps(data, indent=1, allow_nan=False) + "\n"
    except (TypeError, ValueError) as cause:
        raise ArtifactError(f"{CONFIG} must be made of plain data, as JSON has it: {cause}.") from cause
    if len(text) > CONFIG_BYTES:  # it could not be loaded again
        raise ArtifactError(
            f"{CONFIG} would have {len(text):,} bytes; that of a model has {CONFIG_BYTES:,} at the most. Leave columns"
            " with many categories out."
        )
    target = Path(os.path.realpath(path))
    # Next to the target, so that it can be renamed; hidden; and made by mkdir, which respects the user's umask.
    scratch = scratch_path(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(target)
        make_folder(scratch, like=target)
        for name, content in {WEIGHTS: weights, **files, CONFIG: text.encode()}.items():
            old = target / name
            write_bytes(scratch / name, content, like=old if old.exists() else target / WEIGHTS)
        sync_folder(scratch)
        replace_folder(scratch, target)
        sync_folder(target.parent)
    except StrandedError as cause:
        raise ArtifactError(f"{path} could not be replaced; the model that was there is now {cause.aside}.") from cause
    except OSError as cause:
        raise ArtifactError(f"{path} cannot be written: {cause.strerror or cause}. Choose another folder.") from cause
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if scratch.exists():  # it may hold row hashes that the user has just removed
        raise ArtifactError(f"{path} was saved, but the model that was there could not be deleted. Delete {scratch}.")
    return Path(path)


def _bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Return the content of a safetensors file."""
    from safetensors.torch import save as to_bytes

    return to_bytes({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})


def _note(content: bytes) -> dict[str, Any]:
    """Return checksum and size of a file."""
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def check_target(path: str | Path, overwrite: bool = False) -> None:
    """Check that a model can be saved at ``path``: before hours of training, not after.

    Args:
        path: The folder.
        overwrite: Whether a model that is there may be replaced.
    """
    target = Path(os.path.realpath(path))
    try:
        if not target.exists():
            _check_parent(path, target)
            return
        if not target.is_dir():
            raise ArtifactError(f"{path} must be a folder to save a model in; it is a file.")
        names = sorted(entry.name for entry in target.iterdir())
    except OSError as cause:
        raise ArtifactError(f"{path} cannot be written: {cause.strerror or cause}. Choose another folder.") from cause
    _check_parent(path, target)
    if not names:
        return
    listed = _listed_files(target)
    known = {WEIGHTS, CONFIG, signing.SIGNATURE, *(listed or ())}
    if not os.access(target, os.W_OK | os.X_OK):
        raise ArtifactError(f"{path} is write-protected. Choose another folder, or make it writable.")
    others = [name for name in names if name not in known or not (target / name).is_file()]
    if others or listed is None or WEIGHTS not in names:
        shown = ", ".join((others or names)[:3]) + (", ..." if len(others or names) > 3 else "")
        raise ArtifactError(
            f"{path} contains files that do not belong to a model ({shown}) and is not replaced. Choose a new folder."
        )
    if not overwrite:
        raise ArtifactError(
            f"{path} already contains a model. Choose another folder, or pass --overwrite (overwrite=True)."
        )


def _check_parent(path: str | Path, target: Path) -> None:
    """Check that something can be created next to ``target``, whose parents may be missing."""
    nearest = next((parent for parent in target.parents if parent.exists()), target)  # the root has none
    if not nearest.is_dir():
        raise ArtifactError(f"{path} cannot be written: {nearest} is a file. Choose another folder.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ArtifactError(f"{path} cannot be written: {nearest} may not be written to. Choose another folder.")


def _listed_files(path: Path) -> list[str] | None:
    """Return the optional files listed in config.json; None if that file is not one of this library."""
    try:
        files = _read_config(path).get("files")
    except ArtifactError:
        return None
    return [name for name in EXTRAS.values() if name in files] if isinstance(files, dict) else []


def load(path: str | Path, public_key: str | Path | bytes | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the settings of a saved model, and check them against their checksums.

    Args:
        path: The folder.
        public_key: Refuse a model that is not signed with this key (:mod:`squad.signing`): a PEM file, or its content.

    Returns:
        The tensors of model.safetensors, and config.json.

    See Also:
        save: Writes the folder, with an example.
    """
    path = Path(path)
    try:
        if not path.is_dir():
            what = "is a file" if path.exists() else "does not exist"
            for left in abandoned_backups(Path(os.path.realpath(path))) if not path.exists() else ():
                what += f", but saving it was cut off: the model that was there is {left}. Rename that to {path.name}"
            raise ArtifactError(f"{path} must be a folder with a saved model; it {what}.")
    except OSError as cause:
        raise ArtifactError(f"{path} cannot be read: {cause.strerror or cause}.") from cause
    config = _read_config(path)
    found = config.get("format")
    if type(found) is not int or found not in READ:
        newer = type(found) is int and found > FORMAT
        raise ArtifactError(
            f"{path} is of format {str(found)[:40]}; this version reads formats {', '.join(map(str, READ))}. It was"
            f" written by squad-torch {_writer(config)}: "
            + ("install that version or a newer one." if newer else "save the model again.")
        )
    if config.get("checksum") != _checksum(config):
        raise ArtifactError(f"{path / CONFIG} was changed after it was saved. Save the model again, or copy it again.")
    if public_key is not None:  # of these very settings, and before anything else is read
        signing.verify(path, KIND, _checksum(config), public_key)
    files = config.get("files", {})
    if not isinstance(files, dict):
        raise ArtifactError(f"'files' of {path / CONFIG} must be an object, got {str(files)[:40]}.")
    for name, note in files.items():
        _check_note(path, name[:40], note)
    return _tensors(path / WEIGHTS, config.get("weights")), config


def sign(path: str | Path, key: str | Path | bytes) -> Path:
    """Sign the model in a folder, with all its files; saving the model again removes the signature.

    Args:
        path: The folder.
        key: The private key (Ed25519): a PEM file, or its content.

    Returns:
        The file of the signature.
    """
    _, config = load(path)
    for name in EXTRAS:
        load_extra(path, name, config)
    return signing.sign(path, KIND, _checksum(config), key)


def load_extra(path: str | Path, name: str, config: Mapping[str, Any]) -> dict[str, Tensor] | None:
    """Read the tensors of an optional file, and check them against their checksum.

    Args:
        path: The folder.
        name: A name in :data:`EXTRAS`.
        config: The settings that :func:`load` returned.  A file that they do not list is not read.

    Returns:
        Tensors by name; None if the model has no such file.
    """
    if name not in EXTRAS:
        raise ArgumentError.of("name", repr(name), "one of " + ", ".join(map(repr, EXTRAS)))
    note = config.get("files", {}).get(EXTRAS[name])
    return None if note is None else _tensors(Path(path) / EXTRAS[name], note)


def _read_config(path: Path) -> dict[str, Any]:
    """Read config.json, and check that it describes a model."""
    file = path / CONFIG
    with _reading(file), open_regular(file) as handle:
        size = os.fstat(handle.fileno()).st_size
        data = handle.read(CONFIG_BYTES + 1) if size <= CONFIG_BYTES else b""
    if size > CONFIG_BYTES or len(data) > CONFIG_BYTES:
        raise ArtifactError(f"{file} has {size:,} bytes; that of a model has {CONFIG_BYTES:,} at the most.")
    try:
        config = json.loads(data, parse_constant=_no_number)
    except (ValueError, RecursionError, MemoryError) as cause:
        problem = "it is empty" if not size else str(cause)[:120]
        raise ArtifactError(f"{file} is damaged: {problem}. Save the model again, or copy it again.") from cause
    if not isinstance(config, dict) or config.get("kind") != KIND:
        raise ArtifactError(f"{file} must describe a {KIND}; it describes something else.")
    return config


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _check_note(path: Path, name: str, listed: object) -> tuple[int, str]:
    """Return the size and checksum of a file as listed in config.json."""
    expected = listed.get("bytes") if isinstance(listed, dict) else None
    digest = listed.get("sha256") if isinstance(listed, dict) else None
    if type(expected) is not int or not isinstance(digest, str):
        raise ArtifactError(f"{path / CONFIG} must say the size and checksum of {name}; it does not.")
    return expected, digest


def _tensors(file: Path, listed: object) -> dict[str, Tensor]:
    """Read a safetensors file, and check it against the size and checksum in config.json."""
    from safetensors import SafetensorError
    from safetensors.torch import load as from_bytes

    with _reading(file), open_regular(file) as handle:
        size = os.fstat(handle.fileno()).st_size
        expected, digest = _check_note(file.parent, file.name, listed)
        if size != expected:  # before it is read: it could be huge
            raise ArtifactError(f"{file} has {size:,} bytes of {expected:,}. Save the model again, or copy it again.")
        weights = handle.read(size)
    if hashlib.sha256(weights).hexdigest() != digest:
        raise ArtifactError(f"{file} was changed after it was saved. Save the model again, or copy it again.")
    try:
        return from_bytes(weights)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, MemoryError) as cause:
        raise ArtifactError(f"{file} cannot be read: {str(cause)[:200]}.") from cause


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Turn errors of reading into messages; a file must exist and be a regular one, since a pipe might never end."""
    try:
        yield
    except MemoryError as cause:
        raise ArtifactError(f"{file} cannot be read: it is larger than the memory.") from cause
    except OSError as cause:
        name, missing = file.name, isinstance(cause, FileNotFoundError)
        if not missing and cause.errno != errno.EINVAL:
            raise ArtifactError(f"{file} cannot be read: {cause.strerror or cause}.") from cause
        what = "missing" if missing else f"not a file ({cause.strerror})"
        if name in EXTRAS.values():
            raise ArtifactError(
                f"{file.parent} must hold {name}, which {CONFIG} notes; it is {what}. Copy the model again."
            ) from cause
        raise ArtifactError(f"{file.parent} must hold {CONFIG} and {WEIGHTS}; {name} is {what}.") from cause


def _writer(config: Mapping[str, Any]) -> str:
    """Return the version that wrote the folder."""
    found = config.get("versions")
    return str(found.get("squad-torch", "of unknown version")) if isinstance(found, dict) else "of unknown version"


def _checksum(config: Mapping[str, Any]) -> str:
    """Return the checksum of everything but the checksum itself, independent of whitespace and order."""
    rest = {name: value for name, value in config.items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
