"""Recalibration on Fashion-MNIST: NLL, ECE and ranking before and after, for SQUAD and an MLP.

For comparison, the softmax temperature of Guo et al. (2017) is measured as well: it may reorder rows, the library's
maps may not.  Networks are trained on the training set; one half of the test set is used to recalibrate, the other half
to measure.

The data set must have been downloaded (squad data fetch fashion-mnist), or be in the folder SQUAD_DATA.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from benchmarks.harness import RESULTS, rows, save
from squad.data.images import load_images
from squad.data.splits import split_rows
from squad.fitting import FitSettings, fit_predictor
from squad.metrics import aurc, ece, nll
from squad.models import network_config
from squad.selective.recalibration_fit import fit_recalibration
from squad.train import TrainConfig, make_progress

Array = NDArray[np.float64]


def tempered(p: Array, t: float) -> Array:
    """Return the softmax at temperature t."""
    logits = np.log(np.maximum(p, 1e-300)) / t
    found = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(found / found.sum(1, keepdims=True))


def softmax_temperature(p: Array, y: NDArray[np.int64]) -> float:
    """Return the temperature with the smallest NLL."""
    found = minimize_scalar(lambda log_t: nll(tempered(p, np.exp(log_t)), y), bounds=(-2, 2), method="bounded")
    return float(np.exp(found.x))


def measure(p: Array, raw: Array, y: NDArray[np.int64]) -> dict[str, float]:
    """Return metrics on the second half; "moved" is the fraction of neighbouring rows whose order has changed."""
    confidence, correct = p.max(1), p.argmax(1) == y
    order = np.argsort(raw.max(1), kind="stable")
    return {
        "nll": nll(p, y),
        "ece": ece(confidence, correct),
        "ece_debiased": ece(confidence, correct, debiased=True),
        "aurc": aurc(confidence, correct),
        "moved": float((np.diff(confidence[order]) < 0).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--max-epochs", type=int, default=60)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the record")
    options = parser.parse_args()
    images = load_images("fashion-mnist", download=False)
    parts = split_rows(images.y_test.tolist(), {"fit": 0.5, "test": 0.5}, 0).parts
    results: list[dict[str, Any]] = []
    for name in ("squad", "mlp"):
        settings = FitSettings(network=network_config(name), training=TrainConfig(max_epochs=options.max_epochs))
        progress = make_progress(label=name)
        predictor = fit_predictor(images.x_train, images.y_train, settings, device=options.device, progress=progress)
        p = predictor.answer(images.x_test).probabilities
        fit, test = ((p[rows_], images.y_test[rows_]) for rows_ in (parts["fit"], parts["test"]))
        t = softmax_temperature(*fit)
        found = {"raw": test[0], "softmax temperature": tempered(test[0], t)}
        for method in ("temperature", "isotonic"):
            found[method] = fit_recalibration(*fit, method=method).apply(test[0])
        results += [{"network": name, "way": method, **measure(q, *test)} for method, q in found.items()]
    table = [
        [
            one["network"],
            one["way"],
            f"{one['nll']:.4f}",
            f"{100 * one['ece']:.2f}",
            f"{100 * one['ece_debiased']:.2f}",
            f"{1000 * one['aurc']:.2f}",
            f"{100 * one['moved']:.1f}",
        ]
        for one in results
    ]
    rows("5,000 rows", ["network", "method", "NLL", "ECE %", "debiased", "AURC x 1000", "moved %"], table)
    settings_ = {"device": options.device, "max_epochs": options.max_epochs, "fit": 5000, "test": 5000}
    save(f"recalibration-{options.device}", options.out, settings_, results, seed=0)


if __name__ == "__main__":
    main()
