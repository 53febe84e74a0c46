"""Signatures end to end: the command in its own process."""

import os
import subprocess
import sys
from pathlib import Path


def test_a_valid_and_a_tampered_model(here: Path) -> None:
    def squad(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "squad", *arguments], capture_output=True, text=True, cwd=here, check=False
        )

    certify = ("certify", "model", "calibration.csv", "--risk", ".2", "--delta", ".1", "--all-rows")
    for command in (certify, ("keygen", "key.pem"), ("sign", "model", "--key", "key.pem")):
        done = squad(*command)
        assert done.returncode == 0, done.stderr
    good = squad("predict", "model", "new.csv", "--public-key", "key.pub", "--out", "answers.csv")
    assert good.returncode == 0, good.stderr
    assert (here / "answers.csv").exists()
    weights = here / "model" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(bytes(content))
    bad = squad("verify", "model", "--public-key", "key.pub")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "model.safetensors was changed" in bad.stderr
    if os.name == "posix":
        assert (here / "key.pem").stat().st_mode & 0o777 == 0o600
