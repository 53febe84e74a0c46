"""An interval for any metric: what it would have been on other cases of the same kind."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from squad.core.checks import check_count, check_number
from squad.errors import ArgumentError
from squad.metrics.bca import acceleration, bca
from squad.metrics.checks import Values, check_array, check_confidence, check_probabilities, check_scores
from squad.metrics.delong import delong
from squad.metrics.failure import failure_ap, failure_auroc
from squad.metrics.ood import ood_auroc
from squad.metrics.probabilistic import accuracy, brier, nll
from squad.metrics.ranking import augrc, aurc, e_aurc, risk_at_coverage
from squad.metrics.resampled import OUTSIDE, Counts, on_counts, unwrapped

__all__ = ["Interval", "bootstrap"]

#: Metrics that change smoothly with the shares of cases, so that theory is on the side of the bootstrap, and how many
#: errors (or right answers, or cases outside, if these are fewer) it takes for an interval to cover what it says.  By
#: benchmarks/intervals.py; with fewer, and of other metrics, an interval is approximate.
ENOUGH: dict[Callable[..., float], int] = {
    nll: 30,
    brier: 30,
    aurc: 30,
    augrc: 30,
    risk_at_coverage: 30,
    e_aurc: 50,
    failure_ap: 100,
    failure_auroc: 20,
    ood_auroc: 20,
}

#: Rows that are left out one by one; of more, groups of rows are left out.
SINGLY = 400

#: Counts of rows that are held at once.
BLOCK = 2**21


@dataclass(frozen=True)
class Interval:
    """A number and how far to trust it.

    Attributes:
        value: the metric of the cases themselves.
        low, high: the interval, which contains the value.
        undefined: how many resamples had no value (NaN) and were left out, such as those without an error.
        approximate: whether the interval may cover the truth less often than its level says: the metric is not smooth
            or is not one of :mod:`squad.metrics`, or the interval rests on few cases, such as few errors.
        method: "bca" (bootstrap, bias-corrected and accelerated), "delong" (log-odds of an AUROC), "exact" (binomial)
            or "bound" (no error was seen: the worst that an exact bound of the error rate allows).
    """

    value: float
    low: float
    high: float
    undefined: int = 0
    approximate: bool = False
    method: str = "bca"

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g}{', approximate' if self.approximate else ''})"


def bootstrap(
    metric: Callable[..., float],
    *arrays: Values,
    level: float = 0.95,
    repeats: int = 1000,
    seed: int = 0,
    paired: bool = True,
) -> Interval:
    """A metric with its interval, by the bootstrap: rows are drawn again, with replacement, as many as there are.

    The interval is about the choice of rows: the model is taken as it is.  It is the bias-corrected and accelerated one
    (BCa; Efron, 1987).  ``failure_auroc`` and ``ood_auroc`` have DeLong's interval on the scale of log-odds instead,
    ``accuracy`` that of Clopper and Pearson, and areas without any error the worst that an exact bound of the error
    rate allows.  Where coverage may be less than ``level`` the result says ``approximate``; docs/selection.md has a
    table of what was measured.  None of this is a guarantee: for one, ask for a certificate.

    Args:
        metric: takes the arrays, returns a number.  Further arguments by ``functools.partial``.
        arrays: (N, ...) each, the rows along the first axis.  Their order does not matter.
        level: the chance of the interval to cover the truth, about.
        repeats: how many times rows are drawn.
        seed: of the draws: the same for the same rows, whatever the metric.
        paired: whether row i of one array belongs to row i of the others, and is drawn with them.  If not, as with
            scores inside and outside of a distribution, each array is drawn by itself, and lengths may differ.

    >>> from squad.metrics import accuracy
    >>> found = bootstrap(accuracy, [[0.9, 0.1], [0.4, 0.6], [0.8, 0.2], [0.3, 0.7]], [0, 1, 0, 0])
    >>> found.value, round(found.low, 2), round(found.high, 2), found.method
    (0.75, 0.19, 0.99, 'exact')
    """
    rows = [check_array(f"array {i + 1}", array) for i, array in enumerate(arrays)]
    if not rows:
        raise ArgumentError("bootstrap must be given one array at least after the metric, got none.")
    sizes = [_length(i, array) for i, array in enumerate(rows)]
    if paired and len(set(sizes)) > 1:
        hint = "With paired=False each is drawn by itself."
        raise ArgumentError.of("arrays", ", ".join(map(str, sizes)) + " rows", "of equal length", hint)
    level = check_number("level", level, 0, 1, exclude=0)
    draws = np.random.default_rng(check_count("seed", seed, 0))
    repeats = check_count("repeats", repeats, 1)
    value = _number(metric, rows)
    known = _without_draws(metric, rows, value, level, paired)
    if known is not None:
        return known
    return _resampled(metric, rows, value, draws, repeats, paired).interval(level)


@dataclass(frozen=True)
class Resampled:
    """The metric of the rows, of resamples, and without single rows.

    Attributes:
        value: of the rows.
        values: (repeats,), of resamples.
        left: per sample, without each row or group of rows.
        certain: whether the interval is known to cover what it says: the metric is smooth, and errors are not few.
    """

    value: float
    values: NDArray[np.float64]
    left: list[NDArray[np.float64]]
    certain: bool

    def interval(self, level: float) -> Interval:
        """BCa."""
        defined = self.values[~np.isnan(self.values)]
        low = high = math.nan
        if not math.isnan(self.value):
            low, high = bca(self.value, defined, acceleration(self.left), level)
        undefined = len(self.values) - len(defined)
        return Interval(self.value, low, high, undefined, not self.certain or undefined > 0)


def _resampled(
    metric: Callable[..., float],
    rows: list[NDArray[Any]],
    value: float,
    draws: np.random.Generator,
    repeats: int,
    paired: bool,
) -> Resampled:
    samples = [len(rows[0])] if paired else [len(array) for array in rows]
    measure = _measure(metric, _in_order(rows, paired), samples)
    values = np.concatenate([measure(counts) for counts in _drawn(draws, samples, repeats)])
    function, _ = unwrapped(metric)
    certain = function in ENOUGH and _fewer(metric, rows, value) >= ENOUGH[function]
    return Resampled(value, values, _jackknife(measure, samples, draws), certain)


def _fewer(metric: Callable[..., float], rows: list[NDArray[Any]], value: float) -> int:
    """Errors or right answers, inside or outside, whichever are fewer: what a known metric hangs on."""
    function, named = unwrapped(metric)
    if named is None:
        return 0
    if function in OUTSIDE:
        return min(map(len, rows))
    if function in (nll, brier):
        p, y = check_probabilities(*rows)
        wrong = int((p.argmax(1) != y).sum())
        return min(wrong, len(y) - wrong)
    _, errors = check_confidence(rows[0], rows[1])
    wrong, count = int(errors.sum()), len(errors)
    if function is risk_at_coverage:  # among those that are answered
        count = math.ceil(float(named["coverage"]) * count)
        wrong = round(value * count)
    return min(wrong, count - wrong)


# ---- without resampling


def _without_draws(
    metric: Callable[..., float], rows: list[NDArray[Any]], value: float, level: float, paired: bool
) -> Interval | None:
    """Where there is something better than the bootstrap."""
    function, named = unwrapped(metric)
    if len(rows) != 2 or named is None:
        return None
    if function is failure_auroc and paired:
        c, errors = check_confidence(*rows)
        return _area(c[~errors], c[errors], level)
    if function is ood_auroc and not paired:
        return _area(check_scores("inside", rows[0]), check_scores("outside", rows[1]), level)
    if function is accuracy and paired:
        p, y = check_probabilities(*rows)
        return Interval(value, *_binomial(int((p.argmax(1) == y).sum()), len(y), level), 0, False, "exact")
    if function in (aurc, e_aurc, augrc, risk_at_coverage) and paired:
        _, errors = check_confidence(*rows)
        if not errors.any():
            worst = _binomial(0, len(errors), level)[1]
            if function is risk_at_coverage:  # all errors could be among the answered
                high = min(1.0, worst / float(named["coverage"]))
            elif function is augrc:
                high = worst - worst**2 / 2
            else:
                high = worst - worst * math.log(worst)
            return Interval(value, 0.0, high, 0, False, "bound")
    return None


def _area(good: NDArray[np.float64], bad: NDArray[np.float64], level: float) -> Interval:
    value, low, high = delong(good, bad, level)
    perfect = value in (0.0, 1.0)
    few = min(len(good), len(bad)) < ENOUGH[failure_auroc] and not perfect
    return Interval(value, low, high, 0, few, "exact" if perfect else "delong")


def _binomial(hits: int, count: int, level: float) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share."""
    miss = (1 - level) / 2
    low = float(betaincinv(hits, count - hits + 1, miss)) if hits else 0.0
    high = float(betaincinv(hits + 1, count - hits, 1 - miss)) if hits < count else 1.0
    return low, high


