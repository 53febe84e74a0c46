"""``squad predict`` and ``squad evaluate``: run a saved model on rows."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from squad.cli.options import (
    DataDir,
    Decimal,
    Device,
    Encoding,
    LabelColumn,
    NumSamples,
    Overwrite,
    PredictData,
    PublicKey,
    Sampling,
    SavedModel,
)
from squad.cli.terminal import row_progress, say, table, warn

__all__ = ["evaluate", "evaluation_metrics", "predict"]

#: Selective risks at which evaluate reports the coverage.
RISKS = (0.005, 0.01, 0.02, 0.05)
#: Targets with a longer name are numbered.
MAX_TARGET_NAME = 30
#: Columns of the output of ``squad predict``.
ANSWER_COLUMNS = ("label", "confidence", "decision", "entropy", "mutual_information", "reason")


def predict(
    model: SavedModel,
    data: PredictData,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="CSV, TSV or Parquet file for the predictions; default: stdout.")
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
        str | None, typer.Option(metavar="R", help="Target that decides, if the certificate has several.")
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
      squad predict model new.csv --require-certificate --out certain.csv
      squad predict ensemble new.csv --num-samples 16
      cat new.csv | squad predict model - > answers.csv
      squad predict digits-model digits --out digits-answers.csv
    """
    import numpy as np

    from squad.artifact import ArtifactError
    from squad.cli.answer_files import check_answers, print_answers
    from squad.cli.answer_files import spreadsheet_safe as safe
    from squad.cli.inputs import Format, read_rows
    from squad.cli.labelled_rows import check_kind
    from squad.data.tables import write
    from squad.predictor.calibration_rows import NOVEL_WARNED
    from squad.selective.certificate_text import terms

    if out is not None:
        check_answers(out, data, overwrite)
    _check_kept(keep or [])
    predictor = _load(model, sampling, num_samples, device, public_key=public_key)
    if require_certificate and (predictor.certificate is None or not predictor.certificate.certified):
        raise ArtifactError(f"{model} has no certificate, which --require-certificate demands. Nothing was written.")
    target = _target_of(predictor, model, risk)
    rows = read_rows(
        data, "test", target=None, need_labels=False, strict=False, data_dir=data_dir, format=Format(encoding, decimal)
    )
    check_kind(predictor, rows.x, model, data)
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
    say(f"{_rows_text(len(answer))}: {decisions}" + (f" ({', '.join(left_out)})" if left_out else ""))
    if counts["accepted"]:
        say(f"accepted: certified at {terms(predictor.certificate, target)}")
    if unreadable > 0.5 * len(answer):
        first = answer.reason[np.flatnonzero(np.isnan(answer.confidence))[0]]
        warn(f"{unreadable:,} of {_rows_text(len(answer))} could not be used; the first: {first}. Check DATA.")
    if novel > NOVEL_WARNED * len(answer):
        first = answer.reason[np.flatnonzero(answer.novel)[0]]
        warn(
            f"{novel:,} of {_rows_text(len(answer))} are unlike the training rows; the first: {first}. Check the units."
        )


