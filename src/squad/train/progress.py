"""Progress display of a training run: a progress bar on a terminal, plain lines elsewhere."""

import math
import sys
import time
from typing import IO, Any, NamedTuple, Protocol

from squad.printable import one_line

__all__ = ["EpochReport", "Progress", "SilentProgress", "make_progress"]


#: Width of a terminal from which on the bar is longer.
WIDE_TERMINAL = 120


class EpochReport(NamedTuple):
    """Results of one epoch, averaged over the members still in training.

    Attributes:
        epoch: Number of the epoch, from 1.
        epochs: Maximum number of epochs.
        loss: Training loss.
        kl: KL in nats per row, or None for a network without latents.
        accuracy: Validation accuracy.
        temperature: Temperature τ of the samples, or None for a network without a temperature.
        training: Number of members still in training.
        members: Number of all members.
        rows: Number of validation rows.

    Examples:
        >>> report = EpochReport(3, 50, 0.41, None, 0.875, None, training=2, members=2)
        >>> report.epoch, report.accuracy
        (3, 0.875)
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
        """Return all results as text."""
        parts = [f"loss {self.loss:.4f}"]
        if self.kl is not None:
            parts.append(f"KL {self.kl:.2f}")
        rows = "" if self.rows is None else f" of {self.rows:,} row{'' if self.rows == 1 else 's'}"
        parts.append(f"validation accuracy {100 * self.accuracy:.2f} %{rows}")
        if self.temperature is not None:
            parts.append(f"temperature {self.temperature:.2f}")
        if self.members > 1:
            parts.append(f"{self.training} of {self.members} members")
        return ", ".join(parts)

    def short_text(self, width: int, ascii_only: bool = False) -> str:
        """Return the results in at most ``width`` characters, abbreviated or without the least important ones.

        Args:
            width: Maximum number of characters.
            ascii_only: Whether to spell out the temperature instead of writing τ.

        Returns:
            The text, without a line break.
        """
        symbol = "temperature" if ascii_only else "τ"
        short = {
            "members": f"{self.training}/{self.members} members" if self.members > 1 else "",
            "KL": "" if self.kl is None else f"KL {self.kl:.1f}",
            "temperature": "" if self.temperature is None else f"{symbol} {self.temperature:.2f}",
            "loss": f"loss {self.loss:.3f}",
            "accuracy": f"val. acc. {100 * self.accuracy:.1f} %",
        }
        order = ("loss", "KL", "accuracy", "temperature", "members")
        texts = [self.text()]
        remaining = list(short)  # least important first
        while remaining:
            texts.append(" ".join(short[name] for name in order if name in remaining and short[name]))
            remaining.pop(0)
        return next((text for text in texts if len(text) <= width), "")


class Progress(Protocol):
    """Protocol of the objects that receive the training loop's reports.

    See Also:
        :func:`make_progress`: Creates one that prints.

    Examples:
        >>> class Accuracies:
        ...     def start(self, epoch, epochs): self.seen = []
        ...     def epoch(self, report): self.seen.append(report.accuracy)
        ...     def message(self, text): pass
        ...     def close(self): pass
        >>> progress: Progress = Accuracies()  # to be passed to squad.train.fit
    """

    def start(self, epoch: int, epochs: int) -> None:
        """Called when a run starts, or resumes after ``epoch`` epochs.

        Args:
            epoch: Number of epochs already completed; 0 for a new run.
            epochs: Maximum number of epochs.
        """

    def epoch(self, report: EpochReport) -> None:
        """Called at the end of an epoch."""

    def message(self, text: str) -> None:
        """Called with a message to be shown on its own line, for example about a member that diverged."""

    def close(self) -> None:
        """Called at the end of the run, successful or not."""


class SilentProgress:
    """Progress display that shows nothing.

    Examples:
        >>> SilentProgress().message("not shown")
    """

    def start(self, epoch: int, epochs: int) -> None:
        """Do nothing."""

    def epoch(self, report: EpochReport) -> None:
        """Do nothing."""

    def message(self, text: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class PlainProgress:
    """Progress lines for files and pipes: the first epoch, the last, and one every few seconds.

    Args:
        stream: Stream to print to.
        label: Prefix of each line.
        every: Seconds between two lines.
    """

    def __init__(self, stream: IO[str], label: str = "", every: float = 10.0) -> None:
        self.stream, self.every = stream, every
        self.label = f"{label.strip()}: " if label.strip() else ""

    def start(self, epoch: int, epochs: int) -> None:
        """Start the clock."""
        self.first_epoch, self.started = epoch, time.monotonic()
        self.last_printed, self.pending = -math.inf, ""

    def epoch(self, report: EpochReport) -> None:
        """Print a line if one is due."""
        now = time.monotonic()
        per_epoch = (now - self.started) / max(1, report.epoch - self.first_epoch)
        left = per_epoch * (report.epochs - report.epoch)
        self.pending = (
            f"{self.label}epoch {report.epoch} of {report.epochs}: {report.text()}, at most {left:.0f} s left"
        )
        if now - self.last_printed >= self.every:
            self._print()
            self.last_printed = now

    def message(self, text: str) -> None:
        """Print a message."""
        # "warning: " comes first, before the label.
        prefix, rest = ("warning: ", text.removeprefix("warning: ")) if text.startswith("warning: ") else ("", text)
        print(one_line(prefix + self.label + rest), file=self.stream, flush=True)

    def close(self) -> None:
        """Print the line of the last epoch, if it has not been printed."""
        if getattr(self, "pending", ""):
            self._print()

    def _print(self) -> None:
        print(self.pending, file=self.stream, flush=True)
        self.pending = ""


class BarProgress:
    """Progress bar on a terminal, in one line for any width of the terminal.

    Args:
        console: A ``rich.console.Console``.
        label: Text to the left of the bar.
    """

    def __init__(self, console: Any, label: str = "training") -> None:
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self.console = console
        width = 24 if console.width >= WIDE_TERMINAL else 8
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
        # Width of the description: without the blanks between columns, mm:ss and "left".
        self.text_width = console.width - len(label) - width - len(" " * 5) - len("59:59left")

    def start(self, epoch: int, epochs: int) -> None:
        """Show the bar."""
        self.text_width -= len(f"{epochs}/{epochs}")
        self.bar.start()
        self.task = self.bar.add_task("", total=epochs, completed=epoch)

    def epoch(self, report: EpochReport) -> None:
        """Advance the bar and update its text."""
        text = report.short_text(self.text_width, self.console.options.ascii_only)
        self.bar.update(self.task, completed=report.epoch, description=text)

    def message(self, text: str) -> None:
        """Print a message above the bar."""
        self.console.print(one_line(text), highlight=False, markup=False)

    def close(self) -> None:
        """Remove the bar."""
        self.bar.stop()


class TitledProgress:
    """Progress display with a title line, which is printed before the first output of the run."""

    def __init__(self, inner: Progress, title: str, stream: IO[str]) -> None:
        self.inner, self.title, self.stream = inner, title, stream

    def start(self, epoch: int, epochs: int) -> None:
        """Print the title, unless already printed, and start the inner display."""
        self._print_title()
        self.inner.start(epoch, epochs)

    def epoch(self, report: EpochReport) -> None:
        """Forward the report to the inner display."""
        self.inner.epoch(report)

    def message(self, text: str) -> None:
        """Print the title, unless already printed, and forward the message."""
        self._print_title()
        self.inner.message(text)

    def close(self) -> None:
        """Close the inner display."""
        self.inner.close()

    def _print_title(self) -> None:
        if self.title:
            print(one_line(self.title), file=self.stream, flush=True)
        self.title = ""


def make_progress(stream: IO[str] | None = None, label: str = "training", title: str = "") -> Progress:
    """Create a progress bar if ``stream`` is a terminal, plain progress lines otherwise.

    Args:
        stream: Stream to print to; default: stderr.
        label: Prefix of the bar or of each line.
        title: Line to print before the first output.

    Returns:
        A progress display for :func:`squad.train.fit`.

    Examples:
        >>> import io
        >>> stream = io.StringIO()
        >>> make_progress(stream, label="fit", title="3 members").message("resumed")
        >>> print(stream.getvalue(), end="")
        3 members
        fit: resumed
    """
    from rich.console import Console

    stream = sys.stderr if stream is None else stream
    console = Console(file=stream)
    progress: Progress = BarProgress(console, label) if console.is_terminal else PlainProgress(stream, label)
    return TitledProgress(progress, title, stream) if title else progress
