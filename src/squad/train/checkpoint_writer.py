"""The checkpoints of a run: one every so often, and one of where it last stood still when it is interrupted."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from squad.errors import SquadError
from squad.train import checkpoint
from squad.train.state import State

__all__ = ["CheckpointWriter"]


class CheckpointWriter:
    """Knows where a run last stood between two epochs, and writes it to a file.

    A file that cannot be written, such as on a full disk, does not end the run: it is told of, tried again when the
    next one is due, and told of again when it could be written, or in the end.

    Args:
        path: of the checkpoint.
        fingerprint: of the run.
        seconds: between two checkpoints, at least.
        tell: is called with what to say.
    """

    def __init__(self, path: Path, fingerprint: str, seconds: float, tell: Callable[[str], None]) -> None:
        self.path, self.fingerprint, self.seconds, self.tell = path, fingerprint, seconds, tell
        self.latest: tuple[dict[str, Tensor], dict[str, Any]] | None = None
        self.since = time.monotonic()
        self.epoch = 0  # of what the file holds
        self.failing = False

    def read(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """What the file holds of this run, or None if there is none."""
        found = checkpoint.read(self.path, self.fingerprint)
        if found is not None:
            self.epoch = int(found[1]["epoch"])
        return found

    def note(self, tensors: Mapping[str, Tensor], state: State) -> None:
        """Take note of where the run stands; to be called between two epochs."""
        # Copies: an interrupt may come while the next epoch changes them.  On the host, which has room.
        held = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
        # Of lists whose entries stay as they are, the history's too.
        plain = {name: list(value) if isinstance(value, list) else value for name, value in vars(state).items()}
        self.latest = held, plain  # at once, or not at all
        if time.monotonic() - self.since >= self.seconds:
            self.write()

    def write(self) -> None:
        """Write where the run last stood, unless the file has it."""
        if self.latest is None or self.latest[1]["epoch"] == self.epoch:
            return
        tensors, state = self.latest
        try:
            checkpoint.write(self.path, tensors, state, self.fingerprint)
        except (OSError, SquadError) as error:
            if not self.failing:
                reason = (isinstance(error, OSError) and error.strerror) or str(error)
                self.tell(
                    f"warning: the checkpoint {self.path} cannot be written: {reason}."
                    f" Training goes on; {self._kept()}."
                )
            self.failing = True
        else:
            self.epoch = state["epoch"]
            if self.failing:
                self.tell(f"the checkpoint {self.path} could be written again, after epoch {self.epoch}")
            self.failing = False
        self.since = time.monotonic()

    def stop(self) -> None:
        """The run is interrupted: write where it last stood."""
        self.write()
        self.close()

    def close(self) -> None:
        """The run has ended: tell if nothing could be written."""
        if self.failing:
            self.tell(f"warning: the checkpoint {self.path} could not be written in the end either; {self._kept()}.")

    def _kept(self) -> str:
        if self.epoch:
            return f"an interrupted run goes on after epoch {self.epoch}"
        return "an interrupted run begins anew"
