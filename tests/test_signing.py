"""Signatures: the signed message, what is refused, and that unsigned models do not need cryptography."""

import base64
import builtins
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

import squad
from squad import artifact, signing
from squad.fitting import fit_predictor
from squad.predictor import Predictor
from squad.selective import Certificate, certificate
from squad.signing import SignatureError
from tests.predictor.examples import QUICK, points


@pytest.fixture(scope="module")
def safe() -> Predictor:
    return fit_predictor(*points(600, 0), QUICK).certify(*points(2000, 1), risk=0.05, delta=0.05)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return signing.new_key(tmp_path_factory.mktemp("keys") / "deep" / "key.pem")


@pytest.fixture
def model(safe: Predictor, keys: tuple[Path, Path], tmp_path: Path) -> Path:
    """A signed model with all optional files."""
    path = safe.save(tmp_path / "model")
    assert artifact.sign(path, keys[0]) == path / "signature.json"
    return path


@pytest.fixture
def paper(tmp_path: Path, keys: tuple[Path, Path]) -> Path:
    """A signed certificate in its own file."""
    path = squad.certify(np.arange(1000), np.ones(1000), 0.02).save(tmp_path / "paper.json")
    assert Certificate.sign(path, keys[0]) == tmp_path / "paper.signature.json"
    return path


def resealed(file: Path, change: Callable[[dict[str, Any]], None], checksum: Callable[[Any], str]) -> None:
    data = json.loads(file.read_text())
    change(data)
    data["checksum"] = checksum(data)
    file.write_text(json.dumps(data))


def test_the_signed_message(model: Path, keys: tuple[Path, Path]) -> None:
    # As documented in docs/guides/sign.md: the settings without their checksum, in canonical form.
    import hashlib

    settings = json.loads((model / "config.json").read_text())
    noted = settings.pop("checksum")
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    assert digest == noted
    data = json.loads((model / "signature.json").read_text())
    assert data["signs"] == "squad-torch model"
    assert data["sha256"] == digest
    key = serialization.load_pem_public_key(keys[1].read_bytes())
    assert isinstance(key, ed25519.Ed25519PublicKey)
    assert data["public_key"] == base64.b64encode(key.public_bytes_raw()).decode()
    text = f"squad-torch signature 1\nsquad-torch model\nsha256 {digest}\n".encode()
    key.verify(base64.b64decode(data["signature"]), text)
    files = ("novelty", "rows", "calibration", "validation")
    assert set(settings["files"]) == {f"{name}.safetensors" for name in files}
    assert {"sha256", "bytes"} == set(settings["weights"])


def test_a_valid_signature(model: Path, paper: Path, keys: tuple[Path, Path], safe: Predictor) -> None:
    assert squad.load(model, public_key=keys[1]).certificate == safe.certificate
    assert squad.load(model, public_key=keys[1].read_bytes()).certificate == safe.certificate
    assert squad.load(model).certificate == safe.certificate
    assert Certificate.load(paper, public_key=keys[1]) == Certificate.load(paper)
    # The layout of the JSON file does not matter.
    config = model / "config.json"
    config.write_text(json.dumps(dict(reversed(json.loads(config.read_text()).items())), indent=3))
    squad.load(model, public_key=str(keys[1]))


