"""--help: what it looks like; that its examples run is in tests/slow."""

import re

import pytest

from tests.cli.conftest import Run

COMMANDS = (
    ["split"],
    ["fit"],
    ["evaluate"],
    ["plan"],
    ["recalibrate"],
    ["certify"],
    ["predict"],
    ["report"],
    ["inspect"],
    ["info"],
    ["strip"],
    ["keygen"],
    ["sign"],
    ["verify"],
    ["data", "list"],
    ["data", "fetch"],
    ["demo"],
)  # in an order in which every example finds what it needs


def examples(text: str) -> list[str]:
    """The lines below "Examples:", those that end in a backslash joined with the next."""
    block = re.search(r"^  Examples:\n((?:    .*\n)+)", text, re.M)
    assert block, text
    return [line.strip() for line in re.sub(r" \\\n\s*", " ", block[1]).splitlines()]


@pytest.mark.parametrize("command", [[], ["data"], ["search"], *COMMANDS], ids=" ".join)
def test_help_fits_into_80_columns(run: Run, command: list[str]) -> None:
    shown = run(*command, "--help")
    assert shown.code == 0
    assert shown.err == ""
    assert shown == run(*command, "-h")
    assert max(map(len, shown.out.splitlines())) <= 80
    assert "\x1b" not in shown.out
    # No Python types, no braces, no sentence that was cut.
    assert not re.search(r"<\w+|\{|\.\.\.$", shown.out.replace("[ARGS]...", ""), re.M)
    assert shown.out.startswith(f"Usage: squad {' '.join(command)}".rstrip() + " ")


def test_alone_it_shows_help(run: Run) -> None:
    assert run() == run("--help")
    assert run("data") == run("data", "--help")
    for name in ("demo", "fit", "certify", "plan", "predict", "evaluate", "report", "info", "strip", "split", "data"):
        assert f"\n  {name} " in run().out


def test_the_usage_line_is_as_it_is_typed(run: Run) -> None:
    assert run("predict", "--help").out.startswith("Usage: squad predict MODEL DATA [OPTIONS]\n")
