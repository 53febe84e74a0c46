"""``squad certify`` and ``squad plan``: from labelled rows, or anybody's scores, to a certificate."""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from squad.cli.options import Decimal, Encoding
from squad.cli.screen import row_progress, say, tell, tell_paragraphs, warn
from squad.cli.sign import lost_signature

if TYPE_CHECKING:
    from squad.cli.inputs import Format

__all__ = ["certify", "plan", "target_of"]

#: The exit code if nothing could be certified: it went well, and the result is no.
NOTHING = 3

Risks = Annotated[
    list[str],
    typer.Option(
        metavar="R",
        help="Share of accepted predictions that may be wrong, such as .02; or .02,missed CLASS=.005, or .02,miss"
        " rate=.1 (of every class), or cost=.03. May be given several times, for several targets.",
        show_default=False,
    ),
]
Delta = Annotated[float, typer.Option(metavar="D", help="Chance that the guarantee is false: 1 - confidence level.")]


def certify(
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="Folder of a saved model.", show_default=False)
    ] = None,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA", help="Labelled rows that are new to the model: the calibration file.", show_default=False
        ),
    ] = None,
    risk: Risks = [],  # noqa: B006  # typer copies it
    delta: Delta = 0.01,
    method: Annotated[
        str,
        typer.Option(metavar="NAME", help="fallback, pareto, preset, fixed_sequence, sgr, bonferroni, grid or band."),
    ] = "fallback",
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="A threshold and a guarantee for each value of a column, or for each label (label)."
        ),
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Costs of confusions, between 0 and 1: columns true, predicted, cost."),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="How much more frequent a row is among new ones than here (1 / inclusion chance)."
        ),
    ] = None,
    max_weight: Annotated[
        float | None, typer.Option(metavar="W", help="The largest weight that any row can have, known beforehand.")
    ] = None,
    estimated_weights: Annotated[
        bool, typer.Option("--estimated-weights", help="The weights were estimated: the certificate says so.")
    ] = False,
    strata: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The stratum of each row, where so many were taken of each.")
    ] = None,
    population: Annotated[
        str | None, typer.Option(metavar="SHARES", help="Of the strata among new rows: a=.7,b=.3.")
    ] = None,
    thresholds: Annotated[
        str | None, typer.Option(metavar="LIST", help="Of the method grid, with commas: .99,.95,.9.")
    ] = None,
    ranks: Annotated[int, typer.Option(metavar="J", help="Of the method bonferroni.")] = 20,
    r_max: Annotated[float, typer.Option(metavar="R", help="Of the method band: the largest risk.")] = 0.1,
    attempt: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="With --scores: which attempt to certify that model it is, if not the only one. A MODEL counts them"
            " itself.",
            show_default=False,
        ),
    ] = None,
    pilot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Rows that choose thresholds for the methods preset and pareto, none of them in DATA; without it the"
            " validation rows of fit. With --scores: their confidence and correct.",
        ),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="In the place of MODEL and DATA: any model's confidence and correct (0/1)."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The labels, if not in the column of training.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Which rows belong together; none may have been trained on."),
    ] = None,
    all_rows: Annotated[
        bool,
        typer.Option(
            "--all-rows", help="Use all rows of a group, not one: only if they are as independent as those of others."
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Another folder for the certified model; with --scores a JSON file for the certificate.",
        ),
    ] = None,
    no_scores: Annotated[
        bool,
        typer.Option("--no-scores", help="Keep no calibration and validation scores (the report's slider needs them)."),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a certificate that is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu or cuda.")] = "auto",
    data_dir: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where data sets are looked for first.")
    ] = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Guarantee that at most a given share of accepted predictions is wrong.

    Finds the lowest confidence above which predictions can be accepted, and saves it with the model: squad predict then
    accepts or refers each row. The rows must be new to the model and like those to come. Exit code 3 says that nothing
    could be certified; the model stays as it was then, but remembers the attempt, unless rows were far too few. Each
    attempt to certify a model uses its share of delta (90 %, 5 %, 2.5 %, ...), so that all of them together keep it.

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
    targets = [target_of(text) for text in risk]
    if not targets:
        from squad.errors import ArgumentError

        raise ArgumentError.of(
            "--risk", "nothing", "given: the share of accepted predictions that may be wrong, such as .02"
        )
    from squad.cli.inputs import Format

    options: dict[str, Any] = {
        "method": method,
        "thresholds": _numbers(thresholds),
        "ranks": ranks,
        "r_max": r_max,
        "pilot": pilot,
        "attempt": attempt,
    }
    options["sample"] = {
        "weights": weights,
        "max_weight": max_weight,
        "estimated_weights": estimated_weights,
        "strata": strata,
        "population": _shares(population),
    }
    if scores is not None:
        _refuse_beside_scores(
            model=model, data=data, target=target, group=group, all_rows=all_rows, no_scores=no_scores, costs=costs
        )
        certificate = _of_scores(scores, targets, delta, by, out, overwrite, options, Format(encoding, decimal))
    else:
        options["costs"] = None if costs is None else _costs(costs, Format(encoding, decimal))
        certificate = _of_model(
            model,
            data,
            targets,
            delta,
            by,
            target,
            group,
            all_rows,
            out,
            no_scores,
            overwrite,
            device,
            data_dir,
            options,
            Format(encoding, decimal),
        )
    if as_json:
        typer.echo(json.dumps(certificate.to_json(), indent=2))
    else:
        tell_paragraphs(certificate)
    if not certificate.certified:
        if (needed := _rows_needed(certificate, options)) is not None:
            say(needed)
        say("Nothing could be certified, and nothing was saved." + _remembered(certificate, model))
        raise typer.Exit(NOTHING)
    if out is not None or scores is None:
        say(f"saved in {out or model}")


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
        str, typer.Option(metavar="NAME", help="Method that squad certify will use; grid: one threshold.")
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
    ranks: Annotated[int, typer.Option(metavar="J", help="Of the method bonferroni.")] = 20,
    r_max: Annotated[float, typer.Option(metavar="R", help="Of the method band: the largest risk.")] = 0.1,
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
    from squad.selective.planning import plan as count
    from squad.selective.planning import success_probability
    from squad.selective.words import certainty, percent

    scores = None
    if pilot is not None:
        from squad.cli.tables import flags, numbers, read_table

        table = read_table(pilot, encoding, decimal)
        scores = numbers(table, "confidence"), flags(table, "correct")
    options: dict[str, Any] = {"method": method, "pilot": scores, "attempt": attempt, "ranks": ranks, "r_max": r_max}
    labels = count(risk, delta, coverage, error, power, **options)
    tell(labels)
    chance = success_probability(labels, risk, delta, coverage, error, **options)
    if scores is None:
        rows = f"{percent(1.0 if coverage is None else coverage)} of all rows can be accepted with"
        given = (
            f"if {rows} {f'{percent(error)} errors' if error else 'no error'}; for rows on which the model is better"
        )
        given += " at its most confident, the probability is higher"
    else:
        given = f"if rows come as the {len(scores[0]):,} of {pilot} did, which is an estimate"
    hoped = "any rows" if scores is not None and coverage is None else f"at least {percent(0.9 * (coverage or 1.0))}"
    say(
        f"labelled rows, to certify risk {percent(risk)} at confidence level {certainty(delta)}"
        f" (method: {method}, attempt {attempt}). It succeeds, and accepts {hoped}, with probability"
        f" {100 * chance:.0f} %, {given}."
    )


