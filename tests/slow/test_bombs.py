"""Small files that become large, in processes that have little memory."""

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np

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
