"""Encoding of tables and arrays: missing values, unseen categories, dates, extreme numbers, and saved transforms."""

import json
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from squad.data.array_transform import ArrayTransform
from squad.data.csv_reader import parse
from squad.data.tables import Table, read
from squad.data.transforms import Encoded, TableTransform, from_json
from squad.errors import DataError


def csv(text: str) -> Table:
    parsed = parse(text.encode(), "data.csv")
    return Table(parsed.frame, "data.csv", parsed.unreadable, parsed.lines)


def column(name: str, values: list[Any]) -> Table:
    """A table with one column, a second one that varies, and a target."""
    return csv(f"{name},other,y\n" + "".join(f"{value},{row},{row % 2}\n" for row, value in enumerate(values)))


def refused(table: Table, message: str, **options: Any) -> None:
    with pytest.raises(DataError, match=message) as caught:
        TableTransform.fit(table, "y", **options)
    assert "\n" not in str(caught.value)


TRAIN = csv("age,sex,gone,same,y\n10,f,1,k,a\n20,m,,k,b\n30,f,3,k,a\n40,m,5,k,b\n")
FITTED = TableTransform.fit(TRAIN, "y")


def test_numbers_are_standardized_and_categories_one_hot() -> None:
    x = FITTED.apply(TRAIN).x
    assert x.dtype == np.float32
    assert FITTED.features == x.shape[1] == 5
    age = (np.asarray([10, 20, 30, 40]) - 25) / np.sqrt(125)
    gone = (np.asarray([1, 3, 3, 5]) - 3) / np.sqrt(8 / 3)  # the missing one is the mean
    np.testing.assert_allclose(x[:, 0], age, rtol=1e-6)
    assert x[:, 1:3].tolist() == [[1, 0], [0, 1], [1, 0], [0, 1]]
    np.testing.assert_allclose(x[:, 3], gone, rtol=1e-6)
    assert x[:, 4].tolist() == [0, 1, 0, 0]
    assert FITTED.constant == ("same",)
    (note,) = FITTED.notes
    assert re.match("Column 'same' is constant", note)


def test_other_columns_in_another_order_and_without_the_target() -> None:
    # "same" is not needed either, since it is not used.
    table = csv("new,gone,sex,age\nx,1,f,10\n")
    assert FITTED.apply(table).x.tolist() == FITTED.apply(TRAIN).x[:1].tolist()
    with pytest.raises(DataError, match=r"no column 'sex'; did you mean 'Sex'\? The columns are"):
        FITTED.apply(csv("Sex,gone,age\nf,1,10\n"))
    with pytest.raises(DataError, match=r"lacks 'age', 'gone'\..* 'sex', 'y'"):
        FITTED.apply(csv("sex,y\nf,1\n"))


def test_invalid_rows_are_problems() -> None:
    long = "z" * 50
    rows = ["10,f,1", ",f,1", "abc,f,1", "inf,f,1", "10,x,1", "10,,1", f"10,{long},", "1e300,f,1", "1,2", "?,x,w"]
    encoded = FITTED.apply(csv("age,sex,gone\n" + "\n".join(rows) + "\n"))
    empty = "column {!r} is empty, which did not occur in training".format
    assert encoded.problems == {
        1: empty("age"),
        2: "column 'age' must be a number, got 'abc'",
        3: "column 'age' must be a finite number, got inf",
        4: "column 'sex' is 'x', which was not seen in training",
        5: empty("sex"),
        6: f"column 'sex' is '{'z' * 37}...', which was not seen in training",
        7: "column 'age' is 1e+300, too far from its mean in training, 25",
        8: "line 10 has 2 fields, the header has 3",
        9: f"{empty('age')}; column 'sex' is 'x', which was not seen in training; column 'gone' must be a number, got"
        " 'w'",
    }
    assert np.isfinite(encoded.x).all()
    assert (encoded.x[1:] == 0).all()
    assert encoded.x[0].any()


def test_missing_values_of_training() -> None:
    fitted = TableTransform.fit(column("c", ["a", "b", "NA", " ?", "a"]), "y")
    x = fitted.apply(column("c", ["", "None", "b", "c"])).x
    assert x[:, :3].tolist() == [[0, 0, 1], [0, 0, 1], [0, 1, 0], [0, 0, 0]]
    # A constant number that is sometimes missing: only the indicator varies.
    fitted = TableTransform.fit(column("n", ["7", "", "7", "null"]), "y")
    encoded = fitted.apply(column("n", ["7", "", "8"]))
    assert encoded.x[:, 0].tolist() == [0, 1, 0]
    assert fitted.features == 2
    assert TableTransform.fit(column("n", ["", "NA", "nan"]), "y").constant == ("n",)


