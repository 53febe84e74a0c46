"""What a person sees of a long run: a bar on a terminal, plain lines elsewhere."""

import math
import sys
import time
from typing import IO, Any, NamedTuple, Protocol

from squad.printable import one_line

__all__ = ["EpochReport", "Progress", "SilentProgress", "make_progress"]


#: From this width of a terminal on a bar is a long one.
WIDE = 120


class EpochReport(NamedTuple):
    """One epoch of a run; means over the members that are still in it.

    Attributes:
        epoch: of ``epochs`` at the most, counted from 1.
        loss, accuracy: training loss and validation accuracy.
        kl: in nats a row, or None for a network without latents.
        temperature: of the samples, or None for a network without.
        training, members: how many members are still in it, of how many.
        rows: validation rows that the accuracy is of.
    """

    epoch: int
    epochs: int
    loss: float
    kl: float | None
    accuracy: float
    temperature: float | None
    training: int
    members: int
    rows: int | None = None

    def text(self) -> str:
        """All of it, in words."""
        parts = [f"loss {self.loss:.4f}"]
        if self.kl is not None:
            parts.append(f"KL {self.kl:.2f}")
        of = "" if self.rows is None else f" of {self.rows:,} row{'' if self.rows == 1 else 's'}"
        parts.append(f"validation accuracy {100 * self.accuracy:.2f} %{of}")
        if self.temperature is not None:
            parts.append(f"temperature {self.temperature:.2f}")
        if self.members > 1:
            parts.append(f"{self.training} of {self.members} members")
        return ", ".join(parts)

    def fitted(self, room: int) -> str:
        """In ``room`` letters at the most: whole words, or short ones, or fewer; what matters least goes first."""
        short = {
            "members": f"{self.training}/{self.members} members" if self.members > 1 else "",
            "KL": "" if self.kl is None else f"KL {self.kl:.1f}",
            "temperature": "" if self.temperature is None else f"T {self.temperature:.2f}",
            "loss": f"loss {self.loss:.3f}",
            "accuracy": f"val. acc. {100 * self.accuracy:.1f} %",
        }
        order = ("loss", "KL", "accuracy", "temperature", "members")
        texts = [self.text()]
        left = list(short)
        while left:
            texts.append(" ".join(short[name] for name in order if name in left and short[name]))
            left.pop(0)
        return next((text for text in texts if len(text) <= room), "")


class Progress(Protocol):
    """What the loop tells; any object with these four will do."""

    def start(self, epoch: int, epochs: int) -> None:
        """A run begins, or goes on, after ``epoch`` epochs."""

    def epoch(self, report: EpochReport) -> None:
        """An epoch has ended."""

    def message(self, text: str) -> None:
        """Something worth a line of its own, such as a member that diverged."""

    def close(self) -> None:
        """The run has ended, well or not."""


class SilentProgress:
    """Says nothing."""

    def start(self, epoch: int, epochs: int) -> None:
        """Nothing."""

    def epoch(self, report: EpochReport) -> None:
        """Nothing."""

    def message(self, text: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class PlainProgress:
    """Lines for files and pipes: the first epoch, the last, and one every few seconds."""

    def __init__(self, stream: IO[str], label: str = "", every: float = 10.0) -> None:
        self.stream, self.every = stream, every
        self.label = f"{label.strip()}: " if label.strip() else ""

    def start(self, epoch: int, epochs: int) -> None:
        """Look at the clock."""
        self.first, self.begun = epoch, time.monotonic()
        self.said, self.last = -math.inf, ""

    def epoch(self, report: EpochReport) -> None:
        """A line, if it is time for one."""
        now = time.monotonic()
        each = (now - self.begun) / max(1, report.epoch - self.first)
        left = each * (report.epochs - report.epoch)
        self.last = f"{self.label}epoch {report.epoch} of {report.epochs}: {report.text()}, at most {left:.0f} s left"
        if now - self.said >= self.every:
            self._say()
            self.said = now

    def message(self, text: str) -> None:
        """A line."""
        # A warning begins with that word, whatever it is about.
        begin, rest = ("warning: ", text.removeprefix("warning: ")) if text.startswith("warning: ") else ("", text)
        print(one_line(begin + self.label + rest), file=self.stream, flush=True)

    def close(self) -> None:
        """The last epoch's line, if it was not said."""
        if getattr(self, "last", ""):
            self._say()

    def _say(self) -> None:
        print(self.last, file=self.stream, flush=True)
        self.last = ""


class BarProgress:
    """A bar that stays in its place, in one line whatever the terminal's width."""

    def __init__(self, console: Any, label: str = "training") -> None:
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self.console = console
        width = 24 if console.width >= WIDE else 8
        self.bar = Bar(
            TextColumn(label, markup=False),
            BarColumn(bar_width=width),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.description}", markup=False),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
            transient=True,
        )
        # What is left for the description: a blank between two columns, mm:ss and "left" are taken.
        self.room = console.width - len(label) - width - len(" " * 5) - len("59:59left")

    def start(self, epoch: int, epochs: int) -> None:
        """Show the bar."""
        self.room -= len(f"{epochs}/{epochs}")
        self.bar.start()
        self.task = self.bar.add_task("", total=epochs, completed=epoch)

    def epoch(self, report: EpochReport) -> None:
        """Move it."""
        self.bar.update(self.task, completed=report.epoch, description=report.fitted(self.room))

    def message(self, text: str) -> None:
        """A line above it."""
        self.console.print(one_line(text), highlight=False, markup=False)

    def close(self) -> None:
        """Take it away."""
        self.bar.stop()


class TitledProgress:
    """A progress with a line before everything else: there is none if the run does not come to begin."""

    def __init__(self, inner: Progress, title: str, stream: IO[str]) -> None:
        self.inner, self.title, self.stream = inner, title, stream

    def start(self, epoch: int, epochs: int) -> None:
        """The title, if it was not said, and the start."""
        self._begin()
        self.inner.start(epoch, epochs)

    def epoch(self, report: EpochReport) -> None:
        """Passed on."""
        self.inner.epoch(report)

    def message(self, text: str) -> None:
        """The title, if it was not said, and the message."""
        self._begin()
        self.inner.message(text)

    def close(self) -> None:
        """Passed on."""
        self.inner.close()

    def _begin(self) -> None:
        if self.title:
            print(one_line(self.title), file=self.stream, flush=True)
        self.title = ""


def make_progress(stream: IO[str] | None = None, label: str = "training", title: str = "") -> Progress:
    """A bar if ``stream`` (stderr by default) is a terminal, lines otherwise.

    Args:
        stream: where it is shown.
        label: what each line begins with.
        title: a line to begin with, once there is something to tell.
    """
    from rich.console import Console

    stream = sys.stderr if stream is None else stream
    console = Console(file=stream)
    shown: Progress = BarProgress(console, label) if console.is_terminal else PlainProgress(stream, label)
    return TitledProgress(shown, title, stream) if title else shown