def evaluate(
    model: SavedModel,
    data: PredictData,
    target: LabelColumn = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    sampling: Sampling = None,
    num_samples: NumSamples = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Evaluate a model on labelled rows.

    Accuracy, NLL, Brier score, ECE, AURC and related metrics, and coverage at several risks: the largest fraction of
    rows that can be accepted with that selective risk. These are observations on this data, not guarantees.

    \b
    Examples:
      squad evaluate model test.csv
      squad evaluate model test.csv --sampling relaxed --num-samples 32
      squad evaluate digits-model digits --json
    """
    import numpy as np

    from squad.cli.inputs import Format
    from squad.cli.labelled_rows import labelled_rows
    from squad.errors import DataError
    from squad.predictor.calibration_rows import seen_in_training
    from squad.predictor.class_labels import class_positions
    from squad.predictor.input_rows import input_rows
    from squad.predictor.row_pass import encode, predict

    # Observations are not guarantees, so other sampling modes may be evaluated than the certified one.
    predictor = _load(model, sampling, num_samples, device, uncertified=sampling is not None or num_samples is not None)
    rows = labelled_rows(predictor, model, data, target, data_dir=data_dir, format=Format(encoding, decimal))
    assert rows.labels is not None
    # Before the long work, so that unknown labels are found at once; a row that cannot be read has none.
    readable = rows.labels != ""
    positions = np.full(len(rows), -1)
    positions[readable] = class_positions(predictor.classes, rows.labels[readable])
    taken = input_rows(predictor.transform, rows.x)
    encoded = encode(predictor, taken)
    with row_progress() as progress:
        answer = predict(predictor, encoded, len(taken), progress)
    usable = answer.reason == ""
    if not usable.any():
        raise DataError(f"{data} has no row that can be used; the first: {answer.reason[0]}.")
    if seen := seen_in_training(predictor, encoded, usable):
        warn(
            f"{seen:,} of {_rows_text(len(answer))} also occur in the training set: these results are too optimistic."
            " Evaluate on rows that were not used for fitting."
        )
    accepted = _accepted(predictor, taken, answer, positions)
    novel = int(np.sum(answer.novel))
    counts = {"rows": len(answer), "unreadable": int(np.sum(~usable)) - novel, "novel": novel, "seen": seen}
    found = {**counts, **evaluation_metrics(answer.probabilities[usable], positions[usable]), **accepted}
    if as_json:
        typer.echo(json.dumps({"model": str(model), "data": rows.source, **found}, indent=2))
        return
    table(
        f"{model} ({predictor.num_samples} {predictor.sampling} samples) on {rows.source}",
        ("", "observed"),
        [
            ("rows", f"{found['rows']:,}"),
            *([("not usable, left out", f"{found['unreadable']:,}")] if found["unreadable"] else []),
            *([("unlike the training rows, left out", f"{novel:,}")] if novel else []),
            ("accuracy", f"{100 * found['accuracy']:.2f} %"),
            ("NLL", f"{found['nll']:.4f}"),
            ("Brier score", f"{found['brier']:.4f}"),
            ("ECE (15 bins)", f"{100 * found['ece']:.2f} %"),
            ("AURC x 1000", f"{1000 * found['aurc']:.2f}"),
            ("E-AURC x 1000", f"{1000 * found['e_aurc']:.2f}"),
            ("AUGRC x 1000", f"{1000 * found['augrc']:.2f}"),
            ("misclassification AUROC", "-" if found["failure_auroc"] is None else f"{found['failure_auroc']:.4f}"),
            *((f"coverage at {100 * risk:g} % risk", f"{100 * found[f'coverage@{risk}']:.1f} %") for risk in RISKS),
            *_accepted_rows(accepted.get("accepted", {})),
        ],
    )


def _accepted(predictor: Any, rows: Any, answer: Any, positions: Any) -> dict[str, Any]:
    """Return coverage and number of errors on these rows, for each target of the certificate."""
    from squad.predictor.row_pass import decide
    from squad.selective.certificate_text import risks_text

    if predictor.certificate is None:
        return {}
    found = {}
    predicted = answer.probabilities.argmax(1)
    for target in predictor.certificate.targets:
        good = decide(predictor, rows, answer, None, target).accepted
        errors = int((predicted[good] != positions[good]).sum())
        counts: dict[str, Any] = {"coverage": float(good.mean()), "n": int(good.sum()), "errors": errors}
        if harms := _harms(predictor, target, predicted[good], positions[good]):
            counts["harms"] = harms
        found[risks_text(target)] = counts
    return {"accepted": found}


def _accepted_rows(accepted: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield lines of the table: coverage and errors of each target, and below it each harm."""
    from squad.selective.risk_text import COST, rate_text

    for number, (name, one) in enumerate(accepted.items(), 1):
        shown = name.removeprefix("wrong ")
        which = f" at risk {shown}" if len(shown) <= MAX_TARGET_NAME else f" (target {number} of {len(accepted)})"
        yield f"accepted{which}", f"{100 * one['coverage']:.1f} %, {one['errors']:,} of {one['n']:,} wrong"
        for harm, found in one.get("harms", {}).items():
            text = rate_text(harm, found["errors"], found["n"], found["costs"])
            share = "" if found["costs"] or harm == COST or not found["n"] else f" ({100 * found['rate']:.2f} %)"
            yield f"  {harm}", text + share


def _harms(predictor: Any, target: Mapping[str, float], predicted: Any, right: Any) -> dict[str, Any]:
    """Return counts and errors of accepted rows, for each harm other than "wrong" that follows from labels."""
    import numpy as np

    from squad.predictor.harms import known_harm

    found = {}
    for name in target:
        harm = (
            None
            if name == "wrong"
            else known_harm(name, predictor.classes, predicted, right, predictor.certificate.details)
        )
        if harm is not None:
            counted = harm[~np.isnan(harm.astype(np.float64))]
            found[name] = {
                "n": len(counted),
                "errors": float(counted.sum()),
                "rate": float(counted.mean()) if len(counted) else None,
                "costs": any(name in rule.costs for rule in predictor.certificate.rules),
            }
    return found


def _rows_text(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def evaluation_metrics(probabilities: Any, positions: Any) -> dict[str, Any]:
    """Return the metrics by name."""
    from squad.metrics import accuracy, augrc, aurc, brier, coverage_at_risk, e_aurc, ece, failure_auroc, nll

    confidence = probabilities.max(1)
    correct = probabilities.argmax(1) == positions
    return {
        "accuracy": accuracy(probabilities, positions),
        "nll": nll(probabilities, positions),
        "brier": brier(probabilities, positions),
        "ece": ece(confidence, correct),
        "aurc": aurc(confidence, correct),
        "e_aurc": e_aurc(confidence, correct),
        "augrc": augrc(confidence, correct),
        # Undefined unless there are both correct and wrong predictions.
        "failure_auroc": failure_auroc(confidence, correct) if 0 < correct.sum() < len(correct) else None,
        **{f"coverage@{risk}": coverage_at_risk(confidence, correct, risk) for risk in RISKS},
    }


def _load(
    model: Path,
    sampling: str | None,
    num_samples: int | None,
    device: str,
    uncertified: bool = False,
    public_key: Path | None = None,
) -> Any:
    """Load a model, with another sampling mode or number of samples if given."""
    from squad.predictor import choose_device, load

    where = choose_device(device)
    predictor = load(model, where, public_key)
    predictor = predictor.uncertified() if uncertified else predictor
    if sampling is None and num_samples is None:
        return predictor
    sampling = predictor.sampling if sampling is None else sampling
    num_samples = predictor.num_samples if num_samples is None else num_samples
    return predictor.with_sampling(*predictor.config.check_sampling(sampling, num_samples))


def _check_kept(keep: Sequence[str]) -> None:
    """Check the columns of --keep: none twice, none with the name of a column of the output."""
    from squad.errors import ArgumentError

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

    if predictor.certificate is None:
        if risk is not None:
            raise ArgumentError(
                f"--risk {risk} needs a certified model, and {model} has no certificate. Run squad certify."
            )
        return None
    certified = {name for target in predictor.certificate.targets for name in target}
    target = None if risk is None else expand(target_of(risk), predictor.classes, certified)
    try:
        predictor.certificate.target(target)
    except ArgumentError as cause:
        raise ArgumentError(f"{cause} Choose with --risk.") from cause
    return target


def _column(x: Any, name: str, data: str) -> Any:
    """Return a column of DATA."""
    from squad.data.tables import Table
    from squad.errors import DataError

    if not isinstance(x, Table):
        raise DataError(f"{data} has no named columns, so --keep {name} is impossible. Leave it out.")
    return x.column(name).to_numpy()
