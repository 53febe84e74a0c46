"""experiments/paper: its page is what its records say, byte for byte."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_rel

from experiments.paper import write
from squad.records import Record

FOLDER = Path(write.__file__).parent


def test_the_page_is_written_from_the_records() -> None:
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == write.page()


@pytest.mark.parametrize("name", write.PICTURES)
def test_its_pictures_are_there(name: str) -> None:
    assert (FOLDER / "search" / "squad" / name).read_bytes()[:4] == b"\x89PNG"


def test_differences_are_those_of_pairs() -> None:
    """New minus old, with the interval of scipy's paired test; that of two groups would be ten times as wide."""
    old = np.linspace(0.6, 0.8, 10)
    new = old + 0.01 + 0.002 * np.sin(np.arange(10))
    results = {
        name: {"relaxed, T = 32": [dict.fromkeys(write.HEADINGS, float(value)) for value in values], "epochs": [1]}
        for name, values in (("the paper's", old), ("the search's best", new))
    }
    *_, row = write.differences(Record("experiment", "search-squad", {}, results, 0)).splitlines()
    found = [cell.strip() for cell in row.strip("|").split("|")]
    test = ttest_rel(new, old)
    low, high = test.confidence_interval(0.95)
    mean = float((new - old).mean())
    percent = f"{100 * mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
    assert found[0] == "relaxed, T = 32"
    assert dict(zip(write.HEADINGS, found[1:], strict=True)) == {
        name: f"{mean:+.3f} ({low:+.3f} to {high:+.3f})" if name == "nll" else percent for name in write.HEADINGS
    }
    assert high - low < 0.01
