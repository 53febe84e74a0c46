"""Signatures (Ed25519) of saved models and certificates.

A checksum shows accidents; who means to deceive computes it anew.  A signature can be made only by who has the private
key, and checked by everybody who has the public one.  It needs the package cryptography: ``pip install
'squad-torch[sign]'``.

What is signed are the bytes of three lines of ASCII, each ended by one newline (0x0A)::

    squad-torch signature 1
    KIND
    sha256 DIGEST

KIND is "squad-torch model" or "squad-torch certificate".  DIGEST, in 64 lower-case hexadecimal digits, is the SHA-256
of the settings (config.json) or of the certificate (its JSON file) in canonical form: parsed, without the entry
"checksum" at the top, and written again as JSON with sorted names, without blanks, everything beyond ASCII escaped
(``json.dumps(data, sort_keys=True, separators=(",", ":"))``).  It is the "checksum" that the file itself notes, and is
always computed anew.  config.json notes size and SHA-256 of every other file of a model (weights, novelty, hashes of
rows, calibration scores), so a signature covers all of them.

The signature of a model stands in its folder as signature.json, that of NAME.json beside it as NAME.signature.json::

    {"kind": "squad-torch signature", "format": 1, "signs": KIND, "sha256": DIGEST,
     "public_key": 32 bytes in base64, "signature": 64 bytes in base64}

Only "signature" proves anything; the other entries must agree with what is there, and tell what went wrong if not.
"""

import base64
import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from squad.errors import SquadError
from squad.files import opened, scratch_beside, sweep

__all__ = ["SIGNATURE", "SignatureError", "check", "drop", "fingerprint", "message", "new_key", "sign", "signature_of"]

#: The signature's file in a model's folder.
SIGNATURE = "signature.json"
KIND, FORMAT = "squad-torch signature", 1
#: Keys and signatures have a few hundred bytes: a larger file is none.
MOST_BYTES = 1 << 16


class SignatureError(SquadError):
    """A signature that is missing or wrong, or a key that cannot be used."""


def message(kind: str, digest: str) -> bytes:
    """The bytes that are signed, for something with this SHA-256."""
    return f"squad-torch signature {FORMAT}\n{kind}\nsha256 {digest}\n".encode("ascii")


def signature_of(path: str | Path) -> Path:
    """Where the signature of a model's folder, or of a certificate's JSON file, stands."""
    path = Path(path)
    return path / SIGNATURE if path.is_dir() else path.with_name(f"{path.stem}.{SIGNATURE}")


def new_key(path: str | Path) -> tuple[Path, Path]:
    """Write a new private key, readable by its owner only, and the public one beside it (NAME.pub), as PEM files."""
    private = Path(path)
    public = private.with_suffix(".pub")
    if private == public:
        raise SignatureError(f"{path} is the name of a public key. Name the private one, such as key.pem.")
    serialization, ed25519 = _cryptography()
    key = ed25519.Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shown = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    for file in (private, public):
        if os.path.lexists(file):
            raise SignatureError(f"{file} exists, and a key is never replaced. Name another file.")
    try:
        private.parent.mkdir(parents=True, exist_ok=True)
        for file, mode, content in ((private, 0o600, secret), (public, 0o644, shown)):
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with open(handle, "wb") as stream:
                stream.write(content)
    except OSError as cause:
        raise SignatureError(f"{path} cannot be written: {cause.strerror or cause}. Name another file.") from cause
    return private, public


def sign(path: str | Path, kind: str, digest: str, key: str | Path | bytes) -> Path:
    """Write the signature of a model or certificate.

    Args:
        path: the model's folder or the certificate's file.
        kind: what it is.
        digest: its SHA-256, as :mod:`squad.signing` says.
        key: the private key: a PEM file, or its content.

    Returns:
        The signature's file.
    """
    serialization, ed25519 = _cryptography()
    secret = _key(key, lambda pem: serialization.load_pem_private_key(pem, None), ed25519.Ed25519PrivateKey, "private")
    data = {
        "kind": KIND,
        "format": FORMAT,
        "signs": kind,
        "sha256": digest,
        "public_key": base64.b64encode(secret.public_key().public_bytes_raw()).decode(),
        "signature": base64.b64encode(secret.sign(message(kind, digest))).decode(),
    }
    file = signature_of(path)
    # Beside the folder, not in it: a file that a crash leaves there would not belong to the model.
    target = Path(os.path.realpath(path))
    sweep(target)
    scratch = scratch_beside(target)
    try:
        scratch.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        os.replace(scratch, file)
    except OSError as cause:
        raise SignatureError(f"{file} cannot be written: {cause.strerror or cause}.") from cause
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink()
    return file


