"""Progress of a search: a bar on a terminal, plain lines elsewhere."""

import math
import sys
import time
from collections.abc import Callable
from typing import IO, Any, NamedTuple, Protocol

from squad.search.measure import Measure

__all__ = ["SearchProgress", "SilentSearchProgress", "Snapshot", "make_progress"]

#: Terminal width from which on the bar is long, and below which there is no bar.
WIDE_TERMINAL, NARROW_TERMINAL = 120, 60
#: Seconds between two lines, and between two lines without a new finished trial.
LINE_INTERVAL, IDLE_INTERVAL = 10.0, 60.0


class Snapshot(NamedTuple):
    """State of a search.

    Attributes:
        done: Number of finished trials, including those of earlier runs and of other workers.
        total: Number of trials that were requested.
        running: Number of trials in training.
        best: Best value so far, as maximized; None before the first.
        best_trial: Number of the best trial; None before the first.
        objective: Objective in its canonical form (:class:`squad.search.objective.Objective`).
        epochs_per_second: Epochs per second of all running trials together, if known.
    """

    done: int
    total: int
    running: int
    best: float | None
    best_trial: int | None
    objective: str
    epochs_per_second: float | None = None

    def text(self) -> str:
        """Return everything except the remaining time, as text."""
        parts = [f"{self.done} of {self.total} trials"]
        if self.best is not None:
            parts.append(f"best {Measure.of(self.objective).text(self.best)} in trial {self.best_trial}")
        parts.append(f"{self.running} running")
        if self.epochs_per_second is not None:
            parts.append(f"{self.epochs_per_second:.3g} epochs/s")
        return ", ".join(parts)

    def fitted(self, width: int) -> str:
        """Return the text next to the bar, shortened to at most ``width`` characters."""
        measure = Measure.of(self.objective)
        best = "" if self.best is None else f"best {measure.text(self.best)}"
        full = [
            best and f"{best} (trial {self.best_trial})",
            f"{self.running} running",
            "" if self.epochs_per_second is None else f"{self.epochs_per_second:.3g} epochs/s",
        ]
        short = "" if self.best is None else measure.short(self.best)
        choices = [full, full[:2], [best, full[1]], [best], [short]]
        texts = [", ".join(filter(None, parts)) for parts in choices]
        return next((text for text in texts if len(text) <= width), "")


class SearchProgress(Protocol):
    """Interface of progress reports; any object with these four methods can be used."""

    def start(self, done: int, total: int) -> None:
        """Begin or resume a search that has ``done`` of ``total`` trials.

        Args:
            done: Number of finished trials.
            total: Number of trials of the search.
        """

    def update(self, snapshot: Snapshot) -> None:
        """Show the state after a trial began or ended, or an epoch passed."""

    def message(self, text: str) -> None:
        """Show a line of text, such as a change of the objective."""

    def close(self) -> None:
        """End the report, whether the search succeeded or failed."""


class SilentSearchProgress:
    """Show nothing."""

    def start(self, done: int, total: int) -> None:
        """Do nothing."""

    def update(self, snapshot: Snapshot) -> None:
        """Do nothing."""

    def message(self, text: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Remaining:
    """Estimate of the remaining time, from the trials that ended since this run began.

    Earlier runs may have been on another machine, so nothing is estimated before a first trial has ended.  A running
    trial counts as half finished: otherwise 32 trials in parallel would seem 32 times too slow when the first one ends.
    """

    def __init__(self, done: int, clock: Callable[[], float]) -> None:
        self.first, self.begun, self.clock = done, clock(), clock

    def seconds(self, snapshot: Snapshot) -> float | None:
        """Return the remaining seconds; None if unknown."""
        left = snapshot.total - snapshot.done
        if left <= 0:
            return 0.0
        ended = snapshot.done - self.first
        if ended <= 0:
            return None
        # Other workers may have begun surplus trials: count no more than are needed.
        half = min(snapshot.running, left) / 2
        return (self.clock() - self.begun) * (left - half) / (ended + half)


def duration(seconds: float | None) -> str:
    """Format as ``0:42``, ``12:34``, ``1:23:45``, or ``?`` for None."""
    if seconds is None:
        return "?"
    whole = math.ceil(seconds)
    minutes, hours = whole // 60 % 60, whole // 3600
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


class PlainSearchProgress:
    """Lines for files and pipes: one for every new best value, and one every few seconds while trials end."""

    def __init__(self, stream: IO[str], label: str = "search", clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self.clock = stream, clock
        self.label = f"{label.strip()}: " if label.strip() else ""
        self.pending = ""

    def start(self, done: int, total: int) -> None:
        """Start the clock."""
        self.remaining = Remaining(done, self.clock)
        self.last_line, self.done, self.best = -math.inf, -1, -math.inf

    def update(self, snapshot: Snapshot) -> None:
        """Print a line if there is a new best value, or enough time has passed."""
        left = self.remaining.seconds(snapshot)
        self.pending = f"{snapshot.text()}, {duration(left)} left" if left != 0 else snapshot.text()
        best = -math.inf if snapshot.best is None else snapshot.best
        wait = LINE_INTERVAL if snapshot.done != self.done else IDLE_INTERVAL
        if best > self.best or self.clock() - self.last_line >= wait:
            self.last_line, self.done, self.best = self.clock(), snapshot.done, best
            self._print_pending()

    def message(self, text: str) -> None:
        """Print a line."""
        print(self.label + text, file=self.stream, flush=True)

    def close(self) -> None:
        """Print the final state, unless it was printed already."""
        if self.pending:
            self._print_pending()

    def _print_pending(self) -> None:
        self.message(self.pending)
        self.pending = ""


class BarSearchProgress:
    """A progress bar that fits into one line of the terminal."""

    def __init__(self, console: Any, label: str = "search", clock: Callable[[], float] = time.monotonic) -> None:
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        self.console, self.clock = console, clock
        width = 24 if console.width >= WIDE_TERMINAL else 8 if console.width >= NARROW_TERMINAL else 0
        columns = [
            TextColumn(label, markup=False),
            *([BarColumn(bar_width=width)] if width else []),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[left]}", markup=False),
        ]
        self.bar = Bar(*columns, console=console, transient=True)
        # Width left for the description, next to the other columns and the spaces between them.
        self.width = console.width - len(label) - width - len(columns)

    def start(self, done: int, total: int) -> None:
        """Show the bar."""
        self.remaining = Remaining(done, self.clock)
        self.width -= len(f"{total}/{total}")
        self.bar.start()
        self.task = self.bar.add_task("", total=total, completed=done, left="")

    def update(self, snapshot: Snapshot) -> None:
        """Update the bar."""
        left = f"{duration(self.remaining.seconds(snapshot))} left"
        text = snapshot.fitted(self.width - len(left))
        self.bar.update(self.task, completed=snapshot.done, description=text, left=left)

    def message(self, text: str) -> None:
        """Print a line above the bar."""
        self.console.print(text, highlight=False, markup=False)

    def close(self) -> None:
        """Remove the bar."""
        self.bar.stop()


def make_progress(stream: IO[str] | None = None, label: str = "search") -> SearchProgress:
    """Return a bar if ``stream`` is a terminal, else plain lines.

    Args:
        stream: Where to show progress; stderr by default.
        label: Text in front of the bar, or of each line.

    Returns:
        The progress display.
    """
    from rich.console import Console

    stream = sys.stderr if stream is None else stream
    console = Console(file=stream)
    return BarSearchProgress(console, label) if console.is_terminal else PlainSearchProgress(stream, label)
