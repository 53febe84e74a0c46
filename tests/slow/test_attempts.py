"""Certifying until it succeeds: all of delta at each attempt exceeds it, shares of delta do not."""

import pytest

from benchmarks.attempts import DELTA, POLICIES, false
from tests.slow.simulate import excess

OFTEN = 1500


@pytest.mark.parametrize("rows", ["all rows, twice as many", "all rows, 250 more", "new rows, as advised"])
def test_shares_of_delta_keep_it(rows: str) -> None:
    found = sum(false(POLICIES[rows], True, repetition) > 0 for repetition in range(OFTEN))
    assert excess(found, OFTEN, DELTA) > 1e-3
    assert found > 0  # violations are possible


@pytest.mark.parametrize("rows", POLICIES)
def test_all_of_delta_each_time_is_detected(rows: str) -> None:
    found = sum(false(POLICIES[rows], False, repetition) > 0 for repetition in range(OFTEN))
    assert excess(found, OFTEN, DELTA) < 1e-6
