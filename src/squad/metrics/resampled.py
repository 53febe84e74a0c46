"""Metrics of many resamples at once: a resample is represented by the count of each row, so rows are sorted only once.

A row that is left out has count 0, so the jackknife uses the same functions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.metrics.calibration import ece
from squad.metrics.checks import check_confidence, check_probabilities, check_scores
from squad.metrics.failure import failure_ap, failure_auroc
from squad.metrics.ood import ood_ap, ood_auroc
from squad.metrics.probabilistic import SMALLEST, accuracy, brier, nll
from squad.metrics.ranking import augrc, aurc, coverage_at_risk, e_aurc, risk_at_coverage
from squad.metrics.ties import SLACK

__all__ = [
    "DEFAULT_BINS",
    "MAX_COUNTS_IN_MEMORY",
    "OOD_METRICS",
    "Counts",
    "MetricOfCounts",
    "draw_counts",
    "on_counts",
    "unwrap_partial",
]

Floats = NDArray[np.float64]
Counts = NDArray[np.signedinteger[Any]]
MetricOfCounts = Callable[[Counts], Floats]

#: Maximum number of row counts held in memory at once.
MAX_COUNTS_IN_MEMORY = 2**21

#: Default number of bins of :func:`squad.metrics.ece`.
DEFAULT_BINS = 15


def unwrap_partial(metric: Callable[..., float]) -> tuple[Callable[..., float], dict[str, Any] | None]:
    """Return the function behind ``functools.partial`` and its keyword arguments; None if it has positional ones."""
    if not isinstance(metric, partial):
        return metric, {}
    return metric.func, None if metric.args else dict(metric.keywords)


def on_counts(metric: Callable[..., float], rows: list[NDArray[Any]]) -> MetricOfCounts | None:
    """Return a fast version of a metric for many bootstrap resamples.

    Args:
        metric: Function from this package, or a ``functools.partial`` of one.
        rows: The two arrays that the metric takes, such as confidences and correctness.

    Returns:
        A function from row counts (B, N) of B resamples to metrics (B,); rows of independently drawn arrays are
        concatenated.  None if there is no fast version.
    """
    function, named = unwrap_partial(metric)
    if named is None or len(rows) != 2:
        return None
    if function in (nll, brier, accuracy) and not named:
        losses = _losses(function, *rows)
        return lambda counts: counts @ losses / counts.sum(1)
    if function is ece and not named:
        c, errors = check_confidence(*rows, unit=True)
        gaps = np.zeros((len(c), DEFAULT_BINS))
        gaps[np.arange(len(c)), np.minimum((c * DEFAULT_BINS).astype(np.int64), DEFAULT_BINS - 1)] = (~errors) - c
        return lambda counts: np.abs(counts @ gaps).sum(1) / counts.sum(1)
    if function in OOD_METRICS and not named:
        inside, outside = check_scores("inside", rows[0]), check_scores("outside", rows[1])
        bad = np.repeat([False, True], [len(inside), len(outside)])
        return _on_ranked_counts(OOD_METRICS[function], np.concatenate((inside, outside)), bad)
    if function in RANKING_METRICS and set(named) <= {"risk", "coverage"}:
        return _on_ranked_counts(partial(RANKING_METRICS[function], **named), *check_confidence(*rows))
    return None


def draw_counts(draws: np.random.Generator, samples: list[int], repeats: int) -> Iterator[Counts]:
    """Yield row counts (B, rows) of resamples in blocks.

    Args:
        draws: Random number generator.
        samples: Numbers of rows of the samples, which are drawn independently and concatenated.
        repeats: Number of resamples.
    """
    block = max(1, MAX_COUNTS_IN_MEMORY // sum(samples))
    for start in range(0, repeats, block):
        many = min(block, repeats - start)
        parts = []
        for size in samples:
            picks = draws.integers(size, size=(many, size)) + size * np.arange(many)[:, None]
            parts.append(np.bincount(picks.ravel(), minlength=many * size).reshape(many, size))
        yield np.concatenate(parts, 1).astype(np.int32)


def _losses(function: Callable[..., float], probabilities: NDArray[Any], labels: NDArray[Any]) -> Floats:
    """Return the loss of each row; the metric is their mean."""
    p, y = check_probabilities(probabilities, labels)
    right = p[np.arange(len(y)), y]
    if function is nll:
        return np.asarray(-np.log(np.maximum(right, SMALLEST)))
    if function is brier:
        return np.asarray((p**2).sum(1) - 2 * right + 1)
    return np.asarray(p.argmax(1) == y, dtype=np.float64)


@dataclass(frozen=True)
class _ResampledTies:
    """The counterpart of :class:`squad.metrics.ties.Ties` for B resamples: cumulative counts by score, highest first.

    Attributes:
        good: (B, G), good cases at or above each of G scores; a resample may have no case at a score.
        bad: (B, G), likewise for bad cases.
    """

    good: Counts
    bad: Counts

    @property
    def ends(self) -> Counts:
        return self.good + self.bad


def _on_ranked_counts(
    metric: Callable[[_ResampledTies], Floats], scores: Floats, bad: NDArray[np.bool_]
) -> MetricOfCounts:
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
    wrong = bad[order]

    def measured(counts: Counts) -> Floats:
        drawn = counts[:, order]
        parts = (drawn, drawn * wrong)
        if len(starts) < len(order):
            parts = np.add.reduceat(parts[0], starts, 1), np.add.reduceat(parts[1], starts, 1)
        every, failed = (np.cumsum(one, 1, dtype=np.int64) for one in parts)
        return metric(_ResampledTies(every - failed, failed))

    return measured


def _before(counts: Counts) -> Counts:
    return np.concatenate((np.zeros((len(counts), 1), dtype=counts.dtype), counts[:, :-1]), 1)


def _harmonic(most: int) -> Floats:
    """Return the harmonic numbers 1 + 1/2 + ... + 1/n, from n = 0."""
    return np.concatenate(([0.0], np.cumsum(1 / np.arange(1, most + 1))))


def _aurc(ties: _ResampledTies) -> Floats:
    ends, bad = ties.ends, ties.bad
    starts, wrong = _before(ends), _before(bad)
    errors, sizes = bad - wrong, ends - starts
    share = errors / np.maximum(sizes, 1)
    sums = _harmonic(int(ends.max()))[ends]
    sums[:, 1:] -= sums[:, :-1].copy()  # sum of 1 / rank over each group
    return np.asarray((errors + (wrong - share * starts) * sums).sum(1) / ends[:, -1])


def _e_aurc(ties: _ResampledTies) -> Floats:
    count, errors = ties.ends[:, -1], ties.bad[:, -1]
    sums = _harmonic(int(count.max()))
    best = (errors - (count - errors) * (sums[count] - sums[count - errors])) / count
    return np.asarray(np.maximum(_aurc(ties) - best, 0.0))


def _augrc(ties: _ResampledTies) -> Floats:
    errors = ties.bad[:, -1]
    misranked = ((ties.good - _before(ties.good)) * (ties.bad + _before(ties.bad))).sum(1) / 2
    return np.asarray((misranked + errors**2 / 2) / ties.ends[:, -1] ** 2)


def _auroc(ties: _ResampledTies) -> Floats:
    pairs = ties.good[:, -1] * ties.bad[:, -1]
    misranked = ((ties.good - _before(ties.good)) * (ties.bad + _before(ties.bad))).sum(1) / 2
    return np.where(pairs > 0, 1 - misranked / np.maximum(pairs, 1), np.nan)


def _average_precision(ties: _ResampledTies) -> Floats:
    total, ends, before = ties.bad[:, -1:], ties.ends, _before(ties.bad)
    precision = (total - before) / np.maximum(ends[:, -1:] - _before(ends), 1)
    found = ((ties.bad - before) * precision).sum(1)
    return np.where(total[:, 0] > 0, found / np.maximum(total[:, 0], 1), np.nan)


def _coverage_at_risk(ties: _ResampledTies, risk: float) -> Floats:
    ends = ties.ends
    good = ties.bad <= risk * ends + SLACK
    return np.asarray(np.where(good, ends, 0).max(1) / ends[:, -1])


def _risk_at_coverage(ties: _ResampledTies, coverage: float) -> Floats:
    ends, bad = ties.ends, ties.bad
    accepted = np.maximum(1, np.ceil(coverage * ends[:, -1] - SLACK)).astype(np.int64)
    group = (ends >= accepted[:, None]).argmax(1)
    each = np.arange(len(ends))
    start, wrong = _before(ends)[each, group], _before(bad)[each, group]
    share = (bad[each, group] - wrong) / (ends[each, group] - start)
    return np.asarray((wrong + (accepted - start) * share) / accepted)


#: Metrics of confidences and correctness.
RANKING_METRICS: dict[Callable[..., float], Callable[..., Floats]] = {
    aurc: _aurc,
    e_aurc: _e_aurc,
    augrc: _augrc,
    failure_auroc: _auroc,
    failure_ap: _average_precision,
    coverage_at_risk: _coverage_at_risk,
    risk_at_coverage: _risk_at_coverage,
}

#: Metrics of in-distribution and OOD scores.
OOD_METRICS: dict[Callable[..., float], Callable[[_ResampledTies], Floats]] = {
    ood_auroc: _auroc,
    ood_ap: _average_precision,
}
