"""``squad certify MODEL DATA``: certify a saved model with labelled rows that are new to it."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from squad.cli.certification_attempts import failure_note, lock_model, save_model, unrecorded
from squad.cli.terminal import print_message, row_progress, warn

if TYPE_CHECKING:
    from squad.cli.certify_settings import CertifySettings
    from squad.selective import Certificate

__all__ = ["CalibrationData", "certify_model"]


@dataclass(frozen=True)
class CalibrationData:
    """Where the calibration rows come from, and how they are used.

    Attributes:
        data: DATA as given on the command line.
        target: Column of labels; None: the one used for training.
        group: Column of groups; None: the one used for training.
        one_per_group: Whether one row of each group is used.
        data_dir: Folder searched first for data sets.
    """

    data: str
    target: str | None
    group: str | None
    one_per_group: bool
    data_dir: Path | None


def certify_model(
    model: Path,
    calibration: CalibrationData,
    settings: "CertifySettings",
    *,
    out: Path | None,
    keep_scores: bool,
    device: str,
) -> tuple["Certificate", str]:
    """Certify a saved model, save it, and record the attempt.

    Args:
        model: Folder of the model.
        calibration: The calibration rows.
        settings: What to certify.
        out: Folder for the certified model; None: ``model``.
        keep_scores: Whether calibration and validation scores are saved.
        device: Device to compute on.

    Returns:
        The certificate, and a note for the user if nothing could be certified.
    """
    from squad import artifact
    from squad.cli.certify_settings import read_costs
    from squad.cli.labelled_rows import labelled_rows
    from squad.errors import ArgumentError
    from squad.output_paths import OutputError, check_writable, exclusive_output
    from squad.predictor import choose_device, load
    from squad.predictor.saving import with_attempts, with_attempts_of

    if settings.attempt is not None:
        raise ArgumentError(
            f"--attempt {settings.attempt} is for --scores only: a model records the attempts to certify it. Omit it."
        )
    costs = None if settings.costs is None else read_costs(settings.costs, settings.format)
    where = choose_device(device)
    folder = out or model
    may_replace = settings.overwrite or out is None
    with contextlib.ExitStack() as locks:
        locks.enter_context(exclusive_output(folder))  # nobody may change the model between loading and saving
        recordable = out is None or lock_model(locks, model, out)
        predictor, note = load(model, where), ""
        if out is not None and out.exists():
            predictor = with_attempts_of(predictor, out)
        if predictor.certificate is not None and out is None and not settings.overwrite:
            raise OutputError(
                f"{model} has a certificate already, and each further attempt has a smaller part of delta. Replace the"
                " certificate with --overwrite, or save another model with --out."
            )
        artifact.check_target(folder, may_replace)
        check_writable(folder)
        rows = labelled_rows(
            predictor,
            model,
            calibration.data,
            calibration.target,
            calibration.group,
            calibration.data_dir,
            settings.format,
        )
        assert rows.labels is not None
        pilot = None
        if settings.pilot is not None:
            pilot_rows = labelled_rows(
                predictor, model, settings.pilot, calibration.target, None, calibration.data_dir, settings.format
            )
            assert pilot_rows.labels is not None
            pilot = (pilot_rows.x, pilot_rows.labels)
        with row_progress() as progress:
            certified = predictor.certify(
                rows.x,
                rows.labels,
                settings.targets,
                settings.delta,
                settings.method,
                by=settings.by,
                groups=rows.groups,
                one_per_group=calibration.one_per_group,
                thresholds=settings.thresholds,
                ranks=settings.ranks,
                r_max=settings.r_max,
                pilot=pilot,
                costs=costs,
                **settings.sampling_design,
                source=rows.source,
                progress=progress,
            )
        certificate = certified.certificate
        assert certificate is not None
        _say_rows_and_groups(certificate)
        counts = len(certified.attempts) > len(predictor.attempts)
        # The attempt is recorded first: an attempt that the model does not know would not count.
        if counts and recordable and (out is not None or not certificate.certified):
            save_model(with_attempts(predictor, certified.attempts), model, model, overwrite=True)
        if certificate.certified:
            save_model(certified if keep_scores else certified.without_scores(), model, folder, overwrite=may_replace)
            if counts and not recordable:
                warn(f"{unrecorded(certificate, model)} Do not certify it again as if it were the first attempt.")
        else:
            note = failure_note(certificate, model, counts, recordable)
            if predictor.certificate is not None and out is None:
                note += " Its earlier certificate is kept."
    return certificate, note


def _say_rows_and_groups(certificate: Any) -> None:
    """Print on stderr how many rows were used, and warn about groups without a guarantee."""
    from squad.selective.risk_text import risk_label

    calibration = certificate.details["calibration"]
    if calibration["used"] < calibration["rows"]:
        print_message(f"{calibration['used']:,} of {calibration['rows']:,} rows are used")
        if not certificate.certified:  # otherwise the certificate lists them
            for assumption in certificate.details["assumptions"]:
                print_message(f"  {assumption}")
    if (drawn := certificate.details.get("resampling")) is not None:
        print_message(f"{drawn['drawn']:,} of {drawn['cases']:,} rows were drawn by their {drawn['by']}")
    for rule in certificate.rules if certificate.certified else ():
        if not rule.certified:
            which = "all rows" if rule.group is None else f"rows where {certificate.by} is {rule.group}"
            warn(f"nothing is certified for {which} at {risk_label(rule)}: all of them are referred to a reviewer.")
