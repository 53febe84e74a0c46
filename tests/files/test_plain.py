"""Values as plain Python data."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from squad.errors import ArgumentError
from squad.files.plain import plain_json, plain_settings

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(st.recursive(SCALARS, lambda items: st.lists(items) | st.dictionaries(st.text(), items), max_leaves=20))
def test_json_data_stays_as_it_is(value: Any) -> None:
    assert plain_json(value) == value
    assert json.loads(json.dumps(plain_json(value), allow_nan=False)) == value


def test_types_that_json_does_not_know() -> None:
    @dataclass
    class Thing:
        number: Any

        def to_dict(self) -> dict[str, Any]:
            return {"number": self.number}

    found = plain_json({1: (np.float32(0.5), np.bool_(True)), "x": np.eye(2), "thing": Thing(np.int8(3))})
    assert found == {"1": [0.5, True], "x": [[1.0, 0.0], [0.0, 1.0]], "thing": {"number": 3}}
    assert [type(item) for item in found["1"]] == [float, bool]
    assert plain_json([float("nan"), np.inf, -np.inf]) == [None, None, None]
    with pytest.raises(ArgumentError, match="object"):
        plain_json({"a": object()})


def test_numbers_that_are_not_finite_may_be_kept() -> None:
    found = plain_json({"a": np.array([np.inf, np.nan]), "b": -np.inf}, nonfinite=True)
    assert repr(found) == "{'a': [inf, nan], 'b': -inf}"


def test_only_numpy_is_converted() -> None:
    tensor = torch.tensor([4, 4])
    assert plain_settings(tensor) is tensor
    with pytest.raises(ArgumentError, match="Tensor"):
        plain_json(tensor)


def test_settings_are_tuples_of_python_numbers() -> None:
    found = plain_settings([np.int64(3), [np.float64(0.5)], np.array([1, 2]), "text", None])
    assert found == (3, (0.5,), (1, 2), "text", None)
    assert [type(item) for item in found[:2]] == [int, tuple]
