"""``squad certify --scores``: certify the confidences of any model, from a table of scores."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from squad.cli.sign import lost_signature
from squad.cli.terminal import warn

if TYPE_CHECKING:
    from squad.cli.certify_settings import CertifySettings
    from squad.selective import Certificate

__all__ = ["certify_score_file", "check_without_model"]


def check_without_model(**given: Any) -> None:
    """Raise an error if an argument or option is given that needs a model.

    Args:
        **given: Values by name; a name in lower case with underscores, as in the command's signature.
    """
    from squad.errors import ArgumentError

    for name, value in given.items():
        if value:
            shown = f"{name.upper()} {value}" if name in ("model", "data") else f"--{name.replace('_', '-')}"
            raise ArgumentError(f"{shown} cannot be combined with --scores, which needs no model. Omit it.")


def certify_score_file(path: Path, settings: "CertifySettings", out: Path | None) -> "Certificate":
    """Certify a table with the columns confidence and correct, and save the certificate if it accepts anything.

    Args:
        path: The table.  Columns that a target names are losses.
        settings: What to certify.
        out: JSON file for the certificate; None: it is not saved.

    Returns:
        The certificate.
    """
    from squad.cli.answer_files import check_not_existing
    from squad.cli.score_columns import flags, losses, numbers, read_table
    from squad.data.tables import groups
    from squad.output_paths import OutputError, check_writable
    from squad.selective.certify import certify_scores, check_targets
    from squad.selective.resampling import resample
    from squad.selective.scored_cases import Scores

    if out is not None:
        check_not_existing(out, settings.overwrite)
        if out.is_dir() or out.suffix.lower() != ".json":
            raise OutputError(f"--out must be a .json file for a certificate of scores, got {out}.")
        check_writable(out)
    format = settings.format
    table = read_table(path, format.encoding, format.decimal)
    harms = {name: losses(table, name) for target in settings.targets for name in target if name != "wrong"}
    by = None if settings.by is None else groups(table, settings.by)
    scores = Scores.of(numbers(table, "confidence"), flags(table, "correct"), harms, by)
    targets = check_targets(settings.targets, scores.harms)
    options: dict[str, Any] = {
        "thresholds": settings.thresholds,
        "ranks": settings.ranks,
        "r_max": settings.r_max,
    }
    if settings.pilot is not None:
        pilot = read_table(Path(settings.pilot), format.encoding, format.decimal)
        pilot_harms = {name: losses(pilot, name) for name in harms}
        options["pilot"] = (numbers(pilot, "confidence"), flags(pilot, "correct"), pilot_harms)
    details = {"calibration": {"source": str(path), "sha256": scores.sha256(), "rows": len(scores)}}
    design = dict(settings.sampling_design)
    for name, read in (("weights", numbers), ("strata", groups)):
        if design[name] is not None:
            design[name] = read(table, design[name])
    drawn = resample(scores, **design)
    certificate = certify_scores(
        drawn.scores,
        targets,
        settings.delta,
        settings.method,
        options,
        settings.by or "group",
        drawn.note(details),
        settings.attempt,
    )
    if out is not None and certificate.certified:
        lost = lost_signature(out, out)
        certificate.save(out)
        if lost is not None:
            warn(lost)
    return certificate