def test_unusable_training_columns() -> None:
    refused(column("n", ["1", "inf", "-Infinity"]), r"'n' of data\.csv must be finite, got inf in line 3 \(2 ")
    refused(column("n", ["1", "1e999"]), "must be finite")
    refused(
        column("n", [*range(30), "x"]),
        r"has 30 numbers and 1 other cell: 'x' in line 32\. .* --drop n",
    )
    refused(column("my n", [*range(60), "x", "w"]), r"2 other cells: 'x' in .*; 'w' in .* --drop 'my n'")
    refused(column("t", [f"name {i}" for i in range(101)]), "got 101 distinct texts, such as 'name 0'.*--drop t")
    refused(csv("n;y\n3,14;a\n2,5;b\n1,0;a\n"), r"commas: '3,14' in line 2; .*--decimal ,")
    refused(csv("k,y\n1,a\n1,b\n"), r"besides the target, got only constant columns \('k'\)")
    refused(csv("k,y\n1,a\n2,b\n"), "besides the target, got no other column", drop=["k"])
    refused(csv("k,y\n1,a\n2,b\n"), "no column 'K'; did you mean 'k'", drop=["K"])
    refused(csv("k,y\n1,a\n2,b\n"), "target 'y' cannot be dropped as well", drop=["y"])
    refused(csv("k,y\n1,a\n2,b\n"), "target 'y' cannot be the group as well", group="y")
    refused(csv("k,y\n1,a\n2\n"), "unreadable row: line 3 has 1 field")
    refused(Table.of(pd.DataFrame({"k": [], "y": []})), "at least one row")


def test_text_with_some_numbers_is_a_category() -> None:
    fitted = TableTransform.fit(column("c", ["1", "2", "unknown", "1"]), "y")
    assert fitted.to_json()["columns"][0] == {
        "kind": "category",
        "name": "c",
        "values": ["1", "2", "unknown"],
        "missing": False,
    }
    assert TableTransform.fit(column("c", [f"k{i % 100}" for i in range(200)]), "y").features == 101


@pytest.mark.parametrize("text", ["1_000", "٣", "0x10", "1 2", "--1"])
def test_texts_that_are_not_numbers(text: str) -> None:
    fitted = TableTransform.fit(column("n", ["1", "2"]), "y")
    assert fitted.apply(column("n", [text])).problems == {0: f"column 'n' must be a number, got {text!r}"}


def test_group_and_dropped_columns_are_not_features() -> None:
    fitted = TableTransform.fit(TRAIN, "y", drop=["sex"], group="gone")
    assert [one.name for one in fitted.columns] == ["age"]
    assert fitted.dropped == ("sex", "gone")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([-1.7e308, 1.7e308], [-1.0, 1.0]),
        ([1e-200, 3e-200], [-1.0, 1.0]),
        ([1.7e308, 1.7e308, 1.7e308, -1.7e308], [0.57735, 0.57735, 0.57735, -1.73205]),
        ([1e15, 1e15 + 2], [-1.0, 1.0]),
        ([2**60, 2**60 + 2**20], [-1.0, 1.0]),
    ],
)
def test_numbers_of_any_size(values: list[float], expected: list[float]) -> None:
    encoded = TableTransform.fit(column("n", values), "y").apply(column("n", values))
    np.testing.assert_allclose(encoded.x[:, 0], expected, rtol=1e-5)
    flat = np.asarray(values, dtype=np.float64)[:, None]
    np.testing.assert_allclose(ArrayTransform.fit(flat).apply(flat).x[:, 0], expected, rtol=1e-5)


