"""Save a certified model, and record the attempt in MODEL even if the certified one is saved elsewhere."""

import contextlib
import os
from pathlib import Path
from typing import Any

from squad.cli.sign import lost_signature
from squad.cli.terminal import warn

__all__ = ["failure_note", "lock_model", "save_model", "unrecorded"]


def save_model(predictor: Any, model: Path, folder: Path, overwrite: bool) -> None:
    """Save a predictor, and warn if a signature is lost.

    Args:
        predictor: The model to save.
        model: Folder that it was loaded from.
        folder: Folder to save it in.
        overwrite: Whether an existing model may be replaced.
    """
    lost = lost_signature(model, folder)
    predictor.save(folder, overwrite=overwrite)
    if lost is not None:
        warn(lost)


def lock_model(locks: contextlib.ExitStack, model: Path, out: Path) -> bool:
    """Lock MODEL, whose certified version is saved elsewhere.

    Args:
        locks: Releases the lock in the end.
        model: Folder of the model.
        out: Folder for the certified model.

    Returns:
        Whether the attempt can be recorded in MODEL; False if it cannot be written.
    """
    from squad import artifact
    from squad.output_paths import OutputError, check_writable, exclusive_output

    if os.path.realpath(model) == os.path.realpath(out):
        return True
    try:
        artifact.check_target(model, overwrite=True)
        check_writable(model)
    except (artifact.ArtifactError, OutputError):
        return not model.exists()  # loading it raises the error
    locks.enter_context(exclusive_output(model))
    return True


def failure_note(certificate: Any, model: Path, counts: bool, recordable: bool) -> str:
    """Return a sentence that says whether a failed attempt was recorded, with a space before it.

    Args:
        certificate: The certificate, which accepts nothing.
        model: Folder of the model.
        counts: Whether the attempt counts; if not, the certificate says so.
        recordable: Whether the attempt could be recorded in the model.

    Returns:
        The sentence; empty if the attempt does not count.
    """
    from squad.selective.attempts import delta_share

    if not counts:
        return ""
    if not recordable:
        return f" {unrecorded(certificate, model)}"
    return (
        f" Attempt {certificate.attempt} is recorded in {model}; the next one uses"
        f" {100 * delta_share(certificate.attempt + 1):.3g} % of delta."
    )


def unrecorded(certificate: Any, model: Path) -> str:
    """Return a sentence that says that the attempt could not be recorded.

    Args:
        certificate: The certificate of the attempt.
        model: Folder of the model.

    Returns:
        The sentence.
    """
    return f"{model} cannot be written, so attempt {certificate.attempt} to certify it is not recorded."
