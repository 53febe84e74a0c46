"""Output on terminals: wrapped text, tables of facts, coloured prefixes of errors and warnings."""

import os
import subprocess
import sys

import pytest

from squad.cli.terminal import facts, print_wrapped, wrapped
from tests.cli.pseudo_terminal import on_pseudo_terminal

TEXT = (
    "Certified at risk 5 %, confidence level 99 %: accepts 672 of 2,000 calibration cases (33.6 %), 23 of them wrong.\n"
    " - new cases and the 2,000 calibration cases come from the same source, drawn independently;\n"
    "   blue   above 0.5167   220 of 308 (71.4 %)   12 wrong, 12 missed cat, 17 false dog, 30 of another kind"
)


@pytest.mark.parametrize("width", range(30, 121))
def test_lines_are_wrapped_between_words_and_indented(width: int) -> None:
    shown = wrapped(TEXT, width)
    lines = shown.split("\n")
    assert all(len(line) <= width for line in lines)
    assert shown.split() == TEXT.split()
    assert not any(line.lstrip().startswith("%") for line in lines)  # a number and its percent sign stay together
    starts = [line for line in lines if line.startswith((" - ", "   blue", "Certified"))]
    assert len(starts) == 3
    second = lines.index(starts[1])
    assert all(line.startswith("   ") for line in lines[second + 1 :])
    assert wrapped(TEXT, 200) == TEXT


def test_a_long_word_is_not_broken() -> None:
    assert wrapped(f"a {'b' * 50} c", 20) == f"a\n{'b' * 50}\nc"


def test_lines_are_wrapped_on_terminals_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    print_wrapped(TEXT)
    assert capsys.readouterr().out == f"{TEXT}\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    print_wrapped(TEXT)
    assert capsys.readouterr().out == f"{wrapped(TEXT, 60)}\n"


def test_facts_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    facts("it", [("path", "a\nb\x1b")])
    assert "a\\nb\\x1b" in capsys.readouterr().out


RED, YELLOW, RESET = "\x1b[31m", "\x1b[33m", "\x1b[0m"
MESSAGES = (
    "from squad.cli.terminal import print_error, print_message, warn;"
    " print_message('note'); warn('look\\x1b[2J'); print_error('bad', 2)"
)


def stderr_of(code: str, terminal: bool, **variables: str) -> str:
    """Return what Python code prints on stderr, on a pseudo-terminal or in a pipe."""
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    environment |= {"TERM": "xterm", **variables}
    if not terminal:
        return subprocess.run(
            [sys.executable, "-c", code], stderr=subprocess.PIPE, env=environment, check=True
        ).stderr.decode()
    exit_code, sent = on_pseudo_terminal([sys.executable, "-c", code], ("stderr",), env=environment)
    assert exit_code == 0
    return sent.replace("\r\n", "\n")


def test_prefixes_are_coloured_on_a_terminal() -> None:
    note, warning, error = stderr_of(MESSAGES, terminal=True).splitlines()
    assert note == "note"
    assert YELLOW in warning
    assert RED not in warning
    assert RED in error
    assert YELLOW not in error
    for line, prefix, text in ((warning, "warning: ", "look\\x1b[2J"), (error, "squad: ", "bad")):
        coloured, _, rest = line.partition(RESET)
        assert coloured.endswith(prefix)
        assert rest == text  # only the prefix, and nothing that the text brings along


@pytest.mark.parametrize(
    ("terminal", "variables"),
    [(True, {"NO_COLOR": "1"}), (True, {"TERM": "dumb"}), (False, {})],
    ids=["NO_COLOR", "dumb", "pipe"],
)
def test_elsewhere_there_are_no_colours(terminal: bool, variables: dict[str, str]) -> None:
    assert stderr_of(MESSAGES, terminal, **variables) == "note\nwarning: look\\x1b[2J\nsquad: bad\n"


def test_errors_of_the_command_are_red() -> None:
    code = "import sys; sys.argv[1:] = ['bogus', '--help']; from squad.cli import main; assert main() == 2"
    shown = stderr_of(code, terminal=True)
    assert shown.count("\n") == 1
    assert RED in shown
    assert "bogus" in shown