def target_of(text: str) -> dict[str, float]:
    """Risks by harm: of ".02", or of "wrong=.02,missed ill=.005"."""
    from squad.errors import ArgumentError

    found: dict[str, float] = {}
    pending = ""
    for part in text.split(","):  # names of classes may have commas and equals signs of their own
        pending = f"{pending},{part}" if pending else part
        name, _, value = pending.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            continue
        name = name.strip() or "wrong"
        if name in found:
            raise ArgumentError.of("--risk", repr(text), f"one risk for {name!r}; take --risk twice for two targets")
        found[name] = number
        pending = ""
    if pending or not found:
        raise ArgumentError.of("--risk", repr(text), "a share such as .02, or .02,missed CLASS=.005")
    return found


def _numbers(text: str | None) -> list[float] | None:
    from squad.errors import ArgumentError

    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentError.of(
            "--thresholds", repr(text), "numbers with commas between them, such as .99,.95"
        ) from None


def _shares(text: str | None) -> dict[str, float] | None:
    """Shares by stratum: of "a=.7,b=.3"."""
    from squad.errors import ArgumentError

    if text is None:
        return None
    found: dict[str, float] = {}
    pending = ""
    for part in text.split(","):  # names may have commas and equals signs of their own
        pending = f"{pending},{part}" if pending else part
        name, _, value = pending.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            continue
        if not name.strip() or name.strip() in found:
            raise ArgumentError.of("--population", repr(text), "one share for each stratum, such as a=.7,b=.3")
        found[name.strip()] = number
        pending = ""
    if pending or not found:
        raise ArgumentError.of("--population", repr(text), "shares of strata, such as a=.7,b=.3")
    return found


