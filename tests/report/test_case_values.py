"""Values of a case: as text, and the most unusual first."""

import numpy as np
import pandas as pd
import pytest

from squad.data.array_transform import ArrayTransform
from squad.data.tables import Table
from squad.data.transforms import TableTransform
from squad.report.case_values import CaseValue, case_values


def table(**columns: object) -> Table:
    return Table.of(pd.DataFrame(columns))


def fitted(rows: Table) -> TableTransform:
    return TableTransform.fit(Table.of(rows.frame.assign(label=["a", "b"] * (len(rows) // 2))), "label", ranges=False)


def test_the_most_unusual_values_come_first() -> None:
    age = np.linspace(20, 60, 100)
    age[7] = 99
    rows = table(city=["x"] * 98 + ["y", "z"], age=age, dose=[*range(100)])
    found = case_values(fitted(rows), rows, [7, 98])
    assert [value.name for value in found[0]][:2] == ["age", "dose"]
    assert found[0][0] == CaseValue("age", "99", "higher than in 99\u00a0% of the cases")
    assert found[0][2] == CaseValue("city", "x")  # 98 % of the cases have it
    assert found[1][0] == CaseValue("city", "y", "only in 1\u00a0% of the cases")
    low = case_values(fitted(rows), rows, [0])[0]
    assert {value.name: value.remark for value in low}["dose"] == "lower than in 99\u00a0% of the cases"


@pytest.mark.parametrize("seed", range(5))
def test_rarity_is_the_fraction_of_cases_that_are_as_extreme(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 12, (60, 4)).astype(float)  # with ties
    names = [f"feature {index + 1}" for index in range(4)]
    for row, found in enumerate(case_values(ArrayTransform.fit(x), x, list(range(60)))):
        tails = {
            name: min((x[:, k] >= x[row, k]).mean(), (x[:, k] <= x[row, k]).mean()) for k, name in enumerate(names)
        }
        order = [tails[value.name] for value in found]
        assert order == pytest.approx(sorted(order))
        for value in found:
            assert bool(value.remark) == (tails[value.name] <= 0.05)


def test_texts() -> None:
    rows = table(a=["0.25069976766922464", "1"] * 2, b=["12.50", ""] * 2, c=["x" * 100, "y "] * 2)
    first, second = (dict(value[:2] for value in found) for found in case_values(fitted(rows), rows, [0, 1]))
    assert (first["a"], first["b"], len(first["c"]), first["c"][-1]) == ("0.2507", "12.50", 60, "…")
    assert (second["b"], second["c"]) == ("(empty)", "y")


def test_an_identifier_of_digits_is_no_number() -> None:
    rows = table(code=["00012345678901", "x1", "x2", "x3"])
    (found,) = case_values(fitted(rows), rows, [0])
    assert found[0].text == "00012345678901"


def test_an_empty_cell_is_as_rare_as_empty_cells_are() -> None:
    rows = table(a=[*map(float, range(99)), None], b=[*range(100)])
    found = case_values(fitted(rows), rows, [99])[0]
    assert CaseValue("a", "(empty)", "empty in 1\u00a0% of the cases") in found


def test_names_of_a_data_frame_and_many_features() -> None:
    x = np.arange(80.0).reshape(2, 40)
    names = [f"c{index}" for index in range(40)]
    found = case_values(ArrayTransform.fit(x, names), x, [1])[0]
    assert found[0].name == "c0"
    assert found[-1] == CaseValue("not shown", "24 features that are less unusual")
    assert len(found) == 17
    same = case_values(ArrayTransform.fit(x, names), Table.of(pd.DataFrame(x, columns=names)), [1])[0]
    assert [value.name for value in same] == [value.name for value in found]
