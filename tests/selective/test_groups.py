"""Groups of every type that may come from a file or an array."""

import json
from typing import Any

import numpy as np
import pytest

from squad import certify
from squad.selective import Certificate
from squad.selective.groups import ByGroup, group_key, plain_group


def array(*groups: Any) -> Any:
    found = np.empty(len(groups), dtype=object)
    found[:] = groups
    return found


def test_1_as_number_text_and_boolean_are_three_groups() -> None:
    m = 1000
    by = array(*[1] * m, *["1"] * m, *[True] * m)
    wrong = np.zeros(3 * m, dtype=bool)
    wrong[m : 2 * m : 2] = True  # half of the group "1"
    made = certify(np.tile(np.linspace(0.5, 1, m), 3), ~wrong, 0.05, by=by)
    assert {group_key(rule.group) for rule in made.rules} == {("int", 1), ("str", "1"), ("bool", True)}
    made = Certificate.from_json(json.loads(json.dumps(made.to_json())))
    assert made.accepts([0.99] * 3, by=array(1, "1", True)).tolist() == [True, False, True]
    mixed: Any = [1, "1", True]
    assert made.accepts([0.99] * 3, by=mixed).tolist() == [True, False, True]
    assert made.accepts([0.99], by=np.array([1.0])).tolist() == [True]


@pytest.mark.parametrize("group", [1, 1.0, np.int32(1), np.float64(1), "1"])
def test_text_finds_a_group_if_unambiguous(group: Any) -> None:
    found = ByGroup([(1, "one"), ("a", "letter")])
    assert found.find(group) == "one"
    assert found.find(2) is None


def test_text_does_not_find_ambiguous_groups() -> None:
    found = ByGroup([(1.5, "number"), ("1.5", "text")])
    assert (found.find(1.5), found.find("1.5")) == ("number", "text")
    assert ByGroup([(True, "truth"), ("True", "text")]).find(np.bool_(True)) == "truth"
    assert plain_group(np.bool_(True)) is True


def test_a_list_keeps_its_types() -> None:
    by = [1] * 500 + ["a"] * 500
    made = certify(np.linspace(0.5, 1, 1000), np.ones(1000, dtype=bool), 0.05, by=by)
    assert [rule.group for rule in made.rules] == [1, "a"]


def test_integers_as_files_contain_them() -> None:
    found = ByGroup([("1", "a"), ("2", "b"), ("x.0", "c")])
    assert [found.find(group) for group in (1, 1.0, "1.0", "2.00", "x.0", "x", "1.5", "1e0")] == [
        "a", "a", "a", "b", "c", None, None, None,
    ]  # fmt: skip
    both = ByGroup([("1", "a"), ("1.0", "b")])
    assert (both.find("1"), both.find("1.0"), both.find(1)) == ("a", "b", None)
