"""Novelty check: ranges with a margin, and the distance of a row from the training rows."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from squad.data import novelty
from squad.data.array_transform import ArrayTransform
from squad.data.heavy_tails import extrapolate_tails
from squad.data.novelty import Range, RowDistance, fit_ranges, range_margin
from squad.data.tables import Table
from squad.data.transforms import TableTransform, from_json
from squad.errors import DataError


def normal(count: int, features: int = 6, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(50, 5, size=(count, features))


class TestRanges:
    @given(
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30),
        st.floats(0, 4),
        st.integers(1, 7),
    )
    def test_training_rows_are_inside_and_limits_finite(self, values: list[float], margin: float, size: int) -> None:
        column = np.asarray(values)[:, None]

        def blocks() -> Iterator[Any]:
            return (column[start : start + size] for start in range(0, len(column), size))

        (found,) = fit_ranges(blocks, len(column), margin)
        assert (found.low, found.high) == (min(values), max(values))
        assert not found.outside(column).any()
        assert Range.from_json(found.to_json()) == found

    def test_the_margin_grows_with_columns_per_row(self) -> None:
        assert range_margin(5, 100_000) == pytest.approx(0.25, rel=0.01)
        assert range_margin(5, 500) < range_margin(50, 500) < range_margin(50, 100)

    def test_heavy_tails_get_more_room(self) -> None:
        random = np.random.default_rng(0)
        even, heavy = random.uniform(-1, 1, (1000, 1)), random.standard_cauchy((1000, 1))
        widths = []
        for column in (even, heavy):
            (found,) = fit_ranges(partial(iter, [column]), 1000, 0.25)
            widths.append((found.most - found.least) / (found.high - found.low))
        assert widths[0] < 1.6 < widths[1]

    def test_an_outlier_does_not_widen_the_other_side(self) -> None:
        column = np.random.default_rng(0).normal(50, 10, (1000, 1))
        column[0] = 1e6
        (found,) = fit_ranges(partial(iter, [column]), 1000, 0.25)
        assert found.outside(np.array([-999.0])).all()

    def test_nearly_constant_columns_have_no_limits(self) -> None:
        random = np.random.default_rng(0)
        columns = np.stack([np.full(300, 2023.0), random.random(300) < 0.01, random.random(300) < 0.5], 1)
        never, seldom, often = fit_ranges(partial(iter, [columns]), 300, 0.25)
        new = np.array([-5.0, 7.0])
        assert not never.outside(new).any()
        assert not seldom.outside(new).any()
        assert often.outside(new).all()

    def test_columns_that_start_at_zero_must_not_become_negative(self) -> None:
        random = np.random.default_rng(0)
        begins = {
            "days": random.integers(3650, size=(500, 1)).astype(float),
            "amount": random.lognormal(3, 2, (500, 1)),
            "share": random.random((500, 1)),
        }
        for column in begins.values():
            (found,) = fit_ranges(partial(iter, [column]), 500, 0.25)
            assert found.least == 0
            assert found.outside(np.array([-0.01, -999.0])).all()
        for column in (random.normal(2.5, 1, (100, 1)).clip(0.01), random.normal(18, 6, (500, 1)).clip(5)):
            (found,) = fit_ranges(partial(iter, [column]), len(column), 0.25)
            assert found.least < 0

    @pytest.mark.parametrize("rows", [40, 100, 300])
    @pytest.mark.parametrize("heavy", ["log-normal", "negative", "Student t", "from 1000"])
    def test_few_training_rows_with_heavy_tails_refer_few_rows(self, heavy: str, rows: int) -> None:
        random = np.random.default_rng(1)
        draws: dict[str, Callable[[tuple[int, int]], Any]] = {
            "log-normal": lambda shape: random.lognormal(0, 2, shape),
            "negative": lambda shape: -random.lognormal(0, 2, shape),
            "from 1000": lambda shape: 1000 + random.lognormal(0, 2, shape),
            "Student t": lambda shape: random.standard_t(3, shape),
        }
        shares = []
        for _ in range(30):
            ranges = fit_ranges(partial(iter, [draws[heavy]((rows, 10))]), rows, range_margin(10, rows), 10)
            new = draws[heavy]((1000, 10))
            outside = np.stack([one.outside(column) for one, column in zip(ranges, new.T, strict=True)])
            shares.append(outside.any(0).mean())
        assert np.mean(shares) < 0.008

    def test_light_tails_are_not_extrapolated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        random = np.random.default_rng(0)
        for column in (random.uniform(size=(100, 1)), random.normal(50, 5, (100, 1))):
            both = []
            for allowed in (0.005, 1.0):  # the second extrapolates nothing
                monkeypatch.setattr(novelty, "ALLOWED", allowed)
                both += fit_ranges(partial(iter, [column]), 100, range_margin(10, 100), 10)
            found, plain = both
            assert found.most - found.least < 1.01 * (plain.most - plain.least)
            assert found.outside(column[:, 0].clip(0.05) * 1000).all()
            assert found.outside(np.array([-999.0])).all()

    def test_many_rows_are_not_extrapolated(self) -> None:
        column = np.random.default_rng(0).lognormal(0, 2, (500, 1))
        low, high = column.min(0), column.max(0)
        down, up = extrapolate_tails(partial(iter, [column]), 500, low, high, 0.05, 0.01)
        assert up[0] == -math.inf
        assert down[0] == math.inf

    def test_images_are_one_row_each(self) -> None:
        """Pixels of one image are not independent: only the largest per image counts."""
        random = np.random.default_rng(0)
        x = random.lognormal(0, 1, (60, 1, 2))
        repeated = np.repeat(x, 5, 1)
        several, single = (fit_ranges(partial(iter, [one]), 60, 0.25, 2) for one in (repeated, x))
        assert [one.most for one in several] == [one.most for one in single]

    @pytest.mark.parametrize(
        "data",
        [None, [1, 2, 3], [1, 2, 3, "a"], [1, 0, 0, 2], [0, 1, 0.5, 2], [0, 1, math.nan, 2], [0, 1, 0, math.inf]],
    )
    def test_damaged(self, data: object) -> None:
        with pytest.raises(DataError, match="saved range"):
            Range.from_json(data)


class TestTransforms:
    def test_a_unit_error_in_a_table(self) -> None:
        import pandas as pd

        frame = pd.DataFrame({"dose": np.linspace(1, 2, 50), "age": np.linspace(20, 80, 50), "y": ["a", "b"] * 25})
        transform = TableTransform.fit(Table.of(frame), "y")
        frame.loc[3, "dose"] *= 1000
        frame.loc[4, "age"] = -999
        frame.loc[5, "age"] = 81.0  # within the margin
        found = transform.apply(Table.of(frame))
        assert set(found.novel) == {3, 4}
        assert "'dose'" in found.novel[3]
        assert "1 to 2" in found.novel[3]
        assert "-999" in found.novel[4]
        assert not found.problems
        again = from_json(transform.to_json())
        assert again == transform
        assert again.apply(Table.of(frame)).novel == found.novel

    def test_unreadable_rows_are_not_novel(self) -> None:
        import pandas as pd

        frame = pd.DataFrame({"dose": np.linspace(1, 2, 50), "age": np.linspace(20, 80, 50), "y": ["a", "b"] * 25})
        transform = TableTransform.fit(Table.of(frame), "y")
        frame.loc[3, ["dose", "age"]] = [1e6, np.nan]
        found = transform.apply(Table.of(frame))
        assert set(found.problems) == {3}
        assert not found.novel

    def test_arrays_and_images(self) -> None:
        transform = ArrayTransform.fit(normal(100))
        x = normal(5, seed=1)
        x[2, 4] *= 1000
        assert list(transform.apply(x).novel) == [2]
        assert "feature 4" in transform.apply(x).novel[2]
        pictures = np.random.default_rng(0).integers(0, 256, (40, 5, 5, 3), dtype=np.uint8)
        of_images = ArrayTransform.fit(pictures)
        wrong = pictures.astype(float)
        wrong[7, 2, 2, 1] = 9000
        wrong[8] *= 255
        assert set(of_images.apply(wrong).novel) == {7, 8}
        assert "channel 1" in of_images.apply(wrong).novel[7]
        assert from_json(of_images.to_json()) == of_images

    def test_ranges_are_optional(self) -> None:
        transform = ArrayTransform.fit(normal(100), ranges=False)
        assert not transform.apply(normal(5) * 1000).novel
        assert "ranges" not in transform.to_json()  # as in models of the first format
        assert from_json(transform.to_json()) == transform


class TestRowDistance:
    def correlated(self, count: int, seed: int, features: int = 8) -> Any:
        random = np.random.default_rng(seed)
        common = random.normal(size=(count, 1))
        return (common + 0.2 * random.normal(size=(count, features))).astype(np.float32)

    def test_novel_combinations_of_ordinary_values(self) -> None:
        distance = RowDistance.fit(self.correlated(500, 0))
        assert distance is not None
        honest = self.correlated(4000, 1)
        assert len(distance.reasons(honest)) < 0.005 * len(honest)
        random = np.random.default_rng(2)
        mixed = np.stack([random.permutation(column) for column in honest.T], 1)
        assert len(distance.reasons(mixed)) > 0.9 * len(mixed)

    @pytest.mark.parametrize("features", [1, 5, 40, 600])
    def test_regular_rows_are_hardly_ever_referred(self, features: int) -> None:
        random = np.random.default_rng(features)
        x = random.standard_t(3, size=(1500, features)).astype(np.float32)
        distance = RowDistance.fit(x[:500])
        assert distance is not None
        assert len(distance.reasons(x[500:])) <= 5

    def test_subspace_iteration_equals_the_full_decomposition(self) -> None:
        from squad.data import novelty

        u = self.correlated(300, 0, 600).astype(np.float64)
        mean, directions, variance, _ = novelty._covariance(u)
        whole = np.linalg.eigvalsh(np.cov(u.T, bias=True))[::-1]
        average = whole.sum() / 600
        assert variance[0] == pytest.approx(0.95 * whole[0] + 0.05 * average, rel=1e-6)
        np.testing.assert_allclose(directions.T @ directions, np.eye(32), atol=1e-8)
        np.testing.assert_allclose(mean, u.mean(0))

    def test_distances_do_not_depend_on_other_rows(self) -> None:
        distance = RowDistance.fit(self.correlated(500, 0))
        assert distance is not None
        x = self.correlated(50, 1)
        together = distance.squared(x)
        alone = np.concatenate([distance.squared(x[row : row + 1]) for row in range(50)])
        np.testing.assert_allclose(alone, together, rtol=1e-12)

    def test_too_few_or_constant_rows(self) -> None:
        assert RowDistance.fit(self.correlated(10, 0)) is None
        assert RowDistance.fit(np.ones((100, 3), dtype=np.float32)) is None

    @pytest.mark.parametrize("features", [1, 8])
    def test_saving_and_loading(self, features: int) -> None:
        distance = RowDistance.fit(self.correlated(100, 0, features))
        assert distance is not None
        again = RowDistance.from_tensors(distance.to_tensors())
        assert again.digest() == distance.digest()
        x = self.correlated(20, 1, features)
        np.testing.assert_array_equal(again.squared(x), distance.squared(x))

    @pytest.mark.parametrize("name", ["center", "scale", "mean", "directions", "variance", "limits"])
    def test_damaged(self, name: str) -> None:
        distance = RowDistance.fit(self.correlated(100, 0))
        assert distance is not None
        changes: list[Any] = [lambda t: t[:-1], lambda t: t.float(), lambda t: t * math.nan]
        for change in changes:
            tensors = distance.to_tensors()
            tensors[name] = change(tensors[name])
            with pytest.raises(DataError, match="row distance"):
                RowDistance.from_tensors(tensors)
        tensors = distance.to_tensors()
        del tensors[name]
        with pytest.raises(DataError, match=name):
            RowDistance.from_tensors(tensors)
