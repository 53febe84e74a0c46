"""Checkpoints of a training run: written periodically, and when the run is interrupted."""

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
    """Records the state of a run after each epoch, and writes it to a file from time to time.

    A file that cannot be written, for example on a full disk, does not end the run.  A warning is reported, writing is
    tried again when the next checkpoint is due, and a message follows when it succeeds, or when the run ends without.

    Args:
        path: The checkpoint file.
        fingerprint: Hash of the settings and data of the run.
        seconds: Minimum time between two checkpoints.
        report: Called with each message.
    """

    def __init__(self, path: Path, fingerprint: str, seconds: float, report: Callable[[str], None]) -> None:
        self.path, self.fingerprint, self.seconds, self.report = path, fingerprint, seconds, report
        self.latest: tuple[dict[str, Tensor], dict[str, Any]] | None = None
        self.last_attempt = time.monotonic()
        self.written_epoch = 0
        self.failing = False

    def read(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Return the tensors and the state of an earlier checkpoint of this run, or None if there is no file."""
        found = checkpoint.read(self.path, self.fingerprint)
        if found is not None:
            self.written_epoch = int(found[1]["epoch"])
        return found

    def record(self, tensors: Mapping[str, Tensor], state: State) -> None:
        """Record the current state of the run, between two epochs, and write it if a checkpoint is due.

        Args:
            tensors: Tensors to save, by name; they are copied.
            state: State of the run.
        """
        # Copies, because an interrupt may come while the next epoch changes the tensors; on the host, which has room.
        copies = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
        # Shallow copies of lists suffice: their entries never change, nor do those of the history.
        plain = {name: list(value) if isinstance(value, list) else value for name, value in vars(state).items()}
        self.latest = copies, plain  # one assignment, so that an interrupt never sees half of it
        if time.monotonic() - self.last_attempt >= self.seconds:
            self.write()

    def write(self) -> None:
        """Write the last recorded state, unless the file already has it."""
        if self.latest is None or self.latest[1]["epoch"] == self.written_epoch:
            return
        tensors, state = self.latest
        try:
            checkpoint.write(self.path, tensors, state, self.fingerprint)
        except (OSError, SquadError) as error:
            if not self.failing:
                reason = (isinstance(error, OSError) and error.strerror) or str(error)
                self.report(
                    f"warning: the checkpoint {self.path} cannot be written: {reason}."
                    f" Training continues; {self._resume_point()}."
                )
            self.failing = True
        else:
            self.written_epoch = state["epoch"]
            if self.failing:
                self.report(f"the checkpoint {self.path} was written again, after epoch {self.written_epoch}")
            self.failing = False
        self.last_attempt = time.monotonic()

    def write_and_close(self) -> None:
        """Write the last recorded state of an interrupted run."""
        self.write()
        self.close()

    def close(self) -> None:
        """Report at the end of the run if the last checkpoint could not be written."""
        if self.failing:
            self.report(f"warning: the checkpoint {self.path} could not be written; {self._resume_point()}.")

    def _resume_point(self) -> str:
        if self.written_epoch:
            return f"an interrupted run will resume after epoch {self.written_epoch}"
        return "an interrupted run will start over"
