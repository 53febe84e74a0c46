"""The command ``python -m experiments.paper``: reproduce the tables and figures of the paper."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from squad.cli.help_layout import STYLE, Command
from squad.cli.interrupts import listening
from squad.cli.options import DataDir, Device
from squad.cli.terminal import StoppedError, print_message, print_result, table

if TYPE_CHECKING:
    from experiments.paper.jobs.plan import Plan
    from experiments.paper.sources import Sources

__all__ = ["main", "paper"]

#: Default folder of the plans, relative to the root of a clone.
FOLDER = Path("experiments/paper")
#: Exit status if the time was too short: EX_TEMPFAIL of BSD's sysexits ("try again").
UNFINISHED = 75


def paper(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="table1, table2, table3, figures or all.", show_default=False)
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds, epochs and rows: minutes on two cores.")] = False,
    from_records: Annotated[
        bool, typer.Option("--from-records", help="Run nothing; write tables and figures from the existing records.")
    ] = False,
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the experiments: settings, studies, records.")
    ] = FOLDER,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Output folder for records, tables and figures; default: that of --folder, or quick in it with "
            "--quick.",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="Start nothing after N minutes; exit status 75 if not everything is complete. Run the same command "
            "again to resume.",
        ),
    ] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
) -> None:
    """Reproduce the tables and figures of the paper.

    Experiments that have a record are not run again, so the same command resumes a run that was stopped. Full runs
    need a GPU and the data sets (squad data fetch).

    \b
    Examples:
      python -m experiments.paper table1 --from-records
      python -m experiments.paper all --quick
      python -m experiments.paper table2 --minutes 8 --device cuda
    """
    from experiments.paper import pipeline
    from experiments.paper.drawings import sketch
    from experiments.paper.jobs.plan import PlanError
    from experiments.paper.jobs.run import TimeLimit
    from experiments.paper.sources import Sources
    from squad.output_paths import check_writable
    from squad.predictor import choose_device
    from squad.search.progress import make_progress as make_search_progress
    from squad.train import make_progress

    start = time.monotonic()
    sketch.figure_class()  # fails early if Matplotlib is missing
    plans = pipeline.read_plans(what, folder, quick=quick)
    pipeline.read_plans("all", folder, quick=quick)  # an error in any plan is found before hours of training
    time_limit, torch_device = TimeLimit(minutes), choose_device(device)
    options = ["--quick"] * quick + [f"--folder {folder}"] * (folder != FOLDER) + [f"--out {out}"] * (out is not None)
    out = out or (folder / "quick" if quick else folder)
    check_writable(out / "README.md")
    if from_records and not any((out / "results").rglob("*.json")):
        raise PlanError(f"There are no records in {out / 'results'}. Run without --from-records to create them.")
    if quick:
        print_message("quick: fewer networks, epochs and rows; results are not comparable with the paper's")
    complete = True
    if not from_records:
        try:
            complete = pipeline.run_plans(
                plans,
                out / "results",
                torch_device,
                time_limit,
                print_message,
                lambda label: make_progress(label=label),
                lambda label: make_search_progress(label=label),
                data_dir,
            )
        except KeyboardInterrupt:
            raise StoppedError("stopped; existing records are kept. Run the same command again to resume.") from None
    if not complete:
        print_message(f"{time.monotonic() - start:.0f} s; time limit reached. Run the same command again to resume")
        print_message(
            f"python -m experiments.paper {' '.join([what, *options])} --from-records writes the existing results"
        )
        raise typer.Exit(UNFINISHED)
    pages = pipeline.write_pages(folder, out, quick=quick, log=print_message)
    for plan in plans:
        if plan.name.startswith("table"):
            _print_table(plan, Sources(folder, out / "results", quick))
    drawn = sum(path.suffix == ".png" for path in pages)
    print_result(f"{out / 'README.md'}, {len(pages) - drawn - 1} more pages and {drawn} figures")
    print_message(f"{time.monotonic() - start:.0f} s")


def _print_table(plan: "Plan", sources: "Sources") -> None:
    """Print the comparison with the paper; means only, so that it fits a terminal."""
    from experiments.paper.pages.result_tables import NOT_RUN, comparison_rows

    rows: list[list[str]] = []
    for label, kind, cells in comparison_rows(sources.row_results(plan.name), differences=not plan.quick):
        first = f"{label}: paper" if kind == "paper" else f"  {label.removeprefix(_model_prefix(rows))}"
        rows.append([first, *(cell.partition(" (")[0].replace(NOT_RUN, "-") for cell in cells)])
    note = "quick: not comparable" if plan.quick else "difference in the paper's standard deviations"
    title = f"{plan.title}. Coverage in %; {note}"
    table(title, ["", "cov. .5 %", "1 %", "2 %", "NLL", "acc."], rows)


def _model_prefix(rows: list[list[str]]) -> str:
    """Return the name of the paper's row above, with which the labels of our rows begin."""
    names = [row[0].removesuffix(": paper").partition(", T =")[0] for row in rows if row[0].endswith(": paper")]
    return f"{names[-1]}, " if names else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code, as :func:`squad.cli.main` does.

    Args:
        arguments: Arguments without the program's name; None: those of the process.
    """
    with listening(process=arguments is None) as listener:
        from squad.cli import running

        running.import_torch(arguments)
        app = typer.Typer(**STYLE)
        app.command(cls=Command)(paper)
        return running.run(app, "python -m experiments.paper", arguments, listener)


if __name__ == "__main__":
    sys.exit(main())
