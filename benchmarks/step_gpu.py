"""Time of a training step on a GPU against the number of members, with a floor, and with plain steps.

SQUAD 784-32-32-10 with C = 15 and batches of 244.  The floor is a lower bound from memory and arithmetic: Adam reads
and writes three numbers per weight, and the gradient is written and read once; the two large matrix products of the
first layer are measured separately in the same run.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness import arguments, graphed, in_turns, rows, save
from squad.models import Network, SquadConfig, build
from squad.ops.matmul_precision import matmul_precision
from squad.train.adam import Adam
from squad.train.step import KernelSteps, PlainSteps, Steps

MEMBERS = (1, 2, 5, 10, 20)
STEPS, BATCH, ROWS, INPUTS, CLASSES = 100, 244, 60_000, 784, 10


def setting(members: int, device: str) -> tuple[Network, Adam, Tensor, Tensor, Tensor, Tensor]:
    """Return network, Adam, x, y, beta and seeds."""
    torch.manual_seed(0)
    network = build(SquadConfig(hidden=(32, 32), bins=15), INPUTS, CLASSES, list(range(members))).to(device).train()
    adam = Adam(network, torch.full((members,), 8e-4), torch.full((members,), 1e-5))
    x, y = torch.randn(ROWS, INPUTS, device=device), torch.randint(CLASSES, (ROWS,), device=device)
    return (
        network,
        adam,
        x,
        y,
        torch.full((members,), 0.0027, device=device),
        torch.arange(members, device=device) + 2**40,
    )


def epoch(steps: Steps, order: Tensor) -> Callable[[], Tensor]:
    return lambda: steps.epoch(order, 0)


def large_products(members: int, device: str) -> Callable[[], tuple[Tensor, Tensor]]:
    """Return the products for the logits of the first layer and for the gradient of its weights."""
    width = 15 * 32
    x = torch.randn(members, BATCH, INPUTS, device=device)
    weight, grad = (torch.randn(members, rows, width, device=device) for rows in (INPUTS, BATCH))
    return lambda: (x @ weight, x.mT @ grad)


def traffic(weights: int, device: str) -> Callable[[], Tensor]:
    """Return Adam's memory traffic: eight numbers per weight are four copies, each of which reads and writes one."""
    target, source = torch.empty(2, 4 * weights, device=device)
    return lambda: target.copy_(source)


def main() -> None:
    options = arguments(__doc__)
    device = options.device
    results: dict[str, Any] = {"members": {}}
    order = torch.randint(ROWS, (max(MEMBERS), STEPS, BATCH), device=device)
    calls: dict[str, Callable[[], object]] = {}
    floors: dict[str, Callable[[], object]] = {}
    for members in MEMBERS:
        for precision in ("tf32", "float32"):
            steps = KernelSteps(*setting(members, device), precision)
            calls[f"{members} {precision}"] = epoch(steps, order[:members])
            with matmul_precision(precision, torch.device(device)):
                floors[f"{members} {precision}"] = graphed(large_products(members, device), STEPS)
        weights = sum(p[0].numel() for p in steps.adam.parameters) * members
        floors[f"{members} adam"] = graphed(traffic(weights, device), STEPS)
    for members in (1, 10):
        plain = PlainSteps(*setting(members, device), None, "tf32")
        calls[f"{members} plain"] = epoch(plain, order[:members, :10])
    seconds = in_turns(calls, device, rounds=10, warmup=2)
    floor_seconds = in_turns(floors, device, rounds=20, warmup=2)
    table = []
    for members in MEMBERS:
        found: dict[str, Any] = {}
        for precision in ("tf32", "float32"):
            name = f"{members} {precision}"
            found[precision] = {part: value / STEPS for part, value in seconds[name].items()}
            both = floor_seconds[name]["median"] + floor_seconds[f"{members} adam"]["median"]
            found[f"floor_{precision}"] = both / STEPS
        if f"{members} plain" in seconds:
            found["plain"] = {part: value / 10 for part, value in seconds[f"{members} plain"].items()}
        found["seconds"], found["floor_seconds"] = found["tf32"], found["floor_tf32"]  # the default
        results["members"][str(members)] = found
        one = results["members"]["1"]["tf32"]["median"]
        table.append(
            [
                str(members),
                *(f"{1e6 * found[p]['median']:.1f}" for p in ("tf32", "float32")),
                *(f"{1e6 * found[f'floor_{p}']:.1f}" for p in ("tf32", "float32")),
                f"{found['tf32']['median'] / one:.2f}",
                f"{1e6 * found['plain']['median']:.0f}" if "plain" in found else "",
            ]
        )
    header = ["members", "us tf32", "us float32", "floor tf32", "floor float32", "relative to one", "us plain"]
    rows(f"A training step on {torch.cuda.get_device_name()}, 784-32-32-10, C = 15, batch {BATCH}", header, table)
    settings = {"device": device, "network": "784-32-32-10", "C": 15, "batch": BATCH, "steps": STEPS, "rounds": 10}
    save("step_gpu", options.out, settings, results, seed=0)


if __name__ == "__main__":
    main()
