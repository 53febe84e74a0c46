"""Stereotypes and the distributions nearest to them."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import kl_divergence

import squad
from squad.analysis import Posteriors, cases, count_modes, divergences, nearest, stereotypes
from squad.errors import ArgumentError


def predicted(rows: int = 60, units: int = 4, bins: int = 9, seed: int = 0) -> Posteriors:
    probs = np.random.default_rng(seed).dirichlet(np.full(bins, 0.6), (rows, units))
    return Posteriors(1, probs, np.broadcast_to(np.linspace(-3, 3, bins), (units, bins)))


@pytest.mark.parametrize("bins", [3, 5, 11, 15, 37])
def test_stereotypes_are_distributions_with_mass_everywhere(bins: int) -> None:
    kinds = stereotypes(bins)
    assert len(kinds) == 8
    for name, kind in kinds.items():
        assert kind.name == name
        np.testing.assert_allclose(kind.variants.sum(1), 1)
        assert kind.variants.min() >= 1e-3 / bins - 1e-12
        np.testing.assert_array_equal(kind.variants[0], kind.probs)


@pytest.mark.parametrize("bins", [11, 15, 37])
def test_shapes_of_the_stereotypes(bins: int) -> None:
    kinds = stereotypes(bins)
    modes = {name: set(count_modes(kind.variants, 0.03).tolist()) for name, kind in kinds.items()}
    assert modes == {name: {{"two apart": 2, "both ends": 2, "three": 3}.get(name, 1)} for name in kinds}
    tops = kinds["one value"].variants.argmax(1)
    assert set(tops.tolist()) == set(range(bins))  # at any bin
    for name in ("one half", "end and tail"):
        np.testing.assert_allclose(kinds[name].variants[1], kinds[name].variants[0][::-1], atol=1e-12)
    for name in ("one value", "bell", "even", "two apart", "both ends", "three"):
        if bins % 2:
            np.testing.assert_allclose(kinds[name].probs, kinds[name].probs[::-1], atol=1e-12)


def test_too_few_bins_are_rejected() -> None:
    with pytest.raises(ArgumentError, match="bins"):
        stereotypes(2)


@given(st.sampled_from(list(stereotypes(9))), st.integers(0, 1000))
def test_the_kl_equals_that_of_torch(name: str, seed: int) -> None:
    kind, probs = stereotypes(9)[name], predicted(5, 3, seed=seed).probs
    kls, variants = divergences(probs, kind)
    values = torch.arange(9.0, dtype=torch.float64)
    each = kl_divergence(
        squad.Quantized(torch.from_numpy(kind.variants).log()[:, None, None].expand(-1, 5, 3, -1), values),
        squad.Quantized(torch.from_numpy(probs).log().expand(len(kind.variants), -1, -1, -1), values),
    ).numpy()
    np.testing.assert_allclose(kls, each.min(0), atol=1e-12)
    np.testing.assert_allclose(np.take_along_axis(each, variants[None], 0)[0], each.min(0), atol=1e-12)


def test_blocks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, probs = stereotypes(9)["bell"], predicted().probs
    whole = divergences(probs, kind)
    monkeypatch.setattr("squad.analysis.shapes.BLOCK", 7)
    for one, other in zip(whole, divergences(probs, kind), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_the_kl_requires_all_modes_of_the_stereotype() -> None:
    kinds = stereotypes(15)
    one, two = kinds["one value"].probs, kinds["both ends"].probs
    # One peak is not near two, and zero probabilities give a large but finite KL.
    assert divergences(one, kinds["both ends"])[0] > 2
    assert divergences(two, kinds["both ends"])[0] < 1e-12
    assert 0.1 < divergences(np.eye(15)[3], kinds["even"])[0] < 1000
    with pytest.raises(ArgumentError, match="4 and 15 bins"):
        divergences(np.ones(4) / 4, kinds["even"])


@pytest.mark.parametrize("name", list(stereotypes(9)))
def test_a_planted_shape_is_found(name: str) -> None:
    kinds, found = stereotypes(9), predicted()
    planted = 0.98 * kinds[name].variants[-1] + 0.02 / 9
    probs = found.probs.copy()
    probs[17, 2] = planted
    near = {one.name: one for one in nearest(Posteriors(1, probs, found.values), kinds, 2)}[name]
    assert (near.found[0].row, near.found[0].unit) == (17, 3)
    np.testing.assert_array_equal(near.found[0].probs, planted)
    np.testing.assert_allclose(near.found[0].match, kinds[name].variants[-1])
    case = {one.stereotype: one for one in cases(Posteriors(1, probs, found.values), 3, kinds, 8)}[name]
    assert case.row == 17


def test_counts_and_shares_cover_all_distributions() -> None:
    found = predicted(40, 6)
    for one in nearest(found, stereotypes(9), 3):
        kls, _ = divergences(found.probs, stereotypes(9)[one.name])
        assert one.total == one.counts.sum() == 240
        np.testing.assert_allclose(one.shares, [(kls < limit).mean() for limit in one.thresholds])
        assert [case.kl for case in one.found] == sorted(case.kl for case in one.found)
        assert one.found[0].kl == kls.min()
        assert len({case.row for case in one.found}) == len({case.unit for case in one.found}) == 3
        for case in one.found:
            assert case.kl == kls[case.row, case.unit - 1]


@pytest.mark.parametrize(("rows", "units", "count", "got"), [(3, 2, 4, 4), (1, 1, 3, 1), (5, 1, 3, 3), (5, 3, 0, 0)])
def test_few_rows_or_units_are_used_repeatedly(rows: int, units: int, count: int, got: int) -> None:
    for one in nearest(predicted(rows, units), stereotypes(9), count):
        assert len({(case.row, case.unit) for case in one.found}) == len(one.found) == got


def test_cases_have_distinct_shapes_and_rows() -> None:
    found, kinds = predicted(200), stereotypes(9)
    for unit in (1, 4):
        chosen = cases(found, unit, kinds)
        assert len(chosen) == len({case.row for case in chosen}) == 5
        names = [case.stereotype for case in chosen]
        assert names == [name for name in kinds if name in names]
        for case in chosen:
            np.testing.assert_array_equal(case.probs, found.probs[case.row, unit - 1])
            assert case.unit == unit
    assert len(cases(found, 1, kinds, 2)) == 2
    few = cases(predicted(4), 1, kinds)
    assert len(few) == len({case.row for case in few}) <= 4
    with pytest.raises(ArgumentError, match=r"unit.*1.*4.*got 5"):
        cases(found, 5, kinds)


def test_even_distributions_match_no_other_stereotype() -> None:
    flat = np.full((20, 1, 9), 1 / 9) + 0.002 * np.random.default_rng(0).standard_normal((20, 1, 9))
    flat /= flat.sum(-1, keepdims=True)
    found: Any = Posteriors(1, flat, np.linspace(-1, 1, 9)[None])
    assert [case.stereotype for case in cases(found, 1, stereotypes(9))] == ["even"]
