"""How often confidence intervals of metrics cover the true value, on samples of a population whose metrics are known.

Let q be the fraction of the population that is more confident than a case.  There are two classes.  A case is wrong
with probability h(q) = rate (.36 q^2 + 6.16 q^6), with an overall error rate of ``rate``, and its confidence is
1 - .7 h(q), which is slightly overconfident.  In-distribution scores are normal with mean 1.5, out-of-distribution
scores with mean 0; there are rate x n of the latter.

Before: the percentile bootstrap, with the same resamples.  After: the result of squad.metrics.bootstrap.  "flagged" is
the fraction of intervals marked as approximate, "unflagged" the coverage of the others.
"""

import argparse
import importlib
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from benchmarks.harness import RESULTS, rows, save
from squad import metrics
from squad.metrics.resampled import draw_counts
from squad.records import Record

SEED = 31
LEVEL = 0.95
RATES = (0.02, 0.1)
#: Number of samples drawn, by their size.
SIZES = {100: 500, 200: 2000, 500: 2000, 2000: 500}
#: Resamples per interval, the default.
REPEATS = 1000
NAME = "intervals"
NAMES = (
    "accuracy", "nll", "brier", "aurc", "e_aurc", "augrc", "risk_at_coverage", "failure_auroc", "failure_ap",
    "ood_auroc", "ood_ap", "ece", "coverage_at_risk",
)  # fmt: skip

Floats = NDArray[np.float64]


def error_probability(q: Floats, rate: float) -> Floats:
    return np.asarray(rate * (0.36 * q**2 + 6.16 * q**6))


def risk(q: Floats, rate: float) -> Floats:
    """Return the selective risk at coverage q."""
    return np.asarray(rate * (0.12 * q**2 + 0.88 * q**6))


def truths(rate: float) -> dict[str, float]:
    """Return the true value of every metric; without a formula, by sums over a million cases."""
    q = (np.arange(1_000_000) + 0.5) / 1_000_000
    h = error_probability(q, rate)
    c = 1 - 0.7 * h
    area = rate * (0.04 + 0.88 / 7)
    generalized = rate * (0.03 + 0.11)
    bins = np.minimum((15 * c).astype(np.int64), 14)
    above = rate - q * risk(q, rate)  # errors among the less confident
    scores = np.linspace(-8, 9, 1_000_001)
    density = np.exp(-(scores**2) / 2) / math.sqrt(2 * math.pi) * (scores[1] - scores[0])
    inside, outside = ndtr(scores - 1.5), rate * ndtr(scores)
    return {
        "accuracy": 1 - rate,
        "nll": float(-((1 - h) * np.log(c) + h * np.log(1 - c)).mean()),
        "brier": float((2 * ((1 - h) * (1 - c) ** 2 + h * c**2)).mean()),
        "aurc": area,
        "e_aurc": area - (rate + (1 - rate) * math.log1p(-rate)),
        "augrc": generalized,
        "risk_at_coverage": float(risk(np.array(0.8), rate)),
        "failure_auroc": 1 - (generalized - rate**2 / 2) / (rate * (1 - rate)),
        "failure_ap": float((above / (1 - q) * h / rate).mean()),
        "ood_auroc": float(ndtr(1.5 / math.sqrt(2))),
        "ood_ap": float((outside / (inside + outside) * density).sum()),
        "ece": float(np.abs(np.bincount(bins, 1 - h - c)).sum() / len(q)),
        "coverage_at_risk": float(q[risk(q, rate) <= rate / 2].max()),
    }


