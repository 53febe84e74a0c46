"""Examples in the docstrings of experiments.paper."""

import doctest
from types import ModuleType

import pytest

from experiments.paper.drawings import canvas, claims_figures
from experiments.paper.jobs import plan
from experiments.paper.pages import claim


@pytest.mark.parametrize("module", [plan, canvas, claims_figures, claim])
def test_examples(module: ModuleType) -> None:
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0
