"""Ed25519 signatures of saved models and certificates.

A checksum detects accidental damage, but an attacker can recompute it.  A signature can be made only with the private
key, and verified by anyone who has the public key.  Requires the package cryptography: ``pip install
'squad-torch[sign]'``.

The signed message consists of three lines of ASCII, each terminated by one newline (0x0A)::

    squad-torch signature 1
    KIND
    sha256 DIGEST

KIND is "squad-torch model" or "squad-torch certificate".  DIGEST, in 64 lower-case hexadecimal digits, is the SHA-256
of the settings (config.json) or of the certificate (its JSON file) in canonical form: parsed, without the top-level
entry "checksum", and written again as JSON with sorted keys, without whitespace, non-ASCII characters escaped
(``json.dumps(data, sort_keys=True, separators=(",", ":"))``).  The file stores this value as its "checksum", but it is
always recomputed.  config.json holds the size and SHA-256 of every other file of a model (weights, novelty check,
hashes of training rows, calibration scores), so a signature covers all of them.

The signature of a model is the file signature.json in its folder; that of NAME.json is NAME.signature.json next to it::

    {"kind": "squad-torch signature", "format": 1, "signs": KIND, "sha256": DIGEST,
     "public_key": 32 bytes in base64, "signature": 64 bytes in base64}

Only "signature" proves anything; the other entries serve error messages, and must agree with the signed file.
"""

import base64
import errno
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from squad.errors import SquadError
from squad.files import create_new, read_bytes, write_json

__all__ = [
    "SIGNATURE",
    "SignatureError",
    "fingerprint",
    "message",
    "new_key",
    "remove_signature",
    "sign",
    "signature_of",
    "verify",
]

#: Name of the signature file in a model's folder.
SIGNATURE = "signature.json"
#: Entries "kind" and "format" of a signature file.
KIND, FORMAT = "squad-torch signature", 1
#: Maximum size of a key or signature file; they have a few hundred bytes.
MAX_BYTES = 1 << 16
#: Advice for a signature that does not match.
REMEDY = "Sign it again, or copy it again"


class SignatureError(SquadError):
    """A missing or invalid signature, or an unusable key."""


def message(kind: str, digest: str) -> bytes:
    """Return the signed message.

    Args:
        kind: "squad-torch model" or "squad-torch certificate".
        digest: SHA-256 of the settings or the certificate, as defined in :mod:`squad.signing`.

    Returns:
        The message, ASCII text of three lines.

    Examples:
        >>> message("squad-torch model", "0" * 64).decode().splitlines()[1]
        'squad-torch model'
    """
    return f"squad-torch signature {FORMAT}\n{kind}\nsha256 {digest}\n".encode("ascii")


def signature_of(path: str | Path) -> Path:
    """Return the path of the signature file of a model's folder or of a certificate's JSON file.

    Examples:
        >>> signature_of("certificate.json").name
        'certificate.signature.json'
    """
    path = Path(path)
    return path / SIGNATURE if path.is_dir() else path.with_name(f"{path.stem}.{SIGNATURE}")


def new_key(path: str | Path) -> tuple[Path, Path]:
    """Generate a key pair and write it as PEM files.

    Args:
        path: File of the private key, such as key.pem; readable by its owner only.  The public key is written to the
            same name with the suffix .pub.

    Returns:
        The paths of the private and the public key.

    Raises:
        SignatureError: One of the files exists, or cannot be written.
    """
    private = Path(path)
    public = private.with_suffix(".pub")
    if private == public:
        raise SignatureError(f"{path} is reserved for the public key. Name the private key's file, such as key.pem.")
    serialization, ed25519 = _cryptography()
    key = ed25519.Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    published = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for file in (private, public):
        if os.path.lexists(file):
            raise SignatureError(f"{file} already exists, and keys are never overwritten. Choose another file name.")
    try:
        private.parent.mkdir(parents=True, exist_ok=True)
        for file, mode, content in ((private, 0o600, secret), (public, 0o644, published)):
            create_new(file, content, mode)  # no key is overwritten
    except OSError as cause:
        raise SignatureError(
            f"{path} cannot be written: {cause.strerror or cause}. Choose another file name."
        ) from cause
    return private, public


def sign(path: str | Path, kind: str, digest: str, key: str | Path | bytes) -> Path:
    """Sign a model or certificate.

    Args:
        path: The model's folder or the certificate's file.
        kind: "squad-torch model" or "squad-torch certificate".
        digest: SHA-256, as defined in :mod:`squad.signing`.
        key: Private key: a PEM file, or its content.

    Returns:
        The path of the signature file.

    Raises:
        SignatureError: The key cannot be used, or the signature cannot be written.
    """
    serialization, ed25519 = _cryptography()
    secret = _load_key(
        key, lambda pem: serialization.load_pem_private_key(pem, None), ed25519.Ed25519PrivateKey, "private"
    )
    data = {
        "kind": KIND,
        "format": FORMAT,
        "signs": kind,
        "sha256": digest,
        "public_key": base64.b64encode(secret.public_key().public_bytes_raw()).decode(),
        "signature": base64.b64encode(secret.sign(message(kind, digest))).decode(),
    }
    file = signature_of(path)
    try:
        # Scratch next to the folder, not in it: a file left there by a crash would not belong to the model.
        scratch_for = Path(os.path.realpath(path))
        return write_json(file, data, indent=1, scratch_for=scratch_for, follow_links=False)
    except OSError as cause:
        raise SignatureError(f"{file} cannot be written: {cause.strerror or cause}.") from cause


