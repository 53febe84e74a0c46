"""``squad recalibrate``: confidences closer to how often predictions are correct."""

from typing import Annotated

import typer

from squad.cli.options import DataDir, Decimal, Device, Encoding, Overwrite, SavedModel, SavedOut
from squad.cli.sign import lost_signature
from squad.cli.terminal import row_progress, say, tell, warn

__all__ = ["recalibrate"]


def recalibrate(
    model: SavedModel,
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
    out: SavedOut = None,
    overwrite: Overwrite = False,
    device: Device = "auto",
    data_dir: DataDir = None,
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
    from squad.cli.labelled_rows import labelled_rows
    from squad.output_paths import OutputError, check_writable, exclusive_output
    from squad.predictor import choose_device, load

    where = choose_device(device)
    place = out or model
    with exclusive_output(place):
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
