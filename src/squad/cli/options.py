"""Options and arguments that several commands take, each declared once."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Data",
    "DataDir",
    "Decimal",
    "Delta",
    "Device",
    "Drop",
    "Encoding",
    "Group",
    "Hidden",
    "LabelColumn",
    "MaxEpochs",
    "Model",
    "NumSamples",
    "Overwrite",
    "PredictData",
    "Sampling",
    "SavedModel",
    "SavedOut",
    "Target",
]

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, Parquet or NPZ file, - for CSV from standard input, or a data set (squad data list).",
        show_default=False,
    ),
]
Target = Annotated[str | None, typer.Option(metavar="COLUMN", help="The labels.")]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="squad (the default), squad-factorized, maxout-dropout, relu-dropout, dlgm, mlp."
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Says which rows belong together, such as patient_id: they are not validated apart."
    ),
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="Leave a column out; may be given several times.")
]
Hidden = Annotated[str | None, typer.Option(metavar="SIZES", help="Units of the hidden layers (32,32).")]
MaxEpochs = Annotated[int | None, typer.Option(metavar="N", help="Passes over the rows, at the most (200).")]
Device = Annotated[str, typer.Option(metavar="NAME", help="auto, cpu or cuda.")]
DataDir = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where data sets are looked for first.")]
Encoding = Annotated[
    str | None, typer.Option(metavar="NAME", help="Encoding of a CSV or TSV file that is not UTF-8: cp1252, utf-16.")
]
Decimal = Annotated[str, typer.Option(metavar="SIGN", help="Decimal sign of a CSV or TSV file: . or , (as in 3,14).")]

Delta = Annotated[float, typer.Option(metavar="D", help="Chance that the guarantee is false: 1 - confidence level.")]

SavedModel = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a saved model.", show_default=False)]
SavedOut = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Another folder; without it MODEL is replaced.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a certificate, or a model in --out.")]
PredictData = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, Parquet, NPZ or NPY file, - for CSV from standard input, or a data set.",
        show_default=False,
    ),
]
LabelColumn = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of labels, if not the one used for training.")
]
Sampling = Annotated[
    str | None,
    typer.Option(metavar="MODE", help="Sampling mode, if not the model's: stratified, relaxed, hard, sample or mean."),
]
NumSamples = Annotated[int | None, typer.Option(metavar="N", help="Number of samples, if not the model's.")]
