"""``squad evaluate``: metrics of a saved model on labelled rows."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from squad.cli.loading import load_for_prediction, rows_text
from squad.cli.options import (
    DataDir,
    Decimal,
    Device,
    Encoding,
    LabelColumn,
    NumSamples,
    PredictData,
    Sampling,
    SavedModel,
)
from squad.cli.terminal import row_progress, table, warn

__all__ = ["evaluate", "evaluation_metrics"]

#: Selective risks at which evaluate reports the coverage.
RISKS = (0.005, 0.01, 0.02, 0.05)
#: Targets with a longer name are numbered.
MAX_TARGET_NAME = 30


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
    from squad.predictor.input_rows import class_positions, input_rows
    from squad.predictor.row_pass import encode, encode_in_chunks, predict

    # Observations are not guarantees, so other sampling modes may be evaluated than the certified one.
    predictor = load_for_prediction(
        model, sampling, num_samples, device, uncertified=sampling is not None or num_samples is not None
    )
    rows = labelled_rows(predictor, model, data, target, data_dir=data_dir, format=Format(encoding, decimal))
    assert rows.labels is not None
    # Before the long work, so that unknown labels are found at once; a row that cannot be read has none.
    readable = rows.labels != ""
    positions = np.full(len(rows), -1)
    positions[readable] = class_positions(predictor.classes, rows.labels[readable])
    taken = input_rows(predictor.transform, rows.x)
    # In bounded memory, unless the leakage check needs all encoded rows.
    encoded = None if predictor.seen_rows is None else encode(predictor, taken)
    with row_progress() as progress:
        chunks = encode_in_chunks(predictor, taken) if encoded is None else encoded
        answer = predict(predictor, chunks, len(taken), progress)
    usable = answer.reason == ""
    if not usable.any():
        raise DataError(f"{data} has no row that can be used; the first: {answer.reason[0]}.")
    seen = 0 if encoded is None else seen_in_training(predictor, encoded, usable)
    if seen:
        warn(
            f"{seen:,} of {rows_text(len(answer))} also occur in the training set: these results are too optimistic."
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


def evaluation_metrics(probabilities: Any, positions: Any) -> dict[str, Any]:
    """Compute accuracy, NLL, Brier score, ECE, AURC and related metrics, and coverage at several risks.

    Args:
        probabilities: (N, classes), class probabilities.
        positions: (N,), index of each true class.

    Returns:
        Metrics by name; "coverage@0.01" is the coverage at risk 1 %.
    """
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
