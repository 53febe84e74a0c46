"""The saved folder: the same model in another process, a clear word about every kind of damage, whole or not at all."""

import hashlib
import json
import os
import pickle
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
    """One whose weights are random: what it answers does not matter, only that it stays the same."""
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


# ---- there and back


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


def test_what_is_not_the_default_comes_back_too(tmp_path: Path) -> None:
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


def test_what_the_folder_says(saved: Path) -> None:
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
    refused(tmp_path / "none", "none must be a folder with a saved model; it does not exist")
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "file must be a folder with a saved model; it is a file")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "must hold config.json and model.safetensors; config.json is missing")
    refused(tmp_path / ("n" * 300), "cannot be read: File name too long")


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_a_file_is_missing(name: str, saved: Path) -> None:
    (saved / name).unlink()
    refused(saved, f"must hold config.json and model.safetensors; {name} is missing")
    (saved / name).mkdir()
    refused(saved, f"{name} is not a file")
    (saved / name).rmdir()
    os.mkfifo(saved / name)  # reading it would wait for ever
    refused(saved, f"{name} is not a file")


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_a_file_is_cut_short(name: str, saved: Path) -> None:
    whole = (saved / name).read_bytes()
    lengths = sorted({*range(0, len(whole) - 1, max(1, len(whole) // 60)), 1, 7, 8, 9, len(whole) - 2})
    for length in lengths:
        (saved / name).write_bytes(whole[:length])
        refused(saved, "is damaged: .*Save the model again" if name == CONFIG else f"has {length:,} bytes of ")
    (saved / name).write_bytes(whole)
    squad.load(saved)


def test_a_file_is_too_long(saved: Path) -> None:
    with (saved / WEIGHTS).open("ab") as file:
        file.write(b"\0")
    refused(saved, r"model.safetensors has [\d,]+ bytes of [\d,]+\. Save the model again, or copy it again")


def test_a_byte_of_the_weights_is_flipped(saved: Path) -> None:
    whole = (saved / WEIGHTS).read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 40)):
        changed = bytearray(whole)
        changed[place] ^= 1
        (saved / WEIGHTS).write_bytes(changed)
        refused(saved, "model.safetensors was changed after it was saved")


def test_giant_files_are_not_read(saved: Path) -> None:
    with (saved / WEIGHTS).open("r+b") as file:
        file.truncate(1 << 35)  # of holes: nothing is written
    refused(saved, "model.safetensors has 34,359,738,368 bytes of ")
    with (saved / CONFIG).open("r+b") as file:
        file.truncate(1 << 35)
    refused(saved, "config.json has 34,359,738,368 bytes; that of a model has 16,777,216 at the most")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is damaged: it is empty"),
        (b"[]", "must describe a squad-torch model; it describes something else"),
        (b"null", "must describe a squad-torch model"),
        (b'"squad-torch model"', "must describe a squad-torch model"),
        (b"{}", "must describe a squad-torch model"),
        (b'{"kind": "bert"}', "must describe a squad-torch model"),
        (b'{"kind": ["squad-torch model"]}', "must describe a squad-torch model"),
        (b"\xff\xfe\x00", "is damaged: "),
        (b"[" * 200_000, "is damaged: "),
        (b'{"kind": NaN}', "is damaged: NaN is not a JSON number"),
        (b'{"kind": "squad-torch model", "format": ' + b"9" * 5000 + b"}", "is damaged: "),
    ],
    ids=range(11),
)
def test_config_that_is_none(text: bytes, message: str, saved: Path) -> None:
    (saved / CONFIG).write_bytes(text)
    refused(saved, message)


def test_newer_and_other_formats(saved: Path) -> None:
    for found, advice in ((3, "install that version or a newer one"), (0, "save the model again"), ("1", "save the"),
                          (True, "save the"), (None, "save the"), (1.0, "save the")):  # fmt: skip
        edit(saved, partial(put, path=("format",), value=found))
        message = refused(saved, rf"is of format {found}; this version reads formats 1, 2\. .*{advice}")
        assert f"written by squad-torch {squad.__version__}" in message
    edit(saved, lambda config: config.update(format=3, versions=[]))
    refused(saved, "written by squad-torch of unknown version")