# ---- resamples


def _in_order(rows: list[NDArray[Any]], paired: bool) -> list[NDArray[Any]]:
    """The rows sorted by their bytes, so that a seed draws the same ones in whatever order they came."""
    if paired:
        order = _by_bytes(rows)
        return [array[order] for array in rows]
    return [array[_by_bytes([array])] for array in rows]


def _by_bytes(rows: list[NDArray[Any]]) -> NDArray[np.intp]:
    flat = [np.ascontiguousarray(array.reshape(len(array), -1)) for array in rows]
    joined = np.concatenate([array.view(np.uint8).reshape(len(array), -1) for array in flat], 1)
    keys = np.ascontiguousarray(joined).view(f"V{joined.shape[1]}").ravel()
    return np.argsort(keys, kind="stable")


Measure = Callable[[Counts], NDArray[np.float64]]


def _measure(metric: Callable[..., float], rows: list[NDArray[Any]], samples: list[int]) -> Measure:
    """The metric of resamples, given by the counts (B, rows) of all samples, one after the other."""
    fast = on_counts(metric, rows)
    if fast is not None and (len(samples) == 1) != (unwrapped(metric)[0] in OUTSIDE):
        return fast
    ends = np.cumsum(samples)[:-1]

    def slow(counts: Counts) -> NDArray[np.float64]:
        found = []
        for one in counts:
            parts = np.split(one, ends)
            repeated = [np.repeat(np.arange(len(part)), part) for part in parts]
            picks = repeated if len(samples) > 1 else repeated * len(rows)
            found.append(_number(metric, [array[pick] for array, pick in zip(rows, picks, strict=True)]))
        return np.array(found)

    return slow


