"""``squad keygen``, ``squad sign`` and ``squad verify``: who made a model, and whether it was changed since."""

from pathlib import Path
from typing import Annotated

import typer

from squad.cli.options import PublicKey
from squad.cli.terminal import facts, print_message

__all__ = ["keygen", "lost_signature", "sign", "verify"]

Signed = Annotated[
    Path,
    typer.Argument(metavar="PATH", help="Folder of a saved model, or a certificate (.json).", show_default=False),
]


def keygen(
    key: Annotated[
        Path, typer.Argument(metavar="KEY", help="File for the private key, such as key.pem.", show_default=False)
    ],
) -> None:
    """Create a key pair for signing models.

    The private key is written to KEY, readable by you only; keep it secret. The public key is written next to it, with
    the suffix .pub; give it to everybody who verifies your signatures. Needs the extra "sign".

    \b
    Examples:
      squad keygen key.pem
    """
    from squad.signing import new_key

    private, public = new_key(key)
    typer.echo(f"private key: {private} (keep it secret)\npublic key: {public} (to verify signatures)")


def sign(
    path: Signed,
    key: Annotated[Path, typer.Option(metavar="FILE", help="Private key (squad keygen).", show_default=False)],
) -> None:
    """Sign a saved model or a certificate.

    The signature (Ed25519) covers all files of a model: weights, settings, certificate, hashes of rows, calibration
    scores. It is saved in the model's folder, or next to the certificate. Any change of the model removes it: certify,
    recalibrate and strip first. Needs the extra "sign".

    \b
    Examples:
      squad sign model --key key.pem
      squad sign certificate.json --key key.pem
    """
    from squad import artifact
    from squad.output_paths import exclusive_output
    from squad.predictor import load
    from squad.selective import Certificate

    with exclusive_output(path):
        if path.suffix.lower() == ".json" and not path.is_dir():
            signature = Certificate.sign(path, key)
        else:
            load(path)  # a model that cannot be loaded is not signed
            signature = artifact.sign(path, key)
    print_message(f"signed: {signature}")


def verify(path: Signed, public_key: PublicKey = None) -> None:
    """Verify a saved model or a certificate, and its signature.

    Files must be unchanged, and the certificate must follow from the counts and scores stored with it; with
    --public-key, everything must be signed with that key. Exit code 0: all checks passed; 2: a check failed.

    \b
    Examples:
      squad verify model
      squad verify model --public-key key.pub
      squad verify certificate.json --public-key key.pub
    """
    from squad import signing
    from squad.predictor import load
    from squad.selective import Certificate

    shown: list[tuple[str, str]] = []
    if path.suffix.lower() == ".json" and not path.is_dir():
        Certificate.load(path, public_key)
        shown.append(("certificate", "follows from its counts; its scores are not stored"))
    else:
        predictor = load(path, public_key=public_key)
        shown.append(("files", "unchanged"))
        if predictor.certificate is None:
            basis = "none"
        elif predictor.calibration is None:
            basis = "follows from its counts; its scores are not stored"
        else:
            basis = f"follows from its {len(predictor.calibration):,} calibration scores"
        shown.append(("certificate", basis))
    if public_key is not None:
        signature = f"valid, made with the key {public_key}"
    else:
        signed = signing.signature_of(path).exists()
        signature = "not checked: name the key with --public-key" if signed else "none"
    facts(str(path), [*shown, ("signature", signature)])


def lost_signature(model: Path, folder: Path) -> str | None:
    """Return a warning if the changed ``model``, saved in ``folder``, is no longer covered by a signature.

    Args:
        model: Folder of the model, or file of the certificate, that was changed.
        folder: Folder or file in which it is saved.

    Returns:
        The warning, or None if nothing was signed.
    """
    from squad.signing import signature_of

    if signature_of(folder).exists():
        return f"the signature of {folder} was removed, because its content has changed. Sign it again."
    if signature_of(model).exists():
        return f"{folder} is not signed, unlike {model}. Sign it as well."
    return None
