"""Encodings, decimal commas, pipes and standard input."""

import gzip
import io
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from squad.data import tables
from squad.data.tables import Table, read, write
from squad.errors import ArgumentError, DataError
from squad.files.reading import LIMIT


def cells(path: Any, **options: Any) -> list[list[str]]:
    table = read(path, **options)
    assert isinstance(table, Table)
    return [[str(cell) for cell in row] for row in table.frame.to_numpy()]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8", "utf-8-sig", "utf-32"])
def test_other_encodings(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("name;größe\nJosé;1\nZoë;2\n".encode(encoding))
    table = read(path, encoding=encoding, target="größe")
    assert isinstance(table, Table)
    assert table.columns == ["name", "größe"]
    assert cells(path, encoding=encoding) == [["José", "1"], ["Zoë", "2"]]
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress("a\tb\né\t1\n".encode(encoding)))
    assert cells(tmp_path / "a.tsv.gz", encoding=encoding) == [["é", "1"]]


def test_decoding_errors_name_the_option(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("a,b\n1,é\n".encode("cp1252"))
    with pytest.raises(DataError, match=r"0xe9 .*--encoding cp1252"):
        read(path)
    path.write_bytes("a,b\n1,é\n".encode("utf-16"))
    with pytest.raises(DataError, match=r"UTF-16.*--encoding utf-16"):
        read(path)
    path.write_bytes(b"a,b\n1,\x81\n")
    with pytest.raises(DataError, match=r"cp1252.* 0x81 at offset 6"):
        read(path, encoding="cp1252")
    for wrong in ("klingon", "hex", "rot13", "", "a\0b"):
        with pytest.raises(DataError, match=r"encoding must be .*got"):
            read(path, encoding=wrong)


def test_surrogates_cannot_be_written(tmp_path: Path) -> None:
    """Surrogates stand for bytes that could not be decoded; UTF-8 cannot encode them."""
    frame = pd.DataFrame({"y": pd.Series(["caf\udce9"], dtype=object), "a": [1]})
    for name in ("a.csv", "a.tsv.gz", "a.parquet"):
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        with pytest.raises(DataError, match=rf"{name} cannot be written"):
            write(frame, tmp_path / name)
    assert os.listdir(tmp_path) == []


# ---- decimal commas


def test_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x;y;name, first\n3,14;1.234,5;a,b\n-,5;1.234;c\n 1e3 ; 2,;3,x\n+1,5e-3;NA;1.2.3\n")
    assert cells(path, decimal=",") == [
        ["3.14", "1234.5", "a,b"],
        ["-.5", "1234", "c"],
        [" 1e3 ", " 2.", "3,x"],
        ["+1.5e-3", "NA", "1.2.3"],
    ]
    (tmp_path / "q.csv").write_text('a,b\n"1,5","2,5"\n')
    assert cells(tmp_path / "q.csv", decimal=",") == [["1.5", "2.5"]]


def test_the_round_trip_of_an_export(tmp_path: Path) -> None:
    """Numbers exported with decimal commas survive reading and writing."""
    numbers = [3.14, -0.001, 1234567.5, 2.0, 1e-9]
    frame = pd.DataFrame({"a": numbers, "label": list("xyxyx")})
    frame.to_csv(tmp_path / "europe.csv", sep=";", decimal=",", index=False, encoding="cp1252")
    table = read(tmp_path / "europe.csv", decimal=",", encoding="cp1252")
    assert isinstance(table, Table)
    again = read(write(table.frame, tmp_path / "ours.csv"))
    assert isinstance(again, Table)
    assert [float(cell) for cell in again.frame["a"]] == numbers
    pd.testing.assert_frame_equal(again.frame, table.frame)


def test_decimal_commas_next_to_text_and_malformed_lines(tmp_path: Path) -> None:
    """A cell that is not a number, or a malformed line, does not affect the others."""
    path = tmp_path / "a.csv"
    path.write_text("x;y\n3,14;1\nunknown;2\n5;6;7\n2,5;3\n")
    table = read(path, decimal=",", strict=False)
    assert isinstance(table, Table)
    assert table.frame["x"].iloc[[0, 1, 3]].tolist() == ["3.14", "unknown", "2.5"]
    assert table.frame.isna().all(axis=1).tolist() == [False, False, True, False]
    assert list(table.unreadable) == [2]


def test_points_and_commas_in_one_column(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x;y\n3,14;1\n12.5;2\n")
    with pytest.raises(DataError, match=r"'x' of .* has '3,14' and '12\.5'"):
        read(path, decimal=",")
    path.write_text("x;y\n1.234;1\n0.234;2\n")
    with pytest.raises(DataError, match=r"has '1\.234' and '0\.234'"):
        read(path, decimal=",")
    path.write_text("version;x\n0.5;1,5\n0.6;2,5\n")  # a column without commas stays as it is
    assert cells(path, decimal=",") == [["0.5", "1.5"], ["0.6", "2.5"]]


def test_csv_options_are_refused_for_other_formats(tmp_path: Path) -> None:
    for name in ("a.npz", "a.npy", "a.parquet"):
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(ArgumentError, match=r"decimal .*CSV and TSV.* got ','"):
            read(tmp_path / name, decimal=",")
        with pytest.raises(ArgumentError, match=r"encoding .*CSV and TSV.* got 'utf-8'"):
            read(tmp_path / name, encoding="utf-8")
    with pytest.raises(ArgumentError, match=r"decimal must be .* got ';'"):
        read(tmp_path / "a.csv", decimal=";")


# ---- pipes


class Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (b"a,b\n1,2\n", gzip.compress(b"a,b\n1,2\n")):
        for name in ("-", "/dev/stdin"):
            monkeypatch.setattr(sys, "stdin", Stdin(data))
            assert cells(name) == [["1", "2"]]
    monkeypatch.setattr(sys, "stdin", Stdin(b"a;b\n1,5;2\n"))
    assert cells("-", decimal=",") == [["1.5", "2"]]
    for data, message in (
        (b"", "standard input is empty: it has 0 bytes"),
        (b"a,b\n", "standard input has a header.* no rows"),
        (b"a,b\n1\n", "standard input has a malformed line: line 2"),
        (b"PK\x03\x04\x00\x00", "standard input must be text"),
        (b"\x1f\x8b\x08damaged", "standard input is not a gzip file"),
    ):
        monkeypatch.setattr(sys, "stdin", Stdin(data))
        with pytest.raises(DataError, match=message):
            read("-")


def test_standard_input_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_STREAM_BYTES", 7)
    monkeypatch.setattr(sys, "stdin", Stdin(b"a,b\n1,2\n"))
    with pytest.raises(DataError, match=f"standard input cannot be read: .*more than 7 bytes.*{LIMIT}"):
        read("-")
    monkeypatch.setenv(LIMIT, "1K")
    monkeypatch.setattr(sys, "stdin", Stdin(b"a,b\n1,2\n"))
    assert cells("-") == [["1", "2"]]


def test_named_pipes(tmp_path: Path) -> None:
    """Read as CSV whatever their name: the shell's <(...) has none."""
    for name in ("pipe", "pipe.csv"):
        path = tmp_path / name
        os.mkfifo(path)
        writer = threading.Thread(target=lambda path=path: path.write_bytes(b"a,b\n1,2\n"))
        writer.start()
        assert cells(path) == [["1", "2"]]
        writer.join()


FAST = """
import os, sys, threading, time
from pathlib import Path
from squad.data.tables import read
from squad.files import reading

path = Path(sys.argv[1])
os.mkfifo(path)
threading.Thread(target=lambda: path.write_bytes(b"a,b\\n1,2\\n")).start()
plain = os.fstat

def late(handle):
    time.sleep(0.3)  # the writer has closed the pipe by now
    return plain(handle)

reading.os.fstat = late
print(read(path).frame.to_numpy().tolist())
"""


def test_a_pipe_whose_writer_has_ended(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAST, str(tmp_path / "pipe")], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "[['1', '2']]\n", done.stderr


def test_anonymous_and_empty_pipes() -> None:
    """Pipes made by the shell, with and without content."""
    code = """
import sys
from squad.data.tables import read
from squad.errors import DataError
for path in sys.argv[1:]:
    try:
        print(len(read(path).frame))
    except DataError as error:
        print(error)
"""
    pipes = r"<(printf 'a,b\n1,2\n') <(sleep .2; printf 'a\n1\n2\n') <(true)"
    line = f"{sys.executable} -c '{code}' {pipes}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    one, two, empty = done.stdout.splitlines()
    assert (one, two) == ("1", "2"), done.stderr
    assert "is empty" in empty
