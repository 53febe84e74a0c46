"""The further files of a saved folder: noted, checked, and part of what may be replaced; older folders stay as good."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from squad import artifact
from squad.artifact import CONFIG, EXTRAS, WEIGHTS, ArtifactError, check_target, load, load_extra, save
from squad.data.seen_rows import SeenRows
from squad.errors import ArgumentError
from squad.files import write_bytes

ROWS, CALIBRATION = "rows.safetensors", "calibration.safetensors"

WEIGHT = {"weight": torch.arange(6.0).reshape(2, 3)}
FURTHER: dict[str, dict[str, Tensor]] = {
    "rows": {"rows": torch.tensor([-(2**63), -1, 0, 2**63 - 1]), "groups": torch.empty(0, dtype=torch.int64)},
    "calibration": {"confidence": torch.tensor([0.1, 1 - 2**-53], dtype=torch.float64), "wrong": torch.tensor([True])},
    "novelty": {"limits": torch.tensor([1.0, 2.0], dtype=torch.float64)},
    "validation": {"right": torch.tensor([0, 2])},
}


def written(path: Path, extras: Mapping[str, Mapping[str, Tensor]] | None = FURTHER, **config: Any) -> Path:
    return save(path / "model", WEIGHT, {"record": {}, **config}, overwrite=True, extras=extras)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def assert_same(found: Mapping[str, Tensor] | None, expected: Mapping[str, Tensor]) -> None:
    assert found is not None
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def edit(folder: Path, **change: Any) -> None:
    """Change config.json, with the checksum that then belongs to it."""
    config = {**json.loads((folder / CONFIG).read_bytes()), **change}
    rest = {name: value for name, value in config.items() if name != "checksum" and value is not ...}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    (folder / CONFIG).write_text(json.dumps({**rest, "checksum": hashlib.sha256(text.encode()).hexdigest()}))


def extra_refused(folder: Path, name: str, match: str) -> str:
    """It is the file that is refused; what is needed to answer still loads."""
    tensors, config = load(folder)
    assert_same(tensors, WEIGHT)
    with pytest.raises(ArtifactError, match=match) as caught:
        load_extra(folder, name, config)
    return str(caught.value)


# ---- there and back


@pytest.mark.parametrize("which", [(), ("rows",), ("calibration",), ("calibration", "rows")])
def test_round_trip(which: tuple[str, ...], tmp_path: Path) -> None:
    saved = written(tmp_path, {name: FURTHER[name] for name in which})
    assert names(saved) == sorted([CONFIG, WEIGHTS, *(EXTRAS[name] for name in which)])
    tensors, config = load(saved)
    assert_same(tensors, WEIGHT)
    for name, content in FURTHER.items():
        found = load_extra(saved, name, config)
        if name in which:
            assert_same(found, content)
        else:
            assert found is None


def test_what_the_folder_says(tmp_path: Path) -> None:
    saved = written(tmp_path)
    config = json.loads((saved / CONFIG).read_bytes())
    assert config["files"].keys() == set(EXTRAS.values())
    for name, note in config["files"].items():
        content = (saved / name).read_bytes()
        assert note == {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    one = {name: (saved / name).read_bytes() for name in names(saved)}
    written(tmp_path)
    assert one == {name: (saved / name).read_bytes() for name in names(saved)}


def test_a_model_without_them_is_as_before(tmp_path: Path) -> None:
    nothing: dict[str, dict[str, Tensor]] = {}
    for extras in (None, nothing):
        saved = written(tmp_path, extras)
        assert names(saved) == [CONFIG, WEIGHTS]
        assert "files" not in json.loads((saved / CONFIG).read_bytes())
    edit(saved, format=1)  # as the first version wrote it
    assert load(saved)[1]["format"] == 1


def test_settings_of_another_folder_do_not_note_its_files(tmp_path: Path) -> None:
    _, config = load(written(tmp_path / "one"))
    two = save(tmp_path / "two", WEIGHT, config)
    assert names(two) == [CONFIG, WEIGHTS]
    assert load_extra(two, "rows", load(two)[1]) is None


def test_a_memory_of_rows(tmp_path: Path) -> None:
    import numpy as np

    seen_rows = SeenRows.of(np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32), ["a", "b"])
    saved = written(tmp_path, {"rows": seen_rows.to_tensors()})
    found = load_extra(saved, "rows", load(saved)[1])
    assert found is not None
    again = SeenRows.from_tensors(found)
    np.testing.assert_array_equal(again.rows, seen_rows.rows)
    np.testing.assert_array_equal(again.groups, seen_rows.groups)


def test_names_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"extras must be files among .*, got 'row'"):
        written(tmp_path, {"row": {}})
    with pytest.raises(ArgumentError, match=r"got '\.\./rows'"):
        written(tmp_path, {"../rows": {}})
    assert names(tmp_path) == []
    saved = written(tmp_path)
    with pytest.raises(ArgumentError, match=r"name must be one of .*, got 'model'"):
        load_extra(saved, "model", load(saved)[1])


# ---- damage


@pytest.mark.parametrize("name", EXTRAS)
def test_a_noted_file_is_missing(name: str, tmp_path: Path) -> None:
    saved = written(tmp_path)
    file = saved / EXTRAS[name]
    file.unlink()
    extra_refused(
        saved, name, f"model must hold {file.name}, which config.json notes; it is missing. Copy the model again"
    )
    file.mkdir()
    extra_refused(saved, name, f"{file.name}, which config.json notes; it is not a file")
    file.rmdir()
    os.mkfifo(file)  # reading it would wait for ever
    extra_refused(saved, name, "it is not a file")


@pytest.mark.parametrize("name", EXTRAS)
def test_a_noted_file_is_damaged(name: str, tmp_path: Path) -> None:
    saved = written(tmp_path)
    file = saved / EXTRAS[name]
    whole = file.read_bytes()
    for length in range(0, len(whole), 7):
        file.write_bytes(whole[:length])
        extra_refused(saved, name, f"{file.name} has {length:,} bytes of {len(whole):,}. Save the model again, or copy")
    for place in range(0, len(whole), 7):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        extra_refused(saved, name, f"{file.name} was changed after it was saved")
    file.write_bytes(whole + b"\0")
    extra_refused(saved, name, f"{file.name} has {len(whole) + 1:,} bytes of")
    with file.open("r+b") as handle:
        handle.truncate(1 << 35)  # of holes: nothing is written, and nothing must be read
    extra_refused(saved, name, "has 34,359,738,368 bytes of ")
    # The other one is as good as before.
    other = next(one for one in EXTRAS if one != name)
    assert_same(load_extra(saved, other, load(saved)[1]), FURTHER[other])


def test_files_of_two_models(tmp_path: Path) -> None:
    one, two = written(tmp_path / "one"), written(tmp_path / "two", {**FURTHER, "rows": {"rows": torch.tensor([5])}})
    (one / ROWS).write_bytes((two / ROWS).read_bytes())
    extra_refused(one, "rows", f"{ROWS} has .* bytes of ")
    (one / CALIBRATION).write_bytes((one / WEIGHTS).read_bytes())
    extra_refused(one, "calibration", f"{CALIBRATION} has .* bytes of ")


def test_a_file_that_is_noted_as_it_is_and_still_none(tmp_path: Path) -> None:
    saved = written(tmp_path)
    content = b"PK\3\4 a pickle, say"
    (saved / ROWS).write_bytes(content)
    edit(saved, files={ROWS: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}})
    extra_refused(saved, "rows", f"{ROWS} cannot be read: ")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (None, "'files' of .*config.json must be an object, got None"),
        ([], r"'files' of .*config.json must be an object, got \[\]"),
        ("x" * 999, "'files' of .*config.json must be an object, got x{40}\\."),
        ({ROWS: None}, "config.json must say the size and checksum of rows.safetensors; it does not"),
        ({ROWS: {"bytes": 3}}, "must say the size and checksum of rows.safetensors"),
        ({ROWS: {"bytes": "3", "sha256": "0"}}, "must say the size and checksum of rows.safetensors"),
        ({ROWS: {"bytes": True, "sha256": "0"}}, "must say the size and checksum of rows.safetensors"),
        ({"/etc/passwd": 3}, "model/config.json must say the size and checksum of /etc/passwd"),
    ],
)
def test_notes_that_are_none(files: Any, message: str, tmp_path: Path) -> None:
    saved = written(tmp_path)
    edit(saved, files=files)
    with pytest.raises(ArtifactError, match=message):
        load(saved)


def test_a_file_that_is_not_noted_is_not_read(tmp_path: Path) -> None:
    saved = written(tmp_path)
    edit(saved, files=...)
    _, config = load(saved)
    assert load_extra(saved, "rows", config) is None
    assert load_extra(saved, "calibration", config) is None


def test_a_newer_version_may_note_more(tmp_path: Path) -> None:
    saved = written(tmp_path)
    noted = json.loads((saved / CONFIG).read_bytes())["files"]
    edit(saved, files={**noted, "pictures.safetensors": {"bytes": 1, "sha256": "0"}})
    (saved / "pictures.safetensors").write_bytes(b"x")
    assert_same(load_extra(saved, "rows", load(saved)[1]), FURTHER["rows"])
    with pytest.raises(ArtifactError, match=r"model.*\(pictures.safetensors\).*not replaced"):
        check_target(saved, overwrite=True)


# ---- what may be replaced


@pytest.mark.parametrize("before", [(), ("rows",), ("calibration", "rows")])
@pytest.mark.parametrize("after", [(), ("calibration",), ("calibration", "rows")])
def test_one_is_replaced_by_another(before: tuple[str, ...], after: tuple[str, ...], tmp_path: Path) -> None:
    saved = written(tmp_path, {name: FURTHER[name] for name in before})
    with pytest.raises(ArtifactError, match=r"model already.*overwrite"):
        check_target(saved)
    with pytest.raises(ArtifactError, match=r"model already.*overwrite"):
        save(saved, WEIGHT, {}, extras={name: FURTHER[name] for name in after})
    written(tmp_path, {name: FURTHER[name] for name in after})
    assert names(saved) == sorted([CONFIG, WEIGHTS, *(EXTRAS[name] for name in after)])
    assert names(tmp_path) == ["model"]


def test_a_model_that_lost_a_noted_file_may_be_replaced(tmp_path: Path) -> None:
    saved = written(tmp_path)
    (saved / ROWS).unlink()
    check_target(saved, overwrite=True)
    written(tmp_path)
    assert_same(load_extra(saved, "rows", load(saved)[1]), FURTHER["rows"])


@pytest.mark.parametrize("overwrite", [False, True])
def test_other_things_are_never_replaced(overwrite: bool, tmp_path: Path) -> None:
    def refuses(match: str) -> None:
        before = sorted(saved.rglob("*"))
        with pytest.raises(ArtifactError, match=match):
            check_target(saved, overwrite)
        with pytest.raises(ArtifactError, match=match):
            save(saved, WEIGHT, {}, overwrite, extras=FURTHER)
        assert sorted(saved.rglob("*")) == before

    saved = written(tmp_path, {"rows": FURTHER["rows"]})
    (saved / CALIBRATION).write_bytes(b"mine")  # of that name, but not of this model
    refuses(r"\(calibration.safetensors\).*not replaced")
    (saved / CALIBRATION).unlink()
    (saved / ROWS).unlink()
    (saved / ROWS).mkdir()
    (saved / ROWS / "mine.txt").write_text("mine")
    refuses(r"\(rows.safetensors\).*not replaced")
    (saved / ROWS / "mine.txt").unlink()
    (saved / ROWS).rmdir()
    for file in (WEIGHTS, CONFIG):
        content = (saved / file).read_bytes()
        (saved / file).unlink()
        refuses("not replaced")
        (saved / file).write_bytes(content)
    (saved / CONFIG).write_text('{"architectures": ["BertModel"], "files": {"rows.safetensors": {}}}')
    (saved / ROWS).write_bytes(b"mine")
    refuses("not replaced")


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_whole_or_not_at_all(nth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = written(tmp_path)
    before = {name: (saved / name).read_bytes() for name in names(saved)}
    calls: list[str] = []

    def full(path: Path, data: bytes, **options: Any) -> None:
        calls.append(path.name)
        if len(calls) == nth:
            raise OSError(28, "No space left on device")
        write_bytes(path, data, **options)

    monkeypatch.setattr(artifact, "write_bytes", full)
    with pytest.raises(ArtifactError, match="model cannot be written: No space left on device"):
        save(saved, {"other": torch.zeros(3)}, {}, overwrite=True, extras={**FURTHER, "rows": {}})
    assert len(calls) == nth
    assert before == {name: (saved / name).read_bytes() for name in names(saved)}
    assert names(tmp_path) == ["model"]


# ---- what would not end


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, ROWS])
@pytest.mark.parametrize("what", ["/dev/zero", "/dev/stdin", "pipe", "folder"])
def test_links_to_what_does_not_end(name: str, what: str, tmp_path: Path) -> None:
    """Asked of what was opened, not of what was there before."""
    saved = written(tmp_path)
    (saved / name).unlink()
    if what == "pipe":
        os.mkfifo(saved / name)
    elif what == "folder":
        (saved / name).mkdir()
    else:
        (saved / name).symlink_to("/dev/zero")
    with pytest.raises(ArtifactError, match=f"{name}.*not a file"):
        load_extra(saved, "rows", load(saved)[1])


def test_a_large_config_is_neither_read_nor_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = written(tmp_path)
    before = (saved / CONFIG).read_bytes()
    monkeypatch.setattr(artifact, "CONFIG_BYTES", len(before) - 1)
    with pytest.raises(ArtifactError, match="at the most"):
        load(saved)
    monkeypatch.setattr(artifact, "CONFIG_BYTES", len(before))
    load(saved)
    with pytest.raises(ArtifactError, match=r"config\.json would have .* at the most"):
        written(tmp_path, note="x" * 100)
    assert (saved / CONFIG).read_bytes() == before
