"""Time of a fit next to processes that use the same cores: with the library's choice of threads, with one and with two.

There are as many busy processes ("neighbours") as cores; each computes continuously until a time limit.  A measurement
without them comes first: on an idle machine it shows from which amount of work on a second thread helps.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import RESULTS, rows, save, spread
from squad.core import threads
from squad.models import network_config
from squad.train import TrainConfig, TrainingData, fit

CORES = 2
CLASSES = 5
ROUNDS = 3
#: Name, number of inputs, hidden layers, rows, batch size, epochs.
FITS: list[tuple[str, int, tuple[int, ...], int, int, int]] = [
    ("table", 20, (32, 32), 600, 64, 2),
    ("digits", 64, (32, 32), 600, 128, 2),
    ("images", 784, (32, 32), 600, 244, 2),
]
#: Number of threads, and amount of work from which on more than one is used, by the name of the choice.
CHOICES: dict[str, tuple[int, int]] = {
    "the library's choice": (CORES, threads.MIN_PARALLEL_WORK),
    "one thread": (1, threads.MIN_PARALLEL_WORK),
    "two threads": (CORES, 0),
}
#: A busy process ends by itself after this time, even if the benchmark is killed.
SECONDS = 240
NEIGHBOUR = f"import time\nend = time.monotonic() + {SECONDS}\nwhile time.monotonic() < end: sum(range(10000))"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the record")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--neighbours", type=int, default=CORES)
    return parser.parse_args()


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Run ``count`` busy processes."""
    started = [subprocess.Popen([sys.executable, "-c", NEIGHBOUR]) for _ in range(count)]
    try:
        time.sleep(0.5 * bool(count))
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def data(inputs: int, count: int) -> TrainingData:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, inputs, generator=generator)
    y = (x[:, :CLASSES] + torch.randn(count, CLASSES, generator=generator)).argmax(1)
    order = torch.randperm(count, generator=generator)[None]
    return TrainingData(x, y, CLASSES, order[:, count // 5 :], order[:, : count // 5])


def time_fit(setting: tuple[str, int, tuple[int, ...], int, int, int]) -> tuple[float, float]:
    """Measure wall and CPU seconds of a fit."""
    _, inputs, hidden, count, batch, epochs = setting
    training = TrainConfig(max_epochs=epochs, batch_size=batch)
    training_data = data(inputs, count)
    wall, cpu = time.perf_counter(), time.process_time()
    fit(network_config("squad", {"hidden": hidden}), training, training_data, [0])
    return time.perf_counter() - wall, time.process_time() - cpu


def measure(count: int, rounds: int) -> dict[str, Any]:
    """Measure all fits with all choices, alternately, next to ``count`` busy processes."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    with neighbours(count):
        time_fit(FITS[0])  # warm-up
        for _ in range(rounds):
            for one in FITS:
                for choice, (most_threads, worth) in CHOICES.items():
                    torch.set_num_threads(most_threads)
                    threads.MIN_PARALLEL_WORK = worth
                    seconds = time_fit(one)
                    print(f"{count} busy processes, {one[0]}, {choice}: {seconds[0]:.2f} s", flush=True)
                    found.setdefault(one[0], {}).setdefault(choice, []).append(seconds)
    return {
        name: {
            choice: {"wall": spread([wall for wall, _ in times]), "cpu": spread([cpu for _, cpu in times])}
            for choice, times in choices.items()
        }
        for name, choices in found.items()
    }


def main() -> None:
    options = arguments()
    results = {"alone": measure(0, options.rounds), "busy": measure(options.neighbours, options.rounds)}
    for where, fits in results.items():
        table = [
            [name, choice, *(f"{times[kind]['median']:.2f}" for kind in ("wall", "cpu"))]
            for name, choices in fits.items()
            for choice, times in choices.items()
        ]
        rows(f"{where}: seconds of a fit", ["", "", "wall", "CPU"], table)
    settings = {
        "device": "cpu",
        "cores": os.cpu_count(),
        "neighbours": options.neighbours,
        "rounds": options.rounds,
        "worth": CHOICES["the library's choice"][1],
        "load": os.getloadavg()[0],
        "fits": {
            name: {"inputs": inputs, "hidden": list(hidden), "rows": count, "batch": batch, "epochs": epochs}
            for name, inputs, hidden, count, batch, epochs in FITS
        },
    }
    save("busy_neighbour", options.out, settings, results, seed=0)


if __name__ == "__main__":
    main()
