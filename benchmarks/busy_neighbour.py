"""A fit beside processes that want the same cores: with the library's choice of threads, with one and with two.

Neighbours are as many processes as there are cores, each of which computes without end, for a limited time.  Measured
first without them: on an idle machine that shows from which work on a second thread gains anything.
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
#: Name, inputs, hidden layers, rows, batch, epochs.
FITS: list[tuple[str, int, tuple[int, ...], int, int, int]] = [
    ("table", 20, (32, 32), 600, 64, 2),
    ("digits", 64, (32, 32), 600, 128, 2),
    ("images", 784, (32, 32), 600, 244, 2),
]
#: The library's choice, and what it chooses between: how much work is worth more than one thread, by its name.
CHOICES: dict[str, tuple[int, int]] = {
    "the library's choice": (CORES, threads.WORTH),
    "one thread": (1, threads.WORTH),
    "two threads": (CORES, 0),
}
#: A neighbour ends by itself, whatever becomes of this process.
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
    """So many processes that want a core each."""
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


def measured(one: tuple[str, int, tuple[int, ...], int, int, int]) -> tuple[float, float]:
    """Wall and CPU seconds of a fit."""
    _, inputs, hidden, count, batch, epochs = one
    training = TrainConfig(max_epochs=epochs, batch_size=batch)
    given = data(inputs, count)
    wall, cpu = time.perf_counter(), time.process_time()
    fit(network_config("squad", {"hidden": hidden}), training, given, [0])
    return time.perf_counter() - wall, time.process_time() - cpu


def measure(count: int, rounds: int) -> dict[str, Any]:
    """By fit and by choice, in turns; beside so many neighbours."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    with neighbours(count):
        measured(FITS[0])  # to warm up
        for _ in range(rounds):
            for one in FITS:
                for choice, (most, worth) in CHOICES.items():
                    torch.set_num_threads(most)
                    threads.WORTH = worth
                    seconds = measured(one)
                    print(f"{count} neighbours, {one[0]}, {choice}: {seconds[0]:.2f} s", flush=True)
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
