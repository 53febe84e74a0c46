"""Predictions of saved models, run by tests/slow/test_machines.py in subprocesses with several settings.

Usage: python -m tests.slow.machines MODELS RESULT.  Every model in the folder MODELS predicts the rows in the array
file next to it, in several kinds of calls, into the file RESULT.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import squad
from squad.core import threads
from squad.predictor import Answer, Predictor
from tests.contracts.guaranteed import CLOSE, EXACT
from tests.rounding import OtherRounding

#: Rows that are predicted one at a time.
ALONE = (0, 63, 64, 1999)
SEED = 7


def all_calls(predictor: Predictor, x: NDArray[np.float64]) -> Iterator[tuple[str, list[int], Answer]]:
    """Iterate over kinds of calls, with the rows predicted and their predictions."""
    everything = list(range(len(x)))
    shuffled = np.random.default_rng(SEED).permutation(len(x)).tolist()
    torch.set_num_threads(1)
    yield "whole", everything, predictor.answer(x)
    yield "shuffled", shuffled, predictor.answer(x[shuffled])
    for row in ALONE:
        yield f"row {row} alone", [row], predictor.answer(x[[row]])
    torch.set_num_threads(2)
    few = everything[-333:]  # few rows, because on a busy machine two threads wait long for each other
    yield "a batch with two threads", few, predictor.answer(x[few])
    yield "a row with two threads", [7], predictor.answer(x[[7]])
    torch.set_num_threads(1)
    with OtherRounding(SEED):
        yield "products that round differently", everything, predictor.answer(x)
        for row in ALONE:
            yield f"row {row} alone with products that round differently", [row], predictor.answer(x[[row]])


@contextlib.contextmanager
def _all_threads() -> Iterator[None]:
    """Use all threads even for small matrix products."""
    before, threads.MIN_PARALLEL_WORK = threads.MIN_PARALLEL_WORK, 0
    yield
    threads.MIN_PARALLEL_WORK = before


def main(models: Path, result: Path) -> None:
    """Write arrays named "model|kind of call|field"."""
    arrays = {}
    with _all_threads():
        for folder in sorted(models.glob("*-model")):
            predictor = squad.load(folder)
            x = np.load(models / f"{folder.name}.npy")
            for call, rows, answer in all_calls(predictor, x):
                key = f"{folder.name}|{call}"
                arrays[f"{key}|rows"] = np.array(rows)
                for name in EXACT + CLOSE:
                    value = getattr(answer, name)
                    arrays[f"{key}|{name}"] = value.astype(str) if value.dtype == object else value
    np.savez(result, **arrays)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
