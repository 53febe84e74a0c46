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
    "LargestRisk",
    "MaxEpochs",
    "Model",
    "NewGroup",
    "NumSamples",
    "Overwrite",
    "PredictData",
    "PublicKey",
    "Ranks",
    "Sampling",
    "SavedModel",
    "SavedOut",
    "Seed",
    "Target",
]

# Data to train on, and how to read it.
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, TSV, Parquet or NPZ file, - for CSV from standard input, or a data set (squad data list).",
        show_default=False,
    ),
]
Target = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of labels.")]
Group = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column that says which rows belong together, such as patient_id. Rows of one group always land in the"
        " same split.",
    ),
]
Drop = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Exclude a column; repeatable.")]
DataDir = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder searched first for data sets.")]
Encoding = Annotated[
    str | None, typer.Option(metavar="NAME", help="Encoding of a CSV or TSV file that is not UTF-8: cp1252, utf-16.")
]
Decimal = Annotated[str, typer.Option(metavar="SIGN", help="Decimal sign of a CSV or TSV file: . or , (as in 3,14).")]

# Networks and training.
Model = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="squad, squad-factorized, maxout-dropout, relu-dropout, dlgm or mlp.  [default: squad]"
    ),
]
Hidden = Annotated[str | None, typer.Option(metavar="SIZES", help="Units of the hidden layers.  [default: 32,32]")]
MaxEpochs = Annotated[int | None, typer.Option(metavar="N", help="Maximum number of epochs.  [default: 200]")]
Seed = Annotated[
    int | None, typer.Option(metavar="N", help="Seed of the split, the weights and the noise.  [default: 0]")
]
Device = Annotated[str, typer.Option(metavar="NAME", help="auto, cpu or cuda.")]

# Saved models, and rows to predict.
SavedModel = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a saved model.", show_default=False)]
SavedOut = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Folder for the new model.  [default: MODEL, which is replaced]")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file, model or certificate.")]
PublicKey = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Refuse a model or certificate that is not signed with this key."),
]
PredictData = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, TSV, Parquet, NPZ or NPY file, - for CSV from standard input, or a data set.",
        show_default=False,
    ),
]
LabelColumn = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of labels.  [default: the one used for training]")
]
NewGroup = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Column that says which rows belong together; groups seen in training are refused."
    ),
]
Sampling = Annotated[
    str | None,
    typer.Option(
        metavar="MODE", help="Sampling mode: stratified, relaxed, hard, sample or mean.  [default: the model's]"
    ),
]
NumSamples = Annotated[
    int | None, typer.Option(metavar="N", help="Number of samples per prediction.  [default: the model's]")
]

# Certificates.
Delta = Annotated[
    float, typer.Option(metavar="D", help="Probability that the guarantee is false: 1 - confidence level.")
]
Ranks = Annotated[int, typer.Option(metavar="J", help="Number of thresholds tested; only for --method bonferroni.")]
LargestRisk = Annotated[
    float, typer.Option(metavar="R", help="Largest risk that the band covers; only for --method band.")
]
