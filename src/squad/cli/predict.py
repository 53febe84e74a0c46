"""``squad predict``: predictions of a saved model, with confidences and decisions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from squad.cli.loading import load_for_prediction, rows_text
from squad.cli.options import (
    DataDir,
    Decimal,
    Device,
    Encoding,
    NumSamples,
    Overwrite,
    PredictData,
    PublicKey,
    Sampling,
    SavedModel,
)
from squad.cli.terminal import print_message, row_progress, warn

__all__ = ["predict"]


def predict(
    model: SavedModel,
    data: PredictData,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV, TSV or Parquet file for the predictions.  [default: stdout]"),
    ] = None,
    require_certificate: Annotated[
        bool, typer.Option("--require-certificate", help="Exit with code 2 if the model has no certificate.")
    ] = False,
    public_key: PublicKey = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Copy a column of DATA to the output, such as an id; repeatable."),
    ] = None,
    risk: Annotated[
        str | None,
        typer.Option(metavar="R", help="Which certified risk decides, such as .02; needed if there are several."),
    ] = None,
    spreadsheet_safe: Annotated[
        bool,
        typer.Option(
            "--spreadsheet-safe",
            help="Prefix texts that a spreadsheet would run as a formula (=, +, -, @) with an apostrophe.",
        ),
    ] = False,
    sampling: Sampling = None,
    num_samples: NumSamples = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    overwrite: Overwrite = False,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Predict every row, with confidence and decision.

    The columns are label, confidence, decision, entropy, mutual_information and reason. The decision is accepted or
    referred (the model abstains); without a certificate it is uncertified. A row that cannot be read, or is unlike the
    training rows (such as a number far outside its range), is referred, with the reason.

    \b
    Examples:
      squad predict model new.csv --out answers.csv
      squad predict model new.csv --keep patient_id --out answers.parquet
      squad predict model new.csv --require-certificate --out answers.tsv
      squad predict ensemble new.csv --num-samples 16
      cat new.csv | squad predict model - > answers.csv
      squad predict digits-model digits --out digits-answers.csv
    """
    import numpy as np

    from squad.artifact import ArtifactError
    from squad.cli.answer_files import check_answers, print_answers
    from squad.cli.answer_files import spreadsheet_safe as safe
    from squad.cli.inputs import Format, read_rows
    from squad.cli.labelled_rows import check_table_or_array
    from squad.data.tables import write
    from squad.predictor.calibration_rows import NOVEL_WARNED
    from squad.selective.certificate_text import certified_terms

    if out is not None:
        check_answers(out, data, overwrite)
    _check_kept(keep or [])
    predictor = load_for_prediction(model, sampling, num_samples, device, public_key=public_key)
    if require_certificate and (predictor.certificate is None or not predictor.certificate.certified):
        raise ArtifactError(f"{model} has no certificate, which --require-certificate demands. Nothing was written.")
    target = _target_of(predictor, model, risk)
    rows = read_rows(
        data, "test", target=None, need_labels=False, strict=False, data_dir=data_dir, format=Format(encoding, decimal)
    )
    check_table_or_array(predictor, rows.x, model, data)
    copied = {name: _column(rows.x, name, data) for name in keep or ()}
    with row_progress() as progress:
        answer = predictor.answer(rows.x, risk=target, progress=progress)
    frame = answer.to_frame()
    for position, (name, column) in enumerate(copied.items()):
        frame.insert(position, name, column)
    if spreadsheet_safe:
        frame = safe(frame)
    if out is None:
        print_answers(frame)
    else:
        write(frame, out)
    counts = {name: int(np.sum(answer.decision == name)) for name in ("accepted", "uncertified", "referred")}
    decisions = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    unreadable, novel = int(np.sum(np.isnan(answer.confidence))), int(np.sum(answer.novel))
    left_out = [f"{unreadable:,} could not be used"] if unreadable else []
    left_out += [f"{novel:,} unlike the training rows"] if novel else []
    print_message(f"{rows_text(len(answer))}: {decisions}" + (f" ({', '.join(left_out)})" if left_out else ""))
    if counts["accepted"]:
        print_message(f"accepted: certified at {certified_terms(predictor.certificate, target)}")
    if unreadable > 0.5 * len(answer):
        first = answer.reason[np.flatnonzero(np.isnan(answer.confidence))[0]]
        warn(f"{unreadable:,} of {rows_text(len(answer))} could not be used; the first: {first}. Check DATA.")
    if novel > NOVEL_WARNED * len(answer):
        first = answer.reason[np.flatnonzero(answer.novel)[0]]
        warn(
            f"{novel:,} of {rows_text(len(answer))} are unlike the training rows; the first: {first}. Check the units."
        )


def _check_kept(keep: Sequence[str]) -> None:
    """Check the columns of --keep: none twice, none with the name of a column of the output."""
    from squad.errors import ArgumentError
    from squad.predictor.answer import ANSWER_COLUMNS

    for index, name in enumerate(keep):
        if name in ANSWER_COLUMNS:
            raise ArgumentError(f"--keep {name} clashes with a column of the output. Rename the column in DATA.")
        if name in keep[:index]:
            raise ArgumentError(f"--keep {name} is given twice. Name each column once.")


def _target_of(predictor: Any, model: Path, risk: str | None) -> Any:
    """Return the target of the certificate that decides; an error, before the long work, if it must be chosen."""
    from squad.cli.certify_settings import target_of
    from squad.errors import ArgumentError
    from squad.predictor.harms import expand
    from squad.selective.risk_text import risks_text

    if predictor.certificate is None:
        if risk is not None:
            raise ArgumentError(
                f"--risk {risk} needs a certified model, and {model} has no certificate. Run squad certify."
            )
        return None
    certified = {name for target in predictor.certificate.targets for name in target}
    target = None if risk is None else expand(target_of(risk), predictor.classes, certified)
    if target is None and len(predictor.certificate.targets) > 1:
        shown = "; ".join(risks_text(one) for one in predictor.certificate.targets)
        raise ArgumentError(f"The certificate of {model} has several targets: {shown}. Choose one with --risk.")
    predictor.certificate.target(target)
    return target


def _column(x: Any, name: str, data: str) -> Any:
    """Return a column of DATA."""
    from squad.data.tables import Table
    from squad.errors import DataError

    if not isinstance(x, Table):
        raise DataError(f"{data} has no named columns, so --keep {name} is impossible. Omit it.")
    return x.column(name).to_numpy()
