"""Decompression bombs, read in processes with little memory."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from squad import artifact
from squad.files.reading import LIMIT
from tests.bounded import bounded
from tests.data.test_bounds import npy, npz

READ = """
from squad.data.tables import read
try:
    print(len(read(sys.argv[1])), "rows")
except SquadError as error:
    print(error)
"""


def test_a_bomb_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb", 9) as file:
        file.write(b"a,b\n")
        for _ in range(100):
            file.write(b"1,2\n" * 250_000)
    assert path.stat().st_size < 120_000
    told = bounded(READ, str(path), megabytes=400)
    assert "unpacks to more than 67,108,864 bytes" in told
    assert LIMIT in told


def test_a_bomb_of_zeros(tmp_path: Path) -> None:
    path = npz(tmp_path / "bomb.npz", x=npy(np.zeros((100_000, 500), np.float32)))
    assert path.stat().st_size < 1_000_000
    assert "unpacks to more than" in bounded(READ, str(path), megabytes=150)


def test_process_substitution(tmp_path: Path) -> None:
    code = "import sys; from squad.data.tables import read; print(len(read(sys.argv[1])))"
    shell = f"{sys.executable} -c '{code}' <(printf 'a,b\\n1,2\\n3,4\\n')"
    run = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout == "2\n", run.stderr


LOAD = """
from squad.artifact import load
try:
    print(len(load(sys.argv[1])))
except SquadError as error:
    print(error)
"""


def test_a_config_that_fills_the_memory(tmp_path: Path) -> None:
    """A few megabytes of brackets, and a hundred megabytes."""
    saved = artifact.save(tmp_path / "model", {"a": torch.zeros(2)}, {})
    plain = json.loads((saved / "config.json").read_text())
    for megabytes, message in ((15, "changed after it was saved"), (100, "at the most"), (2000, "at the most")):
        with open(saved / "config.json", "w") as file:
            file.write(json.dumps(plain)[:-1] + ', "bomb": [')
            if megabytes < 1000:
                file.write("[]," * ((megabytes << 20) // 3 - 1000))
            else:
                file.truncate(megabytes << 20)  # a sparse file
                file.seek(0, os.SEEK_END)
            file.write("[]]}")
        assert message in bounded(LOAD, str(saved), megabytes=1500)
    nested = json.dumps(plain)[:-1] + ', "bomb": ' + "[" * 200_000 + "]" * 200_000 + "}"
    (saved / "config.json").write_text(nested)
    assert "damaged" in bounded(LOAD, str(saved))