FILES = (
    "config.json",
    "model.safetensors",
    "novelty.safetensors",
    "rows.safetensors",
    "calibration.safetensors",
    "validation.safetensors",
    "signature.json",
)


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_covered(model: Path, keys: tuple[Path, Path], name: str) -> None:
    content = (model / name).read_bytes()
    for place in (len(content) // 3, len(content) // 2, len(content) - 5):
        (model / name).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(squad.SquadError):
            squad.load(model, public_key=keys[1])
    (model / name).unlink()
    with pytest.raises(squad.SquadError, match=name):
        squad.load(model, public_key=keys[1])


def test_a_change_with_recomputed_checksums(model: Path, keys: tuple[Path, Path]) -> None:
    """What checksums cannot detect: other settings with a matching checksum."""
    config = model / "config.json"
    before = config.read_bytes()
    resealed(config, lambda data: data["record"].update(source="elsewhere"), artifact._checksum)
    squad.load(model)
    with pytest.raises(SignatureError, match="changed after it was signed"):
        squad.load(model, public_key=keys[1])
    config.write_bytes(before)
    scores = (model / "calibration.safetensors").read_bytes()
    resealed(config, lambda data: data["files"].pop("rows.safetensors"), artifact._checksum)
    with pytest.raises(SignatureError, match="changed after it was signed"):
        squad.load(model, public_key=keys[1])
    assert (model / "calibration.safetensors").read_bytes() == scores


def test_a_certificate_with_a_recomputed_checksum(paper: Path, keys: tuple[Path, Path]) -> None:
    resealed(paper, lambda data: data.update(says="All is well."), certificate._checksum)
    Certificate.load(paper)
    with pytest.raises(SignatureError, match="changed after it was signed"):
        Certificate.load(paper, public_key=keys[1])


def test_signatures_of_models_and_certificates_differ(model: Path, paper: Path, keys: tuple[Path, Path]) -> None:
    shutil.copy(model / "signature.json", paper.with_name("paper.signature.json"))
    with pytest.raises(SignatureError):
        Certificate.load(paper, public_key=keys[1])
    # The same digest, signed as another kind.
    digest = json.loads((model / "config.json").read_text())["checksum"]
    signing.sign(model, "squad-torch certificate", digest, keys[0])
    with pytest.raises(SignatureError):
        squad.load(model, public_key=keys[1])


def test_another_key(model: Path, paper: Path, tmp_path: Path) -> None:
    _, other = signing.new_key(tmp_path / "other.pem")
    with pytest.raises(SignatureError, match="another key"):
        squad.load(model, public_key=other)
    with pytest.raises(SignatureError, match="another key"):
        Certificate.load(paper, public_key=other)
    # Replacing the noted public key does not help.
    data = json.loads((model / "signature.json").read_text())
    key = serialization.load_pem_public_key(other.read_bytes())
    assert isinstance(key, ed25519.Ed25519PublicKey)
    data["public_key"] = base64.b64encode(key.public_bytes_raw()).decode()
    (model / "signature.json").write_text(json.dumps(data))
    with pytest.raises(SignatureError, match="signature itself was changed"):
        squad.load(model, public_key=other)


def test_unsigned(safe: Predictor, keys: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(SignatureError, match="is not signed"):
        squad.load(safe.save(tmp_path / "model"), public_key=keys[1])
    assert safe.certificate is not None
    with pytest.raises(SignatureError, match="is not signed"):
        Certificate.load(safe.certificate.save(tmp_path / "c.json"), public_key=keys[1])


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "no", "{" * 100_000, '{"kind": "squad-torch signature", "format": 1}', "x" * 70_000]
)
def test_invalid_signature_files(model: Path, keys: tuple[Path, Path], content: str) -> None:
    (model / "signature.json").write_text(content)
    with pytest.raises(SignatureError, match="signature"):
        squad.load(model, public_key=keys[1])


def test_a_folder_instead_of_a_signature(model: Path, keys: tuple[Path, Path]) -> None:
    (model / "signature.json").unlink()
    (model / "signature.json").mkdir()
    with pytest.raises(SignatureError, match=r"signature\.json .*not a regular file"):
        squad.load(model, public_key=keys[1])


def test_saving_again_removes_the_signature(model: Path, paper: Path, keys: tuple[Path, Path], safe: Predictor) -> None:
    safe.without_row_hashes().save(model, overwrite=True)
    assert not (model / "signature.json").exists()
    with pytest.raises(SignatureError, match="is not signed"):
        squad.load(model, public_key=keys[1])
    Certificate.load(paper).save(paper)
    assert not paper.with_name("paper.signature.json").exists()
    # A file of that name that is not a signature is kept.
    paper.with_name("paper.signature.json").write_text("mine")
    Certificate.load(paper).save(paper)
    assert paper.with_name("paper.signature.json").read_text() == "mine"


