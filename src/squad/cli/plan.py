"""``squad plan``: how many labelled rows a certificate needs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from squad.cli.options import Decimal, Delta, Encoding, LargestRisk, Ranks
from squad.cli.terminal import print_message, print_result

__all__ = ["plan"]

#: A probability from here on is shown as 100 %.
SHOWN_AS_CERTAIN = 0.995


def plan(
    risk: Annotated[
        float, typer.Option(metavar="R", help="Selective risk: fraction of accepted predictions that may be wrong.")
    ],
    delta: Delta = 0.01,
    coverage: Annotated[
        float | None,
        typer.Option(
            metavar="C",
            help="Coverage you expect: fraction of rows accepted.  [default: 1; with --pilot, any coverage]",
            show_default=False,
        ),
    ] = None,
    error: Annotated[float, typer.Option(metavar="E", help="Error rate you expect among accepted rows.")] = 0.0,
    power: Annotated[float, typer.Option(metavar="P", help="Probability that the certificate succeeds.")] = 0.9,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Method of squad certify (grid: one threshold; preset and pareto need --pilot).",
        ),
    ] = "fallback",
    pilot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Instead of --error: a table with confidence and correct (0/1) of some rows.",
            show_default=False,
        ),
    ] = None,
    attempt: Annotated[
        int, typer.Option(metavar="K", help="Number of the attempt to certify the model: each uses a part of delta.")
    ] = 1,
    ranks: Ranks = 20,
    r_max: LargestRisk = 0.1,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Compute how many labelled rows a certificate needs.

    A certificate is a success if its coverage is at least 0.9 x --coverage. squad evaluate reports coverage and error
    rate of a model on new rows. With these two, the answer is a worst case over all distributions of rows; the scores
    of some new rows (--pilot) give a better estimate, but these rows must not be used to certify.

    \b
    Examples:
      squad plan --risk .02
      squad plan --risk .02 --delta .05 --coverage .7 --error .01
      squad plan --risk .1 --pilot scores.csv
    """
    from squad.selective.certificate_text import confidence_level, percent
    from squad.selective.planning import plan as count
    from squad.selective.planning import success_probability

    scores = None
    if pilot is not None:
        from squad.cli.score_columns import flags, numbers, read_table

        table = read_table(pilot, encoding, decimal)
        scores = numbers(table, "confidence"), flags(table, "correct")
    options: dict[str, Any] = {"method": method, "pilot": scores, "attempt": attempt, "ranks": ranks, "r_max": r_max}
    labels = count(risk, delta, coverage, error, power, **options)
    print_result(labels)
    probability = success_probability(labels, risk, delta, coverage, error, **options)
    if scores is None:
        accepted = f"{percent(1.0 if coverage is None else coverage)} of all rows can be accepted with"
        condition = f"if {accepted} {f'{percent(error)} errors' if error else 'no error'}"
        if probability < SHOWN_AS_CERTAIN:
            condition += "; it is higher if the model makes fewer errors where it is most confident"
    else:
        condition = f"if new rows are from the same distribution as the {len(scores[0]):,} of {pilot} (an estimate)"
    coverage_text = (
        "at least one row"
        if scores is not None and coverage is None
        else f"at least {percent(0.9 * (coverage or 1.0))}"
    )
    print_message(
        f"labelled rows to certify risk {percent(risk)} at confidence level {confidence_level(delta)}"
        f" (method: {method}, attempt {attempt}). The certificate accepts {coverage_text} with probability"
        f" {100 * probability:.0f} %, {condition}."
    )
