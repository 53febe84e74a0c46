"""Literal definitions of the metrics, slow and plain, to compare with."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import groupby, pairwise, permutations, product

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Case = tuple[float, bool]
Cases = list[Case]

#: Few distinct confidences for up to six cases, so ties are common; zeros of both signs are equal.
CASES = st.lists(st.tuples(st.sampled_from([-1.5, -0.0, 0.0, 0.1, 0.7, 0.9]), st.booleans()), min_size=1, max_size=6)
SCORES = st.lists(st.sampled_from([-1.5, -0.0, 0.0, 0.1, 0.7, 0.9]), min_size=1, max_size=5)


def split(cases: Cases) -> tuple[list[float], list[bool]]:
    return [case[0] for case in cases], [case[1] for case in cases]


def orders(cases: Cases) -> Iterator[list[bool]]:
    """Yield whether each prediction is wrong, the most confident first, for every way to break ties."""
    ranked = sorted(cases, key=lambda case: -case[0])
    groups = [[not right for _, right in group] for _, group in groupby(ranked, key=lambda case: case[0])]
    for order in product(*(permutations(group) for group in groups)):
        yield [wrong for group in order for wrong in group]


def mean_over_orders(definition: Callable[[list[bool]], Fraction], cases: Cases) -> float:
    values = [definition(order) for order in orders(cases)]
    return float(sum(values, Fraction(0)) / len(values))


def area(order: list[bool]) -> Fraction:
    """AURC: the error rate among the first n, averaged over n."""
    rates = [Fraction(sum(order[:n]), n) for n in range(1, len(order) + 1)]
    return sum(rates, Fraction(0)) / len(rates)


def generalized_area(order: list[bool]) -> Fraction:
    """AUGRC: trapezoids under (n / N, errors among the first n / N), from (0, 0)."""
    heights = [Fraction(sum(order[:n]), len(order)) for n in range(len(order) + 1)]
    trapezoids = [(one + other) / 2 for one, other in pairwise(heights)]
    return sum(trapezoids, Fraction(0)) / len(order)


def auroc_of_order(order: list[bool]) -> Fraction:
    """AUROC: the fraction of pairs in which the error is ranked behind the correct prediction."""
    pairs = [i > j for i, wrong in enumerate(order) if wrong for j, other in enumerate(order) if not other]
    return Fraction(sum(pairs), len(pairs))


def curve(good: list[float], bad: list[float]) -> list[tuple[int, int]]:
    """Numbers of good and bad cases at or below each threshold, from the lowest threshold up."""
    thresholds = sorted({*good, *bad})
    return [(sum(x <= t for x in good), sum(x <= t for x in bad)) for t in thresholds]


def steps(good: list[float], bad: list[float]) -> float:
    """Average precision: precision times the increase in recall."""
    total, before = Fraction(0), 0
    for false, true in curve(good, bad):
        total += Fraction(true, true + false) * Fraction(true - before, len(bad))
        before = true
    return float(total)


def population(rows: int, decimals: int | None, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Calibrated confidences, optionally rounded so that they tie, and whether predictions are correct."""
    generator = np.random.default_rng(seed)
    confidence = generator.beta(5, 1, rows)
    correct = generator.random(rows) < confidence
    return (confidence if decimals is None else confidence.round(decimals)), correct