def check(path: str | Path, kind: str, digest: str, public_key: str | Path | bytes) -> str:
    """Refuse something that is not signed with this key.

    Args:
        path: the model's folder or the certificate's file.
        kind: what it must be.
        digest: its SHA-256, computed from what is there.
        public_key: a PEM file, or its content.

    Returns:
        The key's :func:`fingerprint`.
    """
    serialization, ed25519 = _cryptography()
    from cryptography.exceptions import InvalidSignature

    key = _key(public_key, serialization.load_pem_public_key, ed25519.Ed25519PublicKey, "public")
    raw = key.public_bytes_raw()
    file = signature_of(path)
    if not os.path.lexists(file):
        raise SignatureError(
            f"{path} is not signed: {file.name} is missing. Sign it (squad sign), or ask its maker to."
        )
    data = _read(file)
    if data.get("public_key") != base64.b64encode(raw).decode():
        raise _wrong(path, f"it was made with another key than {fingerprint(raw)}. Take its maker's public key")
    if data.get("signs") != kind or data.get("sha256") != digest:
        raise _wrong(path, f"{path} was changed after it was signed. Sign it again, or copy it again")
    try:
        signature = base64.b64decode(data["signature"], validate=True)
        key.verify(signature, message(kind, digest))
        if data["signature"] != base64.b64encode(signature).decode():  # one text for one signature
            raise InvalidSignature
    except InvalidSignature:
        raise _wrong(path, "the signature itself was changed. Sign it again, or copy it again") from None
    except (KeyError, TypeError, ValueError) as cause:
        raise SignatureError(f"{file} is damaged: {str(cause)[:80]}. Sign again, or copy it again.") from cause
    return fingerprint(raw)


def _wrong(path: str | Path, why: str) -> SignatureError:
    return SignatureError(f"The signature of {path} is wrong: {why}.")


def drop(path: str | Path) -> bool:
    """Remove the signature of something that has changed; whether there was one."""
    file = signature_of(path)
    try:
        _read(file)
        file.unlink()
    except (SignatureError, OSError):  # none, or a file of somebody else's
        return False
    return True


def fingerprint(raw: bytes) -> str:
    """A public key's 32 bytes, short enough to compare by eye."""
    return "SHA256:" + hashlib.sha256(raw).hexdigest()[:32]


def _read(file: Path) -> dict[str, Any]:
    """What a signature's file says, if it is one."""
    try:
        data = json.loads(_content(file))
    except (ValueError, RecursionError) as cause:
        raise SignatureError(f"{file} is damaged: {str(cause)[:80]}. Sign again, or copy it again.") from cause
    if not isinstance(data, dict) or data.get("kind") != KIND or data.get("format") != FORMAT:
        raise SignatureError(f"{file} must be a {KIND} of format {FORMAT}; it is something else. Sign again.")
    return data


def _key(given: str | Path | bytes, parse: Callable[[bytes], Any], kind: type, what: str) -> Any:
    """A key of Ed25519 from a PEM file or its content."""
    shown = "The key" if isinstance(given, bytes) else str(given)
    pem = given if isinstance(given, bytes) else _content(Path(given))
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        key = parse(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm) as cause:  # TypeError: it has a passphrase
        locked = what == "private" and b"ENCRYPTED" in pem
        why = "it has a passphrase; remove it first" if locked else "make a pair with squad keygen"
        raise SignatureError(f"{shown} must be a {what} key of Ed25519 as a PEM file: {why}.") from cause
    if not isinstance(key, kind):
        raise SignatureError(f"{shown} must be a {what} key of Ed25519; it is of another kind. Make one: squad keygen.")
    return key


def _content(file: Path) -> bytes:
    try:
        with opened(file) as stream:
            found = stream.read(MOST_BYTES + 1)
    except FileNotFoundError as cause:
        raise SignatureError(f"{file} does not exist.") from cause
    except OSError as cause:
        raise SignatureError(f"{file} cannot be read: {cause.strerror or cause}.") from cause
    if len(found) > MOST_BYTES:
        raise SignatureError(f"{file} has more than {MOST_BYTES:,} bytes: it is neither a key nor a signature.")
    return found


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as cause:
        raise SignatureError(
            "Signatures need the package cryptography, which is not installed. Run: pip install 'squad-torch[sign]'."
        ) from cause
    return serialization, ed25519
