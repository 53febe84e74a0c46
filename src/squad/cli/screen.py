"""What commands say: results on stdout, everything else on stderr."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import typer

__all__ = ["download_bar", "facts", "say", "table"]


def say(text: str) -> None:
    """A line on stderr."""
    typer.echo(text, err=True)


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, file: Any = None) -> None:
    """A table with headings on stdout: words to the left in the first column, figures to the right."""
    from rich.console import Console
    from rich.table import Table

    shown = Table()
    for place, heading in enumerate(header):
        shown.add_column(heading, justify="left" if place == 0 else "right")
    for row in rows:
        shown.add_row(*row)
    console = Console(file=file)
    console.print(title, highlight=False, markup=False)
    console.print(shown)


def facts(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Names and what they stand for on stdout, without lines around."""
    from rich.console import Console
    from rich.table import Table

    shown = Table.grid(padding=(0, 2))
    shown.add_column(style="bold")
    shown.add_column()
    for name, value in rows:
        shown.add_row(name, value)
    console = Console()
    console.print(title, style="bold", highlight=False, markup=False)
    console.print(shown, markup=False)


@contextlib.contextmanager
def download_bar() -> Iterator[Any]:
    """A progress callback for downloads: a bar on a terminal, one line a file elsewhere, nothing without any."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=console
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
