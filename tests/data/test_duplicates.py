"""Duplicates among calibration rows count once; other equal rows are kept."""

import numpy as np
import pytest
from numpy.typing import NDArray

from squad.data.duplicates import find_duplicates
from squad.data.seen_rows import SeenRows


class TestCopies:
    """Equal rows are duplicates on strong evidence only: removing others would change the certified distribution."""

    @staticmethod
    def known(values: NDArray[np.int64]) -> tuple[SeenRows, dict[str, int]]:
        """Seen rows and recorded counts of a fit on these rows, each a number."""
        _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
        repeats = int((counts[place] > 1).sum())
        seen_rows = SeenRows(np.unique(values).astype(np.uint64), np.zeros(0, dtype=np.uint64))
        return seen_rows, {"all_repeats": repeats, "all_rows": len(values)}

    @staticmethod
    def draw(random: np.random.Generator, kind: str, count: int) -> NDArray[np.int64]:
        rare = random.integers(1 << 40, size=count)
        if kind == "one frequent row":
            return np.where(random.random(count) < 0.5, 7, rare)
        if kind == "a few frequent rows":
            return np.where(random.random(count) < 0.2, random.integers(5, size=count), rare)
        if kind == "frequent but rare in training":
            return np.where(random.random(count) < 0.01, 7, rare)
        if kind == "few different rows":
            return random.integers(24, size=count)
        if kind == "many different rows":
            return random.integers(3000, size=count)
        return np.asarray(random.zipf(1.3, size=count).clip(max=1 << 40), dtype=np.int64)  # "a long tail"

    @pytest.mark.parametrize("size", [(60, 3000), (400, 400), (400, 3000), (3000, 400)])
    @pytest.mark.parametrize(
        "kind",
        [
            "one frequent row",
            "a few frequent rows",
            "frequent but rare in training",
            "few different rows",
            "many different rows",
            "a long tail",
        ],
    )
    def test_new_rows_are_never_removed(self, kind: str, size: tuple[int, int]) -> None:
        random = np.random.default_rng(0)
        train, new = size
        for _ in range(30):
            seen_rows, known = self.known(self.draw(random, kind, train))
            rows = self.draw(random, kind, new)
            labels = random.integers(2, size=new)
            assert not find_duplicates(rows.astype(np.uint64), labels, seen_rows, known).any()

    @pytest.mark.parametrize("times", [2, 3])
    @pytest.mark.parametrize("kind", ["one frequent row", "few different rows", "all different"])
    def test_a_repeated_file_counts_once(self, kind: str, times: int) -> None:
        random = np.random.default_rng(1)
        seen_rows, known = self.known(self.draw(random, kind, 500))
        rows = random.permutation(10**6)[:300] if kind == "all different" else self.draw(random, kind, 300)
        labels = random.integers(2, size=300)
        found = find_duplicates(np.tile(rows, times).astype(np.uint64), np.tile(labels, times), seen_rows, known)
        assert found.sum() == 300 * (times - 1)
        kept = sorted(zip(np.tile(rows, times)[~found], np.tile(labels, times)[~found], strict=True))
        assert kept == sorted(zip(rows, labels, strict=True))

    def test_copies_of_a_part_count_once_whatever_their_label(self) -> None:
        random = np.random.default_rng(2)
        seen_rows, known = self.known(random.integers(1 << 40, size=600))
        rows = random.integers(1 << 40, size=500)
        more = np.r_[rows, rows[:40]].astype(np.uint64)
        labels = random.integers(2, size=540)
        found = find_duplicates(more, labels, seen_rows, known)
        assert found.sum() == 40
        assert len(np.unique(more[~found])) == 500

    def test_without_seen_rows_only_repeated_files_are_recognized(self) -> None:
        rows = np.arange(100, dtype=np.uint64)
        zero = np.zeros(130, dtype=np.int64)
        assert not find_duplicates(np.r_[rows, rows[:30]], zero, None, {}).any()
        assert find_duplicates(np.r_[rows, rows], np.zeros(200, dtype=np.int64), None, {}).sum() == 100
        assert not find_duplicates(rows[:0], zero[:0], None, {}).any()