def _drawn(draws: np.random.Generator, samples: list[int], repeats: int) -> Iterator[Counts]:
    """Counts (B, rows) of resamples, in blocks; each sample is drawn by itself."""
    block = max(1, BLOCK // sum(samples))
    for start in range(0, repeats, block):
        many = min(block, repeats - start)
        parts = []
        for size in samples:
            picks = draws.integers(size, size=(many, size)) + size * np.arange(many)[:, None]
            parts.append(np.bincount(picks.ravel(), minlength=many * size).reshape(many, size))
        yield np.concatenate(parts, 1).astype(np.int32)


def _jackknife(measure: Measure, samples: list[int], draws: np.random.Generator) -> list[NDArray[np.float64]]:
    """The metric without each row, per sample; of many rows, without each group of rows.

    Skewness divided by the root of the number is the same for groups drawn at random as for rows.
    """
    found, start, total = [], 0, sum(samples)
    for size in samples:
        groups = min(size, SINGLY)
        member = np.arange(size) * groups // size
        if groups < size:
            member = draws.permutation(member)
        block, values = max(1, BLOCK // total), []
        for first in range(0, groups if size > 1 else 0, block):
            some = np.arange(first, min(first + block, groups))
            counts = np.ones((len(some), total), dtype=np.int32)
            counts[:, start : start + size] = member != some[:, None]
            values.append(measure(counts))
        found.append(np.concatenate(values) if values else np.empty(0))
        start += size
    return found


def _length(place: int, array: NDArray[Any]) -> int:
    if not array.ndim:
        hint = "Arguments that are no rows go into the metric by functools.partial."
        raise ArgumentError.of(f"array {place + 1}", f"the number {array}", "an array of rows", hint)
    return len(array)


def _number(metric: Callable[..., float], rows: list[NDArray[Any]]) -> float:
    found = metric(*rows)
    try:
        return float(found)
    except (TypeError, ValueError) as cause:
        raise ArgumentError.of("metric", type(found).__name__, "a function that returns one number") from cause
