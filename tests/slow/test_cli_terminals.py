"""The command on terminals and pipes: a progress bar, limited encodings, a closed pipe."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pandas as pd

from tests.cli.conftest import QUICK, Run
from tests.cli.test_main import COMMAND


class TestRowProgress:
    def test_a_bar_on_a_terminal(self, here: Path) -> None:
        code = (
            "import sys, squad.predictor.row_pass as p, squad.cli.terminal as s; p.CHUNK = 5; s.BAR_AFTER = 0.0\n"
            "from squad.cli import main; sys.exit(main())"
        )
        main, other = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-c", code, "predict", "model", "new.csv", "--out", "a.csv"],
            stderr=other,
            cwd=here,
            env={**os.environ, "TERM": "xterm"},  # a dumb one shows no bar
        )
        os.close(other)
        sent = b""
        try:
            while chunk := os.read(main, 1 << 16):
                sent += chunk
        except OSError:
            pass
        finally:
            process.wait(timeout=60)
            os.close(main)
        assert process.returncode == 0
        assert "predicting" in sent.decode()
        assert "20 rows: 20 uncertified" in sent.decode()


def test_a_terminal_that_lacks_characters(run: Run, here: Path) -> None:
    table = pd.read_csv(here / "train.csv", dtype=str)
    table["y"] = table["y"].replace({"ill": "kränk"})
    table.to_csv(here / "train.csv", index=False)
    assert run("fit", "train.csv", *QUICK, "--out", "made").code == 0
    shown = subprocess.run(
        [*COMMAND, "info", "made"], capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False
    )
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert b"kr\\xe4nk" in shown.stdout


def test_a_closed_pipe_is_not_an_error(here: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        left = subprocess.run(
            [*COMMAND, "predict", "model", "new.csv"], stdout=write, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(write)
    assert left.returncode == 1
    assert left.stderr == b""