def verify(path: str | Path, kind: str, digest: str, public_key: str | Path | bytes) -> str:
    """Verify the signature of a model or certificate.

    Args:
        path: The model's folder or the certificate's file.
        kind: Expected kind, "squad-torch model" or "squad-torch certificate".
        digest: SHA-256, computed from the files.
        public_key: A PEM file, or its content.

    Returns:
        The key's :func:`fingerprint`.

    Raises:
        SignatureError: There is no signature, it was made with another key, or the files were changed since.
    """
    serialization, ed25519 = _cryptography()
    from cryptography.exceptions import InvalidSignature

    key = _load_key(public_key, serialization.load_pem_public_key, ed25519.Ed25519PublicKey, "public")
    raw = key.public_bytes_raw()
    file = signature_of(path)
    if not os.path.lexists(file):
        raise SignatureError(
            f"{path} is not signed: {file.name} is missing. Sign it with squad sign, or ask its author to."
        )
    data = _read_signature(file)
    if data.get("public_key") != base64.b64encode(raw).decode():
        raise _invalid(path, f"it was made with another key than {fingerprint(raw)}. Use the author's public key")
    if data.get("signs") != kind or data.get("sha256") != digest:
        raise _invalid(path, f"{path} was changed after it was signed. {REMEDY}")
    try:
        signature = base64.b64decode(data["signature"], validate=True)
        key.verify(signature, message(kind, digest))
        if data["signature"] != base64.b64encode(signature).decode():  # accept the canonical base64 text only
            raise InvalidSignature
    except InvalidSignature:
        raise _invalid(path, f"the signature itself was changed. {REMEDY}") from None
    except (KeyError, TypeError, ValueError) as cause:
        raise SignatureError(f"{file} is damaged: {str(cause)[:80]}. {REMEDY}.") from cause
    return fingerprint(raw)


def _invalid(path: str | Path, why: str) -> SignatureError:
    return SignatureError(f"The signature of {path} is invalid: {why}.")


def remove_signature(path: str | Path) -> bool:
    """Remove the signature of a model or certificate that has changed.

    Returns:
        Whether there was one.
    """
    file = signature_of(path)
    try:
        _read_signature(file)
        file.unlink()
    except (SignatureError, OSError):  # there is none, or the file is not a signature of ours
        return False
    return True


def fingerprint(raw: bytes) -> str:
    """Return a hash of a public key's 32 bytes, short enough to compare by eye.

    Examples:
        >>> fingerprint(bytes(32))
        'SHA256:66687aadf862bd776c8fc18b8e9f8e20'
    """
    return "SHA256:" + hashlib.sha256(raw).hexdigest()[:32]


def _read_signature(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(_read(file))
    except (ValueError, RecursionError) as cause:
        raise SignatureError(f"{file} is damaged: {str(cause)[:80]}. {REMEDY}.") from cause
    if not isinstance(data, dict) or data.get("kind") != KIND or data.get("format") != FORMAT:
        raise SignatureError(f"{file} is not a {KIND} of format {FORMAT}. {REMEDY}.")
    return data


def _load_key(source: str | Path | bytes, parse: Callable[[bytes], Any], kind: type, what: str) -> Any:
    """Load an Ed25519 key.

    Args:
        source: A PEM file, or its content.
        parse: Function that parses the PEM content.
        kind: Expected class of the key.
        what: "private" or "public", for error messages.
    """
    name = "The key" if isinstance(source, bytes) else str(source)
    pem = source if isinstance(source, bytes) else _read(Path(source))
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        key = parse(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm) as cause:  # TypeError: the key is encrypted
        encrypted = what == "private" and b"ENCRYPTED" in pem
        hint = "It has a passphrase; remove it first" if encrypted else "Make a key pair with squad keygen"
        raise SignatureError(f"{name} must be a {what} Ed25519 key in PEM format. {hint}.") from cause
    if not isinstance(key, kind):
        raise SignatureError(
            f"{name} must be a {what} Ed25519 key, got another kind of key. Make a key pair with squad keygen."
        )
    return key


def _read(file: Path) -> bytes:
    try:
        return read_bytes(file, MAX_BYTES)
    except FileNotFoundError as cause:
        raise SignatureError(f"{file} does not exist.") from cause
    except OSError as cause:
        if cause.errno == errno.EFBIG:
            raise SignatureError(
                f"{file} is neither a key nor a signature: it has more than {MAX_BYTES:,} bytes."
            ) from cause
        raise SignatureError(f"{file} cannot be read: {cause.strerror or cause}.") from cause


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as cause:
        raise SignatureError(
            "Signatures need the package cryptography, which is not installed. Run: pip install 'squad-torch[sign]'."
        ) from cause
    return serialization, ed25519
