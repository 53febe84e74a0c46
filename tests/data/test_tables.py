"""Reading and writing tables: cells as written, and a clear answer to everything that is not in order."""

import gzip
import io
import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from squad.data import csv_reader
from squad.data.arrays import Arrays
from squad.data.tables import Table, groups, labels, read, write
from squad.errors import DataError


def table_of(path: Path, content: str | bytes, *, name: str = "data.csv", **options: Any) -> Table:
    file = path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    table = read(file, **options)
    assert isinstance(table, Table)
    return table


def cells(table: Table) -> list[list[str]]:
    return [[str(cell) for cell in row] for row in table.frame.to_numpy()]


def refused(path: Path, content: str | bytes, message: str, *, name: str = "data.csv", **options: Any) -> None:
    with pytest.raises(DataError, match=message) as caught:
        table_of(path, content, name=name, **options)
    assert "\n" not in str(caught.value)


def test_cells_are_read_exactly_as_written(tmp_path: Path) -> None:
    table = table_of(tmp_path, 'a , b,y\n01,NA, x \n1e5,"say ""hi"",\nyou",\n', target="y")
    assert table.columns == ["a", "b", "y"]
    assert cells(table) == [["01", "NA", " x "], ["1e5", 'say "hi",\nyou', ""]]
    assert [table.where(row) for row in range(2)] == ["line 2", "line 3"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("front", [b"", b"\xef\xbb\xbf"])
def test_delimiters_line_ends_and_byte_order_marks(tmp_path: Path, mark: str, end: str, front: bytes) -> None:
    text = end.join(["", f"a{mark}b", "", f"1{mark}é", "  ", f"3,5{mark}4" if mark != "," else "3.5,4"])
    table = table_of(tmp_path, front + text.encode())
    assert table.columns == ["a", "b"]
    assert cells(table) == [["1", "é"], ["3,5" if mark != "," else "3.5", "4"]]
    assert [table.where(row) for row in range(2)] == ["line 4", "line 6"]


def test_tsv_and_gzip(tmp_path: Path) -> None:
    assert cells(table_of(tmp_path, "a\tb,c\n1\t2\n", name="x.tsv")) == [["1", "2"]]
    assert cells(table_of(tmp_path, gzip.compress(b"a,b\n1,2\n"), name="x.CSV.gz")) == [["1", "2"]]
    refused(tmp_path, b"a,b\n1,2\n", "not a gzip file", name="x.csv.gz")
    refused(tmp_path, gzip.compress(b"a,b\n1,2\n" * 100)[:-12], "truncated", name="x.csv.gz")


def test_malformed_lines_keep_their_position(tmp_path: Path) -> None:
    text = 'a,b\n1,2\n1,2,3\n\n4\n"5,6\n7,8\n9,"x"y\n10,"1\n1"\n'
    table = table_of(tmp_path, text, strict=False)
    patterns = {1: "line 3 .*3 fields.* 2", 2: "line 5 .*1 field.* 2", 3: "line 6 .*quote", 5: "line 8 .*quote"}
    assert table.unreadable.keys() == patterns.keys()
    for row, pattern in patterns.items():
        assert re.fullmatch(f"{pattern}.*", table.unreadable[row])
    assert table.frame.isna().all(axis=1).tolist() == [row in table.unreadable for row in range(7)]
    assert table.frame.iloc[[0, 4, 6]].to_numpy().tolist() == [["1", "2"], ["7", "8"], ["10", "1\n1"]]
    assert table.where(6) == "line 9"
    refused(tmp_path, text, r"4 malformed lines: line 3 has .*; line 5 .*; line 6 .*; and 1 more\.")
    refused(tmp_path, "a,b\n1\n", "a malformed line: line 2 has 1 field, the header has 2")


def test_a_file_full_of_broken_quotes_ends_soon(tmp_path: Path) -> None:
    refused(tmp_path, "a,b\n" + '"1,2\n' * 2001, "1000 lines before it", strict=False)


#: Regular files, which the fast parser reads, and arbitrary ones, most of which it declines.
FIELD = st.sampled_from(["", "a", "1", "é", " ", '"x,y"', '"a""b"', '"l\nm"', '"\r"'])
REGULAR = st.lists(st.tuples(FIELD, FIELD, st.sampled_from(["\n", "\r\n", "\n\n"])), max_size=6).map(
    lambda rows: "".join(f"{one},{two}{end}" for one, two, end in rows)
)
PIECES = st.lists(st.sampled_from(["a", "1", "é", ",", '"', '""', "\n", "\r", "\r\n", " ", "\t", "x,y\n"]), max_size=25)


@settings(max_examples=300, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.one_of(REGULAR, PIECES.map("".join)))
def test_the_fast_parser_equals_the_reference(text: str) -> None:
    body = text.encode()
    fast = csv_reader._parse_fast(body, ["one", "two"], ",", 2)
    assume(fast is not None)
    assert fast is not None
    reference = csv_reader._parse_records(body, ["one", "two"], ",", 2, "text")
    pd.testing.assert_frame_equal(fast.frame, reference.frame)
    assert reference.unreadable == {}
    if "\r" not in text:  # the two disagree whether a lone carriage return within quotes ends a line
        assert fast.lines.tolist() == reference.lines.tolist()


def test_the_fast_parser_accepts_regular_files() -> None:
    assert csv_reader._parse_fast(b'1,2\r\n\n"3\n,",4\n"""",', ["one", "two"], ",", 2) is not None


def test_invalid_files_raise_one_line(tmp_path: Path) -> None:
    refused(tmp_path, "", "is empty: it has 0 bytes")
    refused(tmp_path, "\n \n", "is empty.*column names")
    refused(tmp_path, "a,b\n", "header.* no rows")
    refused(tmp_path, "a,b\n\n  \n", "header.* no rows", strict=False)
    refused(tmp_path, "a,b,a,b\n1,2,3,4\n", "'a', 'b' several times")
    refused(tmp_path, ",b\n0,2\n", "column 1 of 2 has none")
    refused(tmp_path, '"a,b\n1,2\n', "column names, got .*quote")
    refused(tmp_path, "a,b\n1,2\n1,é\n".encode("latin-1"), r"0xe9 in line 3 \(offset 10\)")
    refused(tmp_path, "a,b\n1,2\n".encode("utf-16"), "got UTF-16")
    refused(tmp_path, b"a,b\n1,\x002\n", "null byte in line 2")
    refused(tmp_path, "a", "must end in .csv", name="data.xlsx")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="a folder"):
        read(tmp_path / "folder.csv")
    with pytest.raises(DataError, match=r"dat\.csv does not exist\. Its folder has 'data\.csv', 'folder\.csv'\."):
        read(tmp_path / "dat.csv")
    with pytest.raises(DataError, match="no folder"):
        read(tmp_path / "nowhere" / "data.csv")


