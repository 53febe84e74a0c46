"""Run jobs: train, ask, measure, write a record; what has a record is not run again."""

import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from experiments.paper.jobs.crops import recrop
from experiments.paper.jobs.measure import cells, curve
from experiments.paper.jobs.plan import ENDED, Job, Plan, Study
from experiments.paper.jobs.predictions import ask
from experiments.paper.jobs.probes import PROBES, Subject
from squad.core.checks import check_number
from squad.data.array_transform import ArrayTransform
from squad.data.images import ImageSet, load_images
from squad.errors import ArgumentError
from squad.fitting import prepare
from squad.records import Record
from squad.search.search_record import TRIALS, read
from squad.settings import fit_settings
from squad.train import Progress, fit

__all__ = ["Clock", "done", "perform", "record_path", "run_plan", "run_study"]

Tell = Callable[[str], None]


class Clock:
    """How long there is; None is for ever."""

    def __init__(self, minutes: float | None) -> None:
        self.end = None if minutes is None else time.monotonic() + 60 * check_number("minutes", minutes, 0.0)

    @property
    def minutes(self) -> float | None:
        """What is left."""
        return None if self.end is None else max(0.0, (self.end - time.monotonic()) / 60)

    @property
    def over(self) -> bool:
        """Whether nothing is."""
        return self.minutes == 0.0


def record_path(results: Path, name: str) -> Path:
    """Where a job's record is."""
    return results / f"{name}.json"


def done(job: Job, results: Path) -> bool:
    """Whether there is a record of this very job."""
    path = record_path(results, job.name)
    return path.is_file() and Record.load(path).settings == job.described()


def run_study(study: Study, folder: Path, device: str, clock: Clock, data_dir: Path | None, progress: Any) -> bool:
    """Make a study, or go on with it; False if the time was too short."""
    from squad.search.tuning import tune

    place = folder / "search" / study.name
    if not _complete(place, study):
        images = _images(study.data, data_dir)
        if clock.over:  # reading takes a while
            return False
        tune(
            images.x_train,
            images.y_train,
            model=study.model,
            trials=study.trials,
            objective=study.objective,
            settings=study.settings,
            space="paper" if study.space is None else folder / study.space,
            out=place,
            device=device,
            minutes=clock.minutes,
            prune=study.prune,
            defaults=False,  # the paper's searches had no such trial
            progress=progress,
        )
    return _complete(place, study)


def _complete(place: Path, study: Study) -> bool:
    if not (place / TRIALS).is_file():
        return False
    return sum(trial.state in ENDED for trial in read(place).trials) >= study.trials


def run_plan(
    plan: Plan,
    results: Path,
    device: torch.device,
    clock: Clock,
    tell: Tell,
    progress: Callable[[str], Progress],
    data_dir: Path | None = None,
) -> bool:
    """Run the jobs of a plan that have no record; False if the time was too short for all.

    Args:
        plan: whose studies are there.
        results: folder of the records.
        device: where.
        clock: a job is begun only before it is over.
        tell: called with a line for each job.
        progress: makes what is told of a training, from its label.
        data_dir: where data sets are looked for first.
    """
    jobs = [plan.job(row) for row in plan.rows]
    missing = [job for job in jobs if not done(job, results)]
    if missing:
        tell(f"{plan.name}: {len(jobs) - len(missing)} of {len(jobs)} records are there")
    for place, job in enumerate(missing):
        if clock.over:
            return False
        begun = time.monotonic()
        if record_path(results, job.name).exists():
            tell(f"{job.name}: the record that is there is of other settings, and will be replaced")
        record = perform(job, device, progress(f"{job.name} ({place + 1} of {len(missing)})"), data_dir)
        record.save(record_path(results, job.name))
        tell(f"{job.name}: {summary(record)}; {time.monotonic() - begun:.0f} s")
    return True


def summary(record: Record) -> str:
    """The first way in one line."""
    ways = record.results["ways"]
    if not ways:
        return "done"
    each = ways[0]["each"]
    mean = {name: sum(one[name] for one in each) / len(each) for name in ("coverage@0.02", "accuracy", "nll")}
    return (
        f"coverage at 2 % {100 * mean['coverage@0.02']:.1f} %, accuracy {100 * mean['accuracy']:.1f} %, "
        f"NLL {mean['nll']:.3f}"
    )


def perform(job: Job, device: torch.device, progress: Progress | None = None, data_dir: Path | None = None) -> Record:
    """Train the networks of a job, ask them, measure."""
    images = _few(_images(job.data, data_dir), job.train_rows, job.test_rows)
    if job.crop is not None:
        x_train, x_test = (recrop(x, job.crop) for x in (images.x_train, images.x_test))
        images = dataclasses.replace(images, x_train=x_train, x_test=x_test)
    settings = fit_settings(job.settings)
    ready = prepare(images.x_train, images.y_train, settings)
    if len(ready.classes) < len(images.classes):
        few = f"{len(ready.classes)} of {len(images.classes)} classes in {len(images.y_train):,} rows"
        raise ArgumentError.of("train_rows", few, "so many that all classes are among them")
    fitted = fit(settings.network, settings.training, ready.data, settings.seeds, device=device, progress=progress)
    transform = ready.transform
    assert isinstance(transform, ArrayTransform)
    test = torch.from_numpy(transform.apply(images.x_test).x).to(device)
    network = fitted.network
    kept = [result for result in fitted.members if result.best_epoch is not None]
    ways = []
    for way in job.row.ways:
        answers = ask(network, way, test)
        confidence = [None] * len(kept) if answers.confidence is None else list(answers.confidence)
        found: dict[str, Any] = {
            "sampling": way.sampling,
            "samples": way.samples,
            "confidence": way.confidence,
            "each": [
                {"seed": member.seed, **cells(p, images.y_test, job.halves, own)}
                for member, p, own in zip(kept, answers.p, confidence, strict=True)
            ],
            "ensemble": cells(answers.ensemble, images.y_test, job.halves, answers.ensemble_confidence),
        }
        if "curves" in job.probes and way.confidence == "response":
            found["curves"] = [curve(p, images.y_test) for p in (*answers.p, answers.ensemble)]
        ways.append(found)
    seeds = tuple(member.seed for member in kept)
    subject = Subject(network, settings, test, images, ready.data, seeds)
    results = {
        "rows": {
            "training": ready.data.train.shape[1],
            "validation": ready.data.validation.shape[1],
            "test": len(images.y_test),
        },
        "notes": [*images.notes, *ready.notes],
        "weights": sum(parameter.numel() for parameter in network.parameters()) // len(kept),
        "training": fitted.config.to_dict(),
        "members": [result._asdict() for result in fitted.members],
        "seconds": round(fitted.seconds, 3),
        "epochs": len(fitted.history),
        "ways": ways,
        "probes": {name: PROBES[name](subject) for name in job.probes if name != "curves"},
    }
    return Record("experiment", job.name, job.described(), results, settings.seed)


def _few(images: ImageSet, train: int | None, test: int | None) -> ImageSet:
    """The first so many of each part, which are in no order."""
    return dataclasses.replace(
        images,
        x_train=images.x_train[:train],
        y_train=images.y_train[:train],
        x_test=images.x_test[:test],
        y_test=images.y_test[:test],
    )


@functools.lru_cache(maxsize=1)
def _images(name: str, data_dir: Path | None) -> ImageSet:
    return load_images(name, data_dir, download=False)
