"""``squad certify``: from labelled rows, or the scores of any model, to a certificate."""

import json
from pathlib import Path
from typing import Annotated

import typer

from squad.cli.options import (
    DataDir,
    Decimal,
    Delta,
    Device,
    Encoding,
    LabelColumn,
    LargestRisk,
    NewGroup,
    Overwrite,
    Ranks,
)
from squad.cli.terminal import print_message, print_wrapped

__all__ = ["certify"]

#: Exit code if nothing could be certified: the command succeeded, and the result is negative.
NOTHING_CERTIFIED = 3

Risks = Annotated[
    list[str],
    typer.Option(
        metavar="R",
        help="Selective risk: the fraction of accepted predictions that may be wrong, such as .02. Or risks by harm:"
        " .02,missed CLASS=.005, or .02,miss rate=.1 (of every class), or cost=.03. Repeatable, for several targets.",
        show_default=False,
    ),
]


def certify(
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="Folder of a saved model.", show_default=False)
    ] = None,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="Calibration set: labelled rows that the model was not trained on.",
            show_default=False,
        ),
    ] = None,
    risk: Risks = [],  # noqa: B006  # typer copies it
    delta: Delta = 0.01,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="fallback, pareto, preset, fixed_sequence, sgr, bonferroni, grid or band; pareto and preset need no"
            " assumption about the risk-coverage curve.",
        ),
    ] = "fallback",
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="A threshold and a guarantee for each value of a column; pass `label` for a threshold per predicted"
            " label.",
        ),
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Costs of confusions, between 0 and 1: columns true, predicted, cost."),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Weight of each row: how much more frequent it is among new rows (1 / inclusion probability).",
        ),
    ] = None,
    max_weight: Annotated[
        float | None, typer.Option(metavar="W", help="Largest weight that any row can have, known beforehand.")
    ] = None,
    estimated_weights: Annotated[
        bool, typer.Option("--estimated-weights", help="The weights are estimates; the certificate says so.")
    ] = False,
    strata: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Stratum of each row, if a fixed number of rows per stratum was sampled."),
    ] = None,
    population: Annotated[
        str | None, typer.Option(metavar="SHARES", help="Proportion of each stratum among new rows: a=.7,b=.3.")
    ] = None,
    thresholds: Annotated[
        str | None, typer.Option(metavar="LIST", help="Comma-separated thresholds; only for --method grid: .99,.95,.9.")
    ] = None,
    ranks: Ranks = 20,
    r_max: LargestRisk = 0.1,
    attempt: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="Only with --scores: number of this attempt to certify the same model. A saved model records its own"
            " attempts.",
            show_default=False,
        ),
    ] = None,
    pilot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Rows that choose the thresholds of the methods preset and pareto, none of them in DATA. With"
            " --scores: their confidence and correct.  [default: the validation rows of fit]",
        ),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Instead of MODEL and DATA: columns confidence and correct (0/1) of any model."
        ),
    ] = None,
    target: LabelColumn = None,
    group: NewGroup = None,
    all_rows: Annotated[
        bool,
        typer.Option("--all-rows", help="Use all rows of each group instead of one: only if they are independent."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Folder for the certified model. With --scores: a JSON file.  [default: MODEL, which is replaced]",
        ),
    ] = None,
    no_scores: Annotated[
        bool,
        typer.Option(
            "--no-scores", help="Do not save calibration and validation scores; the report's slider needs them."
        ),
    ] = False,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
    device: Device = "auto",
    data_dir: DataDir = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Guarantee a maximum error rate among accepted predictions.

    Finds the lowest confidence threshold at which the guarantee holds, and saves it with the model: squad predict then
    accepts a row or refers it to a reviewer. The rows must be new to the model and from the same distribution as future
    rows. Exit code 3: nothing could be certified; then the model does not change, apart from the attempt that it
    records (unless there were too few rows for any certificate). Each attempt to certify a model uses a part of delta
    (90 %, 5 %, 2.5 %, ...), so that the confidence level holds for all attempts together.

    \b
    Examples:
      squad certify model calibration.csv --risk .1 --delta .05
      squad certify model calibration.csv --risk ".1,missed ill=.1" \\
          --delta .1 --by sex --out by-sex
      squad certify model calibration.csv --risk ".1,miss rate=.2" --delta .1 \\
          --out per-class
      squad certify model calibration.csv --risk .1 --delta .1 --strata sex \\
          --population "f=.6,m=.4" --out reweighted
      squad certify --scores scores.csv --risk .05 --out certificate.json
      squad certify digits-model digits:calibration --risk .1
    """
    from squad.cli.certify_model import CalibrationData, certify_model
    from squad.cli.certify_scores import certify_score_file, check_without_model
    from squad.cli.certify_settings import CertifySettings, named_numbers, numbers_of, target_of
    from squad.cli.inputs import Format
    from squad.errors import ArgumentError

    targets = [target_of(text) for text in risk]
    if not targets:
        raise ArgumentError("--risk is missing: the fraction of accepted predictions that may be wrong, such as .02.")
    shares = None if population is None else named_numbers("--population", population, "shares such as a=.7,b=.3")
    settings = CertifySettings(
        targets=targets,
        delta=delta,
        method=method,
        by=by,
        thresholds=numbers_of("--thresholds", thresholds),
        ranks=ranks,
        r_max=r_max,
        pilot=pilot,
        attempt=attempt,
        costs=costs,
        sampling_design={
            "weights": weights,
            "max_weight": max_weight,
            "estimated_weights": estimated_weights,
            "strata": strata,
            "population": shares,
        },
        overwrite=overwrite,
        format=Format(encoding, decimal),
    )
    note = ""
    if scores is not None:
        check_without_model(
            model=model, data=data, target=target, group=group, all_rows=all_rows, no_scores=no_scores, costs=costs
        )
        certificate = certify_score_file(scores, settings, out)
    elif model is None or data is None:
        raise ArgumentError("Pass MODEL and DATA, or --scores FILE. See squad certify --help.")
    else:
        calibration = CalibrationData(data, target, group, not all_rows, data_dir)
        certificate, note = certify_model(
            model, calibration, settings, out=out, keep_scores=not no_scores, device=device
        )
    if as_json:
        typer.echo(json.dumps(certificate.to_json(), indent=2))
    else:
        print_wrapped(certificate)
    if not certificate.certified:
        print_message(f"Nothing could be certified, and no certificate was saved.{note}")
        raise typer.Exit(NOTHING_CERTIFIED)
    if out is not None or scores is None:
        print_message(f"saved in {out or model}")
