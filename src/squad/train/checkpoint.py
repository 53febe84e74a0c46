"""Where a run stands, in one file: written whole or not at all, read without running anything from it."""

import hashlib
import json
from pathlib import Path
from typing import Any

from torch import Tensor

from squad.errors import SquadError
from squad.files import write_bytes

__all__ = ["CheckpointError", "read", "write"]

#: Raised with every change that makes older checkpoints unreadable.
FORMAT = 2


class CheckpointError(SquadError):
    """A checkpoint that cannot be gone on from."""


def write(path: Path, tensors: dict[str, Tensor], state: dict[str, Any], fingerprint: str) -> None:
    """Put a checkpoint in the place of the one before."""
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(state)
    header = {"format": str(FORMAT), "fingerprint": fingerprint, "state": text, "sha256": _digest(plain, text)}
    write_bytes(path, save(plain, header))


def read(path: Path, fingerprint: str) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The tensors and the state of a checkpoint, or None if there is none."""
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        if header.get("format") != str(FORMAT):
            raise CheckpointError(
                f"{path} is of format {header.get('format')}; this version reads {FORMAT}. Delete it."
            )
        if header.get("fingerprint") != fingerprint:
            raise CheckpointError(
                f"{path} belongs to a run with other settings or other data. "
                "Run that one again to finish it, or delete the file to start anew."
            )
        if header["sha256"] != _digest(tensors, header["state"]):
            raise CheckpointError(
                f"{path} is damaged: its content does not have its checksum. Delete it to start anew."
            )
        state = json.loads(header["state"])
    except (SafetensorError, OSError, ValueError, KeyError) as cause:
        raise CheckpointError(f"{path} cannot be read as a checkpoint ({cause}). Delete it to start anew.") from cause
    return tensors, state


def _digest(tensors: dict[str, Tensor], state: str) -> str:
    """Of everything that a run goes on from."""
    found = hashlib.sha256(state.encode())
    for name in sorted(tensors):
        found.update(name.encode())
        found.update(tensors[name].numpy().data)
    return found.hexdigest()
