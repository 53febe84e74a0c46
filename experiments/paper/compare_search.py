"""The best settings of the search beside the paper's own: ten networks each, on Fashion-MNIST's test rows.

    python -m experiments.paper.compare_search --device cuda

Writes experiments/paper/results/search-squad.json, from which README.md is written.  The data set must be on this
machine (squad data fetch fashion-mnist) or in a folder that SQUAD_DATA names.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import torch

from squad.data.array_transform import ArrayTransform
from squad.data.images import load_images
from squad.fitting import choose_device, prepare
from squad.models import Sampler
from squad.records import Record
from squad.search.objective import Objective
from squad.settings import fit_settings, read_toml
from squad.train import fit, make_progress

HERE = Path(__file__).parent
#: As the paper's appendix has them; its dropout rate is not told, and none is taken.
PAPER = {
    "model": "squad",
    "network": {"bins": 15, "spacing": "linear", "limit": 3.5, "prior": "uniform", "learn_values": "per_layer",
                "init_scale": 3.214},
    "training": {"lr": 0.0008, "kl_multiplier": 0.0027, "batch_size": 244},
}  # fmt: skip
WAYS = (("stratified", 8), ("relaxed", 32))
RISKS = (0.005, 0.01, 0.02)


def measured(settings: dict[str, Any], members: int, device: torch.device) -> dict[str, Any]:
    """Of as many networks, each with a split and a seed of its own."""
    images = load_images("fashion-mnist", download=False)
    own = fit_settings({**settings, "members": members, "split_per_member": True, "validation": 1 / 6, "seed": 0})
    ready = prepare(images.x_train, images.y_train, own)
    fitted = fit(
        own.network, own.training, ready.data, own.seeds, device=device, progress=make_progress(label="comparison")
    )
    transform = ready.transform
    assert isinstance(transform, ArrayTransform)
    test = torch.from_numpy(transform.apply(images.x_test).x)
    found: dict[str, Any] = {
        "epochs": [member.epochs for member in fitted.members],
        "validation_accuracy": [member.best_accuracy for member in fitted.members],
        "weights": sum(p.numel() for p in fitted.network.parameters()) // members,
    }
    for sampling, count in WAYS:
        p = Sampler(fitted.network, sampling, count)(test).probabilities.cpu().numpy()
        found[f"{sampling}, T = {count}"] = [_test(each, images.y_test) for each in p]
    return found


def _test(p: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> dict[str, float]:
    confidence, correct = p.max(1), p.argmax(1) == y
    found = {
        f"coverage@{risk}": Objective.parse(f"coverage@risk={risk}").measure(confidence, correct) for risk in RISKS
    }
    details = found["coverage@0.02"][1]
    likelihood = np.log(np.maximum(p[np.arange(len(y)), y], 1e-300))
    return {
        **{name: value for name, (value, _) in found.items()},
        "accuracy": details["accuracy"],
        "aurc": details["aurc"],
        "nll": float(-likelihood.mean()),
    }


def main() -> None:
    """Train, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "search-squad.json")
    options = parser.parse_args()
    device = choose_device(options.device)
    best = read_toml(HERE / "search" / "squad" / "best.toml")
    chosen = {"model": "squad", "network": best["network"], "training": best["training"]}
    settings = {"the paper's": PAPER, "the search's best": chosen}
    results = {name: measured(own, options.members, device) for name, own in settings.items()}
    for name, found in results.items():
        for sampling, count in WAYS:
            each = found[f"{sampling}, T = {count}"]
            means = {key: statistics.fmean(one[key] for one in each) for key in each[0]}
            print(name, sampling, count, {key: round(value, 4) for key, value in means.items()})
    Record("experiment", "search-squad", {"settings": settings, "members": options.members}, results, 0).save(
        options.out
    )


if __name__ == "__main__":
    main()
