"""Saved models: round trips, other processes, damage of every kind, atomic writes."""

import hashlib
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray

import squad
from squad import artifact
from squad.artifact import CONFIG, WEIGHTS, ArtifactError
from squad.data.array_transform import ArrayTransform
from squad.data.tables import Table
from squad.data.transforms import TableTransform
from squad.files import folders
from squad.models import CONFIGS, build, network_config
from squad.predictor import Predictor

Config = dict[str, Any]


def numbers(count: int = 12, *shape: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(count, *(shape or (6,))))


def frame(count: int = 12) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 9, count),
            "kind": [["red", "green", "blau"][row % 3] for row in range(count)],
            "maybe": [None if row % 4 == 0 else float(row) for row in range(count)],
            "label": ["no", "yes"] * (count // 2),
        }
    )


def predictor(name: str = "squad", data: str = "array", members: int = 2, **settings: Any) -> Predictor:
    """Return a predictor with random weights: its predictions must stay the same, whatever they are."""
    transform: TableTransform | ArrayTransform
    if data == "table":
        transform = TableTransform.fit(Table.of(frame()), "label")
    else:
        transform = ArrayTransform.fit(numbers() if data == "array" else numbers(12, 2, 3))
    config = network_config(name, {"hidden": (5, 4), **settings})
    network = build(config, transform.features, 3, list(range(members)))
    return Predictor(network, config, transform, ("a", "b", "ü"), num_samples=4, record={"seed": 0, "source": "x.csv"})


def rows(data: str) -> Any:
    return {"array": numbers(), "image": numbers(12, 2, 3), "table": frame()}[data]


