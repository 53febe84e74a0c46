"""Output of commands: results on stdout, messages on stderr; control characters in data are escaped."""

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
    "download_bar",
    "facts",
    "print_error",
    "print_message",
    "print_result",
    "print_wrapped",
    "row_progress",
    "show_warning",
    "table",
    "warn",
    "wrapped",
]

#: Exit code after Ctrl-C.
INTERRUPTED = 130
#: Prefix of warnings.
WARNING = "warning: "
#: Seconds after which a pass over rows shows a bar on a terminal, and between two lines of progress elsewhere.
BAR_AFTER, LINE_AFTER = 0.5, 5.0


class StoppedError(SquadError):
    """Ctrl-C or SIGTERM ended the command; the message says what was saved.

    Args:
        text: The message.
        code: The exit code.
    """

    def __init__(self, text: str, code: int = INTERRUPTED) -> None:
        super().__init__(text)
        self.code = code


def print_result(text: object) -> None:
    """Print a result on stdout."""
    typer.echo(printable(str(text)))


def print_wrapped(text: object) -> None:
    """Print a result of several lines on stdout; on a terminal long lines are wrapped between words."""
    shown = str(text)
    print_result(wrapped(shown, shutil.get_terminal_size().columns) if sys.stdout.isatty() else shown)


def wrapped(text: str, width: int) -> str:
    """Return ``text`` with lines of at most ``width`` characters, wrapped between words and indented like their start.

    Args:
        text: Lines of text; a line that begins with " - " is an item of a list.
        width: Width of the terminal in characters.

    Returns:
        The wrapped text.

    Examples:
        >>> print(wrapped("A list:\\n - of the first 20 %;\\n - and more.", 17))
        A list:
         - of the first
           20 %;
         - and more.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        indent += 2 if indent else 0  # below the text of an item, after its hyphen
        unbreakable = line.replace(" %", "\u00a0%")  # a number and its percent sign stay together
        parts = textwrap.wrap(
            unbreakable,
            max(width, indent + 10),
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += [line] if len(line) <= width else [part.replace("\u00a0%", " %") for part in parts]
    return "\n".join(lines)


def print_message(text: str) -> None:
    """Print a message of one line on stderr."""
    typer.echo(one_line(text), err=True)


def warn(text: str) -> None:
    """Print ``warning: text`` as one line on stderr, the prefix in yellow on a terminal."""
    _say_with_prefix(WARNING, text, "yellow")


def show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Replace ``warnings.showwarning``: print the warnings of this library as one line each.

    Args:
        message: The warning.
        category: Its class.
        filename: File of the code that warns.
        lineno: Line of that file.
        file: Ignored; warnings go to stderr.
        line: Source text of the line, for warnings of other libraries.
    """
    if issubclass(category, SquadWarning):
        warn(str(message))
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def print_error(text: str, code: int) -> int:
    """Print ``squad: text`` as one line on stderr, the prefix in red on a terminal.

    Args:
        text: The error message.
        code: Exit code of the command.

    Returns:
        The exit code.
    """
    _say_with_prefix("squad: ", text, "red")
    return code


def _say_with_prefix(prefix: str, text: str, colour: str) -> None:
    """Print a line on stderr; its prefix is coloured on a terminal, unless NO_COLOR is set."""
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
        prefix = typer.style(prefix, fg=colour, bold=True)
    typer.echo(prefix + one_line(text), err=True)


def table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1, file: Any = None
) -> None:
    """Print a table with headings on stdout.

    Args:
        title: Line above the table.
        header: Headings of the columns.
        rows: Cells of each row.
        words: Number of leading columns of text, aligned left; the others hold numbers, aligned right.
        file: Stream to print to; None: stdout.
    """
    from rich.console import Console
    from rich.table import Table

    shown = Table()
    for position, heading in enumerate(header):
        # A long path is folded onto the next line rather than cut off with dots.
        shown.add_column(printable(heading, keep=""), justify="left" if position < words else "right", overflow="fold")
    for row in rows:
        shown.add_row(*(printable(cell, keep="\n") for cell in row))  # a cell may have several lines
    console = Console(file=file, highlight=False, markup=False, emoji=False)
    console.print(printable(title))
    console.print(shown)


def facts(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print names and values on stdout as two columns without borders.

    Args:
        title: Line above them.
        rows: Names and values.
    """
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
    """Yield a progress callback for passes over rows: a bar on a terminal, elsewhere a line every few seconds.

    The callback takes the number of rows done and the number of all rows.  Quick passes show nothing.

    Args:
        what: Description of the pass, such as "predicting".

    Yields:
        Function of the number of rows done and the number of all rows.
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
    started = printed = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal task, started, printed
        now = time.monotonic()
        if console.is_terminal:
            if task is None and now - started >= BAR_AFTER and done < total:
                bar.start()
                task = bar.add_task(what, total=total)
            if task is not None:
                bar.update(task, completed=done, total=total)
        elif done < total and now - printed >= LINE_AFTER:
            left = (now - started) / done * (total - done)
            print_message(f"{what}: {done:,} of {total:,} rows, about {left:.0f} s left")
            printed = now
        if done >= total:
            started = printed = now  # another pass may follow

    try:
        yield report
    finally:
        if task is not None:
            bar.stop()


@contextlib.contextmanager
def download_bar() -> Iterator[Any]:
    """Yield a progress callback for downloads: a bar on a terminal, elsewhere one line per file.

    Yields:
        Function of the name of a file, the number of bytes done, and that of all bytes (None if unknown).
    """
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
                print_message(f"downloading {name}" + (f" ({total / 1e6:.1f} MB)" if total else ""))
        bar.update(tasks[name], completed=done, total=total)

    try:
        yield report
    finally:
        if tasks and console.is_terminal:
            bar.stop()
