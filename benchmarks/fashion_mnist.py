"""SQUAD 2 x 32 on Fashion-MNIST with the paper's settings: accuracy, time, and ranking quality of each sampling mode.

The data set must have been downloaded (squad data fetch fashion-mnist), or be in the folder SQUAD_DATA.
"""

import argparse
import functools
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.harness import RESULTS, in_turns, rows, save
from squad.data.images import load_images
from squad.fitting import FitSettings, fit_predictor
from squad.metrics import accuracy, aurc, coverage_at_risk, nll
from squad.models import Sampler, network_config
from squad.predictor import Predictor
from squad.train import TrainConfig, make_progress

#: Sampling modes with their number of samples T.
SAMPLINGS = [
    ("mean", 1),
    *(("relaxed", t) for t in (1, 2, 4, 8, 16, 32, 64)),
    *(("stratified", t) for t in (1, 2, 4, 8, 16, 32, 64)),
    *(("hard", t) for t in (4, 8, 32)),
]
RISKS = (0.005, 0.01, 0.02)


def train(members: int, device: str, max_epochs: int) -> tuple[Predictor, Any]:
    images = load_images("fashion-mnist", download=False)
    settings = FitSettings(
        network=network_config("squad"),
        training=TrainConfig(lr=8e-4, kl_multiplier=0.0027, batch_size=244, max_epochs=max_epochs),
        members=members,
        validation=1 / 6,
        split_per_member=True,
    )
    predictor = fit_predictor(
        images.x_train, images.y_train, settings, device=device, progress=make_progress(label="fashion-mnist")
    )
    return predictor, images


def measure(probabilities: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> dict[str, float]:
    """Return the metrics of one network."""
    confidence, correct = probabilities.max(1), probabilities.argmax(1) == y
    return {
        "accuracy": accuracy(probabilities, y),
        "nll": nll(probabilities, y),
        "aurc": aurc(confidence, correct),
        **{f"coverage@{risk}": coverage_at_risk(confidence, correct, risk) for risk in RISKS},
    }


def summary(found: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return mean and standard deviation over networks."""
    return {
        name: {
            "mean": statistics.fmean(each[name] for each in found),
            "std": statistics.stdev(each[name] for each in found) if len(found) > 1 else 0.0,
        }
        for name in found[0]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--max-epochs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the record")
    parser.add_argument("--model", type=Path, help="folder to save the model in")
    options = parser.parse_args()
    predictor, images = train(options.members, options.device, options.max_epochs)
    first = predictor.record["seconds"]
    if options.device == "cuda":  # again, because the first run of a process compiles kernels that are not cached
        predictor, images = train(options.members, options.device, options.max_epochs)
    if options.model:
        predictor.save(options.model, overwrite=True)
    x = torch.from_numpy(predictor.transform.apply(images.x_test).x).to(options.device)
    # Samplers draw their noise beforehand, as in a predictor that is used repeatedly.
    samplers = {
        f"{sampling} {samples}": Sampler(predictor.network, sampling, samples) for sampling, samples in SAMPLINGS
    }
    calls = {name: functools.partial(sampler, x) for name, sampler in samplers.items()}
    times = in_turns(calls, options.device, rounds=5, warmup=1)
    entries, table = [], []
    for sampling, samples in SAMPLINGS:
        seconds = times[f"{sampling} {samples}"]
        p = samplers[f"{sampling} {samples}"](x).probabilities.cpu().numpy()
        each = summary([measure(member, images.y_test) for member in p])
        together = measure(p.mean(0), images.y_test)
        entries.append(
            {"sampling": sampling, "samples": samples, "seconds": seconds, "each": each, "together": together}
        )
        table.append(
            [
                sampling,
                str(samples),
                f"{100 * each['accuracy']['mean']:.2f}",
                f"{each['nll']['mean']:.4f}",
                f"{1000 * each['aurc']['mean']:.2f}",
                *(f"{100 * each[f'coverage@{risk}']['mean']:.1f}" for risk in RISKS),
                f"{seconds['median'] * 1e3:.1f}",
            ]
        )
    header = ["sampling", "T", "acc. %", "NLL", "AURC x 1000", *(f"cov {100 * risk:g} %" for risk in RISKS), "ms"]
    rows(f"{options.members} members, {len(x)} test rows, {options.device}; means over members", header, table)
    record = predictor.record
    epochs = [member["epochs"] for member in record["members"]]
    print(f"training took {record['seconds']:.1f} s, the first time {first:.1f} s; epochs: {epochs}")
    save(
        f"fashion_mnist-{options.device}",
        options.out,
        {
            "network": {"name": "squad", **predictor.config.to_dict()},
            "training": record["training"],
            "members": options.members,
            "device": options.device,
            "rows": record["rows"],
            "test_rows": len(x),
        },
        {
            "train_seconds": record["seconds"],
            "first_train_seconds": first,
            "members": record["members"],
            "ways": entries,
        },
        seed=record["seed"],
    )


if __name__ == "__main__":
    main()
