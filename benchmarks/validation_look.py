"""Time of a validation pass, as after every epoch of training, with matrix products in TF32 and in float32.

The networks have SVHN's sizes and draw as many samples as the trials of a study.  The rows are random numbers of SVHN's
shape, on which the time does not depend.
"""

from typing import Any

import torch

from benchmarks.harness import arguments, in_turns, rows, save
from squad.models import NetworkConfig, Sampler, build
from squad.models.config import FactorizedSquadConfig, MaxoutDropoutConfig, MLPConfig, SquadConfig

ROWS, INPUTS = 7326, 3072
HIDDEN = (256, 256)
PRECISIONS = ("tf32", "float32")
#: Settings, sampling mode and number of samples of each network.
NETWORKS: dict[str, tuple[NetworkConfig, str, int]] = {
    "mlp": (MLPConfig(hidden=HIDDEN), "mean", 1),
    "maxout-dropout": (MaxoutDropoutConfig(hidden=HIDDEN, pieces=21, dropout=0.5), "sample", 32),
    "squad": (SquadConfig(hidden=HIDDEN, bins=15), "stratified", 8),
    "squad-factorized": (FactorizedSquadConfig(hidden=HIDDEN, bins=37, rank=4), "stratified", 8),
}


def main() -> None:
    options = arguments(__doc__)
    device = options.device
    x = torch.randn(1, ROWS, INPUTS, device=device)
    calls, settings = {}, {}
    for name, (config, sampling, num_samples) in NETWORKS.items():
        network = build(config, INPUTS, 10, [0]).to(device).eval()
        settings[name] = {"network": config.to_dict(), "sampling": sampling, "num_samples": num_samples}
        for precision in PRECISIONS:
            sampler = Sampler(network, sampling, num_samples, precision=precision)
            calls[f"{name} {precision}"] = lambda sampler=sampler: sampler(x)
    seconds = in_turns(calls, device, rounds=9, warmup=2)
    results: dict[str, Any] = {}
    for name in NETWORKS:
        found = {precision: seconds[f"{name} {precision}"] for precision in PRECISIONS}
        results[name] = {"seconds": found, "ratio": found["float32"]["median"] / found["tf32"]["median"]}
    rows(
        f"A validation pass over {ROWS:,} rows on {device}, ms",
        ["network", "samples", "tf32", "q25", "q75", "float32", "q25", "q75", "ratio"],
        [
            [
                name,
                f"{settings[name]['num_samples']} {settings[name]['sampling']}",
                *(f"{1e3 * one['seconds'][p][q]:.1f}" for p in PRECISIONS for q in ("median", "q25", "q75")),
                f"{one['ratio']:.2f}",
            ]
            for name, one in results.items()
        ],
    )
    save(
        f"validation_look-{device}",
        options.out,
        {"device": device, "rows": ROWS, "inputs": INPUTS, "hidden": HIDDEN, "asked": settings},
        results,
    )


if __name__ == "__main__":
    main()
