"""What commands say: results on stdout, everything else on stderr."""

import contextlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import typer

from squad.errors import SquadError, SquadWarning

__all__ = [
    "INTERRUPTED",
    "StoppedError",
    "complain",
    "download_bar",
    "facts",
    "say",
    "show_warning",
    "table",
    "warn",
]


#: The exit code after Ctrl-C.
INTERRUPTED = 130


class StoppedError(SquadError):
    """Ctrl-C or SIGTERM, with something to say about what was reached; ``code`` is the exit code."""

    def __init__(self, text: str, code: int = INTERRUPTED) -> None:
        super().__init__(text)
        self.code = code


def say(text: str) -> None:
    """A line on stderr."""
    typer.echo(_one_line(text), err=True)


def warn(text: str) -> None:
    """``warning: text`` on a line of its own on stderr: what must not be overlooked."""
    say(f"warning: {text}")


def show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """In the place of ``warnings.showwarning``: this library's warnings as a line of their own."""
    if issubclass(category, SquadWarning):
        warn(str(message))
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def complain(text: str, code: int) -> int:
    """``squad: text`` as one line on stderr; returns the exit code."""
    say(f"squad: {text}")
    return code


def _one_line(text: str) -> str:
    """Without line breaks and control characters, which names of columns and files may hold."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(text.splitlines()))


def table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1, file: Any = None
) -> None:
    """A table with headings on stdout: ``words`` columns of text to the left, then figures to the right."""
    from rich.console import Console
    from rich.table import Table

    shown = Table()
    for place, heading in enumerate(header):
        # A path is worth more than the look: it goes on in the next line rather than end in dots.
        shown.add_column(heading, justify="left" if place < words else "right", overflow="fold")
    for row in rows:
        shown.add_row(*row)
    console = Console(file=file, highlight=False, markup=False, emoji=False)
    console.print(title)
    console.print(shown)


def facts(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Names and what they stand for on stdout, without lines around."""
    from rich.console import Console
    from rich.table import Table

    shown = Table.grid(padding=(0, 2))
    shown.add_column(style="bold", no_wrap=True)
    shown.add_column(overflow="fold")
    for name, value in rows:
        shown.add_row(name, value)
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(title, style="bold")
    console.print(shown)


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
