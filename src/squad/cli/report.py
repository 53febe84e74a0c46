"""``squad report``: an HTML report on one or several models."""

from pathlib import Path
from typing import Annotated

import typer

from squad.cli.options import DataDir, Decimal, Device, Encoding, LabelColumn, Overwrite
from squad.cli.terminal import print_message, print_result, row_progress, warn

__all__ = ["report"]


def report(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL", help="Folder of a saved model; one or several.", show_default=False)
    ],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Labelled test rows that no model has seen.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="HTML file to write.")] = Path("report.html"),
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Title of the report.  [default: name of the model]")
    ] = None,
    intended_use: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What the model is meant for, and for whom, for the report's model card."),
    ] = None,
    target: LabelColumn = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    overwrite: Overwrite = False,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Write an HTML report that opens in any browser, offline.

    It states the guarantee and the weakest class, lets you choose a risk and weigh costs, and shows the risk-coverage
    curve, errors per class and the referred cases. Several models are compared on the rows that all of them can read.

    \b
    Examples:
      squad report model test.csv --out report.html
      squad report model test.csv --out ward.html --title "Ward 7" \\
          --intended-use "Second reading of scans, with a radiologist."
      squad report model ensemble test.csv --out both.html
      squad report digits-model digits:test --out digits.html
    """
    import numpy as np

    from squad.cli.answer_files import check_not_existing
    from squad.cli.inputs import Format
    from squad.cli.labelled_rows import check_table_or_array, labelled_rows
    from squad.errors import ArgumentError
    from squad.output_paths import OutputError, check_writable
    from squad.predictor import choose_device, load
    from squad.predictor.calibration_rows import seen_in_training
    from squad.predictor.input_rows import input_rows
    from squad.predictor.row_pass import encode
    from squad.report import write_report

    if out.suffix.lower() not in (".html", ".htm") or out.is_dir():
        raise OutputError(f"--out must be a file that ends in .html, got {out}.")
    if len({Path(model).resolve() for model in models}) < len(models):
        raise ArgumentError(f"Name each model once, got {', '.join(models)}.")
    check_not_existing(out, overwrite)
    check_writable(out)
    where = choose_device(device)
    loaded = {model: load(model, where) for model in models}
    first, *others = models
    rows = labelled_rows(loaded[first], Path(first), data, target, data_dir=data_dir, format=Format(encoding, decimal))
    for model in others:
        check_table_or_array(loaded[model], rows.x, Path(model), data)
    assert rows.labels is not None
    with row_progress() as progress:
        write_report(
            out,
            dict(zip(_names(models), loaded.values(), strict=True)),
            rows.x,
            rows.labels,
            source=rows.source,
            title=title,
            intended_use=intended_use,
            progress=progress,
        )
    for model, predictor in loaded.items():
        if predictor.seen_rows is None:
            continue
        encoded = encode(predictor, input_rows(predictor.transform, rows.x))
        if seen := seen_in_training(predictor, encoded, np.ones(len(rows), dtype=np.bool_)):
            warn(f"{model} was trained on {seen:,} of these {len(rows):,} rows: the report is too optimistic.")
    print_result(out)
    print_message("Open it in a browser; it works offline.")


def _names(models: list[str]) -> list[str]:
    """Return the names of the models in the report: their folders, with as few parents as it takes to differ.

    A report is passed on; where a model lies on somebody's disk is nobody else's business.

    Examples:
        >>> _names(["ward-7/model"]), _names(["ward-7/model", "ward-8/model"])
        (['model'], ['ward-7/model', 'ward-8/model'])
    """
    parts = [Path(model).resolve().parts for model in models]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(own[-length:]) for own in parts]
        if len(set(names)) == len(names):
            break
    return names
