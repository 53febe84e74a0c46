"""Checkpoint files of training runs: written atomically, read without executing anything from them."""

import hashlib
import json
from pathlib import Path
from typing import Any

from torch import Tensor

from squad.errors import SquadError
from squad.files import write_bytes

__all__ = ["CheckpointError", "read", "write"]

#: Version of the file format; incremented with every incompatible change.
FORMAT = 2


class CheckpointError(SquadError):
    """A checkpoint from which training cannot be resumed."""


def write(path: Path, tensors: dict[str, Tensor], state: dict[str, Any], fingerprint: str) -> None:
    """Write a checkpoint atomically, replacing the previous one.

    Args:
        path: The checkpoint file.
        tensors: Tensors of the optimizer and the best weights, by name.
        state: Plain data that JSON can represent.
        fingerprint: Hash of the settings and data of the run.
    """
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(state)
    header = {"format": str(FORMAT), "fingerprint": fingerprint, "state": text, "sha256": _digest(plain, text)}
    write_bytes(path, save(plain, header))


def read(path: Path, fingerprint: str) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Read a checkpoint.

    Args:
        path: The checkpoint file.
        fingerprint: Hash of the settings and data of the run that is to be resumed.

    Returns:
        The tensors and the state, or None if the file does not exist.

    Raises:
        CheckpointError: If the file is damaged, or belongs to another version or another run.
    """
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        if header.get("format") != str(FORMAT):
            raise CheckpointError(
                f"{path} has checkpoint format {header.get('format')}, but this version reads format {FORMAT}. "
                "Delete the file to start over."
            )
        if header.get("fingerprint") != fingerprint:
            raise CheckpointError(
                f"{path} belongs to a run with other settings or other data. "
                "Repeat that run to finish it, or delete the file to start over."
            )
        if header["sha256"] != _digest(tensors, header["state"]):
            raise CheckpointError(
                f"{path} is damaged: its content does not match its checksum. Delete the file to start over."
            )
        state = json.loads(header["state"])
    except (SafetensorError, OSError, ValueError, KeyError) as cause:
        raise CheckpointError(
            f"{path} cannot be read as a checkpoint ({cause}). Delete the file to start over."
        ) from cause
    return tensors, state


def _digest(tensors: dict[str, Tensor], state: str) -> str:
    """Return the SHA-256 of the state and of all tensors."""
    digest = hashlib.sha256(state.encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].numpy().data)
    return digest.hexdigest()
