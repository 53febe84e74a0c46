"""Time and memory of T samples against one, beside separate passes and the matrix products that cannot be avoided."""

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
#: On a CPU time goes by the row.
ROWS = {"cpu": 2560, "cuda": 10_000}
SAMPLES = [1, 2, 4, 8, 16, 32, 64]
WAYS = ("relaxed", "stratified", "hard")
MEMBERS = {"cpu": [1], "cuda": [1, 10]}
ROUNDS = {"cpu": 3, "cuda": 20}
MANY = 32
#: Rows of a block of the floor; on a GPU all of them.
FLOOR_ROWS = {"cpu": 64, "cuda": ROWS["cuda"]}
#: Numbers of the second layer's logits that a floor has in memory at once, about: as many as stay in a cache or, on a
#: GPU, as leave few launches.  The quicker of the two is the floor.
FLOOR_NUMBERS = {"cpu": (1 << 18,), "cuda": (1 << 22, 1 << 27)}
#: Calls of a floor that are measured as one: on a GPU they are a graph.
REPEATS = {"cpu": 1, "cuda": 10}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the record")
    parser.add_argument("--rounds", type=int, help="of measuring; 3 on a CPU, 20 on a GPU")
    parser.add_argument("--rows", type=int, help="of a block, instead of the default")
    parser.add_argument("--numbers", type=int, help="of the largest tensor of a block, instead of the default")
    parser.add_argument("--torch", action="store_true", help="without Triton's kernels; nothing is written")
    parser.add_argument(
        "--tune",
        nargs="*",
        default=[],
        metavar="NAME=VALUE",
        help="constants of squad.ops.triton_sampling, to try others",
    )
    return parser.parse_args()


def tune(changes: list[str]) -> None:
    """Set constants of the kernels."""
    if not changes:
        return
    from squad.ops import triton_sampling

    for change in changes:
        name, value = change.split("=")
        setattr(triton_sampling, name, type(getattr(triton_sampling, name))(value))