def _costs(path: Path, format: "Format") -> dict[tuple[str, str] | None, float]:
    """Costs by true and predicted class; a line without classes is for all others."""
    from squad.cli.tables import numbers, read_table
    from squad.data.problems import DataError
    from squad.data.tables import labels

    table = read_table(path, format.encoding, format.decimal)
    true, predicted = (labels(table, name, strict=False).tolist() for name in ("true", "predicted"))
    found: dict[tuple[str, str] | None, float] = {}
    for row, (one, other, cost) in enumerate(zip(true, predicted, numbers(table, "cost").tolist(), strict=True)):
        if (one == "") != (other == ""):
            raise DataError(f"{table.where(row)} of {path} must name both classes, or none for all other confusions.")
        pair = (one, other) if one else None
        if pair in found:
            raise DataError(f"{path} must have each pair of classes once; {table.where(row)} repeats {pair or 'none'}.")
        found[pair] = cost
    return found


def _refuse_beside_scores(**given: Any) -> None:
    from squad.errors import ArgumentError

    for name, value in given.items():
        if value:
            shown = name.upper() if name in ("model", "data") else f"--{name.replace('_', '-')}"
            raise ArgumentError.of(shown, repr(str(value)), "left out where --scores is given: scores know no model")


def _of_scores(
    path: Path,
    targets: list[dict[str, float]],
    delta: float,
    by: str | None,
    out: Path | None,
    overwrite: bool,
    options: Mapping[str, Any],
    format: "Format",
) -> Any:
    """From a table with the columns confidence and correct; other columns named in --risk are harms."""
    from squad.cli.tables import flags, losses, numbers, read_table
    from squad.data.tables import groups
    from squad.outputs import OutputError, check_writable
    from squad.selective.certify import certify_scores, check_targets
    from squad.selective.resampling import resample
    from squad.selective.scores import Scores

    if out is not None:
        if out.exists() and not overwrite:
            raise OutputError(f"{out} exists. Name another file, or say --overwrite.")
        if out.is_dir() or out.suffix.lower() != ".json":
            raise OutputError(f"--out must be a .json file for a certificate of scores; got {out}.")
        check_writable(out)
    table = read_table(path, format.encoding, format.decimal)
    harms = {name: losses(table, name) for target in targets for name in target if name != "wrong"}
    values = None if by is None else groups(table, by)
    found = Scores.of(numbers(table, "confidence"), flags(table, "correct"), harms, values)
    checked = check_targets(targets, found.harms)
    settings = {name: options[name] for name in ("thresholds", "ranks", "r_max")}
    if options["pilot"] is not None:
        other = read_table(Path(options["pilot"]), format.encoding, format.decimal)
        theirs = {name: losses(other, name) for name in harms}
        settings["pilot"] = (numbers(other, "confidence"), flags(other, "correct"), theirs)
    details = {"calibration": {"source": str(path), "sha256": found.sha256(), "rows": len(found)}}
    sample = dict(options["sample"])
    for name, read in (("weights", numbers), ("strata", groups)):
        if sample[name] is not None:
            sample[name] = read(table, sample[name])
    drawn = resample(found, **sample)
    made = certify_scores(
        drawn.scores,
        checked,
        delta,
        options["method"],
        settings,
        by or "group",
        drawn.note(details),
        options["attempt"],
    )
    if out is not None and made.certified:
        lost = lost_signature(out, out)
        made.save(out)
        if lost is not None:
            warn(lost)
    return made


