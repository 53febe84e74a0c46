"""The leakage check: near copies are refused or left out, and new rows accepted, including chance repeats."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from squad.data.chance_repeats import record_repeats
from squad.data.deduplicated import Distinct
from squad.data.leakage import Leaked, check_rows, find_leaked_rows
from squad.data.seen_rows import LeakError, SeenRows, row_hashes, rows_digest

Numbers = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Numbers]


class Fitted(NamedTuple):
    """Seen rows and counts recorded by a fit."""

    seen_rows: SeenRows
    known: dict[str, int]
    digest: str
    mean: Numbers
    std: Numbers

    @classmethod
    def on(cls, x: Numbers, near: bool = True) -> "Fitted":
        mean, std = x.mean(0), np.where(x.std(0) > 0, x.std(0), 1)
        encoded = ((x - mean) / std).astype(np.float32)
        train, validation = np.split(np.arange(len(x)), [round(0.8 * len(x))])
        seen_rows = SeenRows.of(encoded, (), train, validation)
        hashes = row_hashes(encoded)
        kept = seen_rows if near else SeenRows(seen_rows.rows, seen_rows.groups)
        return cls(kept, record_repeats(hashes, train, validation), rows_digest(hashes), mean, std)

    def arguments(self, x: Numbers) -> tuple[Any, ...]:
        encoded = ((x - self.mean) / self.std).astype(np.float32)
        return self.seen_rows, row_hashes(encoded), self.seen_rows.cells(encoded), self.known, self.digest

    def leaked(self, x: Numbers) -> Leaked:
        return find_leaked_rows(*self.arguments(x))


def whole(kinds: int, columns: int) -> Draw:
    return lambda random, count: random.integers(kinds, size=(count, columns)).astype(np.float64)


def continuous(columns: int) -> Draw:
    return lambda random, count: random.normal(size=(count, columns))


def patterns(random: np.random.Generator, count: int) -> Numbers:
    """300 kinds of rows with 30 dependent features."""
    every = np.random.default_rng(3).integers(2, size=(300, 30)).astype(np.float64)
    return np.asarray(every[random.integers(300, size=count)])


def float32(x: Numbers) -> Numbers:
    return x.astype(np.float32).astype(np.float64)


TABLES: dict[str, Draw] = {
    "3 columns of 4": whole(4, 3),
    "3 columns of 10": whole(10, 3),
    "1 column of 1,000": whole(1000, 1),
    "20 of yes and no": whole(2, 20),
    "depending on each other": patterns,
    "tenths": lambda random, count: random.integers(12, size=(count, 3)) / 10,
    "prices": lambda random, count: np.round(100 * random.random((count, 1)), 2),
    "continuous": continuous(2),
}


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_new_rows_are_not_refused(name: str, distinct: bool) -> None:
    """New rows are neither refused nor left out, even if duplicates were removed before fit, or rows cast to float32.

    Exception: with dependent columns and removed duplicates, they cannot be distinguished from copies.
    """
    random, refused, dropped, runs = np.random.default_rng(0), 0, 0, 8
    for run in range(runs):
        x, new = TABLES[name](random, 600), TABLES[name](random, 500)
        if distinct:
            x = random.permutation(np.unique(x, axis=0))
        found = Fitted.on(x).leaked(float32(new) if run % 2 else new)
        refused += found.refusal is not None
        dropped += int(found.rows.sum())
    assert refused == 0
    if not (distinct and name == "depending on each other"):
        assert dropped <= 0.005 * runs * 500


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("doubled", [0, 8, 200])
@pytest.mark.parametrize("share", [0.33, 0.95])
@pytest.mark.parametrize("table", [whole(2, 20), whole(20, 6), continuous(3)])
def test_copies_are_found_among_rows_that_repeat_each_other(
    table: Draw, share: float, doubled: int, distinct: bool
) -> None:
    """Training rows drawn with replacement, or once each among duplicated new rows, are recognized as copies."""
    random = np.random.default_rng(0)
    x, new = table(random, 500), table(random, 400)
    if distinct:
        x = random.permutation(np.unique(x, axis=0))
    count = round(share * 400)
    copies = x[random.choice(len(x), count, replace=not doubled)]
    found = Fitted.on(x).leaked(np.r_[copies, new[count:], new[count : count + doubled]])
    assert found.refusal is not None or found.rows[:count].mean() > 0.9


def test_exact_hashes_alone_refuse_new_rows_if_duplicates_were_removed() -> None:
    """Why fit records more: without duplicates, the rows of fit suggest that rows never repeat."""
    random = np.random.default_rng(0)
    x = random.permutation(np.unique(whole(10, 3)(random, 600), axis=0))
    assert Fitted.on(x, near=False).leaked(whole(10, 3)(random, 500)).refusal is not None


def test_training_rows_without_duplicates_are_still_found() -> None:
    random = np.random.default_rng(0)
    every = random.permutation(np.unique(whole(10, 3)(random, 1500), axis=0))
    fitted = Fitted.on(every)
    assert fitted.seen_rows.distinct is not None
    assert fitted.seen_rows.distinct.removed
    found = fitted.leaked(every[:400])  # each once, which new rows would not be
    assert found.refusal is None
    assert found.rows.all()
    continuous_rows = continuous(4)(random, 800)
    again = continuous_rows[random.integers(800, size=800)]  # drawn with replacement
    assert Fitted.on(continuous_rows).leaked(again).rows.all()


@pytest.mark.parametrize("features", [4, 20, 60])
def test_a_few_near_copies_are_left_out(features: int) -> None:
    random = np.random.default_rng(0)
    x, new = continuous(features)(random, 1000), continuous(features)(random, 1000)
    fitted = Fitted.on(x)
    new[:8] = float32(x[:8])
    found = fitted.leaked(new)
    assert found.refusal is None
    assert found.rows[:8].all()
    assert found.rows[8:].sum() <= 5
    assert found.total == found.rows.sum()


def test_exact_hashes_of_an_earlier_version_find_exact_copies_only() -> None:
    random = np.random.default_rng(0)
    x = 50 + 10 * continuous(5)(random, 500)
    old = Fitted.on(x, near=False)
    assert "500 of these 500 rows" in str(old.leaked(x).refusal)
    assert old.leaked(float32(x)).total < 100
    new = Fitted.on(x)
    with pytest.raises(LeakError, match="500 of these 500 rows"):
        check_rows(*new.arguments(float32(x)))
    assert not check_rows(*new.arguments(50 + 10 * continuous(5)(random, 500))).any()


@pytest.mark.parametrize("change", [lambda x: x, float32])
def test_the_training_set_itself_is_recognized_in_any_order(change: Callable[[Numbers], Numbers]) -> None:
    """In a table of few distinct rows, repeats alone do not show it."""
    random = np.random.default_rng(0)
    x = random.integers(3, size=(400, 2)) / 10
    fitted = Fitted.on(x)
    assert "400 rows are exactly the rows" in str(fitted.leaked(change(random.permutation(x))).refusal)
    assert fitted.leaked(change(x[:-1])).refusal is None


def test_the_count_of_copies_is_that_of_the_clearest_comparison() -> None:
    random = np.random.default_rng(0)
    x, new = continuous(2)(random, 800), continuous(2)(random, 800)
    new[:300] = float32(x[:300])
    refusal = str(Fitted.on(x).leaked(new).refusal)
    found = int(refusal.split(" ")[0])
    assert 295 <= found <= 306
    assert refusal.count(". ") == 1  # two sentences


class TestDistinct:
    def test_pairs_are_counted(self) -> None:
        x = np.array([[1, 2], [1, 2], [1, 2], [3, 4]], dtype=np.float32)
        found = Distinct.of(x, row_hashes(x))
        assert found[:3] == (4, 2, 3)

    @pytest.mark.parametrize(
        ("draw", "expected"),
        [(whole(4, 2), 20_000 / 16), (whole(2, 6), 20_000 / 64), (whole(50, 1), 20_000 / 50), (continuous(3), 0)],
    )
    def test_expected_pairs_are_those_of_independent_columns(self, draw: Draw, expected: float) -> None:
        x = draw(np.random.default_rng(0), 200).astype(np.float32)
        found = Distinct.of(x, row_hashes(x))
        assert found.expected == pytest.approx(expected, rel=0.2)
        assert not found.removed
        assert found.discrete == (expected > 0)

    def test_removed_duplicates_are_detected(self) -> None:
        x = np.unique(whole(10, 3)(np.random.default_rng(0), 600), axis=0).astype(np.float32)
        found = Distinct.of(x, row_hashes(x))
        assert found.removed
        assert found.removed_from(500, 0)
        assert not found.removed_from(500, 125)
        assert not found.removed_from(10, 0)  # too few to tell

    def test_columns_in_steps_are_discrete(self) -> None:
        random = np.random.default_rng(0)
        years = (2000 + random.permutation(300)[:, None] / 4).astype(np.float32)
        assert Distinct.of(years, row_hashes(years)).discrete
        assert not Distinct.of(random.random((300, 1)).astype(np.float32), np.arange(300, dtype=np.uint64)).discrete


def test_a_few_exact_copies_are_left_out_and_more_are_refused() -> None:
    """All copies are identified, so the other rows may be used, unless there are too many copies."""
    random = np.random.default_rng(0)
    x, new = continuous(3)(random, 500), continuous(3)(random, 400)
    few = Fitted.on(x).leaked(np.r_[x[:30], new[30:]])
    assert few.refusal is None
    assert few.rows[:30].all()
    assert not few.rows[30:].any()
    assert Fitted.on(x).leaked(np.r_[x[:60], new[60:]]).refusal is not None
    rounded = Fitted.on(x).leaked(np.r_[x[:30].round(3), new[30:]])  # of which some might not be found
    assert rounded.refusal is not None
