"""Measurement helpers: interleaved rounds, medians with quartiles, one record per benchmark.

Machines are noisy and drift.  Functions that are compared alternate within one process, so that a slow period affects
all of them.
"""

import argparse
import statistics
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from squad.records import Record

#: Folder of the records.
RESULTS = Path(__file__).parent / "results"
#: Median and quartiles: "median", "q25" and "q75".
Spread = dict[str, float]


def arguments(description: str | None) -> argparse.Namespace:
    """Parse ``--device`` and ``--out``, the options that all benchmarks share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the record")
    return parser.parse_args()


def spread(samples: list[float]) -> Spread:
    """Return median and quartiles."""
    low, median, high = statistics.quantiles(samples, n=4)
    return {"median": median, "q25": low, "q75": high}


def in_turns(
    functions: Mapping[str, Callable[[], object]], device: str, rounds: int = 30, warmup: int = 3
) -> dict[str, Spread]:
    """Measure the seconds per call of each function, calling them alternately.

    Args:
        functions: Functions to measure, by name.
        device: "cpu" or "cuda".
        rounds: Number of measured calls of each function.
        warmup: Number of calls before these.
    """
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(warmup + rounds):
        for name, function in functions.items():
            start = _now(device)
            function()
            elapsed = _now(device) - start
            if turn >= warmup:
                samples[name].append(elapsed)
    return {name: spread(found) for name, found in samples.items()}


def _now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class _LiveMemory(TorchDispatchMode):
    """Tracks the total size of all live tensor storages, and its maximum."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.alive: dict[int, int] = {}
        self.now = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(tensor, Tensor):
                self._track(tensor.untyped_storage())
        return out

    def _track(self, storage: torch.UntypedStorage) -> None:
        key = storage.data_ptr()
        if key == 0 or key in self.alive:
            return
        self.alive[key] = storage.nbytes()
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._forget, key)

    def _forget(self, key: int) -> None:
        self.now -= self.alive.pop(key, 0)


def peak_memory(function: Callable[[], object], device: str) -> int:
    """Return the peak number of bytes of live tensors that one call allocates."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        function()
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated() - before)
    live = _LiveMemory()
    with live:
        function()
    return live.peak


def save(name: str, out: Path, settings: Mapping[str, Any], results: Any, seed: int | None = None) -> None:
    """Write the record of a benchmark and print its path."""
    path = Record("benchmark", name, settings, results, seed).save(out / f"{name}.json")
    print(f"written: {path}")


def rows(title: str, header: list[str], table: list[list[str]]) -> None:
    """Print a table."""
    widths = [max(len(line[i]) for line in [header, *table]) for i in range(len(header))]
    print(f"\n{title}")
    for line in [header, *table]:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def graphed(function: Callable[[], object], repeats: int = 1) -> Callable[[], None]:
    """Capture ``repeats`` calls as a CUDA graph, which measures the time of the GPU without that of the host."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            function()

    def replay(_function: Callable[[], object] = function) -> None:
        # The default argument keeps the tensors alive that the graph reads and writes.
        graph.replay()

    return replay
