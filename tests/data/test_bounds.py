"""Decompression bombs, endless files, and wrong headers."""

import gzip
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from squad.data import csv_reader
from squad.data.column_names import MAX_COMPARED_NAMES, unknown_name_message
from squad.data.tables import Arrays, Table, read
from squad.errors import DataError
from squad.files.reading import LIMIT


def npz(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return path


def npy(array: Any, version: tuple[int, int] = (1, 0)) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), version)
    return buffer.getvalue()


def lying(shape: str, data: bytes = b"") -> bytes:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def test_a_bomb_of_one_value(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "bomb.parquet"
    pd.DataFrame({"a": np.zeros(70_000_000, np.int8)}).to_parquet(path)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(DataError, match=f"unpacks to more than .*{LIMIT}"):
        read(path)


def test_the_limit_can_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1000))
    monkeypatch.setenv(LIMIT, "4003")
    with pytest.raises(DataError, match="unpacks to more than 4,003 bytes"):
        read(path)
    monkeypatch.setenv(LIMIT, "4004")
    assert len(read(path)) == 1000
    monkeypatch.setenv(LIMIT, "lots")
    with pytest.raises(DataError, match=f"{LIMIT} must be a number of bytes.*'lots'"):
        read(path)


@pytest.mark.parametrize(
    "shape", ["(100000000000, 1000)", "(-1, 4)", "(3, 4)", "(2, 5)", "()", "(10**9,)", "(True, 4)"]
)
def test_a_wrong_header(tmp_path: Path, shape: str) -> None:
    (tmp_path / "a.npy").write_bytes(lying(shape, bytes(32)))
    npz(tmp_path / "a.npz", x=lying(shape, bytes(32)))
    for name in ("a.npy", "a.npz"):
        with pytest.raises(DataError, match=name):
            read(tmp_path / name)
    (tmp_path / "a.npy").write_bytes(lying("(2, 4)", bytes(32)))
    assert len(read(tmp_path / "a.npy")) == 2


def test_other_versions_of_arrays(tmp_path: Path) -> None:
    for version in ((1, 0), (2, 0)):
        path = npz(tmp_path / "a.npz", x=npy(np.ones((2, 2)), version), y=npy(["a", "b"], version))
        data = read(path)
        assert isinstance(data, Arrays)
        assert data.x.tolist() == [[1, 1], [1, 1]]


def test_encrypted_and_unsupported_zip_files(tmp_path: Path) -> None:
    """zipfile raises other errors than BadZipFile."""
    path = npz(tmp_path / "a.npz", x=npy(np.ones((2, 2))))
    content = bytearray(path.read_bytes())
    place = content.rindex(b"PK\x01\x02")
    for offset, value in ((8, 1), (10, 99), (10, 97)):  # the flags, the method: in both headers
        changed = bytearray(content)
        changed[place + offset] = changed[offset - 2] = value
        path.write_bytes(changed)
        with pytest.raises(DataError, match="damaged or truncated"):
            read(path)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.npz", "a.npy"])
def test_a_link_to_a_device(tmp_path: Path, name: str) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(DataError, match="not a regular file but a device"):
        read(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).touch()
    with pytest.raises(DataError, match="0 bytes"):
        read(tmp_path / name)
    if name != "a.csv" and name != "a.csv.gz":
        (tmp_path / name).unlink()
        os.mkfifo(tmp_path / name)
        with pytest.raises(DataError, match="a pipe"):
            read(tmp_path / name)


# ---- many columns, long cells


def test_a_header_of_many_columns() -> None:
    """Comparing every name with every other one would take minutes."""
    import time

    header = ",".join(f"c{place}" for place in range(80_000))
    began = time.monotonic()
    assert len(csv_reader._column_names(header, "wide", ",")) == 80_000
    with pytest.raises(DataError, match="'c7' several times"):
        csv_reader._column_names(f"{header},c7", "wide", ",")
    assert time.monotonic() - began < 10


def test_an_unknown_name_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    import difflib

    looked: list[int] = []
    close = difflib.get_close_matches

    def counted(word: str, possibilities: list[str], n: int = 3) -> list[str]:
        looked.append(len(possibilities))
        return close(word, possibilities, n)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    names = [f"c{place}" for place in range(3 * MAX_COMPARED_NAMES)]
    assert "did you mean 'c1'?" in unknown_name_message("C 1", names)
    assert f"did you mean 'c{len(names) - 1}'?" in unknown_name_message(f" C{len(names) - 1}", names)
    assert "no column" in unknown_name_message("x" * 100_000, names)
    assert max(looked) <= MAX_COMPARED_NAMES


def test_wide_and_malformed_rows(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    columns = [f"c{place}" for place in range(3000)]
    row = ",".join(["x"] * 3000)
    path.write_text("\n".join([",".join(columns), row, "1,2", row]))
    table = read(path, strict=False)
    assert isinstance(table, Table)
    assert table.frame.shape == (3, 3000)
    assert list(table.unreadable) == [1]
    assert table.frame.iloc[2].tolist() == ["x"] * 3000


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("more", [0, 1])
def test_both_parsers_agree_on_long_cells(more: int, quoted: bool) -> None:
    cell = "é" * (csv_reader.MAX_CELL + more)
    body = (f'1,"{cell}"\n2,x\n' if quoted else f"1,{cell}\n2,x\n").encode()
    careful = csv_reader._parse_records(body, ["a", "b"], ",", 2, "long")
    parsed = csv_reader.parse(b"a,b\n" + body, "long")
    pd.testing.assert_frame_equal(parsed.frame, careful.frame)
    assert parsed.unreadable == careful.unreadable
    assert list(parsed.unreadable) == ([0] if more else [])
    assert all("131,072 characters" in reason for reason in parsed.unreadable.values())
    assert parsed.frame["b"].tolist()[1] == "x"
    assert more or parsed.frame["b"].tolist()[0] == cell


def test_a_long_line_of_short_cells_is_read_quickly() -> None:
    names = [f"c{place}" for place in range(5000)]
    assert csv_reader._parse_fast((",".join(["1" * 30] * 5000) + "\n").encode(), names, ",", 2) is not None
