"""A whole reproduction: studies, jobs, and the pages that are written from their records."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from experiments.paper.drawings import paper_figures
from experiments.paper.jobs.plan import PLANS, Plan
from experiments.paper.jobs.plan_files import read_plan
from experiments.paper.jobs.run import Clock, Tell, run_plan, run_study
from experiments.paper.pages import page
from squad.core.checks import check_choice
from squad.search.search_record import TRIALS
from squad.train import Progress

__all__ = ["plans", "run", "write"]


def plans(what: str, folder: Path, *, quick: bool = False) -> list[Plan]:
    """Those of one word, or of "all"."""
    check_choice("WHAT", what, (*PLANS, "all"))
    return [read_plan(folder / f"{name}.toml", quick=quick) for name in (PLANS if what == "all" else (what,))]


def run(
    chosen: Sequence[Plan],
    results: Path,
    device: torch.device,
    clock: Clock,
    tell: Tell,
    progress: Callable[[str], Progress],
    search_progress: Callable[[str], Any],
    data_dir: Path | None = None,
) -> bool:
    """Make what is missing; False if the time was too short.

    Args:
        chosen: the plans.
        results: folder of the records.
        device: where.
        clock: nothing is begun when it is over.
        tell: called with lines about what is done.
        progress: makes what is told of a training, from its label.
        search_progress: makes what is told of a search, from its label.
        data_dir: where data sets are looked for first.
    """
    for plan in chosen:
        if not plan.quick:  # which takes the studies that are there
            for study in plan.studies().values():
                if not run_study(study, plan.folder, str(device), clock, data_dir, search_progress(study.name)):
                    tell(f"{plan.name}: the study {study.name} is not complete")
                    return False
        if not run_plan(plan, results, device, clock, tell, progress, data_dir):
            return False
    return True


def write(folder: Path, out: Path, *, quick: bool = False, tell: Tell = lambda line: None) -> list[Path]:
    """Write the pages and figures of all plans from the records there are; needs nothing else.

    Args:
        folder: of the plans, with ``search`` beside them.
        out: with the records in ``results``; the pages go there, the figures into ``figures``.
        quick: whether the records are those of --quick.
        tell: called with lines about what is taken away.
    """
    for plan in plans("all", folder, quick=quick):
        for name in plan.studies():
            if not quick and not (folder / "search" / name / TRIALS).is_file():
                tell(f"{plan.name}: there is no study {name}, and records of what it found do not count")
    drawn = paper_figures.write(folder, out / "results", out / "figures", quick, tell)
    captions = {f"figures/{path.name}": paper_figures.CAPTIONS[path.stem] for path in drawn}
    return [*page.write(paper_figures.Sources(folder, out / "results", quick), out, captions), *drawn]
