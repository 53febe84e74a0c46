"""Memory of predictions, and chance repeats of training rows: cases that take long to measure."""

import pytest

from tests.data import test_chance_repeats
from tests.models import test_sampler


def test_memory_is_bounded_for_any_number_of_samples_and_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    test_sampler.test_memory_is_bounded_for_any_number_of_samples_and_rows("hard", monkeypatch)


@pytest.mark.parametrize("table", [test_chance_repeats.TABLES[0], test_chance_repeats.TABLES[3]])
def test_honest_rows_are_hardly_ever_refused(table: tuple[int, float]) -> None:
    test_chance_repeats.test_honest_rows_are_hardly_ever_refused(table)
