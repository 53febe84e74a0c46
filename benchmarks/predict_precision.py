"""Cost of prediction in float64 on a CPU, as the library does, relative to the network's own precision.

Networks with two layers of 32 units on 64 features, all sampling modes, 2,000 rows, one thread.  The rows are random
numbers, on which the time does not depend.
"""

from typing import Any

import torch

from benchmarks.harness import arguments, in_turns, rows, save
from squad.models import CONFIGS, Sampler, build, network_config

ROWS, INPUTS, HIDDEN, CLASSES = 2000, 64, (32, 32), 10


def main() -> None:
    options = arguments(__doc__)
    torch.set_num_threads(1)
    x = torch.randn(ROWS, INPUTS)
    calls: dict[str, Any] = {}
    cases = []
    for name, config in CONFIGS.items():
        network = build(network_config(name, {"hidden": HIDDEN}), INPUTS, CLASSES, [0]).eval()
        for sampling in config.samplings:
            for count in (1,) if sampling == "mean" else (8, 32):
                cases.append((name, sampling, count))
                for exact in (True, False):
                    sampler = Sampler(network, sampling, count, exact=exact)
                    calls[f"{name} {sampling} {count} {exact}"] = lambda sampler=sampler: sampler(x)
    seconds = in_turns(calls, "cpu", rounds=7, warmup=1)
    results: list[dict[str, Any]] = []
    for name, sampling, count in cases:
        float64, own = (seconds[f"{name} {sampling} {count} {exact}"] for exact in (True, False))
        ratio = float64["median"] / own["median"]
        results.append(
            {"network": name, "sampling": sampling, "samples": count, "float64": float64, "own": own, "ratio": ratio}
        )
    rows(
        f"Prediction of {ROWS:,} rows on one thread, ms",
        ["network", "sampling", "T", "float64", "float32", "ratio"],
        [
            [
                one["network"],
                one["sampling"],
                str(one["samples"]),
                f"{1e3 * one['float64']['median']:.1f}",
                f"{1e3 * one['own']['median']:.1f}",
                f"{one['ratio']:.2f}",
            ]
            for one in results
        ],
    )
    settings = {"rows": ROWS, "inputs": INPUTS, "hidden": HIDDEN, "classes": CLASSES, "threads": 1}
    save("predict_precision", options.out, settings, results)


if __name__ == "__main__":
    main()
