"""Run jobs: train, predict, measure, write a record; a job that has a record is not run again."""

import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from experiments.paper.jobs.crops import recrop
from experiments.paper.jobs.measure import measure_predictions, risk_curve
from experiments.paper.jobs.plan import FINISHED_STATES, Job, Plan, PredictionMode, Study
from experiments.paper.jobs.predictions import predict
from experiments.paper.jobs.probes import PROBES, ProbeContext
from squad.core.checks import check_number
from squad.data.array_transform import ArrayTransform
from squad.data.images import ImageSet, load_images
from squad.errors import ArgumentError
from squad.fitting import prepare
from squad.models import Network
from squad.records import Record
from squad.search.search_record import TRIALS, read
from squad.settings import fit_settings
from squad.train import Progress, fit

__all__ = ["Log", "TimeLimit", "has_record", "record_path", "run_job", "run_plan", "run_study"]

#: A function that prints one line of progress.
Log = Callable[[str], None]


class TimeLimit:
    """A limit on the running time.

    Args:
        minutes: Minutes from now; None: no limit.
    """

    def __init__(self, minutes: float | None) -> None:
        self.end = None if minutes is None else time.monotonic() + 60 * check_number("minutes", minutes, 0.0)

    @property
    def minutes_left(self) -> float | None:
        """Minutes left, at least 0; None without a limit."""
        return None if self.end is None else max(0.0, (self.end - time.monotonic()) / 60)

    @property
    def expired(self) -> bool:
        """Whether no time is left."""
        return self.minutes_left == 0.0


def record_path(results: Path, name: str) -> Path:
    """Return the path of a job's record."""
    return results / f"{name}.json"


def has_record(job: Job, results: Path) -> bool:
    """Whether there is a record with exactly the settings of this job."""
    path = record_path(results, job.name)
    return path.is_file() and Record.load(path).settings == job.to_dict()


def run_study(
    study: Study, folder: Path, device: str, time_limit: TimeLimit, data_dir: Path | None, progress: Any
) -> bool:
    """Run a study, or resume it; return whether it is complete."""
    from squad.search.tuning import tune

    out = folder / "search" / study.name
    if not _is_complete(out, study):
        images = _load_images(study.data, data_dir)
        if time_limit.expired:  # reading takes a while
            return False
        tune(
            images.x_train,
            images.y_train,
            model=study.model,
            trials=study.trials,
            objective=study.objective,
            settings=study.settings,
            space="paper" if study.space is None else folder / study.space,
            out=out,
            device=device,
            minutes=time_limit.minutes_left,
            prune=study.prune,
            defaults=False,  # the paper's searches had no trial with the defaults
            progress=progress,
        )
    return _is_complete(out, study)


def _is_complete(folder: Path, study: Study) -> bool:
    if not (folder / TRIALS).is_file():
        return False
    return sum(trial.state in FINISHED_STATES for trial in read(folder).trials) >= study.trials


def run_plan(
    plan: Plan,
    results: Path,
    device: torch.device,
    time_limit: TimeLimit,
    log: Log,
    progress: Callable[[str], Progress],
    data_dir: Path | None = None,
) -> bool:
    """Run the jobs of a plan that have no record.

    Args:
        plan: The plan; its studies must be complete.
        results: Folder of the records.
        device: Device for training.
        time_limit: No job is started after it has expired.
        log: Called with a line for each job.
        progress: Makes the progress display of a training, given its label.
        data_dir: Folder that is searched first for data sets.

    Returns:
        Whether all jobs have a record; False if the time was too short.
    """
    jobs = [plan.job(row) for row in plan.rows]
    missing = [job for job in jobs if not has_record(job, results)]
    if missing:
        log(f"{plan.name}: {len(jobs) - len(missing)} of {len(jobs)} records exist")
    for index, job in enumerate(missing, 1):
        if time_limit.expired:
            return False
        start = time.monotonic()
        if record_path(results, job.name).exists():
            log(f"{job.name}: replacing a record with other settings")
        record = run_job(job, device, progress(f"{job.name} ({index} of {len(missing)})"), data_dir)
        record.save(record_path(results, job.name))
        log(f"{job.name}: {summarize(record)}; {time.monotonic() - start:.0f} s")
    return True


