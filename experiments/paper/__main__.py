"""``python -m experiments.paper``: run the tables and figures of the paper again."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from squad.cli.help_layout import STYLE, Command
from squad.cli.interrupts import listening
from squad.cli.options import DataDir, Device
from squad.cli.terminal import StoppedError, say, table, tell

__all__ = ["main", "paper"]

FOLDER = Path("experiments/paper")
#: Exit status where time was too short: that of BSD's sysexits for "try again".
UNFINISHED = 75


def paper(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="table1, table2, table3, figures or all.", show_default=False)
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds, epochs and rows: minutes on two cores.")] = False,
    from_records: Annotated[
        bool, typer.Option("--from-records", help="Run nothing; write tables and figures from the records there are.")
    ] = False,
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Of the experiments: settings, studies, records.")
    ] = FOLDER,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="For records, tables and figures; FOLDER itself, or FOLDER/quick with --quick."
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            metavar="N", help="Begin nothing after so long; status 75 if that was too short. The same command goes on."
        ),
    ] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
) -> None:
    """Run the paper's tables and figures again.

    What has a record is not run again, so a run that was stopped goes on. Whole runs are for a GPU; the data sets must
    be there (squad data fetch).

    \b
    Examples:
      python -m experiments.paper table1 --from-records
      python -m experiments.paper all --quick
      python -m experiments.paper table2 --minutes 8 --device cuda
    """
    from experiments.paper import pipeline
    from experiments.paper.drawings import sketch
    from experiments.paper.jobs.plan import PlanError
    from experiments.paper.jobs.run import Clock
    from squad.output_paths import check_writable
    from squad.predictor import choose_device
    from squad.search.progress import make_progress as make_search_progress
    from squad.train import make_progress

    begun = time.monotonic()
    sketch.figure_class()  # without it nothing could be drawn in the end
    chosen = pipeline.plans(what, folder, quick=quick)
    pipeline.plans("all", folder, quick=quick)  # an error in any of them is found before hours of training
    clock, place = Clock(minutes), choose_device(device)
    given = ["--quick"] * quick + [f"--folder {folder}"] * (folder != FOLDER) + [f"--out {out}"] * (out is not None)
    out = out or (folder / "quick" if quick else folder)
    check_writable(out / "README.md")
    if from_records and not any((out / "results").rglob("*.json")):
        raise PlanError(f"There are no records in {out / 'results'}. Without --from-records they are made.")
    if quick:
        say("quick: fewer networks, epochs and rows; the figures are not comparable with the paper's")
    complete = True
    if not from_records:
        try:
            complete = pipeline.run(
                chosen,
                out / "results",
                place,
                clock,
                say,
                lambda label: make_progress(label=label),
                lambda label: make_search_progress(label=label),
                data_dir,
            )
        except KeyboardInterrupt:
            raise StoppedError("stopped; what has a record is kept, and the same command goes on.") from None
    if not complete:
        say(f"{time.monotonic() - begun:.0f} s; the time is over. The same command goes on")
        say(f"python -m experiments.paper {' '.join([what, *given])} --from-records writes what there is")
        raise typer.Exit(UNFINISHED)
    pages = pipeline.write(folder, out, quick=quick, tell=say)
    for plan in chosen:
        if plan.name.startswith("table"):
            _show(plan, out / "results")
    drawn = sum(path.suffix == ".png" for path in pages)
    tell(f"{out / 'README.md'}, {len(pages) - drawn - 1} more pages and {drawn} figures")
    say(f"{time.monotonic() - begun:.0f} s")


def _show(plan: Any, results: Path) -> None:
    """A table on the screen: the paper's figures and ours, row by row; means alone, so that it fits."""
    from experiments.paper.pages.result_tables import compared, load

    rows: list[list[str]] = []
    for label, who, cells in compared(load(plan, results), differences=not plan.quick):
        first = f"{label}: paper" if who == "paper" else f"  {label.removeprefix(_last(rows))}"
        rows.append([first, *(cell.partition(" (")[0].replace("not run yet", "-") for cell in cells)])
    note = "quick: not comparable" if plan.quick else "difference in the paper's standard deviations"
    title = f"{plan.title}. Coverage in %; {note}"
    table(title, ["", "cov. .5 %", "1 %", "2 %", "NLL", "acc."], rows)


def _last(rows: list[list[str]]) -> str:
    """How the labels of ours begin: with the name above them, which need not be said again."""
    names = [row[0].removesuffix(": paper").partition(", T =")[0] for row in rows if row[0].endswith(": paper")]
    return f"{names[-1]}, " if names else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code, as :func:`squad.cli.main` does.

    Args:
        arguments: without the program's name; None is what the process was called with.
    """
    with listening(process=arguments is None) as listener:
        from squad.cli import running

        running.import_torch(arguments)
        app = typer.Typer(**STYLE)
        app.command(cls=Command)(paper)
        return running.run(app, "python -m experiments.paper", arguments, listener)


if __name__ == "__main__":
    sys.exit(main())
