"""Time of an epoch of each of the paper's networks at its SVHN sizes, K = 256, on a GPU.

The paper reports 9 s for SQUAD-factorized and 13 s for Maxout MC dropout.  The rows are random numbers of SVHN's shape,
on which the time does not depend.
"""

from typing import Any

import torch

from benchmarks.harness import arguments, in_turns, rows, save
from squad.models import NetworkConfig, build
from squad.models.config import FactorizedSquadConfig, MaxoutDropoutConfig, MLPConfig, SquadConfig
from squad.train.adam import Adam
from squad.train.step import KernelSteps

ROWS, INPUTS, BATCH = 65_880, 3072, 244
HIDDEN = (256, 256)
NETWORKS: dict[str, NetworkConfig] = {
    "mlp": MLPConfig(hidden=HIDDEN),
    "maxout-dropout": MaxoutDropoutConfig(hidden=HIDDEN, pieces=11, dropout=0.3),
    "squad": SquadConfig(hidden=HIDDEN, bins=15),
    "squad-factorized": FactorizedSquadConfig(hidden=HIDDEN, bins=37, rank=4),
}


def main() -> None:
    options = arguments(__doc__)
    device = options.device
    x, y = torch.randn(ROWS, INPUTS, device=device), torch.randint(10, (ROWS,), device=device)
    order = torch.randperm(ROWS, device=device).view(1, -1, BATCH)
    calls, weights = {}, {}
    for precision in ("tf32", "float32"):
        for name, config in NETWORKS.items():
            network = build(config, INPUTS, 10, [0]).to(device).train()
            adam = Adam(network, torch.full((1,), 8e-4), torch.full((1,), 1e-5))
            beta, seed = torch.full((1,), 1e-3, device=device), torch.tensor([2**40], device=device)
            steps = KernelSteps(network, adam, x, y, beta, seed, precision)
            weights[name] = adam.flat.shape[1]
            calls[f"{name} {precision}"] = lambda steps=steps: steps.epoch(order, 0)
    seconds = in_turns(calls, device, rounds=7, warmup=1)
    results: dict[str, Any] = {"weights": weights}
    for precision in ("tf32", "float32"):
        found = {name: seconds[f"{name} {precision}"] for name in NETWORKS}
        ratio = found["squad-factorized"]["median"] / found["maxout-dropout"]["median"]
        results[precision] = {"seconds": found, "ratio": ratio}
        rows(
            f"An epoch of {order.shape[1]} steps, {precision}; SQUAD-factorized / Maxout = {ratio:.2f}",
            ["network", "weights", "ms", "q25", "q75"],
            [
                [n, f"{weights[n]:,}", *(f"{1e3 * s[q]:.1f}" for q in ("median", "q25", "q75"))]
                for n, s in found.items()
            ],
        )
    save(
        f"svhn_epoch-{device}", options.out, {"device": device, "rows": ROWS, "batch": BATCH, "hidden": HIDDEN}, results
    )


if __name__ == "__main__":
    main()