def edit(
    folder: Path, change: Callable[[Config], object], *, honest: bool = True, weights: bytes | None = None
) -> None:
    """Change config.json; if ``honest``, with the checksum that then belongs to it."""
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


def every_place(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all entries of nested objects and lists, the first three of a list."""
    inner = (
        list(data.items()) if isinstance(data, dict) else list(enumerate(data))[:3] if isinstance(data, list) else []
    )
    return [place for key, value in inner for place in ((*path, key), *every_place(value, (*path, key)))]


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
    for path in every_place(json.loads(whole)):
        edit(saved, partial(put, path=path, value="edited"), honest=False)
        refused(
            saved, "format edited" if path == ("format",) else "was changed after|must describe a squad-torch model"
        )
        (saved / CONFIG).write_bytes(whole)
    # How it is laid out is not what it says.
    (saved / CONFIG).write_text(json.dumps(json.loads(whole), indent=4, sort_keys=True))
    squad.load(saved)


#: Entries that nothing depends on, or that may be anything within a type.
FREE = {("record",), ("versions",), ("checksum",), ("kind",), ("format",)}


@pytest.mark.parametrize("value", [..., None, "edited", -1, 10**9, 10**400, 1e300, [], {}], ids=lambda v: str(v)[:9])
def test_an_edit_with_a_new_checksum_is_a_clear_error_or_a_model(value: Any, tmp_path: Path) -> None:
    """Whatever stands in whatever place: never another error, and never a large allocation."""
    saved = predictor("squad", "table", 1, hidden=(3,)).save(tmp_path / "model")
    whole = (saved / CONFIG).read_bytes()
    places = [path for path in every_place(json.loads(whole)) if (path[0],) not in FREE]
    for path in places:
        edit(saved, partial(put, path=path, value=value))
        try:
            squad.load(saved)
        except ArtifactError as error:
            assert len(str(error)) < 700, path  # noqa: PT017
        else:
            # What can be left out, or can be any text or number.
            assert len(path) > 1 or path[0] in FREE, path
        (saved / CONFIG).write_bytes(whole)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("members",), 10**9, r"members must be no more than the \d+ numbers of the weights, got 1000000000"),
        (("members",), 3, r"of the weights must be of 3 members, got shape \(2"),
        (("members",), 0, "members must be an integer >= 1, got 0"),
        (("members",), 2.0, "'members' must be a whole number, got 2.0"),
        (("in_features",), -1, "in_features must be an integer >= 1, got -1"),
        (("in_features",), 7, r"'stages.0.layer.weight' of the weights must be \(2, 7, 75\) of .*, got \(2, 6"),
        (("in_features",), 10**9, "in_features must be no more than"),
        (("network", "hidden"), [-5, 4], "hidden must be an integer >= 1, got -5"),
        (("network", "hidden"), [10**6, 4], "hidden must be no more than the .* numbers of the weights allow"),
        (("network", "hidden"), [5], "The weights have 'stages.1.layer.log_prior', which the network squad has not"),
        (("network", "hidden"), [5, 4, 4], "The weights must have 'stages.2.layer.log_prior'; it is missing"),
        (("network", "hidden"), [5] * 1000, "hidden must be what the weights' .* tensors can be of, got 1000 layers"),
        (("network", "bins"), 10**6, "hidden must be no more than the"),
        (("network", "name"), "squat", "model must be one of .*, got 'squat'. Did you mean 'squad'?"),
        (("network", "name"), "mlp", "is not a setting of the network mlp"),
        (("network", "name"), ["squad"], "'name' must be text, got"),
        (("network", "name"), ..., "'name' is missing"),
        (("network",), ..., "'network' is missing"),
        (("network",), "squad", "'network' must be an object, got 'squad'"),
        (("network", "dropout"), [0.1], "dropout must be one number, or one for each of 2 members, got 1 numbers"),
        (("network", "dropout"), 0.1, "The weights must have 'stages.0.dropout.rate'; it is missing"),
        (("network", "speed"), 3, "speed is not a setting of the network squad"),
        (("classes",), [str(i) for i in range(100_000)], "classes must be no more than the|of the weights must be"),
        (("classes",), ["a", "b"], r"'stages.2.layer.weight' of the weights must be \(2, 4, 2\)"),
        (("classes",), ["a", "b", "a"], "classes must be all texts or all numbers, each once"),
        (("classes",), ["a", "b", 3], "classes must be all texts or all numbers"),
        (("classes",), ["a", "b", None], "classes must be texts, numbers or booleans, got None"),
        (("classes",), 3, "'classes' must be a list, got 3"),
        (("prediction", "num_samples"), 0, "num_samples must be an integer between 1 and 999999, got 0"),
        (("prediction", "num_samples"), 10**9, "num_samples must be an integer between"),
        (("prediction", "sampling"), "luck", "sampling must be one of 'stratified'"),
        (("prediction", "sampling"), ..., "'sampling' is missing"),
        (("prediction",), [], r"'prediction' must be an object, got \[\]"),
        (("transform", "kind"), "pickle", "'kind' of a saved transform must be 'table' or 'array'"),
        (("transform", "shape"), [7], "'mean' and 'std' of a saved array transform"),
        (("transform", "mean", 0), 10**400, "too large"),
        (("transform",), ..., "'transform' is missing"),
        (("record",), None, "'record' must be an object, got None"),
        (("weights",), ..., "must say the size and checksum of model.safetensors; it does not"),
        (("weights", "bytes"), "many", "must say the size and checksum"),
        (("weights", "sha256"), "0" * 64, "model.safetensors was changed after it was saved"),
    ],
    ids=str,
)  # fmt: skip
def test_what_an_edit_is_told(path: tuple[Any, ...], value: Any, message: str, saved: Path) -> None:
    edit(saved, lambda config: put(config, path, value))
    refused(saved, message)


def test_weights_that_do_not_fit(saved: Path) -> None:
    from safetensors.torch import load, save

    whole = (saved / WEIGHTS).read_bytes()
    first = "stages.0.layer.weight"

    def told(change: Callable[[dict[str, torch.Tensor]], object], message: str) -> None:
        tensors = load(whole)
        change(tensors)
        edit(saved, lambda _: None, weights=save(tensors))
        refused(saved, message)

    told(lambda t: t.pop(first), "The weights must have 'stages.0.layer.weight'; it is missing")
    told(lambda t: t.update(extra=torch.zeros(2)), "The weights have 'extra', which the network squad has not")
    told(lambda t: t[first].view(-1)[3].fill_(float("nan")), "weight' of the weights must be finite, got NaN or inf")
    told(
        lambda t: t.update({first: t[first].double()}),
        r"'stages.0.layer.values' of the weights must be .* of torch.float64, got .*32",
    )
    told(lambda t: t.update({first: t[first].int()}), "weights must be floating-point numbers, got torch.int32")
    told(
        lambda t: t.update({first: t[first].mT.contiguous()}),
        r"must be \(2, 6, 75\) of torch.float32, got \(2, 75, 6\)",
    )
    told(lambda t: t["stages.0.layer.temperature"].fill_(0), "temperature must be positive and finite, got 0.0")
    told(lambda t: t.clear(), "hidden must be what the weights' 0 tensors can be of")
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
        refused(saved, "model.safetensors cannot be read: ")
    torch.save(Trap(), saved / WEIGHTS)
    edit(saved, lambda _: None, weights=(saved / WEIGHTS).read_bytes())
    refused(saved, "model.safetensors cannot be read: ")
    assert not (tmp_path / "sprung").exists()
    edit(saved, lambda _: None, weights=whole)
    squad.load(saved)


# ---- whole or not at all


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
        with pytest.raises(
            expected, match="No space left on device. Name another" if expected is ArtifactError else None
        ):
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
    with pytest.raises(ArtifactError, match="cannot be written: Permission denied"):
        predictor("mlp").save(saved, overwrite=True)
    assert names(saved.parent) == ["model"]
    assert squad.load(saved).config.name == "squad"
    predictor("mlp").save(saved, overwrite=True)
    assert names(saved.parent) == ["model"]
    assert squad.load(saved).config.name == "mlp"


def test_the_old_model_is_never_thrown_away(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_exchange", lambda *_: False)
    rename, calls = os.rename, []

    def once(one: Path, other: Path) -> None:
        calls.append(one)
        if len(calls) > 1:
            raise OSError(5, "Input/output error")
        rename(one, other)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", once)
        with pytest.raises(ArtifactError, match="the model that was there is now ") as caught:
            predictor("mlp").save(saved, overwrite=True)
    (left,) = saved.parent.iterdir()
    assert str(left) in str(caught.value)
    assert squad.load(left).config.name == "squad"


def test_a_first_save_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "rename", failing(OSError(13, "Permission denied")))
    with pytest.raises(ArtifactError, match="model cannot be written: Permission denied"):
        predictor().save(tmp_path / "model")
    assert names(tmp_path) == []


def test_what_json_cannot_hold_is_told(tmp_path: Path) -> None:
    made = predictor()
    for thing in (np.float32(1), {1, 2}, float("nan")):
        made.record = {"thing": thing}
        with pytest.raises(ArtifactError, match=r"config.json must be made of plain data, as JSON has it: "):
            made.save(tmp_path / "model")
    assert names(tmp_path) == []


# ---- where


def test_a_model_is_overwritten_only_on_request(saved: Path) -> None:
    with pytest.raises(ArtifactError, match=r"model holds a model already\. Name another folder, or say --overwrite"):
        predictor("mlp").save(saved)
    assert squad.load(saved).config.name == "squad"
    predictor("mlp").save(saved, overwrite=True)
    assert squad.load(saved).config.name == "mlp"
    assert names(saved.parent) == ["model"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_other_things_are_never_replaced(overwrite: bool, saved: Path) -> None:
    def told(path: Path, match: str) -> None:
        before = sorted(path.rglob("*"))
        with pytest.raises(ArtifactError, match=match):
            artifact.check_target(path, overwrite)
        with pytest.raises(ArtifactError, match=match):
            predictor("mlp").save(path, overwrite=overwrite)
        assert sorted(path.rglob("*")) == before

    (saved / "notes.txt").write_text("mine")
    told(saved, r"model holds other things than a model \(notes.txt\), and is left alone\. Name a new folder")
    (saved / "notes.txt").unlink()
    whole = (saved / CONFIG).read_bytes()
    (saved / CONFIG).write_text('{"architectures": ["BertModel"]}')  # a model of another library
    told(saved, r"holds other things than a model \(config.json, model.safetensors\)")
    (saved / CONFIG).unlink()
    told(saved, r"holds other things than a model \(model.safetensors\)")
    (saved / CONFIG).write_bytes(whole)
    told(saved.parent, r"holds other things than a model \(model\)")
    told(saved / CONFIG, "config.json must be a folder to save a model in; it is a file")
    told(saved / CONFIG / "model", f"{CONFIG} is a file. Name another folder")


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
    with pytest.raises(ArtifactError, match="cannot be written: File name too long"):
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
    # Not by permissions, which do not bind the user that tests may run as.
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        for path in (tmp_path / "model", tmp_path / "a" / "b"):
            with pytest.raises(ArtifactError, match=f"{tmp_path} may not be written to. Name another folder"):
                artifact.check_target(path)
    monkeypatch.setattr(Path, "mkdir", failing(OSError(30, "Read-only file system")))
    with pytest.raises(ArtifactError, match="model cannot be written: Read-only file system"):
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


def test_the_users_umask_rules(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        saved = predictor().save(tmp_path / "model")
    finally:
        os.umask(before)
    assert saved.stat().st_mode & 0o777 == 0o700
    assert (saved / WEIGHTS).stat().st_mode & 0o777 == 0o600