def test_an_unknown_target_lists_the_columns(tmp_path: Path) -> None:
    message = r"has no column 'Lable'; did you mean 'label'\? The columns are 'age', 'label'\."
    refused(tmp_path, "age,label\n1,2\n", message, target="Lable")
    refused(tmp_path, "age,label\n1,2\n", r"no column 'zzz'\. The columns", target="zzz")


def test_labels_are_text(tmp_path: Path) -> None:
    table = table_of(tmp_path, "a,y\n1,01\n2, yes \n3,5.0\n")
    assert labels(table, "y").tolist() == ["01", "yes", "5.0"]
    typed = {
        "int": ([5, 1], ["5", "1"]),
        "float": ([5.0, 0.5], ["5", "0.5"]),
        "single": (np.asarray([5.0, 0.1], dtype=np.float32), ["5", "0.1"]),
        "bool": ([True, False], ["True", "False"]),
        "mixed": (pd.Series([1, True], dtype=object), ["1", "True"]),
        "decimal": (pd.Series([Decimal("5.00"), Decimal("0.50")], dtype=object), ["5", "0.50"]),
        "category": (pd.Categorical(["b", "a"]), ["b", "a"]),
        "nullable": (pd.array([5, 6], dtype="Int64"), ["5", "6"]),
        "bytes": (pd.Series([b"a", b"b"], dtype=object), ["a", "b"]),
    }
    for name, (column, expected) in typed.items():
        assert labels(Table.of(pd.DataFrame({name: column})), name).tolist() == expected
    for y in ([5, 6], [5.0, 6.0], ["5", " 6"]):
        assert labels(Arrays(np.zeros((2, 1)), np.asarray(y))).tolist() == ["5", "6"]


