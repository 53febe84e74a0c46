"""``squad reproduce``: the paper's tables and figures, run again."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from squad.cli.options import DataDir, Device
from squad.cli.screen import StoppedError, say

__all__ = ["reproduce"]


class What(StrEnum):
    """What can be run."""

    TABLE1 = "table1"
    TABLE2 = "table2"
    TABLE3 = "table3"
    FIGURES = "figures"
    ALL = "all"


def reproduce(
    what: Annotated[
        What, typer.Argument(metavar="WHAT", help="table1, table2, table3, figures or all.", show_default=False)
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds, epochs and rows: minutes on two cores.")] = False,
    from_records: Annotated[
        bool, typer.Option("--from-records", help="Run nothing; write tables and figures from the records there are.")
    ] = False,
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Of the experiments: settings, studies, records.")
    ] = Path("experiments/paper"),
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="For records, tables and figures; FOLDER itself, or FOLDER/quick with --quick."
        ),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(metavar="N", help="Begin nothing after so long; the same command goes on.")
    ] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
) -> None:
    """Run the paper's tables and figures again, or write them from their records.

    What has a record is not run again, so a run that was stopped goes on. Whole runs are for a GPU; the data sets must
    be there (squad data fetch).

    \b
    Examples:
      squad reproduce table1 --from-records
      squad reproduce all --quick
      squad reproduce table2 --minutes 8 --device cuda
    """
    from squad.predictor import choose_device
    from squad.reproduce import whole
    from squad.reproduce.run import Clock
    from squad.search.progress import make_progress as make_search_progress
    from squad.train import make_progress

    begun = time.monotonic()
    chosen = whole.plans(str(what), folder, quick=quick)
    out = out or (folder / "quick" if quick else folder)
    if quick:
        say("quick: fewer seeds, epochs and rows than the paper's; the figures are not comparable with it")
    complete = True
    if not from_records:
        try:
            complete = whole.run(
                chosen,
                out / "results",
                choose_device(device),
                Clock(minutes),
                say,
                lambda label: make_progress(label=label),
                lambda label: make_search_progress(label=label),
                data_dir,
            )
        except KeyboardInterrupt:
            raise StoppedError("stopped; what has a record is kept, and the same command goes on.") from None
    say(f"{time.monotonic() - begun:.0f} s")
    if not complete:
        say("the time is over; the same command goes on")
