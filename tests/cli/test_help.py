"""--help: its layout, summaries and speed; tests/slow runs its examples."""

import ast
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from squad import cli
from squad.cli import data
from squad.cli.commands import COMMANDS as TABLE
from tests.cli.conftest import Run

#: Commands of ``squad data``.
DATA_COMMANDS = [
    ["data", str(command.name or command.callback.__name__)]
    for command in data.app.registered_commands
    if command.callback
]

#: All commands, as words, in the order of the table: in that order every example finds its files.
COMMANDS = [
    words
    for names in TABLE.values()
    for name in names
    for words in (DATA_COMMANDS if name == "data" else [name.split()])
]


def examples(text: str) -> list[str]:
    """Return the lines below "Examples:"; a line that ends in a backslash is joined with the next."""
    block = re.search(r"^  Examples:\n((?:    .*\n)+)", text, re.M)
    assert block, text
    return [line.strip() for line in re.sub(r" \\\n\s*", " ", block[1]).splitlines()]


@pytest.mark.parametrize("command", [[], ["data"], *COMMANDS], ids=" ".join)
def test_help_fits_into_80_columns(run: Run, command: list[str]) -> None:
    shown = run(*command, "--help")
    assert shown.code == 0
    assert shown.err == ""
    assert shown == run(*command, "-h")
    assert max(map(len, shown.out.splitlines())) <= 80
    assert "\x1b" not in shown.out
    # No Python types, no braces, no truncated sentence.
    assert not re.search(r"<\w+|\{|\.\.\.$", shown.out.replace("[ARGS]...", ""), re.M)
    assert shown.out.startswith(f"Usage: squad {' '.join(command)}".rstrip() + " ")


def test_without_arguments_it_shows_help(run: Run) -> None:
    assert run() == run("--help")
    assert run("data") == run("data", "--help")
    for name in ("data", *(" ".join(words) for words in COMMANDS if words not in DATA_COMMANDS)):
        assert f"\n  {name} " in run().out


def test_every_command_has_examples(run: Run) -> None:
    for command in COMMANDS:
        for line in examples(run(*command, "--help").out):
            assert "squad" in line.split(), line


def test_every_module_with_a_command_is_in_the_table() -> None:
    """A command has the name of its module, or is named in the table: a forgotten command is an error."""
    in_table = {target.partition(":")[0] for names in TABLE.values() for target in names.values()}
    with_examples = {
        f"squad.cli.{path.stem}"
        for path in Path(cli.__file__).parent.glob("*.py")
        if "\n    Examples:\n      squad " in path.read_text(encoding="utf-8")
    }
    assert with_examples == in_table


def test_the_usage_line_has_arguments_first(run: Run) -> None:
    assert run("predict", "--help").out.startswith("Usage: squad predict MODEL DATA [OPTIONS]\n")


def test_every_command_has_a_summary(run: Run) -> None:
    """One whole sentence per command, not cut off."""
    lines = [line for line in run("--help").out.splitlines() if re.match(r"  [a-z]+( show)?  ", line)]
    summaries = {name.strip(): text for name, text in (re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in lines)}
    assert set(summaries) == {name for names in TABLE.values() for name in names}
    for name, text in summaries.items():
        assert text[0].isupper(), name
        assert text.endswith("."), name
    assert summaries["predict"] == "Predict every row, with confidence and decision."
    assert summaries["strip"] == "Remove hashes of training rows from a saved model."


#: Packages that take long to import, and that no help text needs.
HEAVY = ("numpy", "torch", "pandas", "scipy", "sklearn")


@pytest.mark.parametrize("command", [[], ["fit"]], ids=["squad", "fit"])
def test_help_imports_no_heavy_package(command: list[str]) -> None:
    """``squad --help`` imports the modules of all commands."""
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "squad", *command, "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in shown.stderr.splitlines()}
    assert "typer" in imported
    assert not imported & set(HEAVY)


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that are imported at module level, not in functions or for type checking."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imports_of(node)


def test_no_module_of_the_command_imports_a_heavy_package() -> None:
    folder = Path(cli.__file__).parent
    modules = list(folder.glob("*.py"))
    assert len(modules) > 20
    for path in modules:
        found = {name.partition(".")[0] for name in imports_of(ast.parse(path.read_text(encoding="utf-8")))}
        assert not found & set(HEAVY), path.name


def cpu_seconds(*arguments: str) -> float:
    """Return the CPU time, user and system, of a run of the command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "squad", *arguments], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_is_fast() -> None:
    """It takes about 0.1 s; the limit leaves room for slow machines.  All commands are measured in tests/slow."""
    assert min(cpu_seconds("--help") for _ in range(2)) < 1.0


def test_the_version_is_all_that_is_done(run: Run, here: Path) -> None:
    shown = run("--version", "fit", "train.csv", "--target", "y", "--drop", "patient_id", "--out", "versioned")
    assert shown.code == 0
    assert shown.out.startswith("squad-torch ")
    assert not (here / "versioned").exists()