def test_a_signed_folder_is_still_a_model(model: Path, safe: Predictor) -> None:
    with pytest.raises(artifact.ArtifactError, match=r"already.*overwrite"):
        artifact.check_target(model)
    artifact.check_target(model, overwrite=True)
    assert sorted(os.listdir(model.parent)) == ["model"]


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_keys_are_private_and_never_overwritten(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        private, public = signing.new_key(tmp_path / "key.pem")
    finally:
        os.umask(before)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert stat.S_IMODE(public.stat().st_mode) == 0o644
    assert public.name == "key.pub"
    kept = private.read_bytes()
    with pytest.raises(SignatureError, match=r"key\.pem already exists"):
        signing.new_key(tmp_path / "key.pem")
    private.unlink()
    with pytest.raises(SignatureError, match=r"key\.pub already exists"):
        signing.new_key(tmp_path / "key.pem")
    assert kept.startswith(b"-----BEGIN PRIVATE KEY-----")
    with pytest.raises(SignatureError, match="public key"):
        signing.new_key(tmp_path / "other.pub")
    with pytest.raises(SignatureError, match="cannot be written"):
        signing.new_key(public / "key.pem")


def test_unusable_keys(model: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    other = ec.generate_private_key(ec.SECP256R1())
    curve = other.private_bytes(pem, pkcs8, serialization.NoEncryption())
    locked = ed25519.Ed25519PrivateKey.generate().private_bytes(
        pem, pkcs8, serialization.BestAvailableEncryption(b"open")
    )
    for bad, why in (
        (keys[1], "private Ed25519 key"),
        (b"no", "private Ed25519 key"),
        (curve, "got another kind"),
        (locked, "passphrase"),
        (tmp_path, "not a regular file"),
        (tmp_path / "none.pem", "does not exist"),
    ):
        with pytest.raises(SignatureError, match=why):
            artifact.sign(model, bad)
    with pytest.raises(SignatureError, match="public Ed25519 key"):
        squad.load(model, public_key=keys[0])
    squad.load(model, public_key=keys[1])


def test_damaged_files_are_not_signed(model: Path, paper: Path, keys: tuple[Path, Path]) -> None:
    (model / "rows.safetensors").write_bytes(b"")
    with pytest.raises(artifact.ArtifactError):
        artifact.sign(model, keys[0])
    paper.write_text(paper.read_text().replace("0.02", "0.01"))
    with pytest.raises(certificate.CertificateError):
        Certificate.sign(paper, keys[0])


def test_without_cryptography(model: Path, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *more: Any, **others: Any) -> Any:
        if name.partition(".")[0] == "cryptography":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *more, **others)

    monkeypatch.setattr(builtins, "__import__", missing)
    squad.load(model)  # does not need it
    for call in (
        lambda: squad.load(model, public_key=keys[1]),
        lambda: artifact.sign(model, keys[0]),
        lambda: signing.new_key(model.parent / "new.pem"),
    ):
        with pytest.raises(SignatureError, match=r"pip install 'squad-torch\[sign\]'"):
            call()


def test_signing_never_writes_through_a_link_or_into_a_pipe(tmp_path: Path) -> None:
    """A folder from somebody else may hold a link to any file of the signer."""
    private, _ = signing.new_key(tmp_path / "key.pem")
    folder, victim = tmp_path / "model", tmp_path / "victim"
    folder.mkdir()
    victim.write_text("mine", encoding="utf-8")
    file = signing.signature_of(folder)
    file.symlink_to(victim)
    signing.sign(folder, "squad-torch model", "0" * 64, private)
    assert victim.read_text(encoding="utf-8") == "mine"
    assert file.is_file()
    assert not file.is_symlink()
    file.unlink()
    os.mkfifo(file)
    signing.sign(folder, "squad-torch model", "0" * 64, private)  # it would wait for a reader for ever
    assert file.is_file()
