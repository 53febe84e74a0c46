"""Trials of a search trained together and one at a time: the same settings, on Fashion-MNIST, in one run.

The settings are those of a study's first trials, from its record (experiments/paper/search/fashion-mnist/squad).  All
are trained as a population with 32 slots; some of them are then trained one by one with ``squad.train.fit``, as without
populations.  The data set must have been downloaded (squad data fetch fashion-mnist), or be in the folder SQUAD_DATA.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import RESULTS, rows, save
from squad.data.images import load_images
from squad.search.population import Population
from squad.search.request import build_problem
from squad.search.search_record import read
from squad.search.trial import Outcome, Trial
from squad.train import fit

STUDY = Path(__file__).parent.parent / "experiments" / "paper" / "search" / "fashion-mnist" / "squad"


class ListSource:
    """Source of trials from a list."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self.left, self.count = list(trials), len(trials)
        self.outcomes: dict[int, Outcome] = {}

    def ask(self) -> Trial | None:
        """Return the next trial, or None."""
        return self.left.pop(0) if self.left else None

    def tell(self, trial: Trial, outcome: Outcome) -> None:
        """Store the outcome of a trial."""
        self.outcomes[trial.number] = outcome

    def beat(self, trials: Sequence[Trial]) -> None:
        """Do nothing: there is no database that needs a heartbeat."""

    def prunes(self, trial: Trial, epoch: int, accuracy: float) -> bool:
        """Never prune."""
        return False

    def over(self) -> bool:
        """Whether all trials have an outcome."""
        return len(self.outcomes) == self.count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--trials", type=int, default=64, help="number of trials trained together")
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--alone", type=int, default=8, help="how many of these, evenly spaced, are also trained alone")
    parser.add_argument("--study", type=Path, default=STUDY)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the record")
    options = parser.parse_args()
    search = read(options.study)
    images = load_images("fashion-mnist", download=False)
    settings = search.record.settings
    problem = build_problem(
        images.x_train, images.y_train, settings["base"], settings["space"], settings["objective"]["used"]
    )
    trials = [Trial(one.number, one.settings) for one in search.measured[: options.trials]]

    # A short run before compiles the kernels, so that neither side includes their compilation.
    brief = {"training.max_epochs": 2, "training.anneal_epochs": 1}
    Population(
        problem,
        ListSource([Trial(each.number, {**each.settings, **brief}) for each in trials]),
        options.slots,
        options.device,
    ).run()
    source = ListSource(trials)
    population = Population(problem, source, options.slots, options.device)
    start = time.perf_counter()
    population.run()
    together = time.perf_counter() - start

    each: list[dict[str, Any]] = []
    for trial in trials[:: max(1, len(trials) // options.alone)][: options.alone]:
        own = problem.fit_settings(trial.settings)
        if not each:
            fit(own.network, own.training, problem.data, [own.seed], device=options.device)  # compiles kernels
        if options.device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        fitted = fit(own.network, own.training, problem.data, [own.seed], device=options.device)
        seconds = time.perf_counter() - start
        outcome = source.outcomes[trial.number]
        each.append(
            {
                "trial": trial.number,
                "batch_size": trial.settings["training.batch_size"],
                "seconds": seconds,
                "epochs": fitted.members[0].epochs,
                "accuracy": fitted.members[0].best_accuracy,
                "epochs_together": outcome.details["epochs"],
                "accuracy_together": outcome.details.get("accuracy"),
            }
        )
    epochs = sum(one["epochs"] for one in each)
    results: dict[str, Any] = {
        "together": {
            "trials": len(trials),
            "seconds": together,
            "epochs": population.epochs,
            "seconds_per_trial": together / len(trials),
            "seconds_per_epoch": together / population.epochs,
        },
        "alone": {
            "trials": len(each),
            "seconds": sum(one["seconds"] for one in each),
            "epochs": epochs,
            "seconds_per_trial": sum(one["seconds"] for one in each) / len(each),
            "seconds_per_epoch": sum(one["seconds"] for one in each) / epochs,
        },
        "each": each,
    }
    # Compared per epoch of a trial, because trials differ in their number of epochs.
    results["ratio"] = results["alone"]["seconds_per_epoch"] / results["together"]["seconds_per_epoch"]
    rows(
        f"{len(trials)} trials in {options.slots} slots, {len(each)} of them alone, on {options.device}",
        ["", "trials", "seconds", "epochs", "s per trial", "ms per epoch of a trial"],
        [
            [name, str(one["trials"]), f"{one['seconds']:.1f}", str(one["epochs"]), f"{one['seconds_per_trial']:.2f}",
             f"{1000 * one['seconds_per_epoch']:.2f}"]
            for name, one in ((name, results[name]) for name in ("together", "alone"))
        ],
    )  # fmt: skip
    print(f"ratio {results['ratio']:.2f}")
    settings_used = {"device": options.device, "slots": options.slots, "trials": len(trials), "alone": len(each)}
    save("search_population", options.out, settings_used, results, problem.seed)


if __name__ == "__main__":
    main()
