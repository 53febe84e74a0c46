"""What a person sees of a search: a bar on a terminal, plain lines elsewhere."""

import math
import sys
import time
from collections.abc import Callable
from typing import IO, Any, NamedTuple, Protocol

from squad.search.search_record import Measure

__all__ = ["SearchProgress", "SilentSearchProgress", "Snapshot", "make_progress"]

#: From this width of a terminal on a bar is a long one, and below the other there is none.
WIDE, NARROW = 120, 60
#: Seconds between two lines, and between two that say the same.
EVERY, QUIET = 10.0, 60.0


class Snapshot(NamedTuple):
    """Where a search stands.

    Attributes:
        done: trials that have ended, those of earlier runs and other workers among them, of ``total``.
        running: trials that are being trained.
        best, best_trial: the best value so far, as it is maximized, and whose it is; None before the first.
        objective: what is maximized, as :class:`squad.search.objective.Objective` writes it.
        epochs_per_second: of all running trials together, if it is known.
    """

    done: int
    total: int
    running: int
    best: float | None
    best_trial: int | None
    objective: str
    epochs_per_second: float | None = None

    def text(self) -> str:
        """All of it but the time left, in words."""
        parts = [f"{self.done} of {self.total} trials"]
        if self.best is not None:
            parts.append(f"best {Measure.of(self.objective).text(self.best)} in trial {self.best_trial}")
        parts.append(f"{self.running} running")
        if self.epochs_per_second is not None:
            parts.append(f"{self.epochs_per_second:.3g} epochs/s")
        return ", ".join(parts)

    def fitted(self, room: int) -> str:
        """What stands beside a bar, in ``room`` letters at the most; what matters least goes first."""
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
        return next((text for text in texts if len(text) <= room), "")


class SearchProgress(Protocol):
    """What a search tells; any object with these four will do."""

    def start(self, done: int, total: int) -> None:
        """A search begins, or goes on, with ``done`` trials of ``total``."""

    def update(self, snapshot: Snapshot) -> None:
        """Something has changed: a trial ended, or began, or an epoch has passed."""

    def message(self, text: str) -> None:
        """Something worth a line of its own, such as a change of the objective."""

    def close(self) -> None:
        """The search has ended, well or not."""


class SilentSearchProgress:
    """Says nothing."""

    def start(self, done: int, total: int) -> None:
        """Nothing."""

    def update(self, snapshot: Snapshot) -> None:
        """Nothing."""

    def message(self, text: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Remaining:
    """How long a search will take, from the trials that ended since it was started.

    Those of earlier runs tell nothing about this machine, so before the first one has ended nothing is known.  A trial
    that is being trained counts for half: without that, 32 trials side by side would look 32 times too slow when the
    first of them ends.
    """

    def __init__(self, done: int, clock: Callable[[], float]) -> None:
        self.first, self.begun, self.clock = done, clock(), clock

    def seconds(self, snapshot: Snapshot) -> float | None:
        """What is left; None if it cannot be told."""
        left = snapshot.total - snapshot.done
        if left <= 0:
            return 0.0
        ended = snapshot.done - self.first
        if ended <= 0:
            return None
        # No more of the running ones than are wanted: other workers may have begun some that will be surplus.
        half = min(snapshot.running, left) / 2
        return (self.clock() - self.begun) * (left - half) / (ended + half)


def duration(seconds: float | None) -> str:
    """``0:42``, ``12:34``, ``1:23:45``, or ``?``."""
    if seconds is None:
        return "?"
    whole = math.ceil(seconds)
    minutes, hours = whole // 60 % 60, whole // 3600
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


class PlainSearchProgress:
    """Lines for files and pipes: one for every better best, and one every few seconds while trials end."""

    def __init__(self, stream: IO[str], label: str = "search", clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self.clock = stream, clock
        self.label = f"{label.strip()}: " if label.strip() else ""
        self.pending = ""

    def start(self, done: int, total: int) -> None:
        """Look at the clock."""
        self.remaining = Remaining(done, self.clock)
        self.said, self.done, self.best = -math.inf, -1, -math.inf

    def update(self, snapshot: Snapshot) -> None:
        """A line, if there is something new or it is time for one."""
        left = self.remaining.seconds(snapshot)
        self.pending = f"{snapshot.text()}, {duration(left)} left" if left != 0 else snapshot.text()
        best = -math.inf if snapshot.best is None else snapshot.best
        wait = EVERY if snapshot.done != self.done else QUIET
        if best > self.best or self.clock() - self.said >= wait:
            self.said, self.done, self.best = self.clock(), snapshot.done, best
            self._say()

    def message(self, text: str) -> None:
        """A line."""
        print(self.label + text, file=self.stream, flush=True)

    def close(self) -> None:
        """Where it stands at the end, if that was not said."""
        if self.pending:
            self._say()

    def _say(self) -> None:
        self.message(self.pending)
        self.pending = ""


class BarSearchProgress:
    """A bar that stays in its place, in one line whatever the terminal's width."""

    def __init__(self, console: Any, label: str = "search", clock: Callable[[], float] = time.monotonic) -> None:
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        self.console, self.clock = console, clock
        width = 24 if console.width >= WIDE else 8 if console.width >= NARROW else 0
        columns = [
            TextColumn(label, markup=False),
            *([BarColumn(bar_width=width)] if width else []),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[left]}", markup=False),
        ]
        self.bar = Bar(*columns, console=console, transient=True)
        # What is left for the description: the other columns, and a blank between two of them, are taken.
        self.room = console.width - len(label) - width - len(columns)

    def start(self, done: int, total: int) -> None:
        """Show the bar."""
        self.remaining = Remaining(done, self.clock)
        self.room -= len(f"{total}/{total}")
        self.bar.start()
        self.task = self.bar.add_task("", total=total, completed=done, left="")

    def update(self, snapshot: Snapshot) -> None:
        """Move it."""
        left = f"{duration(self.remaining.seconds(snapshot))} left"
        told = snapshot.fitted(self.room - len(left))
        self.bar.update(self.task, completed=snapshot.done, description=told, left=left)

    def message(self, text: str) -> None:
        """A line above it."""
        self.console.print(text, highlight=False, markup=False)

    def close(self) -> None:
        """Take it away."""
        self.bar.stop()


def make_progress(stream: IO[str] | None = None, label: str = "search") -> SearchProgress:
    """A bar if ``stream`` (stderr by default) is a terminal, lines otherwise.

    Args:
        stream: where it is shown.
        label: what each line begins with.
    """
    from rich.console import Console

    stream = sys.stderr if stream is None else stream
    console = Console(file=stream)
    return BarSearchProgress(console, label) if console.is_terminal else PlainSearchProgress(stream, label)
