"""Effect of recalibration on few rows on the true NLL of a model, simulated with known class probabilities.

Logits of three classes are drawn, and labels from their softmax.  The model predicts the softmax of logits that are 1,
2 or 3 times as large: calibrated, or overconfident.  Its true NLL, before and after, is the mean of the expected NLL
over other rows.  "most" is the gain of the same map fitted to very many rows.  Before: maximum likelihood with a weak
prior, applied in all cases.  After: the method of squad recalibrate.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from benchmarks.harness import arguments, rows, save
from squad.selective.recalibration import Recalibration
from squad.selective.recalibration_fit import fit_recalibration

SEED = 5
CLASSES = 3
SCALES = (1.0, 2.0, 3.0)
SIZES = (50, 100, 200, 1000)
REPETITIONS = 200
#: Rows to measure the true NLL, and the number of rows that counts as very many.
MEASURED, MANY = 1000, 10_000

Floats = NDArray[np.float64]


def softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def draw(n: int, scale: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw true probabilities, and those that the model predicts."""
    logits = rng.normal(0, 1.2, size=(n, CLASSES))
    logits[np.arange(n), rng.integers(CLASSES, size=n)] += rng.gamma(2, 1.5, size=n)
    return softmax(logits), softmax(scale * logits)


def labels(truth: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.asarray((truth.cumsum(1) > rng.random((len(truth), 1))).argmax(1))


def true_nll(truth: Floats, stated: Floats) -> float:
    return float(-(truth * np.log(np.maximum(stated, 1e-300))).sum(1).mean())


def maximum_likelihood(p: Floats, y: NDArray[np.int64]) -> Recalibration:
    """Fit the former map: the maximum a posteriori temperature, with a standard normal prior on its logarithm."""

    def cost(log_t: float) -> float:
        mapped = Recalibration("temperature", CLASSES, math.exp(log_t), len(p)).apply(p)
        return float(log_t**2 / 2 - np.log(np.maximum(mapped[np.arange(len(y)), y], 1e-300)).sum())

    found = minimize_scalar(cost, bounds=(-2.5, 2.5), method="bounded", options={"xatol": 1e-4})
    return Recalibration("temperature", CLASSES, math.exp(found.x), len(p))


def cells(scale: float) -> list[dict[str, Any]]:
    rng = np.random.default_rng([SEED, int(10 * scale)])
    truth, stated = draw(MEASURED, scale, rng)
    before = true_nll(truth, stated)
    true, model = draw(MANY, scale, rng)
    most = before - true_nll(truth, maximum_likelihood(model, labels(true, rng)).apply(stated)) if scale != 1 else 0.0
    found = []
    for n in SIZES:
        lost: dict[str, list[float]] = {"before": [], "temperature": []}
        unchanged = dict.fromkeys(lost, 0)
        for _ in range(REPETITIONS):
            true, model = draw(n, scale, rng)
            y = labels(true, rng)
            made = {"before": maximum_likelihood(model, y), "temperature": fit_recalibration(model, y)}
            for name, one in made.items():
                lost[name].append(true_nll(truth, one.apply(stated)) - before)
                unchanged[name] += one.unchanged
        found += [
            {
                "scale": scale,
                "n": n,
                "way": name,
                "worse": float((np.array(values) > 1e-12).mean()),
                "unchanged": unchanged[name] / REPETITIONS,
                "gain": -float(np.mean(values)),
                "gain_error": float(np.std(values, ddof=1) / math.sqrt(len(values))),
                "most": most,
            }
            for name, values in lost.items()
        ]
    return found


def main() -> None:
    options = arguments(__doc__)
    results = [one for scale in SCALES for one in cells(scale)]
    table = [
        [
            f"{one['scale']:g}",
            str(one["n"]),
            one["way"],
            f"{100 * one['worse']:.0f}",
            f"{100 * one['unchanged']:.0f}",
            f"{one['gain']:+.4f}",
            f"{one['most']:.4f}",
        ]
        for one in results
    ]
    rows("True NLL", ["logits x", "rows", "method", "worse %", "unchanged %", "gain", "most"], table)
    settings = {"sizes": SIZES, "scales": SCALES, "repetitions": REPETITIONS, "classes": CLASSES}
    save("recalibration_rows", options.out, settings, results, SEED)


if __name__ == "__main__":
    main()