def floor(members: int, samples: int, dtype: torch.dtype, device: str, numbers: int) -> Callable[[], None]:
    """The matrix products of T samples of all rows; the first layer's, in ``dtype``, are shared by the samples.

    Beside them, one exponential, in place, for each row, sample, latent and bin of the second layer.  All samples of a
    block are rows of the same products, in parts of one size that have about ``numbers`` logits at the most.
    """
    block, wide = FLOOR_ROWS[device], BINS * HIDDEN
    parts = -(-members * samples * block * wide // numbers)
    part = -(-samples * block // parts)

    def tensor(*shape: int, of: torch.dtype = torch.float32) -> Tensor:
        return torch.randn(*shape, device=device).to(of)

    # Members see the same rows.
    x, first = tensor(1, block, FEATURES, of=dtype).expand(members, -1, -1), tensor(members, FEATURES, wide, of=dtype)
    latents, second, last = (tensor(members, *shape) for shape in ((part, HIDDEN), (HIDDEN, wide), (HIDDEN, CLASSES)))
    shared = torch.empty(members, block, wide, dtype=dtype, device=device)
    logits, answers = (torch.empty(members, part, width, device=device) for width in (wide, CLASSES))

    def run() -> None:
        for _ in range(0, ROWS[device], block):
            torch.bmm(x, first, out=shared)
            for _ in range(parts):
                torch.bmm(latents, second, out=logits)
                logits.exp_()
                torch.bmm(latents, last, out=answers)

    return run


def floors(members: int, device: str) -> dict[str, Callable[[], None]]:
    """``REPEATS`` calls of each floor, by "name, numbers"; on a GPU as a graph, or launches would be measured."""
    found: dict[str, Callable[[], None]] = {}
    ways = ("relaxed", torch.float32, SAMPLES), ("stratified", torch.float64, [1, MANY])
    for way, dtype, counts in ways:
        for samples in counts:
            for numbers in FLOOR_NUMBERS[device]:
                call = floor(members, samples, dtype, device, numbers)
                name = f"floor of {way} {samples}, {numbers}"
                found[name] = graphed(call, REPEATS[device]) if device == "cuda" else call
    return found


def floor_seconds(measured: dict[str, Spread], device: str) -> dict[str, Spread]:
    """Of one call, in the quicker of its sizes, by the name of the floor."""
    found: dict[str, Spread] = {}
    for label, spread in measured.items():
        name = label.rpartition(", ")[0]
        one = {part: value / REPEATS[device] for part, value in spread.items()}
        if name not in found or one["median"] < found[name]["median"]:
            found[name] = one
    return found


def measure(members: int, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds, ratios and memory for one number of members."""
    device = options.device
    network = build(
        network_config("squad", {"hidden": (HIDDEN, HIDDEN), "bins": BINS}), FEATURES, CLASSES, list(range(members))
    ).to(device)
    torch.manual_seed(1)
    x = torch.randn(ROWS[device], FEATURES).to(device)

    def sampler(way: str, samples: int) -> Sampler:
        return Sampler(network, way, samples, rows=options.rows)

    calls: dict[str, Callable[[], object]] = {}
    for way in WAYS:
        # On a CPU hard samples take no part in the claim, and most of the time.
        for samples in SAMPLES if device == "cuda" or way != "hard" else [1, 8]:
            calls[f"{way} {samples}"] = _call(sampler(way, samples), x)
    calls["mean 1"] = _call(sampler("mean", 1), x)
    for way in ("relaxed", "stratified"):
        calls[f"{MANY} passes of {way}"] = _passes(sampler(way, 1), x)
    least = floors(members, device)
    rounds, warmup = options.rounds or ROUNDS[device], 1 if device == "cpu" else 3
    measured = in_turns({**calls, **least}, device, rounds=rounds, warmup=warmup)
    seconds = {name: measured[name] for name in calls}
    seconds |= floor_seconds({name: measured[name] for name in least}, device)
    return {
        "seconds": seconds,
        "ratios": {way: _ratios(seconds, way) for way in ("relaxed", "stratified")},
        "one_row_seconds": in_turns({way: _call(sampler(way, 8), x[:1]) for way in WAYS}, device, rounds=20, warmup=3),
        "bytes": {way: _memory(network, way, options) for way in WAYS},
    }


def _call(sampler: Sampler, x: Tensor) -> Callable[[], object]:
    return lambda: sampler(x)


def _passes(one: Sampler, x: Tensor) -> Callable[[], object]:
    """32 passes of one sample each."""

    def run() -> None:
        for _ in range(MANY):
            one(x)

    return run


def _ratios(seconds: dict[str, Spread], way: str) -> dict[str, float]:
    many, one = (seconds[f"{way} {samples}"]["median"] for samples in (MANY, 1))
    floors = [seconds[f"floor of {way} {samples}"]["median"] for samples in (MANY, 1)]
    return {
        "32 samples over one": many / one,
        "32 passes over 32 samples": seconds[f"{MANY} passes of {way}"]["median"] / many,
        "32 samples over their floor": many / floors[0],
        "one sample over its floor": one / floors[1],
    }


def _memory(network: Network, way: str, options: argparse.Namespace) -> dict[str, list[dict[str, int]]]:
    """Bytes that a call takes beside its result, against T and against N."""
    found: dict[str, list[dict[str, int]]] = {"samples": [], "rows": []}
    least = 256 if options.device == "cpu" else 4096
    sizes = {
        "samples": [(samples, least) for samples in (8, 32, 128)],
        "rows": [(MANY, least * factor) for factor in (1, 2, 4)],
    }
    for axis, points in sizes.items():
        for samples, count in points:
            sampler = Sampler(network, way, samples, rows=options.rows)
            x = torch.zeros(count, FEATURES, device=options.device)
            result = sampler.members * count * (CLASSES + 1) * 8
            peak = peak_memory(_call(sampler, x), options.device) - result
            # A look at x and at the tables of noise counts as memory taken where tensors are counted.
            known = _known(sampler, x) if options.device == "cpu" else 0
            found[axis].append({"samples": samples, "rows": count, "bytes": peak - known})
    return found


def _known(sampler: Sampler, x: Tensor) -> int:
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
    for way, ratios in found["ratios"].items():
        print(f"  {way}: " + "; ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))
    for way, spread in found["one_row_seconds"].items():
        print(f"  {way}, T = 8, one row: {spread['median'] * 1e3:.2f} ms")
    for way, axes in found["bytes"].items():
        for axis, points in axes.items():
            print(f"  {way}, MiB against {axis}: " + ", ".join(f"{point['bytes'] / 2**20:.1f}" for point in points))


def main() -> None:
    threads.WORTH = 0  # all with as many threads as are set: what they are compared with is
    options = arguments()
    tune(options.tune)
    if options.numbers:
        sampler.NUMBERS[options.device] = options.numbers
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
