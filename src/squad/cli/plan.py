"""``squad plan``: how many labelled rows a certificate takes."""

from pathlib import Path
from typing import Annotated, Any

import typer

from squad.cli.options import Decimal, Delta, Encoding
from squad.cli.terminal import say, tell

__all__ = ["plan"]

#: What is shown as 100 % cannot be higher.
NEARLY_SURE = 0.995


def plan(
    risk: Annotated[float, typer.Option(metavar="R", help="Share of accepted predictions that may be wrong.")],
    delta: Delta = 0.01,
    coverage: Annotated[
        float | None,
        typer.Option(
            metavar="C",
            help="Share of cases that you hope to accept: all if left out; with --pilot any certificate will do.",
            show_default=False,
        ),
    ] = None,
    error: Annotated[float, typer.Option(metavar="E", help="Share of errors you expect among these.")] = 0.0,
    power: Annotated[float, typer.Option(metavar="P", help="Probability of success.")] = 0.9,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Method that squad certify will use (grid: one threshold; preset and pareto need --pilot).",
        ),
    ] = "fallback",
    pilot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="In the place of --error: confidence and correct (0/1) of some rows.",
            show_default=False,
        ),
    ] = None,
    attempt: Annotated[
        int, typer.Option(metavar="K", help="Which attempt to certify the model it will be: each has a share of delta.")
    ] = 1,
    ranks: Annotated[int, typer.Option(metavar="J", help="Thresholds tested; only for --method bonferroni.")] = 20,
    r_max: Annotated[float, typer.Option(metavar="R", help="Largest risk; only for --method band.")] = 0.1,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Say how many labelled rows a certificate takes.

    Success is a certificate that accepts at least nine tenths of --coverage. squad evaluate tells coverage and errors
    of a model on rows that it does not know; with these, the probability holds for the least favourable rows on which
    the model has them. The scores of some such rows (--pilot) say more; they must not be used to certify.

    \b
    Examples:
      squad plan --risk .02
      squad plan --risk .02 --delta .05 --coverage .7 --error .01
      squad plan --risk .1 --pilot scores.csv
    """
    from squad.selective.certificate_text import certainty, percent
    from squad.selective.planning import plan as count
    from squad.selective.planning import success_probability

    scores = None
    if pilot is not None:
        from squad.cli.score_columns import flags, numbers, read_table

        table = read_table(pilot, encoding, decimal)
        scores = numbers(table, "confidence"), flags(table, "correct")
    options: dict[str, Any] = {"method": method, "pilot": scores, "attempt": attempt, "ranks": ranks, "r_max": r_max}
    labels = count(risk, delta, coverage, error, power, **options)
    tell(labels)
    chance = success_probability(labels, risk, delta, coverage, error, **options)
    if scores is None:
        rows = f"{percent(1.0 if coverage is None else coverage)} of all rows can be accepted with"
        given = f"if {rows} {f'{percent(error)} errors' if error else 'no error'}"
        if chance < NEARLY_SURE:
            given += "; for rows on which the model is better at its most confident, the probability is higher"
    else:
        given = f"if rows come as the {len(scores[0]):,} of {pilot} did, which is an estimate"
    hoped = "any rows" if scores is not None and coverage is None else f"at least {percent(0.9 * (coverage or 1.0))}"
    say(
        f"labelled rows, to certify risk {percent(risk)} at confidence level {certainty(delta)}"
        f" (method: {method}, attempt {attempt}). It succeeds, and accepts {hoped}, with probability"
        f" {100 * chance:.0f} %, {given}."
    )