def test_typed_columns() -> None:
    frame = pd.DataFrame(
        {
            "b": [True, False, True],
            "maybe": pd.Series([True, None, False], dtype=object),
            "i": pd.array([1, None, 3], dtype="Int64"),
            "f": [1.5, np.nan, 2.5],
            "c": pd.Categorical(["u", "v", None]),
            "k": pd.Categorical([3, 4, 3]),
            "y": ["a", "b", "a"],
        }
    )
    fitted = TableTransform.fit(Table.of(frame), "y")
    kinds = {one["name"]: (one["kind"], one["missing"]) for one in fitted.to_json()["columns"]}
    assert kinds == {
        "b": ("category", False),
        "maybe": ("category", True),
        "i": ("number", True),
        "f": ("number", True),
        "c": ("category", True),
        "k": ("number", False),
    }
    # The same rows from CSV.
    text = "b,maybe,i,f,c,k\nTrue,True,1,1.5,u,3\nFalse,,,,v,4.0\nTrue,False,3,2.5,,3\n"
    assert fitted.apply(csv(text)).x.tolist() == fitted.apply(Table.of(frame)).x.tolist()
    # Numbers in a column of categories go by their text.
    fitted = TableTransform.fit(column("c", ["1", "2", "x"]), "y")
    numbers = Table.of(pd.DataFrame({"c": [2.0, 1.0, 3.0], "other": [0, 1, 2]}))
    assert fitted.apply(numbers).x[:, :3].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert fitted.apply(numbers).problems == {2: "column 'c' is '3', which was not seen in training"}


@pytest.mark.parametrize(
    ("values", "what"),
    [
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), "dates or times"),
        (pd.to_timedelta([1, 2], unit="h"), "dates or times"),
        (pd.Series([pd.Timestamp("2020-01-01").date(), None], dtype=object), "dates or times"),
        (pd.Series([[1], [2]], dtype=object), "objects such as lists"),
        (pd.Series([1j, 2j]), "objects such as lists"),
    ],
)
def test_dates_and_objects_are_refused(values: Any, what: str) -> None:
    frame = pd.DataFrame({"when": values, "y": ["a", "b"]})
    refused(Table.of(frame), f"Column 'when' of table must hold numbers or categories, got {what}.*--drop when")
    fitted = TableTransform.fit(csv("when,y\n1,a\n2,b\n"), "y")
    with pytest.raises(DataError, match=f"must hold numbers, got {what}"):
        fitted.apply(Table.of(frame))


def test_dates_and_decimals_from_parquet(tmp_path: Path) -> None:
    frame = pd.DataFrame({"d": pd.to_datetime(["2020-01-01", None]).date, "y": ["a", "b"]})
    frame.to_parquet(tmp_path / "d.parquet")
    table = read(tmp_path / "d.parquet")
    assert isinstance(table, Table)
    refused(table, "dates or times")
    frame = pd.DataFrame({"d": [Decimal("1.5"), None, Decimal("2.50")], "y": ["a", "b", "a"]})
    frame.to_parquet(tmp_path / "d.parquet")
    table = read(tmp_path / "d.parquet")
    assert isinstance(table, Table)
    assert TableTransform.fit(table, "y").apply(table).x.tolist() == [[-1, 0], [0, 1], [1, 0]]


def same(one: Encoded, other: Encoded) -> bool:
    return one.x.tobytes() == other.x.tobytes() and one.problems == other.problems


CELL = st.one_of(
    st.sampled_from(["", "NA", "x", "y", "1_0", "inf", " 2 "]), st.floats(width=64).map(repr), st.integers().map(str)
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=8))
def test_a_rows_encoding_is_independent_of_other_rows(rows: list[tuple[str, str]]) -> None:
    for kind in (["1", "2", "", "5"], ["x", "y", "", "x"]):
        fitted = TableTransform.fit(column("n", kind), "y", drop=["other"])
        whole = fitted.apply(Table.of(pd.DataFrame({"n": [row[0] for row in rows]})))
        assert np.isfinite(whole.x).all()
        for place, row in enumerate(rows):
            alone = fitted.apply(Table.of(pd.DataFrame({"n": [row[0]]})))
            assert alone.x.tobytes() == whole.x[place].tobytes()
            assert alone.problems.get(0) == whole.problems.get(place)


def test_transforms_survive_json() -> None:
    for transform in (FITTED, ArrayTransform.fit(np.random.default_rng(0).random((5, 4, 4, 3)))):
        again = from_json(json.loads(json.dumps(transform.to_json(), allow_nan=False)))
        assert again == transform
    assert same(FITTED.apply(TRAIN), TableTransform.from_json(FITTED.to_json()).apply(TRAIN))


