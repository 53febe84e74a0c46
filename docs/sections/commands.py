"""docs/reference/command.md: what every command says with --help."""

import contextlib
import io
import os
from unittest import mock

import typer

from squad.cli import data
from squad.cli.commands import COMMANDS, app


def words_of(name: str) -> list[list[str]]:
    """Return the command lines behind an entry of the table: ``data`` has commands of its own."""
    if name != "data":
        return [name.split()]
    return [["data", str(c.name or c.callback.__name__)] for c in data.app.registered_commands if c.callback]


def help_text(words: list[str]) -> str:
    """Return what a command prints with --help on a terminal of 80 columns."""
    printed = io.StringIO()
    with mock.patch.dict(os.environ, {"COLUMNS": "80"}), contextlib.redirect_stdout(printed):
        typer.main.get_command(app).main([*words, "--help"], prog_name="squad", standalone_mode=False)
    return printed.getvalue().strip()


def all_commands() -> str:
    """Return the section: every command below its heading in ``squad --help``."""
    parts = []
    for heading, names in COMMANDS.items():
        parts.append(f"### {heading}")
        for name in names:
            parts += [f"#### squad {' '.join(words)}\n\n```text\n{help_text(words)}\n```" for words in words_of(name)]
    return "\n\n".join(parts)
