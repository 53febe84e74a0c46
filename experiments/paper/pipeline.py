"""The whole reproduction: run studies and jobs, then write pages and figures from their records."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from experiments.paper.drawings import paper_figures
from experiments.paper.drawings.captions import TEXTS
from experiments.paper.jobs.plan import PLANS, Plan
from experiments.paper.jobs.plan_files import read_plan
from experiments.paper.jobs.run import Log, TimeLimit, run_plan, run_study
from experiments.paper.pages import page
from experiments.paper.sources import Sources
from squad.core.checks import check_choice
from squad.search.search_record import TRIALS
from squad.train import Progress

__all__ = ["read_plans", "run_plans", "write_pages"]


def read_plans(what: str, folder: Path, *, quick: bool = False) -> list[Plan]:
    """Read one plan by name, or all plans.

    Args:
        what: Name of a plan, or "all".
        folder: Folder of the plan files.
        quick: Whether to apply the overrides of --quick.
    """
    check_choice("WHAT", what, (*PLANS, "all"))
    return [read_plan(folder / f"{name}.toml", quick=quick) for name in (PLANS if what == "all" else (what,))]


def run_plans(
    plans: Sequence[Plan],
    results: Path,
    device: torch.device,
    time_limit: TimeLimit,
    log: Log,
    progress: Callable[[str], Progress],
    search_progress: Callable[[str], Any],
    data_dir: Path | None = None,
) -> bool:
    """Run the studies and jobs of plans that are not complete.

    Args:
        plans: The plans.
        results: Folder of the records.
        device: Device for training.
        time_limit: Nothing is started after it has expired.
        log: Called with lines of progress.
        progress: Makes the progress display of a training, given its label.
        search_progress: Makes the progress display of a search, given its label.
        data_dir: Folder that is searched first for data sets.

    Returns:
        Whether everything is complete; False if the time was too short.
    """
    for plan in plans:
        if not plan.quick:  # --quick uses the studies that exist
            for study in plan.studies().values():
                progress_of_study = search_progress(study.name)
                if not run_study(study, plan.folder, str(device), time_limit, data_dir, progress_of_study):
                    log(f"{plan.name}: the study {study.name} is not complete")
                    return False
        if not run_plan(plan, results, device, time_limit, log, progress, data_dir):
            return False
    return True


def write_pages(folder: Path, out: Path, *, quick: bool = False, log: Log = lambda line: None) -> list[Path]:
    """Write the pages and figures of all plans from the existing records.

    Args:
        folder: Folder of the plans, with the studies in ``search``.
        out: Output folder, with the records in ``results``; figures are written to ``figures``.
        quick: Whether the records are those of --quick.
        log: Called with a line for each missing study and each removed figure.

    Returns:
        The files written.
    """
    for plan in read_plans("all", folder, quick=quick):
        for name in plan.studies():
            if not quick and not (folder / "search" / name / TRIALS).is_file():
                log(f"{plan.name}: the study {name} is missing, so records with its settings are not used")
    sources = Sources(folder, out / "results", quick)
    drawn = paper_figures.write(sources, out / "figures", log)
    captions = {f"figures/{path.name}": TEXTS[path.stem].caption for path in drawn}
    return [*page.write(sources, out, captions), *drawn]