def edited(**changes: Any) -> dict[str, Any]:
    return {**FITTED.to_json(), **changes}


def edited_column(place: int, **changes: Any) -> dict[str, Any]:
    columns = FITTED.to_json()["columns"]
    columns[place] = {**columns[place], **changes}
    return edited(columns=columns)


ARRAY = {"kind": "array", "shape": [2], "mean": [0.0, 1.0], "std": [1.0, 0.0]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "must be a JSON object, got None"),
        ([1], "must be a JSON object"),
        ({}, "must have the entry 'kind', got"),
        ({"kind": "code"}, "'table' or 'array', got 'code'"),
        (edited(target=3), "'target' of a saved table transform must be text, got 3"),
        (edited(columns={}), "'columns' of a saved table transform must be a list"),
        (edited(columns=[]), "must have columns"),
        (edited(constant=["age"]), "unique among target, columns, constant"),
        (edited(dropped=[3]), "unique among target, columns, constant"),
        (edited_column(0, kind="date"), "'number' or 'category', got 'date'"),
        (edited_column(0, mean="x"), "'mean' of a saved column must be a finite number"),
        (edited_column(0, mean=math.nan), "'mean' of a saved column must be a finite number"),
        (edited_column(0, std=True), "'std' of a saved column must be a finite number"),
        (edited_column(0, std=-1.0), "must not be negative"),
        (edited_column(0, std=0.0), "at least one feature"),
        (edited_column(0, missing="no"), "true or false"),
        (edited_column(1, values=["m", "f"]), "distinct texts in ascending order"),
        (edited_column(1, values=["f", "f"]), "distinct texts in ascending order"),
        (edited_column(1, values=[1, 2]), "distinct texts in ascending order"),
        ({**ARRAY, "shape": [2, 0]}, "positive integers"),
        ({**ARRAY, "shape": []}, "positive integers"),
        ({**ARRAY, "shape": [3]}, "must have 3 numbers, got 2 and 2"),
        ({**ARRAY, "std": [1.0, -1.0]}, "finite numbers, and 'std' not negative"),
        ({**ARRAY, "mean": [0.0, None]}, "finite numbers"),
        ({**ARRAY, "mean": [0.0, math.inf]}, "finite numbers"),
    ],
)
def test_an_edited_transform_is_refused(data: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_json(data)


def test_flat_arrays_by_feature() -> None:
    x = np.asarray([[1.0, 5.0, 0.0], [3.0, 5.0, 10.0]])
    transform = ArrayTransform.fit(x)
    assert transform.apply(x).x.tolist() == [[-1, 0, -1], [1, 0, 1]]
    assert transform.features == 3
    (note,) = transform.notes
    assert re.match("1 of 3 features are constant", note)
    # A constant feature is encoded as 0, also for other values.
    assert transform.apply([[1.0, 9.0, 0.0]]).x.tolist() == [[-1, 0, -1]]
    assert same(transform.apply(torch.tensor(x, requires_grad=True)), transform.apply(x.tolist()))
    assert ArrayTransform.fit(torch.tensor(x).bfloat16()) == transform
    assert ArrayTransform.fit(np.asarray([[True], [False]])).apply([[1]]).x.tolist() == [[1.0]]
    assert transform.apply(x[:0]).x.shape == (0, 3)


@pytest.mark.parametrize(("shape", "axes"), [((9, 4, 5), 1), ((9, 4, 5, 3), 3), ((9, 4, 5, 1), 1), ((9, 3, 4, 5), 1)])
def test_images_as_a_whole_or_by_channel(shape: tuple[int, ...], axes: int) -> None:
    x = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    transform = ArrayTransform.fit(x)
    pixels = x.reshape(-1, axes).astype(np.float64)
    np.testing.assert_allclose(transform.mean, pixels.mean(axis=0))
    np.testing.assert_allclose(transform.std, pixels.std(axis=0))
    expected = ((pixels - pixels.mean(axis=0)) / pixels.std(axis=0)).reshape(9, -1)
    np.testing.assert_allclose(transform.apply(x).x, expected, atol=1e-6)
    assert transform.features == expected.shape[1]


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(2).random((50, 3, 3))
    whole = ArrayTransform.fit(x)
    encoded = whole.apply(x)
    monkeypatch.setattr("squad.data.array_transform.BLOCK_NUMBERS", 20)
    np.testing.assert_allclose(ArrayTransform.fit(x).std, whole.std, rtol=1e-12)
    assert same(whole.apply(x), encoded)
    assert whole.apply(x[7:8]).x.tobytes() == encoded.x[7].tobytes()


def test_invalid_arrays_and_rows() -> None:
    transform = ArrayTransform.fit([[0.0, 0.0], [1.0, 1.0]])
    x = [[0.0, math.nan], [math.inf, 0.0], [1e300, 0.0], [0.0, 0.0]]
    encoded = transform.apply(x)
    assert encoded.problems == {
        0: "x has a number that is NaN or infinite",
        1: "x has a number that is NaN or infinite",
        2: "x has a number that is too far from its mean in training",
    }
    assert encoded.x.tolist() == [[0, 0], [0, 0], [0, 0], [-1, -1]]
    # NaN counts as well where the feature is not used.
    assert list(ArrayTransform.fit([[0.0, 5.0], [1.0, 5.0]]).apply([[0.0, math.nan]]).problems) == [0]
    with pytest.raises(DataError, match=r"got NaN or infinity in row 2 "):
        ArrayTransform.fit([[0.0], [math.nan], [math.inf]])
    with pytest.raises(DataError, match=r"got NaN or infinity in row 2 "):
        ArrayTransform.fit([[0.0], [None]])
    with pytest.raises(DataError, match="without a mask"):
        ArrayTransform.fit(np.ma.masked_equal([[0.0], [1.0]], 0.0))
    for wrong in ([["a"]], [[1], [1, 2]], [[1j]], np.asarray([["b"]], dtype=object)):
        with pytest.raises(DataError, match="x must be an array of numbers"):
            ArrayTransform.fit(wrong)
    for shape in ((3,), (0, 2), (2, 0), (1, 1, 1, 1, 1)):
        with pytest.raises(DataError, match="x must have shape"):
            ArrayTransform.fit(np.zeros(shape))
    with pytest.raises(DataError, match=r"x must have shape \(rows, 2\), got \(1, 3\)"):
        transform.apply(np.zeros((1, 3)))
    with pytest.raises(DataError, match=r"x\[None\]"):
        transform.apply(np.zeros(2))


def test_text_in_a_numeric_column_is_a_problem_of_its_row() -> None:
    table = Table.of(pd.DataFrame({"age": [30.0, 40.0, 50.0], "y": ["a", "b", "a"]}))
    transform = TableTransform.fit(table, "y")
    later = Table.of(pd.DataFrame({"age": [35.5, "abc", 45.0]}))
    assert set(transform.apply(later).problems) == {1}


def test_many_distinct_numbers_among_texts_are_numeric() -> None:
    cells = [str(20 + row) for row in range(40)] + ["#VALUE!"] * 10
    with pytest.raises(DataError, match=r"40 numbers and 10 other cells: '#VALUE!'"):
        TableTransform.fit(Table.of(pd.DataFrame({"age": cells, "y": ["a", "b"] * 25})), "y")
    # A few distinct numbers are categories: school grades.
    few = [str(row % 6) for row in range(40)] + ["K"] * 10
    transform = TableTransform.fit(Table.of(pd.DataFrame({"grade": few, "y": ["a", "b"] * 25})), "y")
    assert transform.features == 7


def test_missing_values_of_spreadsheets() -> None:
    frame = pd.DataFrame({"age": ["1", "#N/A", "3.5", "<NA>", "#NA"], "y": list("ababa")})
    (column,) = TableTransform.fit(Table.of(frame), "y").columns
    assert column.to_json()["kind"] == "number"


@pytest.mark.parametrize(
    ("words", "later"), [(["true", "false"], [True, False]), (["TRUE", "FALSE"], ["true", "False"])]
)
def test_booleans_match_ignoring_case(words: list[str], later: list[Any]) -> None:
    transform = TableTransform.fit(Table.of(pd.DataFrame({"b": words * 2, "y": list("abba")})), "y")
    found = transform.apply(Table.of(pd.DataFrame({"b": later})))
    assert not found.problems
    expected = transform.apply(Table.of(pd.DataFrame({"b": words})))
    np.testing.assert_array_equal(found.x, expected.x)
    assert transform.apply(Table.of(pd.DataFrame({"b": ["tru"]}))).problems
