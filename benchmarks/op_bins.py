"""Time and memory of the sampling operation, forward and backward, against the number of bins: is it linear in C?"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.harness import arguments, in_turns, peak_memory, rows, save
from squad.core.bins import linear_bins, uniform_log_weights
from squad.ops import eager, sample_with_kl

BINS = [5, 9, 15, 25, 37, 51, 75, 101]
SIZES = {"cpu": (1024, 64), "cuda": (8192, 256)}


def step(bins: int, rows_: int, neurons: int, backend: str, device: str, block: int) -> Callable[[], None]:
    """Return a forward and backward pass of ``neurons`` latents over ``rows_`` rows, in blocks of size ``block``."""
    torch.manual_seed(0)
    logits = torch.randn(rows_, bins, neurons, device=device, requires_grad=True)
    values = linear_bins(bins).to(device).unsqueeze(-1).requires_grad_()
    prior = uniform_log_weights(bins).to(device).unsqueeze(-1)
    grad_z, grad_kl = (
        torch.randn(rows_, neurons, device=device),
        torch.full((rows_, neurons), 1e-3, device=device),
    )
    seed = torch.tensor(1, device=device)

    def run() -> None:
        eager.BLOCK_SIZE = block
        z, kl = sample_with_kl(logits, values, prior, 0.5, seed=seed, backend=backend)  # type: ignore[arg-type]
        torch.autograd.grad([z, kl], [logits, values], [grad_z, grad_kl])

    return run


def floor(bins: int, rows_: int, neurons: int, device: str) -> Callable[[], object]:
    """Return a function with the minimum memory traffic: logits read in each direction, their gradient written."""
    logits, gradient = (torch.randn(rows_, bins, neurons, device=device) for _ in range(2))
    return partial(torch.add, logits, gradient, out=torch.empty_like(logits))


def fit(x: list[int], y: list[float]) -> dict[str, float]:
    """Fit a straight line; return its coefficients, R^2, and the exponent of a power law."""
    slope, start = np.polyfit(x, y, 1)
    residual = np.array(y) - (start + slope * np.array(x))
    r2 = 1 - residual.var() / np.var(y)
    # The power law is fitted to the larger half, where the part that does not depend on C is negligible.
    half = len(x) // 2
    exponent = np.polyfit(np.log(x[half:]), np.log(y[half:]), 1)[0]
    return {"start": float(start), "slope": float(slope), "r2": float(r2), "exponent": float(exponent)}


def main() -> None:
    options = arguments(__doc__)
    n, k = SIZES[options.device]
    results: dict[str, dict[str, Any]] = {}
    # On the CPU eager works in blocks; the effect shows in a comparison with one large block.
    variants = {name: (name, eager.BLOCK_SIZE) for name in ("eager", "reference")}
    if options.device == "cpu":
        variants["eager in one piece"] = ("eager", 1 << 62)
    calls: dict[str, dict[str, Callable[[], object]]] = {
        variant: {str(c): step(c, n, k, backend, options.device, block) for c in BINS}
        for variant, (backend, block) in variants.items()
    }
    calls["floor"] = {str(c): floor(c, n, k, options.device) for c in BINS}
    for variant, steps in calls.items():
        seconds = in_turns(steps, options.device, rounds=25)
        peak_bytes = [peak_memory(run, options.device) for run in steps.values()]
        results[variant] = {
            "bins": BINS,
            "seconds": [seconds[str(c)] for c in BINS],
            "bytes": peak_bytes,
            "time_fit": fit(BINS, [seconds[str(c)]["median"] for c in BINS]),
            "memory_fit": fit(BINS, [float(b) for b in peak_bytes]),
        }
        rows(
            f"{variant} on {options.device}, N = {n}, K = {k}: forward + backward",
            ["C", "ms", "q25", "q75", "MiB"],
            [
                [
                    str(c),
                    *(f"{seconds[str(c)][q] * 1e3:.3f}" for q in ("median", "q25", "q75")),
                    f"{b / 2**20:.1f}",
                ]
                for c, b in zip(BINS, peak_bytes, strict=True)
            ],
        )
        for name in ("time_fit", "memory_fit"):
            line = results[variant][name]
            print(f"  {name}: R^2 of a line {line['r2']:.4f}; exponent for C >= {BINS[4]}: {line['exponent']:.2f}")
    save(
        f"op_bins-{options.device}",
        options.out,
        {"device": options.device, "N": n, "K": k, "rounds": 25},
        results,
        seed=1,
    )


if __name__ == "__main__":
    main()
