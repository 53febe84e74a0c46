"""Metrics of many resamples at once: a resample is how often it has each row, so rows are sorted only once.

A row that is left out has the count 0: the jackknife is computed by the same functions.
"""

from collections.abc import Callable
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

__all__ = ["BINS", "Counts", "on_counts", "unwrapped"]

Floats = NDArray[np.float64]
Counts = NDArray[np.signedinteger[Any]]
OnCounts = Callable[[Counts], Floats]

#: Bins of :func:`squad.metrics.ece` by default.
BINS = 15


def unwrapped(metric: Callable[..., float]) -> tuple[Callable[..., float], dict[str, Any] | None]:
    """The function behind ``functools.partial`` and its named arguments; None where it was given others as well."""
    if not isinstance(metric, partial):
        return metric, {}
    return metric.func, None if metric.args else dict(metric.keywords)


def on_counts(metric: Callable[..., float], rows: list[NDArray[Any]]) -> OnCounts | None:
    """What gives the metric of resamples (B, N), each by the counts of its rows; None where there is no fast way.

    Rows of several arrays that are drawn apart stand one after the other.
    """
    function, named = unwrapped(metric)
    if named is None or len(rows) != 2:
        return None
    if function in (nll, brier, accuracy) and not named:
        losses = _losses(function, *rows)
        return lambda counts: counts @ losses / counts.sum(1)
    if function is ece and not named:
        c, errors = check_confidence(*rows, unit=True)
        gaps = np.zeros((len(c), BINS))
        gaps[np.arange(len(c)), np.minimum((c * BINS).astype(np.int64), BINS - 1)] = (~errors) - c
        return lambda counts: np.abs(counts @ gaps).sum(1) / counts.sum(1)
    if function in OUTSIDE and not named:
        inside, outside = check_scores("inside", rows[0]), check_scores("outside", rows[1])
        bad = np.repeat([False, True], [len(inside), len(outside)])
        return _ranked(OUTSIDE[function], np.concatenate((inside, outside)), bad)
    if function in RANKED and set(named) <= {"risk", "coverage"}:
        return _ranked(partial(RANKED[function], **named), *check_confidence(*rows))
    return None


def _losses(function: Callable[..., float], probabilities: NDArray[Any], labels: NDArray[Any]) -> Floats:
    """Of which the metric is the mean."""
    p, y = check_probabilities(probabilities, labels)
    right = p[np.arange(len(y)), y]
    if function is nll:
        return np.asarray(-np.log(np.maximum(right, SMALLEST)))
    if function is brier:
        return np.asarray((p**2).sum(1) - 2 * right + 1)
    return np.asarray(p.argmax(1) == y, dtype=np.float64)


@dataclass(frozen=True)
class _Levels:
    """As :class:`squad.metrics.ties.Ties`, for B resamples: counts at or above each of G scores, the highest first.

    Attributes:
        good, bad: (B, G), cumulative; a resample may have no case at a score.
    """

    good: Counts
    bad: Counts

    @property
    def ends(self) -> Counts:
        return self.good + self.bad


def _ranked(metric: Callable[[_Levels], Floats], scores: Floats, bad: NDArray[np.bool_]) -> OnCounts:
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
        return metric(_Levels(every - failed, failed))

    return measured


def _before(counts: Counts) -> Counts:
    return np.concatenate((np.zeros((len(counts), 1), dtype=counts.dtype), counts[:, :-1]), 1)


def _harmonic(most: int) -> Floats:
    """1 + 1/2 + ... + 1/n for n from 0."""
    return np.concatenate(([0.0], np.cumsum(1 / np.arange(1, most + 1))))


def _aurc(levels: _Levels) -> Floats:
    ends, bad = levels.ends, levels.bad
    starts, wrong = _before(ends), _before(bad)
    errors, sizes = bad - wrong, ends - starts
    share = errors / np.maximum(sizes, 1)
    sums = _harmonic(int(ends.max()))[ends]
    sums[:, 1:] -= sums[:, :-1].copy()  # of 1 / rank over each group
    return np.asarray((errors + (wrong - share * starts) * sums).sum(1) / ends[:, -1])


def _e_aurc(levels: _Levels) -> Floats:
    count, errors = levels.ends[:, -1], levels.bad[:, -1]
    sums = _harmonic(int(count.max()))
    best = (errors - (count - errors) * (sums[count] - sums[count - errors])) / count
    return np.asarray(np.maximum(_aurc(levels) - best, 0.0))


def _augrc(levels: _Levels) -> Floats:
    errors = levels.bad[:, -1]
    misranked = ((levels.good - _before(levels.good)) * (levels.bad + _before(levels.bad))).sum(1) / 2
    return np.asarray((misranked + errors**2 / 2) / levels.ends[:, -1] ** 2)


def _auroc(levels: _Levels) -> Floats:
    pairs = levels.good[:, -1] * levels.bad[:, -1]
    misranked = ((levels.good - _before(levels.good)) * (levels.bad + _before(levels.bad))).sum(1) / 2
    return np.where(pairs > 0, 1 - misranked / np.maximum(pairs, 1), np.nan)


def _average_precision(levels: _Levels) -> Floats:
    total, ends, before = levels.bad[:, -1:], levels.ends, _before(levels.bad)
    precision = (total - before) / np.maximum(ends[:, -1:] - _before(ends), 1)
    found = ((levels.bad - before) * precision).sum(1)
    return np.where(total[:, 0] > 0, found / np.maximum(total[:, 0], 1), np.nan)


def _coverage_at_risk(levels: _Levels, risk: float) -> Floats:
    ends = levels.ends
    good = levels.bad <= risk * ends + SLACK
    return np.asarray(np.where(good, ends, 0).max(1) / ends[:, -1])


def _risk_at_coverage(levels: _Levels, coverage: float) -> Floats:
    ends, bad = levels.ends, levels.bad
    answered = np.maximum(1, np.ceil(coverage * ends[:, -1] - SLACK)).astype(np.int64)
    group = (ends >= answered[:, None]).argmax(1)
    each = np.arange(len(ends))
    start, wrong = _before(ends)[each, group], _before(bad)[each, group]
    share = (bad[each, group] - wrong) / (ends[each, group] - start)
    return np.asarray((wrong + (answered - start) * share) / answered)


RANKED: dict[Callable[..., float], Callable[..., Floats]] = {
    aurc: _aurc,
    e_aurc: _e_aurc,
    augrc: _augrc,
    failure_auroc: _auroc,
    failure_ap: _average_precision,
    coverage_at_risk: _coverage_at_risk,
    risk_at_coverage: _risk_at_coverage,
}

#: Of scores inside and outside.
OUTSIDE: dict[Callable[..., float], Callable[[_Levels], Floats]] = {ood_auroc: _auroc, ood_ap: _average_precision}
