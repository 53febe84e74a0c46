"""Time of ranking metrics and of a certificate for a million cases, relative to sorting the same confidences.

Confidences are calibrated; once continuous, once rounded to three decimals, so that they tie.  The speed of np.sort
depends on the processor's vector instructions, so the ratios are those of the machine in the record.
"""

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import arguments, in_turns, rows, save
from squad.metrics import augrc, aurc
from squad.selective import Certificate, certify

CASES, ROUNDS, RISK, SEED = 1_000_000, 21, 0.02, 0

#: A new delta for each call, so that cached results of earlier levels are not used.
DELTAS = (0.01 * (1 + i * 1e-9) for i in itertools.count())


def certify_uncached(confidence: NDArray[np.float64], correct: NDArray[np.bool_]) -> Certificate:
    return certify(confidence, correct, RISK, next(DELTAS))


def main() -> None:
    options = arguments(__doc__)
    generator = np.random.default_rng(SEED)
    smooth = generator.beta(12, 1, CASES)
    correct = generator.random(CASES) < smooth
    results = []
    for kind, confidence in (("continuous", smooth), ("three decimals", smooth.round(3))):
        functions: dict[str, Callable[[], object]] = {
            "np.sort": partial(np.sort, confidence),
            "np.argsort": partial(np.argsort, confidence),
            "aurc": partial(aurc, confidence, correct),
            "augrc": partial(augrc, confidence, correct),
            "certify": partial(certify_uncached, confidence, correct),
        }
        times = in_turns(functions, "cpu", ROUNDS)
        unit = times["np.sort"]["median"]
        sorts = {name: {k: v / unit for k, v in t.items()} for name, t in times.items()}
        coverage = certify(confidence, correct, RISK).coverage
        results.append({"confidence": kind, "coverage": coverage, "seconds": times, "sorts": sorts})
        rows(
            f"{CASES:,} cases, {kind}; np.sort takes {1e3 * unit:.1f} ms; {100 * coverage:.1f} % certified",
            ["relative to np.sort", "median", "q25", "q75"],
            [[name, *(f"{t[k]:.2f}" for k in ("median", "q25", "q75"))] for name, t in sorts.items()],
        )
    settings = {"device": "cpu", "cases": CASES, "rounds": ROUNDS, "risk": RISK}
    save("metrics_speed-cpu", options.out, settings, results, seed=SEED)


if __name__ == "__main__":
    main()
