"""Every example of every --help runs as written, and every --help is fast."""

import io
import shlex
import sys
from pathlib import Path

import pytest

from squad.cli import main
from tests.cli.test_help import COMMANDS, cpu_seconds, examples


def test_every_example_runs(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("squad.data.registry.locate_or_fetch", lambda name, *_: here / name)  # nothing is downloaded
    (here / "train.csv").write_text((here / "train.csv").read_text()[:4000].rpartition("\n")[0] + "\n")
    for command in (words for words in COMMANDS if words[0] != "search"):
        main([*command, "--help"])
        for line in examples(capsys.readouterr().out):
            program, *arguments = shlex.split(line)
            piped = b""
            if program == "cat":  # FILE | squad ...
                piped = (here / arguments[0]).read_bytes()
                program, *arguments = arguments[2:]
            assert program == "squad"
            if arguments[0] == "fit" and "model" in arguments:
                arguments.append("--overwrite")  # the files include a model of that name
            target = arguments[-1] if ">" in arguments else ""
            arguments = arguments[: arguments.index(">")] if target else arguments
            with monkeypatch.context() as patch:
                stream = io.StringIO()
                if target:
                    patch.setattr(sys, "stdout", stream)
                if piped:
                    patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
                assert main(arguments) == 0, (line, capsys.readouterr().err)
            if target:
                (here / target).write_text(stream.getvalue())
            seen.append(line)
    assert len(seen) == len(set(seen)) >= 32
    for made in ("model", "ensemble", "by-patient", "digits-model", "other", "the-same", "demo/model"):
        assert (here / made / "config.json").exists()
    assert (here / "answers.parquet").exists()


@pytest.mark.parametrize("command", [["data"], *COMMANDS], ids=" ".join)
def test_help_of_every_command_is_fast(command: list[str]) -> None:
    """0.3 s of CPU time is the aim; the limit leaves room for slow machines."""
    assert min(cpu_seconds(*command, "--help") for _ in range(2)) < 1.0