def sample(n: int, rate: float, repetition: int) -> dict[str, tuple[Callable[..., float], list[Any], bool]]:
    """Draw a sample; return each metric with its arrays, and whether they are paired."""
    rng = np.random.default_rng([SEED, n, int(1000 * rate), repetition])
    h = error_probability(rng.random(n), rate)
    c, wrong = 1 - 0.7 * h, rng.random(n) < h
    ranked, predicted = [c, ~wrong], [np.stack([c, 1 - c], 1), wrong.astype(np.int64)]
    ood = [rng.normal(1.5, 1, n), rng.normal(0, 1, max(2, round(rate * n)))]
    paired = {"accuracy": predicted, "nll": predicted, "brier": predicted}
    named = {
        "risk_at_coverage": partial(metrics.risk_at_coverage, coverage=0.8),
        "coverage_at_risk": partial(metrics.coverage_at_risk, risk=rate / 2),
    }
    found = {}
    for name in NAMES:
        arrays = ood if name.startswith("ood") else paired.get(name, ranked)
        found[name] = named.get(name, getattr(metrics, name)), arrays, not name.startswith("ood")
    return found


def both(
    metric: Callable[..., float], arrays: list[Any], paired: bool, seed: int, repeats: int
) -> tuple[tuple[float, float], metrics.Interval]:
    """Return the percentile interval, and that of the library."""
    module = importlib.import_module("squad.metrics.bootstrap")  # hidden by the function of the same name
    value = float(metric(*arrays))
    draws = np.random.default_rng(seed)
    better = module._without_draws(metric, arrays, value, LEVEL, paired)
    if better is None:
        resampled = module._resampled(metric, arrays, value, draws, repeats, paired)
        values, better = resampled.values, resampled.interval(LEVEL)
    else:
        samples = [len(arrays[0])] if paired else [len(array) for array in arrays]
        measure = module._measure(metric, arrays, samples)
        values = np.concatenate([measure(counts) for counts in draw_counts(draws, samples, repeats)])
    known = values[~np.isnan(values)]
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist() if len(known) else (math.nan, math.nan)
    return (low, high), better


def cells(n: int, rate: float, repetitions: int, repeats: int) -> list[dict[str, Any]]:
    truth = truths(rate)
    hits: dict[str, list[tuple[bool, bool, bool]]] = {name: [] for name in truth}
    for repetition in range(repetitions):
        for name, (metric, arrays, paired) in sample(n, rate, repetition).items():
            (low, high), found = both(metric, arrays, paired, repetition, repeats)
            if not math.isnan(found.value):
                covered = found.low <= truth[name] <= found.high
                hits[name].append((low <= truth[name] <= high, covered, found.approximate))
    return [
        {"metric": name, "n": n, "rate": rate, "truth": truth[name], **summary(np.array(one))}
        for name, one in hits.items()
        if one
    ]


def summary(hits: NDArray[np.bool_]) -> dict[str, Any]:
    before, after, flagged = hits.T
    return {
        "defined": len(hits),
        "before": float(before.mean()),
        "after": float(after.mean()),
        "flagged": float(flagged.mean()),
        "unflagged": float(after[~flagged].mean()) if not flagged.all() else None,
        "unflagged_count": int((~flagged).sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the record")
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="*",
        default=list(SIZES),
        help="sizes to simulate; others keep their recorded results",
    )
    parser.add_argument("--repetitions", type=int, help="number of samples of each size")
    options = parser.parse_args()
    path = options.out / f"{NAME}.json"
    recorded = []
    if set(options.sizes) != set(SIZES) and path.exists():
        recorded = [one for one in Record.load(path).results if one["n"] not in options.sizes]
    results = [
        one for n in options.sizes for rate in RATES for one in cells(n, rate, options.repetitions or SIZES[n], REPEATS)
    ]
    results = sorted([*recorded, *results], key=lambda one: (one["n"], one["rate"]))
    table = [
        [
            one["metric"],
            str(one["n"]),
            f"{100 * one['rate']:g}",
            f"{100 * one['before']:.1f}",
            f"{100 * one['after']:.1f}",
            f"{100 * one['flagged']:.0f}",
            "" if one["unflagged"] is None else f"{100 * one['unflagged']:.1f}",
        ]
        for one in sorted(results, key=lambda one: one["metric"])
    ]
    rows("Coverage in %", ["metric", "n", "errors %", "before", "after", "flagged", "unflagged"], table)
    settings = {"rates": RATES, "repeats": REPEATS, "level": LEVEL}
    save(NAME, options.out, settings, results, SEED)


if __name__ == "__main__":
    main()
