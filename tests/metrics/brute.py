"""Literal definitions, slow and plain: what the metrics are held against."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import groupby, pairwise, permutations, product

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Case = tuple[float, bool]
Cases = list[Case]

#: Few confidences for up to six cases: ties are the rule.  Zeros of both signs are equal.
CASES = st.lists(st.tuples(st.sampled_from([-1.5, -0.0, 0.0, 0.1, 0.7, 0.9]), st.booleans()), min_size=1, max_size=6)
SCORES = st.lists(st.sampled_from([-1.5, -0.0, 0.0, 0.1, 0.7, 0.9]), min_size=1, max_size=5)


def split(cases: Cases) -> tuple[list[float], list[bool]]:
    return [case[0] for case in cases], [case[1] for case in cases]


def orders(cases: Cases) -> Iterator[list[bool]]:
    """Whether each answer was wrong, the most confident first, in every order that equals can have."""
    ranked = sorted(cases, key=lambda case: -case[0])
    groups = [[not right for _, right in group] for _, group in groupby(ranked, key=lambda case: case[0])]
    for order in product(*(permutations(group) for group in groups)):
        yield [wrong for group in order for wrong in group]


def mean_over_orders(definition: Callable[[list[bool]], Fraction], cases: Cases) -> float:
    values = [definition(order) for order in orders(cases)]
    return float(sum(values, Fraction(0)) / len(values))


def area(order: list[bool]) -> Fraction:
    """AURC: the mean over n of the error rate among the first n."""
    rates = [Fraction(sum(order[:n]), n) for n in range(1, len(order) + 1)]
    return sum(rates, Fraction(0)) / len(rates)


def generalized_area(order: list[bool]) -> Fraction:
    """AUGRC: trapezoids under (n / N, errors among the first n / N), from (0, 0)."""
    heights = [Fraction(sum(order[:n]), len(order)) for n in range(len(order) + 1)]
    trapezoids = [(one + other) / 2 for one, other in pairwise(heights)]
    return sum(trapezoids, Fraction(0)) / len(order)


def found_in_order(order: list[bool]) -> Fraction:
    """AUROC: the share of pairs in which the wrong answer stands behind the right one."""
    pairs = [i > j for i, wrong in enumerate(order) if wrong for j, other in enumerate(order) if not other]
    return Fraction(sum(pairs), len(pairs))


def curve(good: list[float], bad: list[float]) -> list[tuple[int, int]]:
    """Good and bad cases that each threshold flags, being at or below it, from the lowest threshold up."""
    thresholds = sorted({*good, *bad})
    return [(sum(x <= t for x in good), sum(x <= t for x in bad)) for t in thresholds]


def steps(good: list[float], bad: list[float]) -> float:
    """Average precision: precision times gain in recall."""
    total, before = Fraction(0), 0
    for false, true in curve(good, bad):
        total += Fraction(true, true + false) * Fraction(true - before, len(bad))
        before = true
    return float(total)


def population(rows: int, decimals: int | None, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Calibrated confidences, rounded so as to tie or not, and whether the answers were right."""
    generator = np.random.default_rng(seed)
    confidence = generator.beta(5, 1, rows)
    correct = generator.random(rows) < confidence
    return (confidence if decimals is None else confidence.round(decimals)), correct
