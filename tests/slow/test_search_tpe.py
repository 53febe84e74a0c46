"""Proposals of TPE in more studies than in the fast suite."""

import pytest

from tests.search.test_tpe import TestExploration, run

__all__ = ["TestExploration"]


@pytest.fixture(scope="module")
def studies() -> object:
    return [run(seed) for seed in range(4)]
