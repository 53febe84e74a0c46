"""Time and memory of T samples relative to one, to separate passes, and to the unavoidable matrix products."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness import RESULTS, Spread, graphed, in_turns, peak_memory, rows, save
from squad.core import threads
from squad.models import Network, Sampler, build, network_config, sampler

FEATURES, HIDDEN, CLASSES, BINS = 784, 32, 10, 15
#: Number of rows; on a CPU the time is proportional to it.
ROWS = {"cpu": 2560, "cuda": 10_000}
SAMPLES = [1, 2, 4, 8, 16, 32, 64]
SAMPLINGS = ("relaxed", "stratified", "hard")
MEMBERS = {"cpu": [1], "cuda": [1, 10]}
ROUNDS = {"cpu": 3, "cuda": 20}
#: Number of samples that is compared with one sample and with separate passes.
MANY = 32
#: Rows per block of the floor; on a GPU all rows.
FLOOR_ROWS = {"cpu": 64, "cuda": ROWS["cuda"]}
#: Approximate number of the second layer's logits that a floor holds in memory at once: as many as fit into a cache
#: or, on a GPU, as need few launches.  The faster of the two is the floor.
FLOOR_NUMBERS = {"cpu": (1 << 18,), "cuda": (1 << 22, 1 << 27)}
#: Calls of a floor per measurement; on a GPU they form a graph.
REPEATS = {"cpu": 1, "cuda": 10}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the record")
    parser.add_argument("--rounds", type=int, help="measured rounds; default: 3 on a CPU, 20 on a GPU")
    parser.add_argument("--rows", type=int, help="rows per block, instead of the default")
    parser.add_argument("--numbers", type=int, help="elements of the largest tensor of a block, instead of the default")
    parser.add_argument("--torch", action="store_true", help="do not use Triton kernels; no record is written")
    parser.add_argument(
        "--tune",
        nargs="*",
        default=[],
        metavar="NAME=VALUE",
        help="override constants of squad.ops.triton_sampling; no record is written",
    )
    return parser.parse_args()


def tune(changes: list[str]) -> None:
    """Override constants of the kernels."""
    if not changes:
        return
    from squad.ops import triton_sampling

    for change in changes:
        name, value = change.split("=")
        setattr(triton_sampling, name, type(getattr(triton_sampling, name))(value))


def floor(members: int, samples: int, dtype: torch.dtype, device: str, numbers: int) -> Callable[[], None]:
    """Return the matrix products of T samples of all rows; those of the first layer, in ``dtype``, are shared.

    In addition there is one exponential, in place, for each row, sample, latent and bin of the second layer.  All
    samples of a block are rows of the same products, in parts of equal size with at most about ``numbers`` logits.
    """
    block, width = FLOOR_ROWS[device], BINS * HIDDEN
    parts = -(-members * samples * block * width // numbers)
    part = -(-samples * block // parts)

    def tensor(*shape: int, of: torch.dtype = torch.float32) -> Tensor:
        return torch.randn(*shape, device=device).to(of)

    # Members share the rows.
    x, first = tensor(1, block, FEATURES, of=dtype).expand(members, -1, -1), tensor(members, FEATURES, width, of=dtype)
    latents, second, last = (tensor(members, *shape) for shape in ((part, HIDDEN), (HIDDEN, width), (HIDDEN, CLASSES)))
    shared = torch.empty(members, block, width, dtype=dtype, device=device)
    logits, outputs = (torch.empty(members, part, size, device=device) for size in (width, CLASSES))

    def run() -> None:
        for _ in range(0, ROWS[device], block):
            torch.bmm(x, first, out=shared)
            for _ in range(parts):
                torch.bmm(latents, second, out=logits)
                logits.exp_()
                torch.bmm(latents, last, out=outputs)

    return run


def floors(members: int, device: str) -> dict[str, Callable[[], None]]:
    """Return ``REPEATS`` calls of each floor, by "name, numbers"; on a GPU as a graph, to exclude kernel launches."""
    found: dict[str, Callable[[], None]] = {}
    modes = ("relaxed", torch.float32, SAMPLES), ("stratified", torch.float64, [1, MANY])
    for sampling, dtype, counts in modes:
        for samples in counts:
            for numbers in FLOOR_NUMBERS[device]:
                call = floor(members, samples, dtype, device, numbers)
                name = f"floor of {sampling} {samples}, {numbers}"
                found[name] = graphed(call, REPEATS[device]) if device == "cuda" else call
    return found


def floor_seconds(measured: dict[str, Spread], device: str) -> dict[str, Spread]:
    """Return the seconds per call of each floor, for the faster of its sizes."""
    found: dict[str, Spread] = {}
    for label, spread in measured.items():
        name = label.rpartition(", ")[0]
        one = {part: value / REPEATS[device] for part, value in spread.items()}
        if name not in found or one["median"] < found[name]["median"]:
            found[name] = one
    return found


def measure(members: int, options: argparse.Namespace) -> dict[str, Any]:
    """Measure seconds, ratios and memory for a number of members."""
    device = options.device
    network = build(
        network_config("squad", {"hidden": (HIDDEN, HIDDEN), "bins": BINS}), FEATURES, CLASSES, list(range(members))
    ).to(device)
    torch.manual_seed(1)
    x = torch.randn(ROWS[device], FEATURES).to(device)

    def sampler(sampling: str, samples: int) -> Sampler:
        return Sampler(network, sampling, samples, rows=options.rows)

    calls: dict[str, Callable[[], object]] = {}
    for sampling in SAMPLINGS:
        # On a CPU hard samples are not part of the targets, and take most of the time.
        for samples in SAMPLES if device == "cuda" or sampling != "hard" else [1, 8]:
            calls[f"{sampling} {samples}"] = _call(sampler(sampling, samples), x)
    calls["mean 1"] = _call(sampler("mean", 1), x)
    for sampling in ("relaxed", "stratified"):
        calls[f"{MANY} passes of {sampling}"] = _passes(sampler(sampling, 1), x)
    floor_calls = floors(members, device)
    rounds, warmup = options.rounds or ROUNDS[device], 1 if device == "cpu" else 3
    measured = in_turns({**calls, **floor_calls}, device, rounds=rounds, warmup=warmup)
    seconds = {name: measured[name] for name in calls}
    seconds |= floor_seconds({name: measured[name] for name in floor_calls}, device)
    return {
        "seconds": seconds,
        "ratios": {sampling: _ratios(seconds, sampling) for sampling in ("relaxed", "stratified")},
        "one_row_seconds": in_turns(
            {sampling: _call(sampler(sampling, 8), x[:1]) for sampling in SAMPLINGS}, device, rounds=20, warmup=3
        ),
        "bytes": {sampling: _memory(network, sampling, options) for sampling in SAMPLINGS},
    }


def _call(sampler: Sampler, x: Tensor) -> Callable[[], object]:
    return lambda: sampler(x)


def _passes(one: Sampler, x: Tensor) -> Callable[[], object]:
    """Return 32 passes of one sample each."""

    def run() -> None:
        for _ in range(MANY):
            one(x)

    return run


def _ratios(seconds: dict[str, Spread], sampling: str) -> dict[str, float]:
    many, one = (seconds[f"{sampling} {samples}"]["median"] for samples in (MANY, 1))
    floors = [seconds[f"floor of {sampling} {samples}"]["median"] for samples in (MANY, 1)]
    return {
        "32 samples over one": many / one,
        "32 passes over 32 samples": seconds[f"{MANY} passes of {sampling}"]["median"] / many,
        "32 samples over their floor": many / floors[0],
        "one sample over its floor": one / floors[1],
    }


def _memory(network: Network, sampling: str, options: argparse.Namespace) -> dict[str, list[dict[str, int]]]:
    """Measure the bytes of a call without its result, against T and against N."""
    found: dict[str, list[dict[str, int]]] = {"samples": [], "rows": []}
    smallest = 256 if options.device == "cpu" else 4096
    sizes = {
        "samples": [(samples, smallest) for samples in (8, 32, 128)],
        "rows": [(MANY, smallest * factor) for factor in (1, 2, 4)],
    }
    for axis, points in sizes.items():
        for samples, count in points:
            sampler = Sampler(network, sampling, samples, rows=options.rows)
            x = torch.zeros(count, FEATURES, device=options.device)
            result = sampler.members * count * (CLASSES + 1) * 8
            peak = peak_memory(_call(sampler, x), options.device) - result
            # On a CPU, where tensors are counted, reading x and the noise counts as memory.
            known = _input_bytes(sampler, x) if options.device == "cpu" else 0
            found[axis].append({"samples": samples, "rows": count, "bytes": peak - known})
    return found


def _input_bytes(sampler: Sampler, x: Tensor) -> int:
    tensors = {x.data_ptr(): x.nbytes}
    for part in sampler.noise or []:
        for noise in part:
            for table in noise.table if isinstance(noise.table, tuple) else (noise.table,):
                if isinstance(table, Tensor):
                    tensors[table.untyped_storage().data_ptr()] = table.untyped_storage().nbytes()
    return sum(tensors.values())


def show(members: int, found: dict[str, Any], device: str) -> None:
    table = [
        [name, *(f"{spread[q] * 1e3:.2f}" for q in ("median", "q25", "q75"))]
        for name, spread in found["seconds"].items()
    ]
    rows(
        f"{members} member(s) on {device}, {ROWS[device]} rows, 784-32-32-10, C = {BINS}",
        ["", "ms", "q25", "q75"],
        table,
    )
    for sampling, ratios in found["ratios"].items():
        print(f"  {sampling}: " + "; ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))
    for sampling, spread in found["one_row_seconds"].items():
        print(f"  {sampling}, T = 8, one row: {spread['median'] * 1e3:.2f} ms")
    for sampling, axes in found["bytes"].items():
        for axis, points in axes.items():
            print(
                f"  {sampling}, MiB against {axis}: " + ", ".join(f"{point['bytes'] / 2**20:.1f}" for point in points)
            )


def main() -> None:
    threads.MIN_PARALLEL_WORK = 0  # use all threads for any amount of work, as the compared functions do
    options = arguments()
    tune(options.tune)
    if options.numbers:
        sampler.MAX_BLOCK_ELEMENTS[options.device] = options.numbers
    if options.torch:
        sampler._kernels = lambda device: None  # type: ignore[assignment]
    results = {}
    for members in MEMBERS[options.device]:
        results[str(members)] = measure(members, options)
        show(members, results[str(members)], options.device)
    if options.torch or options.tune or options.rows or options.numbers:
        return
    settings = {
        "device": options.device,
        "threads": torch.get_num_threads(),
        "rows": ROWS[options.device],
        "network": f"{FEATURES}-{HIDDEN}-{HIDDEN}-{CLASSES}",
        "bins": BINS,
        "floor": "graph" if options.device == "cuda" else "calls",
        "rounds": options.rounds or ROUNDS[options.device],
    }
    save(f"predict_samples-{options.device}", options.out, settings, results, seed=1)


if __name__ == "__main__":
    main()