def assert_same_answers(one: Predictor, other: Predictor, data: str) -> None:
    a, b = one.answer(rows(data)), other.answer(rows(data))
    for name in ("label", "confidence", "entropy", "mutual_information", "probabilities", "decision", "reason"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return predictor().save(tmp_path / "model")


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# ---- round trips


@pytest.mark.parametrize("data", ["array", "image", "table"])
@pytest.mark.parametrize("name", CONFIGS)
def test_round_trip(name: str, data: str, tmp_path: Path) -> None:
    made = predictor(name, data)
    assert made.save(tmp_path / "model") == tmp_path / "model"
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == [CONFIG, WEIGHTS]
    again = squad.load(tmp_path / "model")
    assert_same_answers(made, again, data)
    assert again.classes == made.classes
    assert again.config == made.config
    assert again.transform == made.transform
    assert again.record == made.record
    assert (again.sampling, again.num_samples) == (made.sampling, made.num_samples)
    assert repr(again) == repr(made)


def test_round_trip_of_other_settings(tmp_path: Path) -> None:
    made = predictor("squad", dropout=(0.0, 0.3), test_dropout=True, learn_values="per_neuron", prior="gaussian")
    made = made.with_sampling("relaxed", 3)
    squad.set_temperature(made.network, [0.7, 0.9])
    made.network.double()
    again = squad.load(made.save(tmp_path / "model"))
    temperature = again.network.state_dict()["stages.0.layer.temperature"]
    np.testing.assert_allclose(temperature, [0.7, 0.9], rtol=1e-6)
    assert next(again.network.parameters()).dtype == torch.float64
    assert_same_answers(made, again, "array")


@pytest.mark.parametrize("classes", [("b", "a", "c"), (3, -1, 10**12), (0.5, 1.0, 2.0), ("1", "2", "None")])
def test_class_names_keep_their_type(classes: tuple[Any, ...], tmp_path: Path) -> None:
    made = predictor()
    made.classes = classes
    again = squad.load(made.save(tmp_path / "model"))
    assert again.classes == classes
    assert list(map(type, again.classes)) == list(map(type, classes))


def test_another_process_killed_while_it_saves(tmp_path: Path) -> None:
    """It loads the same function; and a model that is saved over is there, old or new, at any time."""
    code = (
        "import sys, os, signal, numpy as np, squad; from squad.files import folders\n"
        "model, x, out = sys.argv[1:]\n"
        "loaded = squad.load(model)\n"
        "assert 'torch.fx.experimental.symbolic_shapes' not in sys.modules  # a second's worth of imports\n"
        "np.save(out, loaded.answer(np.load(x)).probabilities)\n"
        "exchange = folders._exchange\n"
        "def killed(*args):\n"
        "    assert exchange(*args)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "folders._exchange = killed\n"
        "loaded.with_sampling('mean').save(model, overwrite=True)\n"
    )
    made, files = predictor(), [tmp_path / name for name in ("model", "x.npy", "out.npy")]
    made.save(files[0])
    np.save(files[1], numbers())
    done = subprocess.run([sys.executable, "-c", code, *map(str, files)])
    assert done.returncode == -9
    np.testing.assert_array_equal(np.load(files[2]), made.answer(numbers()).probabilities)
    assert squad.load(files[0]).sampling == "mean"


def test_content_of_the_config(saved: Path) -> None:
    config = json.loads((saved / CONFIG).read_text(encoding="utf-8"))
    assert config["kind"] == "squad-torch model"
    assert config["format"] == artifact.FORMAT
    assert config["network"]["name"] == "squad"
    assert config["classes"] == ["a", "b", "ü"]
    assert config["transform"]["kind"] == "array"
    assert config["prediction"] == {"sampling": "stratified", "num_samples": 4}
    assert config["record"] == {"seed": 0, "source": "x.csv"}
    assert {"python", "torch", "numpy"} <= config["versions"].keys()
    assert str(saved.parent) not in (saved / CONFIG).read_text(encoding="utf-8")


def test_the_same_model_is_the_same_bytes(tmp_path: Path) -> None:
    one, two = (predictor().save(tmp_path / name) for name in ("one", "two"))
    for name in (CONFIG, WEIGHTS):
        assert (one / name).read_bytes() == (two / name).read_bytes()


# ---- damage


def refused(path: Path, match: str) -> str:
    with pytest.raises(ArtifactError, match=match) as caught:
        squad.load(path)
    return str(caught.value)


def test_not_a_folder(tmp_path: Path) -> None:
    refused(tmp_path / "none", "none .*does not exist")
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "file .*folder.*is a file")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", r"empty .*config\.json is missing")
    refused(tmp_path / ("n" * 300), "File name too long")


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_a_file_is_missing(name: str, saved: Path) -> None:
    (saved / name).unlink()
    refused(saved, f"{name} is missing")
    (saved / name).mkdir()
    refused(saved, f"{name} is not a file")
    (saved / name).rmdir()
    os.mkfifo(saved / name)  # reading it would block
    refused(saved, f"{name} is not a file")


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_a_file_is_cut_short(name: str, saved: Path) -> None:
    whole = (saved / name).read_bytes()
    lengths = sorted({*range(0, len(whole) - 1, max(1, len(whole) // 60)), 1, 7, 8, 9, len(whole) - 2})
    for length in lengths:
        (saved / name).write_bytes(whole[:length])
        refused(saved, "config.json .*damaged" if name == CONFIG else f"has {length:,} bytes")
    (saved / name).write_bytes(whole)
    squad.load(saved)


def test_a_file_is_too_long(saved: Path) -> None:
    with (saved / WEIGHTS).open("ab") as file:
        file.write(b"\0")
    refused(saved, r"model\.safetensors has [\d,]+ bytes")


def test_a_byte_of_the_weights_is_flipped(saved: Path) -> None:
    whole = (saved / WEIGHTS).read_bytes()
    for position in range(0, len(whole), max(1, len(whole) // 40)):
        changed = bytearray(whole)
        changed[position] ^= 1
        (saved / WEIGHTS).write_bytes(changed)
        refused(saved, r"model\.safetensors was changed")


def test_giant_files_are_not_read(saved: Path) -> None:
    with (saved / WEIGHTS).open("r+b") as file:
        file.truncate(1 << 35)  # a sparse file
    refused(saved, r"model\.safetensors has 34,359,738,368 bytes")
    with (saved / CONFIG).open("r+b") as file:
        file.truncate(1 << 35)
    refused(saved, r"config\.json has 34,359,738,368 bytes.*16,777,216")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "damaged.*empty"),
        (b"[]", "squad-torch model"),
        (b"null", "squad-torch model"),
        (b'"squad-torch model"', "squad-torch model"),
        (b"{}", "squad-torch model"),
        (b'{"kind": "bert"}', "squad-torch model"),
        (b'{"kind": ["squad-torch model"]}', "squad-torch model"),
        (b"\xff\xfe\x00", "damaged"),
        (b"[" * 200_000, "damaged"),
        (b'{"kind": NaN}', "damaged.*NaN"),
        (b'{"kind": "squad-torch model", "format": ' + b"9" * 5000 + b"}", "damaged"),
    ],
    ids=range(11),
)
def test_a_config_of_something_else(text: bytes, message: str, saved: Path) -> None:
    (saved / CONFIG).write_bytes(text)
    refused(saved, message)


def test_newer_and_other_formats(saved: Path) -> None:
    for found in (3, 0, "1", True, None, 1.0):
        edit(saved, partial(put, path=("format",), value=found))
        message = refused(saved, rf"format {found}\b.* 1, 2\b")
        assert f"squad-torch {squad.__version__}" in message
        advice = message.removeprefix(str(saved))
        assert bool(re.search("newer|nstall|pgrade", advice)) == (found == 3)
    edit(saved, lambda config: config.update(format=3, versions=[]))
    refused(saved, "format 3.*unknown version")


def edit(
    folder: Path, change: Callable[[Config], object], *, honest: bool = True, weights: bytes | None = None
) -> None:
    """Change config.json; if ``honest``, with a valid checksum."""
    config = json.loads((folder / CONFIG).read_bytes())
    if weights is not None:
        (folder / WEIGHTS).write_bytes(weights)
        config["weights"] = {"sha256": hashlib.sha256(weights).hexdigest(), "bytes": len(weights)}
    change(config)
    if honest:
        rest = {name: value for name, value in config.items() if name != "checksum"}
        text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
        config["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / CONFIG).write_text(json.dumps(config))


def every_path(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to all entries of nested objects and lists, for lists to the first three."""
    inner = (
        list(data.items()) if isinstance(data, dict) else list(enumerate(data))[:3] if isinstance(data, list) else []
    )
    return [found for key, value in inner for found in ((*path, key), *every_path(value, (*path, key)))]


def put(data: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        data = data[key]
    if value is ...:
        del data[path[-1]]
    else:
        data[path[-1]] = value


@pytest.mark.parametrize("data", ["array", "table"])
def test_any_edit_is_noticed(data: str, tmp_path: Path) -> None:
    saved = predictor("squad", data).save(tmp_path / "model")
    whole = (saved / CONFIG).read_bytes()
    for path in every_path(json.loads(whole)):
        edit(saved, partial(put, path=path, value="edited"), honest=False)
        refused(saved, "format edited" if path == ("format",) else "was changed|squad-torch model")
        (saved / CONFIG).write_bytes(whole)
    # The layout of the JSON does not matter.
    (saved / CONFIG).write_text(json.dumps(json.loads(whole), indent=4, sort_keys=True))
    squad.load(saved)


#: Entries that nothing depends on, or that may have any value of a type.
FREE = {("record",), ("versions",), ("checksum",), ("kind",), ("format",)}


@pytest.mark.parametrize("value", [..., None, "edited", -1, 10**9, 10**400, 1e300, [], {}], ids=lambda v: str(v)[:9])
def test_an_edit_with_a_new_checksum_is_a_clear_error_or_a_model(value: Any, tmp_path: Path) -> None:
    """Any value in any entry: never another kind of error, never a large allocation."""
    saved = predictor("squad", "table", 1, hidden=(3,)).save(tmp_path / "model")
    whole = (saved / CONFIG).read_bytes()
    paths = [path for path in every_path(json.loads(whole)) if (path[0],) not in FREE]
    for path in paths:
        edit(saved, partial(put, path=path, value=value))
        try:
            squad.load(saved)
        except ArtifactError as error:
            assert len(str(error)) < 700, path  # noqa: PT017
        else:
            # Entries that are optional, or may be any text or number.
            assert len(path) > 1 or path[0] in FREE, path
        (saved / CONFIG).write_bytes(whole)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("members",), 10**9, r"members.*\b1,?000,?000,?000\b"),
        (("members",), 3, r"weights.*\b3\b.*\(2"),
        (("members",), 0, r"members.*1.*\b0\b"),
        (("members",), 2.0, r"'members'.*2\.0"),
        (("in_features",), -1, "in_features.*-1"),
        (("in_features",), 7, r"'stages\.0\.layer\.weight'.*\(2, 7, 75\).*\(2, 6"),
        (("in_features",), 10**9, "in_features.*weights"),
        (("network", "hidden"), [-5, 4], "hidden.*-5"),
        (("network", "hidden"), [10**6, 4], "hidden.*weights"),
        (("network", "hidden"), [5], r"'stages\.1\.layer\.log_prior'.*squad"),
        (("network", "hidden"), [5, 4, 4], r"'stages\.2\.layer\.log_prior'"),
        (("network", "hidden"), [5] * 1000, r"hidden.*1,?000\b"),
        (("network", "bins"), 10**6, "hidden.*weights"),
        (("network", "name"), "squat", "'squat'.*Did you mean 'squad'"),
        (("network", "name"), "mlp", "network mlp"),
        (("network", "name"), ["squad"], r"'name'.*text.*\['squad'\]"),
        (("network", "name"), ..., "'name' is missing"),
        (("network",), ..., "'network' is missing"),
        (("network",), "squad", "'network'.*'squad'"),
        (("network", "dropout"), [0.1], "dropout.*2 members.*1"),
        (("network", "dropout"), 0.1, r"'stages\.0\.dropout\.rate'"),
        (("network", "speed"), 3, "speed.*network squad"),
        (("classes",), [str(i) for i in range(100_000)], "classes.*weights|weights.*100,?000"),
        (("classes",), ["a", "b"], r"'stages\.2\.layer\.weight'.*\(2, 4, 2\)"),
        (("classes",), ["a", "b", "a"], r"classes.*\['a', 'b', 'a'\]"),
        (("classes",), ["a", "b", 3], r"classes.*\['a', 'b', 3\]"),
        (("classes",), ["a", "b", None], "classes.*None"),
        (("classes",), 3, "'classes'.*3"),
        (("prediction", "num_samples"), 0, r"num_samples.*\b0\b"),
        (("prediction", "num_samples"), 10**9, "num_samples.*1000000000"),
        (("prediction", "sampling"), "luck", "sampling.*'stratified'.*'luck'"),
        (("prediction", "sampling"), ..., "'sampling' is missing"),
        (("prediction",), [], r"'prediction'.*\[\]"),
        (("transform", "kind"), "pickle", "'table' or 'array'.*'pickle'"),
        (("transform", "shape"), [7], "'mean' and 'std'"),
        (("transform", "mean", 0), 10**400, "too large"),
        (("transform",), ..., "'transform' is missing"),
        (("record",), None, "'record'.*None"),
        (("weights",), ..., r"size and checksum.*model\.safetensors"),
        (("weights", "bytes"), "many", "size and checksum"),
        (("weights", "sha256"), "0" * 64, r"model\.safetensors was changed"),
    ],
    ids=str,
)  # fmt: skip
def test_errors_of_edits(path: tuple[Any, ...], value: Any, message: str, saved: Path) -> None:
    edit(saved, lambda config: put(config, path, value))
    refused(saved, message)


def test_weights_that_do_not_fit(saved: Path) -> None:
    from safetensors.torch import load, save

    whole = (saved / WEIGHTS).read_bytes()
    first = "stages.0.layer.weight"

    def check(change: Callable[[dict[str, torch.Tensor]], object], message: str) -> None:
        tensors = load(whole)
        change(tensors)
        edit(saved, lambda _: None, weights=save(tensors))
        refused(saved, message)

    check(lambda t: t.pop(first), r"weights.*'stages\.0\.layer\.weight'")
    check(lambda t: t.update(extra=torch.zeros(2)), "'extra'.*squad")
    check(lambda t: t[first].view(-1)[3].fill_(float("nan")), "weight'.*finite")
    check(
        lambda t: t.update({first: t[first].double()}),
        r"'stages\.0\.layer\.values'.*torch\.float64.*32",
    )
    check(lambda t: t.update({first: t[first].int()}), r"weights.*torch\.int32")
    check(
        lambda t: t.update({first: t[first].mT.contiguous()}),
        r"\(2, 6, 75\).*torch\.float32.*\(2, 75, 6\)",
    )
    check(lambda t: t["stages.0.layer.temperature"].fill_(0), r"temperature.*0\.0")
    check(lambda t: t.clear(), r"hidden.*tensors")
    edit(saved, lambda _: None, weights=whole)
    squad.load(saved)


def test_a_pickle_is_not_opened(saved: Path, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "sprung",)

    whole = (saved / WEIGHTS).read_bytes()
    for data in (pickle.dumps(Trap()), b"PK\3\4" + pickle.dumps(Trap())):
        (saved / WEIGHTS).write_bytes(data)
        refused(saved, "model.safetensors has")
        edit(saved, lambda _: None, weights=data)
        refused(saved, r"model\.safetensors cannot be read")
    torch.save(Trap(), saved / WEIGHTS)
    edit(saved, lambda _: None, weights=(saved / WEIGHTS).read_bytes())
    refused(saved, r"model\.safetensors cannot be read")
    assert not (tmp_path / "sprung").exists()
    edit(saved, lambda _: None, weights=whole)
    squad.load(saved)


# ---- atomic writes


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()], ids=repr
)
@pytest.mark.parametrize(
    "where",
    ["os.fsync", "squad.artifact.write_bytes", "squad.artifact.replace_folder", "squad.files.folders._exchange"],
)
def test_a_save_that_fails_leaves_the_old_model(
    where: str, error: BaseException, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = squad.load(saved)
    with monkeypatch.context() as patch:
        patch.setattr(where, failing(error))
        expected: Any = ArtifactError if isinstance(error, OSError) else type(error)
        with pytest.raises(expected, match="No space left on device" if expected is ArtifactError else None):
            predictor("mlp").save(saved, overwrite=True)
    assert names(saved.parent) == ["model"]
    assert_same_answers(squad.load(saved), before, "array")


@pytest.mark.parametrize("step", [1, 2])
def test_a_rename_that_fails_leaves_the_old_model(step: int, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_exchange", lambda *_: False)  # a system that cannot swap
    rename, calls = os.rename, []

    def sometimes(one: Path, other: Path) -> None:
        calls.append(one)
        if len(calls) == step:
            raise OSError(13, "Permission denied")
        rename(one, other)

    monkeypatch.setattr(os, "rename", sometimes)
    with pytest.raises(ArtifactError, match="Permission denied"):
        predictor("mlp").save(saved, overwrite=True)
    assert names(saved.parent) == ["model"]
    assert squad.load(saved).config.name == "squad"
    predictor("mlp").save(saved, overwrite=True)
    assert names(saved.parent) == ["model"]
    assert squad.load(saved).config.name == "mlp"


def test_the_old_model_is_never_lost(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_exchange", lambda *_: False)
    rename, calls = os.rename, []

    def once(one: Path, other: Path) -> None:
        calls.append(one)
        if len(calls) > 1:
            raise OSError(5, "Input/output error")
        rename(one, other)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", once)
        with pytest.raises(ArtifactError) as caught:
            predictor("mlp").save(saved, overwrite=True)
    (left,) = saved.parent.iterdir()
    assert str(left) in str(caught.value)
    assert squad.load(left).config.name == "squad"


def test_a_first_save_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "rename", failing(OSError(13, "Permission denied")))
    with pytest.raises(ArtifactError, match=r"model.*Permission denied"):
        predictor().save(tmp_path / "model")
    assert names(tmp_path) == []


def test_values_that_json_cannot_hold_are_refused(tmp_path: Path) -> None:
    made = predictor()
    for thing in (np.float32(1), {1, 2}, float("nan")):
        made.record = {"thing": thing}
        with pytest.raises(ArtifactError, match=r"config\.json.*JSON"):
            made.save(tmp_path / "model")
    assert names(tmp_path) == []


# ---- existing folders


def test_a_model_is_overwritten_only_on_request(saved: Path) -> None:
    with pytest.raises(ArtifactError, match=r"model .*--overwrite"):
        predictor("mlp").save(saved)
    assert squad.load(saved).config.name == "squad"
    predictor("mlp").save(saved, overwrite=True)
    assert squad.load(saved).config.name == "mlp"
    assert names(saved.parent) == ["model"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_other_things_are_never_replaced(overwrite: bool, saved: Path) -> None:
    def check(path: Path, match: str) -> None:
        before = sorted(path.rglob("*"))
        with pytest.raises(ArtifactError, match=match):
            artifact.check_target(path, overwrite)
        with pytest.raises(ArtifactError, match=match):
            predictor("mlp").save(path, overwrite=overwrite)
        assert sorted(path.rglob("*")) == before

    (saved / "notes.txt").write_text("mine")
    check(saved, r"model .*\(notes\.txt\)")
    (saved / "notes.txt").unlink()
    whole = (saved / CONFIG).read_bytes()
    (saved / CONFIG).write_text('{"architectures": ["BertModel"]}')  # a model of another library
    check(saved, r"\(config\.json, model\.safetensors\)")
    (saved / CONFIG).unlink()
    check(saved, r"\(model\.safetensors\)")
    (saved / CONFIG).write_bytes(whole)
    check(saved.parent, r"\(model\)")
    check(saved / CONFIG, r"config\.json.*is a file")
    check(saved / CONFIG / "model", f"{CONFIG} is a file")


def test_an_empty_folder_and_missing_parents_are_fine(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "a/b/c"):
        predictor().save(tmp_path / name)
        squad.load(tmp_path / name)


def test_paths_in_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("model", "./other/", "x/third", str(tmp_path / "fourth") + "/", Path("ü b"), "n" * 250):
        predictor().save(path)
        squad.load(path)
    assert {"model", "other", "x", "fourth", "ü b"} <= set(names(tmp_path))
    with pytest.raises(ArtifactError, match="File name too long"):
        predictor().save("n" * 300)


def test_a_link_is_followed(saved: Path) -> None:
    link = saved.parent / "link"
    link.symlink_to("model")
    assert squad.load(link).config.name == "squad"
    predictor("mlp").save(link, overwrite=True)
    assert link.is_symlink()
    assert squad.load(saved).config.name == "mlp"
    later = saved.parent / "later"
    later.symlink_to("not-yet")
    predictor("mlp").save(later)
    assert squad.load(saved.parent / "not-yet").config.name == "mlp"
    assert names(saved.parent) == ["later", "link", "model", "not-yet"]


def test_a_folder_that_may_not_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Permissions do not bind the superuser, who may run the tests.
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        for path in (tmp_path / "model", tmp_path / "a" / "b"):
            with pytest.raises(ArtifactError, match=re.escape(str(tmp_path))):
                artifact.check_target(path)
    monkeypatch.setattr(Path, "mkdir", failing(OSError(30, "Read-only file system")))
    with pytest.raises(ArtifactError, match=r"model.*Read-only file system"):
        predictor().save(tmp_path / "model")
    assert names(tmp_path) == []


def test_saved_over_where_it_was_loaded_from(saved: Path) -> None:
    loaded = squad.load(saved)
    before = loaded.answer(numbers()).probabilities
    loaded.with_sampling("mean").save(saved, overwrite=True)
    np.testing.assert_array_equal(loaded.answer(numbers()).probabilities, before)
    assert squad.load(saved).sampling == "mean"


def test_a_moved_and_a_copied_folder(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "copy")
    saved.rename(tmp_path / "moved")
    assert_same_answers(squad.load(tmp_path / "copy"), squad.load(tmp_path / "moved"), "array")


def test_the_umask_is_respected(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        saved = predictor().save(tmp_path / "model")
    finally:
        os.umask(before)
    assert saved.stat().st_mode & 0o777 == 0o700
    assert (saved / WEIGHTS).stat().st_mode & 0o777 == 0o600
