"""``squad recalibrate``: recalibrate confidences to match accuracy."""

from typing import Annotated

import typer

from squad.cli.options import (
    DataDir,
    Decimal,
    Device,
    Encoding,
    LabelColumn,
    NewGroup,
    Overwrite,
    SavedModel,
    SavedOut,
)
from squad.cli.sign import lost_signature
from squad.cli.terminal import print_message, print_result, row_progress, warn

__all__ = ["recalibrate"]


def recalibrate(
    model: SavedModel,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="Labelled rows that are new to the model. They cannot be used for certification afterwards.",
            show_default=False,
        ),
    ],
    method: Annotated[str, typer.Option(metavar="NAME", help="temperature or isotonic.")] = "temperature",
    target: LabelColumn = None,
    group: NewGroup = None,
    out: SavedOut = None,
    overwrite: Overwrite = False,
    device: Device = "auto",
    data_dir: DataDir = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Recalibrate confidences to match accuracy.

    Predicted labels do not change; with a temperature, neither does the order of confidences. Confidences change only
    if cross-validation shows a clear gain, which is printed. Recalibration is optional. Recalibrate before squad
    certify, with other rows: an existing certificate is lost.

    \b
    Examples:
      squad recalibrate model recalibration.csv --out recalibrated
      squad recalibrate model recalibration.csv --method isotonic --out isotonic
    """
    from squad import artifact
    from squad.cli.inputs import Format
    from squad.cli.labelled_rows import labelled_rows
    from squad.output_paths import OutputError, check_writable, exclusive_output
    from squad.predictor import choose_device, load

    where = choose_device(device)
    folder = out or model
    with exclusive_output(folder):
        predictor = load(model, where)
        if predictor.certificate is not None and out is None and not overwrite:
            raise OutputError(
                f"{model} has a certificate, which would be lost because confidences change. Pass --overwrite, or name"
                " another folder with --out."
            )
        artifact.check_target(folder, overwrite or out is None)
        check_writable(folder)
        rows = labelled_rows(predictor, model, data, target, group, data_dir, Format(encoding, decimal))
        assert rows.labels is not None
        with row_progress() as progress:
            recalibrated = predictor.recalibrate(rows.x, rows.labels, method, rows.groups, progress)
        lost = lost_signature(model, folder)
        recalibrated.save(folder, overwrite=overwrite or out is None)
    if lost is not None:
        warn(lost)
    print_result(str(recalibrated.recalibration))
    print_message(f"saved in {folder}")
