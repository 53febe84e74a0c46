"""``squad strip``: remove from a saved model what it keeps about its training rows."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from squad.cli.options import Overwrite, SavedModel, SavedOut
from squad.cli.sign import lost_signature
from squad.cli.terminal import tell, warn

__all__ = ["strip"]


def strip(
    model: SavedModel,
    scores: Annotated[
        bool,
        typer.Option("--scores", help="Remove calibration and validation scores too; the report's slider needs them."),
    ] = False,
    out: SavedOut = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Change MODEL itself without asking; what is removed cannot be had again.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Remove what a model remembers of its rows.

    A model keeps a hash of every row it was trained on, to refuse to be certified on them. Who has a row and the model
    can tell whether it was among them. Certify first, then strip, then give the model away. Without --out MODEL itself
    is changed: that is asked for on a terminal, and takes --yes elsewhere.

    \b
    Examples:
      squad strip model --out stripped
      squad strip model --scores --out bare
    """
    from squad import artifact
    from squad.output_paths import exclusive_output
    from squad.predictor import load

    place = out or model
    with exclusive_output(place):
        predictor = load(model)
        artifact.check_target(place, overwrite or out is None)
        gone = []
        if predictor.seen_rows is not None:
            gone.append(
                f"{len(predictor.seen_rows.rows):,} hashes of rows and {len(predictor.seen_rows.groups):,} of groups"
            )
        if scores and predictor.calibration is not None:
            gone.append(f"{len(predictor.calibration):,} calibration scores")
        if scores and predictor.validation_scores is not None:
            gone.append(f"{len(predictor.validation_scores):,} validation scores")
        if gone and out is None and not yes:
            _confirm(model, " and ".join(gone))
        bare = predictor.without_row_hashes()
        lost = lost_signature(model, place)
        (bare.without_scores() if scores else bare).save(place, overwrite=overwrite or out is None)
    if lost is not None:
        warn(lost)
    if predictor.seen_rows is not None:
        warn(f"{place} can no longer refuse to be certified on rows that it was trained on.")
    tell(f"{place}: " + (f"removed {' and '.join(gone)}" if gone else "there was nothing to remove"))


def _confirm(model: Path, gone: str) -> None:
    """That a model may lose something for good: asked on a terminal, refused elsewhere."""
    from squad.output_paths import OutputError
    from squad.printable import one_line

    if not sys.stdin.isatty():
        raise OutputError(
            f"{model} itself would lose {gone}, which cannot be had again. Name another folder with --out, or say"
            " --yes."
        )
    question = one_line(f"{model} itself loses {gone}, which cannot be had again. Go on?")
    if not typer.confirm(question, err=True):
        raise OutputError(f"{model} was left as it is. --out names another folder for the model without them.")