def test_missing_labels_are_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path, "a,y\n1,x\n2,\n3,NA\n")
    with pytest.raises(DataError, match=r"2 labels are missing in .*, the first in line 3\."):
        labels(table, "y")
    assert labels(table, "y", strict=False).tolist() == ["x", "", ""]
    with pytest.raises(DataError, match="A label is missing in table, the first in row 2"):
        labels(Table.of(pd.DataFrame({"y": [1.0, None]})), "y")
    with pytest.raises(DataError, match="A label is missing in arrays, the first in row 1"):
        labels(Arrays(np.zeros((2, 1)), np.asarray([np.nan, 1])))
    with pytest.raises(DataError, match="no labels"):
        labels(Arrays(np.zeros((2, 1)), None))
    with pytest.raises(DataError, match=r"target.*'a', 'y'"):
        labels(table)


def test_groups_are_text_and_complete(tmp_path: Path) -> None:
    table = table_of(tmp_path, "p,y\n 7,x\n8,x\n,x\n")
    with pytest.raises(DataError, match=r"column 'p' of .* 1 of 3 rows, the first in line 4"):
        groups(table, "p")
    assert groups(Table.of(table.frame[:2]), "p").tolist() == ["7", "8"]


def test_parquet(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [True, False]}, index=[5, 6])
    frame.to_parquet(tmp_path / "d.parquet")
    table = read(tmp_path / "d.parquet", target="b")
    assert isinstance(table, Table)
    assert table.columns == ["a", "b", "c"]  # and not pandas' index
    assert table.frame["a"].tolist() == [1, 2]
    assert table.where(1) == "row 2"
    content = (tmp_path / "d.parquet").read_bytes()
    refused(tmp_path, content[:-20], "not a Parquet file, or is damaged", name="d.parquet")
    refused(tmp_path, b"a,b\n1,2\n", "not a Parquet file", name="d.parquet")
    frame[:0].to_parquet(tmp_path / "e.parquet")
    with pytest.raises(DataError, match="no rows"):
        read(tmp_path / "e.parquet")
    with pytest.raises(DataError, match="no column 'z'"):
        read(tmp_path / "e.parquet", target="z")


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused(tmp_path, b"PAR1", r"pip install 'squad-torch\[parquet\]'", name="d.parquet")
    with pytest.raises(DataError, match=r"squad-torch\[parquet\]"):
        write(pd.DataFrame({"a": [1]}), tmp_path / "e.parquet")


def test_duplicate_columns_of_a_frame() -> None:
    with pytest.raises(DataError, match="'1' several times"):
        Table.of(pd.DataFrame([[1, 2]], columns=[1, "1"]))


