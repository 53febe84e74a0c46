"""Running commands: exit codes, one-line errors, pipes, interrupts."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import squad
from squad import cli
from squad.cli import commands
from squad.errors import ArgumentError
from tests.cli.conftest import Run
from tests.cli.interrupting import end, start

COMMAND = [sys.executable, "-c", "import sys; from squad.cli import main; sys.exit(main())"]


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"squad-torch {squad.__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fti"], ["'fti'", "'fit'", "See squad --help."]),
        (["fit", "train.csv", "--targt", "y"], ["--targt", "--target", "See squad fit --help."]),
        (["fit"], ["DATA", "See squad fit --help."]),
        (["info", "model", "more"], ["more", "See squad info --help."]),
        (["fit", "train.csv", "--members", "x"], ["--members", "See squad fit --help."]),
        (["data", "fetch"], ["NAME", "See squad data fetch --help."]),
        (["data", "lst"], ["'lst'", "'list'", "See squad data --help."]),
        (["--bogus"], ["--bogus", "See squad --help."]),
        (["fit", "train.csv", "--max-epochs", "1e3"], ["--max-epochs must be an integer"]),
        (["plan", "--risk", "2%"], ["--risk must be a number"]),
    ],
)
def test_a_wrong_command_line_is_one_line(run: Run, arguments: list[str], words: list[str]) -> None:
    refusal = run(*arguments).refusal
    for word in words:
        assert word in refusal


class Failing:
    """An application that raises the given error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, **_: object) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ArgumentError("bins, 1"), 2, "squad: bins, 1\n"),
        (ArgumentError("a\nb\x1b[31m"), 2, "squad: a b\\x1b[31m\n"),
        (KeyboardInterrupt(), 130, "squad: stopped.\n"),
        (typer.Abort(), 130, "squad: stopped.\n"),
        (OSError(28, "No space left", "x.checkpoint"), 2, "squad: x.checkpoint cannot be used: No space left.\n"),
        (MemoryError(), 2, "squad: There is not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 2, "squad: There is not enough memory"),
    ],
)
def test_errors_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, line: str
) -> None:
    monkeypatch.setattr(commands, "app", Failing(error))
    assert cli.main([]) == code
    err = capsys.readouterr().err
    assert err.startswith(line)
    assert err.count("\n") == 1


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "app", Failing(RuntimeError("shapes do not match")))
    with pytest.raises(RuntimeError, match="shapes"):
        cli.main([])


def test_ctrl_c_inside_a_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("squad.cli.inputs.read", stopped)
    assert run("predict", "model", "new.csv") == (130, "", "squad: stopped.\n")


def test_as_a_module() -> None:
    """``python -m squad`` has the same exit codes."""
    commands = [[sys.executable, "-m", "squad", *words] for words in (["--version"], ["nonsense", "--help"])]
    version, wrong = (subprocess.run(words, capture_output=True, text=True, check=False) for words in commands)
    assert (version.returncode, version.stdout) == (0, f"squad-torch {squad.__version__}\n")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("squad: ")


def test_pipes_get_plain_text(run: Run) -> None:
    for arguments in (["data", "list"], ["info", "model"], ["evaluate", "model", "test.csv"], ["fit", "--help"]):
        result = run(*arguments)
        assert result.code == 0
        assert "\x1b" not in result.out + result.err
        assert all(len(line) <= 80 for line in result.out.splitlines())


@pytest.mark.parametrize(("number", "after"), [(signal.SIGINT, 0.05), (signal.SIGINT, 0.4), (signal.SIGTERM, 0.3)])
def test_interrupted_while_it_imports(here: Path, number: signal.Signals, after: float) -> None:
    """More moments are in tests/slow/test_interrupts.py."""
    ended = end(start(["info", "model"], here), number, after)
    assert ended == (128 + number, "", "squad: stopped.\n")


def test_ignored_signals_stay_ignored() -> None:
    """As in the background of a shell, or under nohup."""
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); from squad.cli.interrupts import listening\n"
    code += "with listening(True): assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN\n"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert cli.main(["--version"]) == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize(
    "surfaced", [KeyboardInterrupt(), ImportError("numpy failed"), SystemError("no exception set")]
)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_that_surfaces_as_another_error(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    surfaced: BaseException,
    number: signal.Signals,
    code: int,
) -> None:
    def app(**_: object) -> None:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            raise surfaced from None

    monkeypatch.setattr(commands, "app", app)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    try:
        assert cli.main([]) == code
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "squad: stopped.\n"
