"""From rows to a predictor: splits, seeds, members that fail, and what is saved about it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray

import squad
from squad import fitting
from squad.data.tables import Table
from squad.errors import ArgumentError, DataError
from squad.fitting import FitSettings, fit_predictor
from squad.models import network_config
from squad.predictor import Predictor, choose_device
from squad.train import TrainConfig, TrainingData, fit

Array = NDArray[Any]


def blobs(count: int = 60, classes: int = 3) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    y = np.arange(count) % classes
    return rng.normal(size=(count, 4)) + 3 * np.eye(4)[y], y


def settings(name: str = "mlp", *, lr: Any = 0.02, epochs: int = 2, network: Any = None, **others: Any) -> FitSettings:
    return FitSettings(
        network=network_config(name, {"hidden": (6,), **(network or {})}),
        training=TrainConfig(max_epochs=epochs, lr=lr, batch_size=16),
        **others,
    )


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[TrainingData]:
    """What the training is given."""
    seen: list[TrainingData] = []

    def spy(network: Any, training: Any, data: TrainingData, *args: Any, **kwargs: Any) -> Any:
        seen.append(data)
        return fit(network, training, data, *args, **kwargs)

    monkeypatch.setattr(fitting, "fit", spy)
    return seen


def same(one: Predictor, other: Predictor, member: int) -> bool:
    """Whether the only member of ``other`` is that member of ``one``."""
    a, b = one.network.state_dict(), other.network.state_dict()
    return all(torch.allclose(a[key][member], b[key][0], rtol=1e-4, atol=1e-5) for key in b)


# ---- splits


def test_a_share_of_each_class_is_validated_on(parts: list[TrainingData]) -> None:
    x, y = blobs(100, 2)
    y[:] = 0
    y[:30] = 1
    made = fit_predictor(x, y, settings(validation=0.2))
    (data,) = parts
    assert (data.train.shape, data.validation.shape) == ((1, 80), (1, 20))
    assert sorted([*data.train[0].tolist(), *data.validation[0].tolist()]) == list(range(100))
    assert int(data.y[data.validation[0]].sum()) == 6
    assert made.record["rows"] == {"training": 80, "validation": 20}
    fit_predictor(x, y, settings(validation=0.2, seed=1))
    assert not torch.equal(parts[1].validation, data.validation)


def test_no_group_is_on_both_sides(parts: list[TrainingData]) -> None:
    x, y = blobs()
    groups = [f"patient {row // 5}" for row in range(60)]
    fit_predictor(x, y, settings(validation=0.25), groups=groups)
    fit_predictor(x, y, settings(validation=0.25, members=3, split_per_member=True), groups=np.array(groups))
    assert parts[1].train.shape[0] == 3
    for data in parts:
        for train, validation in zip(data.train.tolist(), data.validation.tolist(), strict=True):
            assert not {groups[row] for row in train} & {groups[row] for row in validation}
            assert len(validation) >= 10


def test_a_split_for_each_member(parts: list[TrainingData]) -> None:
    x, y = blobs()
    together = fit_predictor(x, y, settings(members=3, split_per_member=True, seed=7))
    (data,) = parts
    assert data.validation.shape == (3, 6)
    assert len({tuple(row) for row in data.validation.tolist()}) == 3
    for index in range(3):
        alone = fit_predictor(x, y, settings(seed=7 + index))
        assert torch.equal(parts[-1].validation[0], data.validation[index])
        assert same(together, alone, index)


def test_a_class_of_one_row_is_trained_on(parts: list[TrainingData]) -> None:
    x, y = blobs(40, 2)
    y[17] = 9
    made = fit_predictor(x, y, settings(validation=0.5))
    assert made.classes == (0, 1, 9)
    assert 17 in parts[0].train[0]
    assert made.record["class_counts"] == {"0": 20, "1": 19, "9": 1}


@pytest.mark.parametrize("count", [2, 5])
def test_classes_of_one_row_each(count: int, parts: list[TrainingData]) -> None:
    x = np.eye(5)[:count]
    made = fit_predictor(x, np.arange(count), settings("squad"))
    assert parts[0].train.tolist() == parts[0].validation.tolist() == [list(range(count))]
    assert made.answer(x).probabilities.shape == (count, count)
    fit_predictor(x, np.arange(count), settings(members=2, split_per_member=True))


# ---- seeds


@pytest.mark.parametrize("name", ["squad", "relu-dropout"])
def test_member_i_has_the_seed_plus_i(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = blobs()
    rows = np.arange(54), np.arange(54, 60)
    monkeypatch.setattr(fitting, "validation_rows", lambda *_: rows)  # one split, whatever the seed
    together = fit_predictor(x, y, settings(name, members=3, seed=10))
    assert [result["seed"] for result in together.record["members"]] == [10, 11, 12]
    for index in range(3):
        assert same(together, fit_predictor(x, y, settings(name, seed=10 + index)), index)


def test_the_same_seed_is_the_same_model() -> None:
    x, y = blobs()
    one, two, other = (fit_predictor(x, y, settings("squad", seed=seed)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.answer(x).probabilities, two.answer(x).probabilities)
    assert not np.array_equal(one.answer(x).probabilities, other.answer(x).probabilities)


# ---- members that fail


def test_members_that_diverge_are_left_out(tmp_path: Path) -> None:
    x, y = blobs()
    each = {"dropout": (0.1, 0.2, 0.3), "init_scale": (1.0, 2.0, 3.0)}
    made = fit_predictor(x, y, settings(members=3, lr=(0.02, 1e38, 0.02), network=each))
    assert made.members == 2
    assert made.config.dropout == (0.1, 0.3)
    assert made.config.init_scale == (1.0, 3.0)
    assert [result["best_epoch"] is None for result in made.record["members"]] == [False, True, False]
    again = squad.load(made.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.answer(x).probabilities, made.answer(x).probabilities)
    whole = fit_predictor(x, y, settings(members=3, network=each))
    alone = fit_predictor(x, y, settings(network={"dropout": 0.1, "init_scale": 1.0}))
    assert same(made, alone, 0)
    for key, tensor in made.network.state_dict().items():
        torch.testing.assert_close(tensor, whole.network.state_dict()[key][[0, 2]], rtol=1e-4, atol=1e-5)


def test_nothing_is_left_if_all_diverge() -> None:
    x, y = blobs()
    with pytest.raises(squad.SquadError, match=r"no usable weights.*lower learning rate"):
        fit_predictor(x, y, settings(members=2, lr=1e38))


# ---- what is saved about it


def test_the_record(tmp_path: Path) -> None:
    x, y = blobs()
    made = fit_predictor(x, y, settings("squad", members=2, seed=5), record={"source": "blobs.npz"})
    text = json.dumps(made.record, allow_nan=False)
    record = json.loads(text)
    assert record["source"] == "blobs.npz"
    assert (record["seed"], record["validation"], record["split_per_member"]) == (5, 0.1, False)
    assert record["training"]["lr"] == 0.02
    assert record["training"]["kl_multiplier"] == 0.0027
    assert [entry["epoch"] for entry in record["history"]] == [1, 2]
    assert [member["seed"] for member in record["members"]] == [5, 6]
    assert record["device"] == "cpu"
    assert record["seconds"] >= 0
    assert str(Path.cwd()) not in text
    assert str(tmp_path.parent) not in text
    assert squad.load(made.save(tmp_path / "model")).record == record


def test_numbers_of_numpy_can_be_saved(tmp_path: Path) -> None:
    x, y = blobs()
    lr, decay, rows = np.float32(0.01), (np.float64(0), np.float32(1e-4)), np.int64(16)
    numbers: Any = {"members": np.int64(2), "seed": np.int32(4), "validation": np.float32(0.25)}
    training: Any = {"max_epochs": np.int64(1), "lr": lr, "weight_decay": decay, "batch_size": rows}
    network = network_config("mlp", {"hidden": [np.int64(3)], "dropout": np.float32(0.1)})
    given = FitSettings(network=network, training=TrainConfig(**training), **numbers)
    made = fit_predictor(x, y, given)
    assert squad.load(made.save(tmp_path / "model")).record["seed"] == 4


def test_constant_columns_are_noted() -> None:
    x, y = blobs()
    x[:, 1] = 7.0
    made = fit_predictor(x, y, settings())
    assert made.record["notes"] == ["1 of 4 features are constant in the training set and will not be used."]


def test_a_checkpoint_is_gone_on_from(tmp_path: Path) -> None:
    x, y = blobs()
    whole = fit_predictor(x, y, settings(epochs=4))
    file = tmp_path / "run.safetensors"

    class Stop:
        def start(self, *_: Any) -> None: ...
        def message(self, *_: Any) -> None: ...
        def close(self) -> None: ...
        def epoch(self, report: Any) -> None:
            if report.epoch == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_predictor(x, y, settings(epochs=4), progress=Stop(), checkpoint=file, checkpoint_seconds=0)
    resumed = fit_predictor(x, y, settings(epochs=4), checkpoint=file, checkpoint_seconds=0)
    np.testing.assert_array_equal(resumed.answer(x).probabilities, whole.answer(x).probabilities)
    assert resumed.record["history"] == whole.record["history"]


# ---- labels


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["no", "yes"], ("no", "yes")),
        ([10, 9], (9, 10)),
        ([True, False], (False, True)),
        ([1.5, 0.5], (0.5, 1.5)),
        (np.array([10, 9], dtype=object), (9, 10)),
        (np.array([True, False], dtype=object), (False, True)),
        (np.array(["b", "a"], dtype=object), ("a", "b")),
        (np.array([1, "a"], dtype=object), ("1", "a")),
        (pd.Series([10, 9], dtype="Int64"), (9, 10)),
        (pd.Series(["b", "a"], dtype="category"), ("a", "b")),
        (np.array(["None", "NA"], dtype=object), ("NA", "None")),
    ],
    ids=str,
)
def test_labels_keep_their_type(labels: Any, classes: tuple[Any, ...], tmp_path: Path) -> None:
    x, _ = blobs(20, 2)
    array = np.asarray(labels)
    made = fit_predictor(x, array[np.arange(20) % 2], settings(epochs=1))
    assert made.classes == classes
    assert list(map(type, made.classes)) == list(map(type, classes))
    assert squad.load(made.save(tmp_path / "model")).classes == classes


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"] * 20, "two classes.*all 20 labels are 'a'"),
        ([], r"labels must be.*got shape \(0,\)"),
        ([[0], [1]] * 10, r"labels must be.*got shape \(20, 1\)"),
        (["a", "b"], "labels must be.*got 2 labels for 20 rows"),
        ([0.0, float("nan")] * 10, r"Every row must have a label; that of row 2 \(from 1\) is nan"),
        (np.array(["a", None] * 10, dtype=object), r"Every row must have a label; that of row 2 \(from 1\) is missing"),
        (pd.Series([1, None] * 10, dtype="Int64"), r"that of row 2 \(from 1\) is (nan|missing)"),
        (np.arange(20).astype("M8[D]"), "labels must be texts, whole numbers or booleans, got datetime64"),
        (np.array([b"a", b"b"] * 10), "labels must be texts, whole numbers or booleans, got .S1"),
    ],
    ids=range(9),
)  # fmt: skip
def test_wrong_labels_are_errors(labels: Any, message: str) -> None:
    x, _ = blobs(20, 2)
    with pytest.raises(ValueError, match=message):
        fit_predictor(x, labels, settings())


# ---- tables


def frame(count: int = 40) -> pd.DataFrame:
    x, y = blobs(count, 2)
    return pd.DataFrame(
        {
            "a": x[:, 0],
            "b": np.where(x[:, 1] > 1, "high", "low"),
            "id": [f"{row:05}" for row in range(count)],
            "patient": [f"p{row // 4}" for row in range(count)],
            "y": np.array(["no", "yes"])[y],
        }
    )


def test_a_table(parts: list[TrainingData]) -> None:
    table = Table.of(frame())
    made = fit_predictor(
        table, frame()["y"], settings(), target="y", drop=["id"], group="patient", groups=frame()["patient"]
    )
    assert [column.name for column in made.transform.columns] == ["a", "b"]  # type: ignore[union-attr]
    assert made.transform.dropped == ("id", "patient")  # type: ignore[union-attr]
    assert parts[0].x.shape == (40, 3)
    answer = made.answer(frame()[["b", "a"]])
    assert set(answer.label) <= {"no", "yes"}
    assert not answer.reason.any()


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, {"target": None}, "target must be.*got None"),
        ({}, {"target": "yy"}, "no column 'yy'; did you mean 'y'?"),
        ({}, {"drop": ["idd"]}, "no column 'idd'; did you mean 'id'?"),
        ({}, {"group": "ward"}, "no column 'ward'"),
        ({}, {"drop": ["y"]}, "The target 'y' cannot be dropped"),
        ({}, {"drop": ["a", "b", "id", "patient"]}, "column besides the target"),
        ({"a": float("inf")}, {}, "Column 'a' of table must be finite.*inf in row 1"),
        ({"a": pd.Timestamp("2020-01-01")}, {}, "Column 'a' of table.*dates"),
        ({"id": [f"n{row}" for row in range(40)] * 5}, {"drop": []}, "at most 100 categories.*200"),
        ({}, {"groups": ["one"] * 40}, "at least 2 groups"),
        ({}, {"groups": ["one"] * 39}, "groups must be.*got 39 for 40 rows"),
        ({}, {"groups": [None] * 40}, "groups must not have missing values"),
    ],
    ids=range(12),
)
def test_wrong_tables_are_errors(change: dict[str, Any], arguments: dict[str, Any], message: str) -> None:
    rows = frame(200 if "id" in change else 40)
    if "id" in change:
        change = {"id": [f"n{row}" for row in range(200)]}
    table = Table.of(rows.assign(**change))
    with pytest.raises(ValueError, match=message):
        fit_predictor(table, rows["y"], settings(), **{"target": "y", "drop": ["id"], **arguments})


def test_rows_that_cannot_be_read_are_not_learned_from() -> None:
    table = Table(frame(), "some.csv", {3: "line 5 has 2 cells of 5"})
    with pytest.raises(DataError, match=r"some.csv.*line 5 has 2 cells"):
        fit_predictor(table, frame()["y"], settings(), target="y")
    x, y = blobs()
    x[4, 1] = np.nan
    with pytest.raises(DataError, match=r"x must be finite.*row 5"):
        fit_predictor(x, y, settings())


@pytest.mark.parametrize("arguments", [{"target": "y"}, {"drop": ["id"]}, {"group": "patient"}])
def test_a_data_frame_is_not_a_table_by_accident(arguments: dict[str, Any]) -> None:
    """The column of labels would be learned from."""
    numbers = frame()[["a"]].assign(y=0.0)
    with pytest.raises(ArgumentError, match="x must be a table where target, drop or group is given, got DataFrame"):
        fit_predictor(numbers, frame()["y"], settings(), **arguments)


# ---- settings


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"members": 0}, "members must be an integer >= 1, got 0"),
        ({"members": True}, "members must be an integer >= 1, got True"),
        ({"seed": -1}, "seed must be an integer between 0 and 4611686018427387904, got -1"),
        ({"seed": 1.5}, "seed must be an integer.*1.5"),
        ({"validation": 0.0}, "validation must be a number above 0 and at most 0.9, got 0.0"),
        ({"validation": 0.95}, "validation must be a number above 0 and at most 0.9, got 0.95"),
        ({"split_per_member": 1}, "split_per_member must be true or false, got 1"),
        ({"sampling": "luck"}, "sampling must be one of"),
        ({"num_samples": 0}, "num_samples must be an integer.*got 0"),
        ({"network": "squad"}, r"network must be settings, such as network_config\('squad'\), got 'squad'"),
        ({"training": {"lr": 1}}, r"training must be settings, such as TrainConfig\(max_epochs=50\), got {'lr': 1}"),
        ({"training": TrainConfig(lr=(1.0, 2.0)), "members": 3}, "lr must be one number, or one for each of 3 members"),
        ({"network": network_config("mlp", {"dropout": (0.1,)}), "members": 2}, "dropout must be one number, or one"),
    ],
    ids=range(13),
)
def test_wrong_settings_are_errors(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        FitSettings(**arguments)


def test_settings_by_default() -> None:
    given = FitSettings()
    assert given.network == network_config("squad")
    assert (given.members, given.seed, given.seeds) == (1, 0, [0])
    assert FitSettings(members=3, seed=2**62).seeds == [2**62, 2**62 + 1, 2**62 + 2]
    x, y = blobs()
    fit_predictor(x, y, settings(seed=2**62, epochs=1))


def test_devices() -> None:
    assert choose_device("cpu").type == "cpu"
    wrong = ["abacus", "meta", ""] + ([] if torch.cuda.is_available() else ["cuda", "cuda:0"])
    x, y = blobs()
    for name in wrong:
        message = f"device must be 'auto', 'cpu' or a GPU of this machine, got '{name}'"
        with pytest.raises(ArgumentError, match=message):
            choose_device(name)
        with pytest.raises(ArgumentError, match=message):
            fit_predictor(x, y, settings(), device=name)


def test_a_regression_target_is_refused() -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(DataError, match=r"60 different ones in 60 rows"):
        fit_predictor(x, x[:, 0])


def test_validation_on_training_rows_is_noted() -> None:
    predictor = fit_predictor([[0.0], [1.0]], ["a", "b"], FitSettings(training=TrainConfig(max_epochs=1)))
    assert any("the validation rows are the training rows" in note for note in predictor.record["notes"])


def test_what_is_recorded_about_rows_that_repeat() -> None:
    x = np.repeat(np.arange(200.0), 2)[:, None] + np.array([0.0])
    y = np.repeat(np.arange(200) % 2, 2)
    settings = FitSettings(network=network_config("mlp", {"hidden": (4,)}), training=TrainConfig(max_epochs=1))
    made = fit_predictor(x, y, settings)
    repeats = made.record["repeats"]
    assert repeats["chance_rows"] == made.record["rows"]["validation"] == 40
    assert repeats["chance_repeats"] == 40  # of every pair the other one is somewhere
    assert (repeats["all_repeats"], repeats["all_rows"]) == (400, 400)
    lonely = fit_predictor(np.arange(400.0)[:, None], y, settings).record["repeats"]
    assert (lonely["chance_repeats"], lonely["all_repeats"]) == (0, 0)
    assert lonely["chance_rows"] == 40