def test_npz_and_npy(tmp_path: Path) -> None:
    x, y = np.arange(6).reshape(3, 2), np.asarray(["a", "b", "c"])
    files: list[dict[str, Any]] = [{"x": x, "y": y}, {"X": x, "labels": y}, {"x": x, "kind": y}]
    for names in files:
        np.savez(tmp_path / "d.npz", **names)
        data = read(tmp_path / "d.npz", target="kind" if "kind" in names else None)
        assert isinstance(data, Arrays)
        assert data.x.tolist() == x.tolist()
        assert labels(data).tolist() == ["a", "b", "c"]
        assert len(data) == 3
    np.save(tmp_path / "d.npy", x)
    data = read(tmp_path / "d.npy")
    assert isinstance(data, Arrays)
    assert data.y is None
    with pytest.raises(DataError, match="Write an NPZ file with x and y"):
        read(tmp_path / "d.npy", target="y")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": np.zeros((2, 2))}, r"'x' or 'X', got 'a'\."),
        ({"x": np.zeros((2, 2)), "X": np.zeros((2, 2))}, "got both 'x', 'X'"),
        ({"x": np.zeros((2, 2)), "y": np.zeros(2), "labels": np.zeros(2)}, "both 'y', 'labels'. Name the target"),
        ({"x": np.zeros((2, 2)), "y": np.zeros(3)}, r"labels .*\(2,\).*got \(3,\)"),
        ({"x": np.zeros((2, 2)), "y": np.zeros((2, 3))}, r"got \(2, 3\)\. .*one-hot.*argmax"),
        ({"x": np.zeros((2, 2)), "y": np.zeros(2, dtype=complex)}, "labels .*integers or text, got complex128"),
        ({"x": np.zeros(2)}, r"\(rows, features\).*got \(2,\)"),
        ({"x": np.zeros((0, 2))}, r"at least one row and one feature, got shape \(0, 2\)"),
        ({"x": np.asarray([["a"]])}, "array of numbers"),
        ({"x": np.asarray([[None]], dtype=object)}, "got pickled objects"),
    ],
)
def test_unusable_arrays(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    refused(tmp_path, buffer.getvalue(), message, name="d.npz")


def test_damaged_arrays(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=np.arange(1000).reshape(-1, 2))
    content = buffer.getvalue()
    refused(tmp_path, content[:-30], "not an NPZ file, or is truncated", name="d.npz")
    refused(tmp_path, content[:200] + bytes(50) + content[250:], "damaged or truncated", name="d.npz")
    refused(tmp_path, content, "no array 'y'. The arrays are 'x'", name="d.npz", target="y")
    buffer = io.BytesIO()
    np.save(buffer, np.arange(1000).reshape(-1, 2))
    refused(tmp_path, buffer.getvalue()[:-30], "damaged or truncated", name="d.npy")
    refused(tmp_path, b"hello", "not an NPY file", name="d.npy")
    np.save(buffer := io.BytesIO(), np.asarray([[None]], dtype=object))
    refused(tmp_path, buffer.getvalue(), "pickled objects", name="d.npy")


TEXT = st.text(st.sampled_from('ab1é ,;"\t\n\r'), max_size=5)


@settings(max_examples=50)
@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(TEXT, min_size=n, max_size=n), min_size=1, max_size=4)))
def test_written_tables_are_read_unchanged(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    folder = tmp_path_factory.getbasetemp()
    columns = ["one", "two", "3"][: len(rows[0])]
    frame = pd.DataFrame(rows, columns=columns, dtype=str)
    for name in ("r.csv", "r.tsv", "r.csv.gz", "r.parquet"):
        with patch("os.fsync"):  # which takes most of the time
            table = read(write(frame, folder / name))
        assert isinstance(table, Table)
        assert table.columns == columns
        assert cells(table) == rows


def test_writing_is_atomic(tmp_path: Path) -> None:
    file = tmp_path / "new" / "d.csv"
    write(pd.DataFrame({"a": ["1"]}), file)
    assert file.read_text() == '"a"\n"1"\n'
    before = write(pd.DataFrame({"a": ["1"]}), tmp_path / "d.csv.gz").read_bytes()
    assert write(pd.DataFrame({"a": ["1"]}), tmp_path / "d.csv.gz").read_bytes() == before

    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    with pytest.raises(RuntimeError):
        write(pd.DataFrame({"a": [Broken()]}), file)
    assert [entry.name for entry in file.parent.iterdir()] == ["d.csv"]
    assert file.read_text() == '"a"\n"1"\n'
    with pytest.raises(DataError, match=r"must end in \.csv"):
        write(pd.DataFrame({"a": ["1"]}), tmp_path / "d.npz")
    with pytest.raises(DataError, match="cannot be written"):
        write(pd.DataFrame({"a": ["1"]}), file / "inside.csv")
