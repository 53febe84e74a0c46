"""``squad certify``: from labelled rows, or anybody's scores, to a certificate."""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from squad.cli.options import Decimal, Delta, Encoding
from squad.cli.sign import lost_signature
from squad.cli.terminal import row_progress, say, tell_paragraphs, warn

if TYPE_CHECKING:
    from squad.cli.inputs import Format

__all__ = ["certify", "named_numbers", "target_of"]

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
        str | None,
        typer.Option(metavar="COLUMN", help="The stratum of each row, where a fixed number was sampled per stratum."),
    ] = None,
    population: Annotated[
        str | None, typer.Option(metavar="SHARES", help="Shares of the strata among new rows: a=.7,b=.3.")
    ] = None,
    thresholds: Annotated[
        str | None, typer.Option(metavar="LIST", help="Comma-separated thresholds; only for --method grid: .99,.95,.9.")
    ] = None,
    ranks: Annotated[int, typer.Option(metavar="J", help="Thresholds tested; only for --method bonferroni.")] = 20,
    r_max: Annotated[float, typer.Option(metavar="R", help="Largest risk; only for --method band.")] = 0.1,
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
    """Guarantee an error rate among accepted predictions.

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
        "population": None
        if population is None
        else named_numbers("--population", population, "shares such as a=.7,b=.3"),
    }
    if scores is not None:
        _refuse_beside_scores(
            model=model, data=data, target=target, group=group, all_rows=all_rows, no_scores=no_scores, costs=costs
        )
        certificate = _of_scores(scores, targets, delta, by, out, overwrite, options, Format(encoding, decimal))
        said = ""
    else:
        options["costs"] = None if costs is None else _costs(costs, Format(encoding, decimal))
        certificate, said = _of_model(
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
        say(f"Nothing could be certified, and no certificate was saved.{said}")
        raise typer.Exit(NOTHING)
    if out is not None or scores is None:
        say(f"saved in {out or model}")


def target_of(text: str) -> dict[str, float]:
    """Risks by harm: of ".02", or of "wrong=.02,missed ill=.005"."""
    return named_numbers("--risk", text, "a share such as .02, or .02,missed CLASS=.005", "wrong")


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


def named_numbers(option: str, text: str, example: str, unnamed: str | None = None) -> dict[str, float]:
    """Numbers by name: of "a=.7,b=.3".  Names may have commas and equals signs of their own.

    Args:
        option: it was given with.
        text: what was given.
        example: what it should have been.
        unnamed: what a number without a name is for; None refuses it.
    """
    from squad.errors import ArgumentError

    found: dict[str, float] = {}
    pending = ""
    for part in text.split(","):
        pending = f"{pending},{part}" if pending else part
        name, _, value = pending.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            continue
        name = name.strip() or unnamed or ""
        if not name or name in found:
            raise ArgumentError.of(option, repr(text), f"one number for {name!r}" if name else example)
        found[name] = number
        pending = ""
    if pending or not found:
        raise ArgumentError.of(option, repr(text), example)
    return found


def _costs(path: Path, format: "Format") -> dict[tuple[str, str] | None, float]:
    """Costs by true and predicted class; a line without classes is for all others."""
    from squad.cli.score_columns import numbers, read_table
    from squad.data.tables import labels
    from squad.errors import DataError

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
    from squad.cli.score_columns import flags, losses, numbers, read_table
    from squad.data.tables import groups
    from squad.output_paths import OutputError, check_writable
    from squad.selective.certify import certify_scores, check_targets
    from squad.selective.resampling import resample
    from squad.selective.scored_cases import Scores

    if out is not None:
        if out.exists() and not overwrite:
            raise OutputError(f"{out} exists. Name another file, or say --overwrite.")
        if out.is_dir() or out.suffix.lower() != ".json":
            raise OutputError(f"--out must be a .json file for a certificate of scores, got {out}.")
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
) -> tuple[Any, str]:
    """The certificate, and what is to be said of an attempt that failed."""
    from squad import artifact
    from squad.cli.labelled_rows import labelled_rows
    from squad.errors import ArgumentError
    from squad.output_paths import OutputError, check_writable, exclusive_output
    from squad.predictor import choose_device, load
    from squad.predictor.saving import with_attempts, with_attempts_of

    if model is None or data is None:
        raise ArgumentError("Give MODEL and DATA, or --scores FILE. See squad certify --help.")
    if options["attempt"] is not None:
        hint = "A model counts the attempts to certify it by itself."
        raise ArgumentError.of("--attempt", options["attempt"], "left out where MODEL is given", hint)
    where = choose_device(device)
    place = out or model
    with contextlib.ExitStack() as claims:
        claims.enter_context(exclusive_output(place))  # what is loaded must still be there when it is saved
        counted = out is None or _claimed_too(claims, model, out)
        predictor, said = load(model, where), ""
        if out is not None and out.exists():
            predictor = with_attempts_of(predictor, out)
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
        counts = len(made.attempts) > len(predictor.attempts)
        # The attempt first: a certificate of which the model knows nothing would not count.
        if counts and counted and (out is not None or not certificate.certified):
            _save(with_attempts(predictor, made.attempts), model, model, overwrite=True)
        if certificate.certified:
            _save(made.without_scores() if no_scores else made, model, place, overwrite=overwrite or out is None)
        if not certificate.certified:
            said = _remembered(certificate, model, counts, counted)
            if predictor.certificate is not None and out is None:
                said += " The certificate that it had stays."
        elif counts and not counted:
            warn(f"{_forgotten(certificate, model)} Do not certify it again as if there had been none.")
    return certificate, said


def _save(predictor: Any, model: Path, place: Path, overwrite: bool) -> None:
    """Write it, and say if a signature of MODEL is lost by that."""
    lost = lost_signature(model, place)
    predictor.save(place, overwrite=overwrite)
    if lost is not None:
        warn(lost)


def _claimed_too(claims: contextlib.ExitStack, model: Path, out: Path) -> bool:
    """Whether MODEL can remember the attempt where the certified model is saved elsewhere; it is claimed then."""
    from squad import artifact
    from squad.output_paths import OutputError, check_writable, exclusive_output

    if os.path.realpath(model) == os.path.realpath(out):
        return True
    try:
        artifact.check_target(model, overwrite=True)
        check_writable(model)
    except (artifact.ArtifactError, OutputError):
        return not model.exists()  # says so when it is loaded
    claims.enter_context(exclusive_output(model))
    return True


def _remembered(certificate: Any, model: Path, counts: bool, counted: bool) -> str:
    """Whether a failed attempt counts."""
    from squad.selective.attempts import share

    if not counts:
        return ""  # the certificate says so
    if not counted:
        return f" {_forgotten(certificate, model)}"
    return (
        f" {model} remembers attempt {certificate.attempt}; the next one is made at"
        f" {100 * share(certificate.attempt + 1):.3g} % of delta."
    )


def _forgotten(certificate: Any, model: Path) -> str:
    return f"{model} cannot be written, so it does not remember attempt {certificate.attempt} to certify it."


def _tell(certificate: Any) -> None:
    """What a user should know of the rows, and of groups without a guarantee, on stderr."""
    from squad.selective.risk_text import risk_label

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
            warn(f"nothing is certified for {which} at {risk_label(rule)}: they are all referred.")
