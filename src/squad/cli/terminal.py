"""What commands say: results on stdout, everything else on stderr; nothing that a terminal would obey."""

import contextlib
import os
import shutil
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import typer

from squad.errors import SquadError, SquadWarning
from squad.printable import one_line, printable

__all__ = [
    "INTERRUPTED",
    "WARNING",
    "StoppedError",
    "complain",
    "download_bar",
    "facts",
    "row_progress",
    "say",
    "show_warning",
    "table",
    "tell",
    "tell_paragraphs",
    "warn",
    "wrapped",
]

#: The exit code after Ctrl-C.
INTERRUPTED = 130
#: What a line begins with that must not be missed.
WARNING = "warning: "
#: Seconds after which a pass over rows is worth a bar, and between two lines where there is none.
BAR_AFTER, LINE_AFTER = 0.5, 5.0


class StoppedError(SquadError):
    """Ctrl-C or SIGTERM, with something to say about what was reached; ``code`` is the exit code."""

    def __init__(self, text: str, code: int = INTERRUPTED) -> None:
        super().__init__(text)
        self.code = code


def tell(text: object) -> None:
    """A result on stdout, of one line or more."""
    typer.echo(printable(str(text)))


def tell_paragraphs(text: object) -> None:
    """A result of several lines on stdout; on a terminal those that are too long are broken between words."""
    shown = str(text)
    tell(wrapped(shown, shutil.get_terminal_size().columns) if sys.stdout.isatty() else shown)


def wrapped(text: str, width: int) -> str:
    """``text`` with lines of at most ``width``, broken between words and indented as what they go on with.

    Args:
        text: of several lines; one that begins with " - " is an item of a list.
        width: of the screen, in letters.

    >>> print(wrapped("A list:\\n - of the first 20 %;\\n - and more.", 17))
    A list:
     - of the first
       20 %;
     - and more.
    """
    found = []
    for line in text.split("\n"):
        begun = line.lstrip(" ")
        indent = len(line) - len(begun)
        indent += 2 if indent else 0  # the hyphen of an item, or what makes the second line of a cell look like one
        whole = line.replace(" %", "\u00a0%")  # a number keeps its sign
        parts = textwrap.wrap(
            whole,
            max(width, indent + 10),
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        found += [line] if len(line) <= width else [part.replace("\u00a0%", " %") for part in parts]
    return "\n".join(found)


def say(text: str) -> None:
    """A line on stderr."""
    typer.echo(one_line(text), err=True)


def warn(text: str) -> None:
    """``warning: text`` on a line of its own on stderr: something that a reader must not miss."""
    _say_marked(WARNING, text, "yellow")


def show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """In the place of ``warnings.showwarning``: this library's warnings as a line of their own."""
    if issubclass(category, SquadWarning):
        warn(str(message))
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def complain(text: str, code: int) -> int:
    """``squad: text`` as one line on stderr, the prefix in red on a terminal; returns the exit code."""
    _say_marked("squad: ", text, "red")
    return code


def _say_marked(prefix: str, text: str, colour: str) -> None:
    """A line on stderr whose prefix is coloured where a terminal shows it (NO_COLOR turns that off)."""
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
        prefix = typer.style(prefix, fg=colour, bold=True)
    typer.echo(prefix + one_line(text), err=True)


def table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1, file: Any = None
) -> None:
    """A table with headings on stdout: ``words`` columns of text to the left, then figures to the right."""
    from rich.console import Console
    from rich.table import Table

    shown = Table()
    for place, heading in enumerate(header):
        # A path is worth more than the look: it goes on in the next line rather than end in dots.
        shown.add_column(printable(heading, keep=""), justify="left" if place < words else "right", overflow="fold")
    for row in rows:
        shown.add_row(*(printable(cell, keep="\n") for cell in row))  # a cell may have several lines
    console = Console(file=file, highlight=False, markup=False, emoji=False)
    console.print(printable(title))
    console.print(shown)


def facts(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Names and what they stand for on stdout, without lines around."""
    from rich.console import Console
    from rich.table import Table

    shown = Table.grid(padding=(0, 2))
    shown.add_column(style="bold", no_wrap=True)
    shown.add_column(overflow="fold")
    console = Console(highlight=False, markup=False, emoji=False)
    for name, value in rows:
        shown.add_row(printable(name, keep=""), printable(value, keep=""))
    console.print(printable(title), style="bold")
    console.print(shown)


@contextlib.contextmanager
def row_progress(what: str = "predicting") -> Iterator[Callable[[int, int], None]]:
    """A progress callback for passes over rows: a bar on a terminal's stderr, elsewhere a line now and then.

    What takes less than a few seconds shows nothing.

    Args:
        what: is being done.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24 if console.width >= 120 else 10),
        MofNCompleteColumn(),
        TextColumn("rows"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
    )
    bar = Progress(*columns, console=console, transient=True)
    task = None
    begun = said = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal task, begun, said
        now = time.monotonic()
        if console.is_terminal:
            if task is None and now - begun >= BAR_AFTER and done < total:
                bar.start()
                task = bar.add_task(what, total=total)
            if task is not None:
                bar.update(task, completed=done, total=total)
        elif done < total and now - said >= LINE_AFTER:
            left = (now - begun) / done * (total - done)
            say(f"{what}: {done:,} of {total:,} rows, about {left:.0f} s left")
            said = now
        if done >= total:
            begun = said = now  # another pass may follow

    try:
        yield report
    finally:
        if task is not None:
            bar.stop()


@contextlib.contextmanager
def download_bar() -> Iterator[Any]:
    """A progress callback for downloads: a bar on a terminal, one line a file elsewhere, nothing without any."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None if console.width >= 120 else 10),
        DownloadColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
        console=console,
    )
    tasks: dict[str, Any] = {}

    def report(name: str, done: int, total: int | None) -> None:
        if not tasks and console.is_terminal:
            bar.start()
        if name not in tasks:
            tasks[name] = bar.add_task(name, total=total)
            if not console.is_terminal:
                say(f"downloading {name}" + (f" ({total / 1e6:.1f} MB)" if total else ""))
        bar.update(tasks[name], completed=done, total=total)

    try:
        yield report
    finally:
        if tasks and console.is_terminal:
            bar.stop()