def _of_model(
    model: Path | None,
    data: str | None,
    targets: list[dict[str, float]],
    delta: float,
    by: str | None,
    target: str | None,
    group: str | None,
    all_rows: bool,
    out: Path | None,
    no_scores: bool,
    overwrite: bool,
    device: str,
    data_dir: Path | None,
    options: Mapping[str, Any],
    format: "Format",
) -> Any:
    from squad import artifact
    from squad.cli.rows import labelled_rows
    from squad.errors import ArgumentError
    from squad.outputs import OutputError, check_writable, claimed
    from squad.predictor import choose_device, load

    if model is None or data is None:
        raise ArgumentError("Give MODEL and DATA, or --scores FILE. See squad certify --help.")
    if options["attempt"] is not None:
        hint = "A model counts the attempts to certify it by itself."
        raise ArgumentError.of("--attempt", options["attempt"], "left out where MODEL is given", hint)
    where = choose_device(device)
    place = out or model
    with contextlib.ExitStack() as claims:
        claims.enter_context(claimed(place))  # what is loaded must still be there when it is saved
        counted = out is None or _claimed_too(claims, model, out)
        predictor = load(model, where)
        if predictor.certificate is not None and out is None and not overwrite:
            raise OutputError(
                f"{model} has a certificate already. To certify until one suits makes the guarantee worthless; if this"
                " one shall take its place, say --overwrite, or save a model of its own with --out."
            )
        artifact.check_target(place, overwrite or out is None)
        check_writable(place)
        rows = labelled_rows(predictor, model, data, target, group, data_dir, format)
        assert rows.labels is not None
        chosen = None
        if options["pilot"] is not None:
            others = labelled_rows(predictor, model, options["pilot"], target, None, data_dir, format)
            assert others.labels is not None
            chosen = (others.x, others.labels)
        with row_progress() as progress:
            made = predictor.certify(
                rows.x,
                rows.labels,
                targets,
                delta,
                options["method"],
                by=by,
                groups=rows.groups,
                one_per_group=not all_rows,
                thresholds=options["thresholds"],
                ranks=options["ranks"],
                r_max=options["r_max"],
                pilot=chosen,
                costs=options["costs"],
                **options["sample"],
                source=rows.source,
                progress=progress,
            )
        certificate = made.certificate
        assert certificate is not None
        _tell(certificate)
        if certificate.certified:
            lost = lost_signature(model, place)
            (made.without_scores() if no_scores else made).save(place, overwrite=overwrite or out is None)
            if lost is not None:
                warn(lost)
        if len(made.attempts) == len(predictor.attempts):
            pass  # too few rows, whatever their labels: it does not count
        elif counted and (out is not None or not certificate.certified):
            lost = lost_signature(model, model)
            predictor.remembering(made).save(model, overwrite=True)
            if lost is not None:
                warn(lost)
        elif not counted:
            warn(
                f"{model} cannot be written, so it does not remember attempt {certificate.attempt} to certify it. Do"
                " not certify it again as if there had been none."
            )
    return certificate


def _claimed_too(claims: contextlib.ExitStack, model: Path, out: Path) -> bool:
    """Whether MODEL can remember the attempt where the certified model is saved elsewhere; it is claimed then."""
    from squad import artifact
    from squad.outputs import OutputError, check_writable, claimed

    if os.path.realpath(model) == os.path.realpath(out):
        return True
    try:
        artifact.check_target(model, overwrite=True)
        check_writable(model)
    except (artifact.ArtifactError, OutputError):
        return not model.exists()  # says so when it is loaded
    claims.enter_context(claimed(model))
    return True


def _remembered(certificate: Any, model: Path | None) -> str:
    """That a failed attempt counts."""
    from squad.selective.attempts import share, spends

    if model is None or certificate.attempt is None:
        return ""
    if not spends(certificate):
        return " It does not count as an attempt."
    return (
        f" {model} remembers attempt {certificate.attempt}; the next one is made at"
        f" {100 * share(certificate.attempt + 1):.3g} % of delta."
    )


def _rows_needed(certificate: Any, options: Mapping[str, Any]) -> str | None:
    """How many rows a guarantee takes at least, if there were fewer; None if it did not fail for that."""
    from squad.selective.methods import Options, least_cases

    settings = Options(options["ranks"], options["r_max"])
    least = [
        max(
            least_cases(certificate.method, risk, rule.level, settings, name in rule.costs)
            for name, risk in rule.risks.items()
        )
        for rule in certificate.rules
    ]
    if any(rule.m >= few for rule, few in zip(certificate.rules, least, strict=True)):
        return None
    of = "" if certificate.by is None else f" in a group of one {certificate.by}"
    return (
        f"{max(rule.m for rule in certificate.rules):,} calibration rows{of} are too few: it takes at least"
        f" {min(least):,}, even if all answers are right. Label more rows (squad plan says how many), or allow a higher"
        " --risk or --delta."
    )


def _tell(certificate: Any) -> None:
    """What a user should know of the rows, and of groups without a guarantee, on stderr."""
    from squad.selective.words import risks_text

    calibration = certificate.details["calibration"]
    if calibration["used"] < calibration["rows"]:
        say(f"{calibration['used']:,} of {calibration['rows']:,} rows are used")
        if not certificate.certified:  # else the certificate shows them
            for note in certificate.details["assumptions"]:
                say(f"  {note}")
    if (drawn := certificate.details.get("resampling")) is not None:
        say(f"{drawn['drawn']:,} of {drawn['cases']:,} rows were drawn by their {drawn['by']}")
    for rule in certificate.rules if certificate.certified else ():
        if not rule.certified:
            which = "all rows" if rule.group is None else f"rows where {certificate.by} is {rule.group}"
            warn(f"nothing is certified for {which} at {risks_text(rule.risks)}: they are all referred.")