def summarize(record: Record) -> str:
    """Return the results of the first prediction mode in one line."""
    modes = record.results["ways"]
    if not modes:
        return "done"
    networks = modes[0]["each"]
    mean = {name: sum(one[name] for one in networks) / len(networks) for name in ("coverage@0.02", "accuracy", "nll")}
    return (
        f"coverage at 2 % {100 * mean['coverage@0.02']:.1f} %, accuracy {100 * mean['accuracy']:.1f} %, "
        f"NLL {mean['nll']:.3f}"
    )


def run_job(job: Job, device: torch.device, progress: Progress | None = None, data_dir: Path | None = None) -> Record:
    """Train the networks of a job, measure their predictions, and return the record."""
    images = _truncate(_load_images(job.data, data_dir), job.train_rows, job.test_rows)
    if job.crop is not None:
        x_train, x_test = (recrop(x, job.crop) for x in (images.x_train, images.x_test))
        images = dataclasses.replace(images, x_train=x_train, x_test=x_test)
    settings = fit_settings(job.settings)
    prepared = prepare(images.x_train, images.y_train, settings)
    if len(prepared.classes) < len(images.classes):
        raise ArgumentError(
            f"The first {len(images.y_train):,} training rows have {len(prepared.classes)} of the "
            f"{len(images.classes)} classes. Set train_rows higher."
        )
    fitted = fit(settings.network, settings.training, prepared.data, settings.seeds, device=device, progress=progress)
    transform = prepared.transform
    assert isinstance(transform, ArrayTransform)
    inputs = torch.from_numpy(transform.apply(images.x_test).x).to(device)
    network = fitted.network
    seeds = tuple(result.seed for result in fitted.members if result.best_epoch is not None)
    context = ProbeContext(network, settings, inputs, images, prepared.data, seeds)
    results = {
        "rows": {
            "training": prepared.data.train.shape[1],
            "validation": prepared.data.validation.shape[1],
            "test": len(images.y_test),
        },
        "notes": [*images.notes, *prepared.notes],
        "weights": sum(parameter.numel() for parameter in network.parameters()) // len(seeds),
        "training": fitted.config.to_dict(),
        "members": [result._asdict() for result in fitted.members],
        "seconds": round(fitted.seconds, 3),
        "epochs": len(fitted.history),
        "ways": [_evaluate(job, mode, network, inputs, images, seeds) for mode in job.row.modes],
        "probes": {name: PROBES[name](context) for name in job.probes if name != "curves"},
    }
    return Record("experiment", job.name, job.to_dict(), results, settings.seed)


def _evaluate(
    job: Job, mode: PredictionMode, network: Network, inputs: torch.Tensor, images: ImageSet, seeds: tuple[int, ...]
) -> dict[str, Any]:
    """Measure every network, and their ensemble, in one prediction mode."""
    predictions = predict(network, mode, inputs)
    confidences = [None] * len(seeds) if predictions.confidence is None else list(predictions.confidence)
    results: dict[str, Any] = {
        "sampling": mode.sampling,
        "samples": mode.samples,
        "confidence": mode.confidence,
        "each": [
            {"seed": seed, **measure_predictions(p, images.y_test, job.halves, confidence)}
            for seed, p, confidence in zip(seeds, predictions.p, confidences, strict=True)
        ],
        "ensemble": measure_predictions(
            predictions.ensemble, images.y_test, job.halves, predictions.ensemble_confidence
        ),
    }
    if "curves" in job.probes and mode.confidence == "response":
        results["curves"] = [risk_curve(p, images.y_test) for p in (*predictions.p, predictions.ensemble)]
    return results


def _truncate(images: ImageSet, train: int | None, test: int | None) -> ImageSet:
    """Return the first rows of each part; rows are in random order."""
    return dataclasses.replace(
        images,
        x_train=images.x_train[:train],
        y_train=images.y_train[:train],
        x_test=images.x_test[:test],
        y_test=images.y_test[:test],
    )


@functools.lru_cache(maxsize=1)
def _load_images(name: str, data_dir: Path | None) -> ImageSet:
    return load_images(name, data_dir, download=False)
