"""``squad recalibrate`` and ``squad strip``: a saved model, changed in place or saved elsewhere."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from squad.cli.options import Decimal, Encoding
from squad.cli.screen import row_progress, say, tell, warn
from squad.cli.sign import lost_signature

__all__ = ["recalibrate", "strip"]

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a saved model.", show_default=False)]
Out = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Another folder; without it MODEL is replaced.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a certificate, or a model in --out.")]


def recalibrate(
    model: Model,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="Labelled rows, new to the model, of which none will certify it.", show_default=False
        ),
    ],
    method: Annotated[str, typer.Option(metavar="NAME", help="temperature or isotonic.")] = "temperature",
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The labels, if not in the column of training.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Which rows belong together; none may have been trained on.")
    ] = None,
    out: Out = None,
    overwrite: Overwrite = False,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu or cuda.")] = "auto",
    data_dir: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where data sets are looked for first.")
    ] = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Bring confidences nearer to how often answers are right.

    Labels stay as they are; with a temperature so does the order of confidences. Unless cross-validation shows a clear
    gain, confidences stay as they are too; the gain that is printed is the cross-validated one. Do it before squad
    certify, on rows of their own: a certificate that is there would be lost.

    \b
    Examples:
      squad recalibrate model extra.csv --out recalibrated
      squad recalibrate model extra.csv --method isotonic --out isotonic
    """
    from squad import artifact
    from squad.cli.inputs import Format
    from squad.cli.rows import labelled_rows
    from squad.outputs import OutputError, check_writable, claimed
    from squad.predictor import choose_device, load

    where = choose_device(device)
    place = out or model
    with claimed(place):
        predictor = load(model, where)
        if predictor.certificate is not None and out is None and not overwrite:
            raise OutputError(
                f"{model} has a certificate, which would be lost: confidences change. Say --overwrite, or name --out."
            )
        artifact.check_target(place, overwrite or out is None)
        check_writable(place)
        rows = labelled_rows(predictor, model, data, target, group, data_dir, Format(encoding, decimal))
        assert rows.labels is not None
        with row_progress() as progress:
            made = predictor.recalibrate(rows.x, rows.labels, method, rows.groups, progress)
        lost = lost_signature(model, place)
        made.save(place, overwrite=overwrite or out is None)
    if lost is not None:
        warn(lost)
    tell(str(made.recalibration))
    say(f"saved in {place}")


def strip(
    model: Model,
    scores: Annotated[
        bool,
        typer.Option("--scores", help="Remove calibration and validation scores too; the report's slider needs them."),
    ] = False,
    out: Out = None,
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
    from squad.outputs import claimed
    from squad.predictor import load

    place = out or model
    with claimed(place):
        predictor = load(model)
        artifact.check_target(place, overwrite or out is None)
        gone = []
        if predictor.memory is not None:
            gone.append(f"{len(predictor.memory.rows):,} hashes of rows and {len(predictor.memory.groups):,} of groups")
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
    if predictor.memory is not None:
        warn(f"{place} can no longer refuse to be certified on rows that it was trained on.")
    tell(f"{place}: " + (f"removed {' and '.join(gone)}" if gone else "there was nothing to remove"))


def _confirm(model: Path, gone: str) -> None:
    """That a model may lose something for good: asked on a terminal, refused elsewhere."""
    from squad.outputs import OutputError
    from squad.printable import one_line

    if not sys.stdin.isatty():
        raise OutputError(
            f"{model} itself would lose {gone}, which cannot be had again. Name another folder with --out, or say"
            " --yes."
        )
    question = one_line(f"{model} itself loses {gone}, which cannot be had again. Go on?")
    if not typer.confirm(question, err=True):
        raise OutputError(f"{model} was left as it is. --out names another folder for the model without them.")
