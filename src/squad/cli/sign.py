"""``squad keygen``, ``squad sign`` and ``squad verify``: who made a model, and whether it is still the same."""

from pathlib import Path
from typing import Annotated

import typer

from squad.cli.terminal import facts, say

__all__ = ["PublicKey", "keygen", "lost_signature", "sign", "verify"]

Signed = Annotated[
    Path,
    typer.Argument(metavar="PATH", help="Folder of a saved model, or a certificate (.json).", show_default=False),
]
PublicKey = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Refuse what is not signed with this key (squad keygen, squad sign)."),
]


def keygen(
    key: Annotated[
        Path, typer.Argument(metavar="KEY", help="File for the private key, such as key.pem.", show_default=False)
    ],
) -> None:
    """Make a pair of keys to sign models with.

    The private key is written to KEY, readable by you only; keep it secret. The public key is written beside it, with
    the ending .pub; give it to everybody who shall check your signatures. Needs squad-torch[sign].

    \b
    Examples:
      squad keygen key.pem
    """
    from squad.signing import new_key

    private, public = new_key(key)
    typer.echo(f"{private} signs: keep it secret. {public} checks: give it away.")


def sign(
    path: Signed,
    key: Annotated[Path, typer.Option(metavar="FILE", help="The private key (squad keygen).", show_default=False)],
) -> None:
    """Sign a saved model or a certificate.

    The signature (Ed25519) covers all files of a model: weights, settings, certificate, hashes of rows, calibration
    scores. It is written into the model's folder, or beside the certificate. Whatever changes the model drops it:
    certify, recalibrate and strip first. Needs squad-torch[sign].

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
            made = Certificate.sign(path, key)
        else:
            load(path)  # what cannot be used is not signed
            made = artifact.sign(path, key)
    say(f"signed: {made}")


def verify(path: Signed, public_key: PublicKey = None) -> None:
    """Check a saved model or a certificate, and its signature.

    Files must be as they were saved, and the certificate must follow from the counts and scores stored with it; with
    --public-key, all of it must be signed with that key. Exit code 0 says that all is in order, 2 that it is not.

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
        shown.append(("certificate", "follows from its own counts; its scores are not stored with it"))
    else:
        predictor = load(path, public_key=public_key)
        shown.append(("files", "as they were saved"))
        if predictor.certificate is None:
            basis = "none"
        elif predictor.calibration is None:
            basis = "follows from its own counts; its scores are not stored with it"
        else:
            basis = f"follows from its {len(predictor.calibration):,} calibration scores"
        shown.append(("certificate", basis))
    if public_key is not None:
        signature = f"good, made with {public_key}"
    else:
        there = signing.signature_of(path).exists()
        signature = "not checked: name the key with --public-key" if there else "none"
    facts(str(path), [*shown, ("signature", signature)])


def lost_signature(model: Path, place: Path) -> str | None:
    """What to say after ``model`` was changed and saved as ``place``, if a signature does not cover it any more."""
    from squad.signing import signature_of

    if signature_of(place).exists():
        return f"the signature of {place} is gone; sign again"
    if signature_of(model).exists():
        return f"{place} is not signed, as {model} is; sign it, too"
    return None
