"""``squad strip``: remove hashes of training rows from a saved model."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from squad.cli.options import Overwrite, SavedModel, SavedOut
from squad.cli.sign import lost_signature
from squad.cli.terminal import print_result, warn

__all__ = ["strip"]


def strip(
    model: SavedModel,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores", help="Remove calibration and validation scores as well; the report's slider needs them."
        ),
    ] = False,
    out: SavedOut = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Change MODEL itself without confirmation; this cannot be undone.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Remove hashes of training rows from a saved model.

    A model stores a hash of every row that it was trained on, to refuse certification with these rows. Anyone who has
    a row and the model can tell whether the row was among them. Certify first, then strip, then share the model.
    Without --out, MODEL itself is changed: you are asked to confirm on a terminal; otherwise pass --yes.

    \b
    Examples:
      squad strip model --out stripped
      squad strip model --scores --out bare
    """
    from squad import artifact
    from squad.output_paths import exclusive_output
    from squad.predictor import load

    folder = out or model
    with exclusive_output(folder):
        predictor = load(model)
        artifact.check_target(folder, overwrite or out is None)
        removed = []
        if predictor.seen_rows is not None:
            removed.append(
                f"{len(predictor.seen_rows.rows):,} hashes of rows and {len(predictor.seen_rows.groups):,} of groups"
            )
        if scores and predictor.calibration is not None:
            removed.append(f"{len(predictor.calibration):,} calibration scores")
        if scores and predictor.validation_scores is not None:
            removed.append(f"{len(predictor.validation_scores):,} validation scores")
        if removed and out is None and not yes:
            _confirm(model, " and ".join(removed))
        stripped = predictor.without_row_hashes()
        lost = lost_signature(model, folder)
        (stripped.without_scores() if scores else stripped).save(folder, overwrite=overwrite or out is None)
    if lost is not None:
        warn(lost)
    if predictor.seen_rows is not None:
        warn(f"{folder} can no longer refuse certification with its training rows.")
    print_result(f"{folder}: " + (f"removed {' and '.join(removed)}" if removed else "there was nothing to remove"))


def _confirm(model: Path, removed: str) -> None:
    """Ask for confirmation on a terminal; elsewhere raise an error.

    Args:
        model: Folder of the model.
        removed: What will be removed.
    """
    from squad.output_paths import OutputError
    from squad.printable import one_line

    if not sys.stdin.isatty():
        raise OutputError(
            f"{model} itself would lose {removed}, which cannot be undone. Name another folder with --out, or pass"
            " --yes."
        )
    question = one_line(f"{model} itself will lose {removed}. This cannot be undone. Continue?")
    if not typer.confirm(question, err=True):
        raise OutputError(f"{model} was not changed. Name another folder for the stripped model with --out.")
