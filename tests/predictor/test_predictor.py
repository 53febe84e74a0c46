"""Predictions: numbers by definition, a function of the row, unreadable rows, and scikit-learn's methods."""

import copy
import math
import pickle
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray

import squad
from squad.data.array_transform import ArrayTransform
from squad.data.tables import Table
from squad.data.transforms import TableTransform
from squad.errors import ArgumentError, DataError
from squad.fitting import FitSettings, fit_predictor
from squad.layers import GaussianLinear
from squad.layers.quantized import SquadLayer
from squad.models import CONFIGS, build, network_config
from squad.predictor import Predictor, choose_device, row_pass
from squad.predictor.input_rows import class_positions
from squad.predictor.row_pass import _mean_over_members, decide, encode, encode_in_chunks, predict
from squad.train import TrainConfig
from tests.contracts.guaranteed import CLOSE, EXACT, assert_guaranteed, assert_same

Array = NDArray[Any]
NUMBERS = ("probabilities", "confidence", "entropy", "mutual_information")


def rows(count: int = 40, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(3, 2, size=(count, 6))


def frame(count: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 9, count),
            "color": np.array(["red", "green", "blue"])[rng.integers(3, size=count)],
            "dose": [None if row % 4 == 0 else float(row) for row in range(count)],
            "label": ["no", "yes"] * (count // 2),
        }
    )


def predictor(
    name: str = "squad",
    members: int = 2,
    classes: tuple[Any, ...] = ("a", "b", "c"),
    table: bool = False,
    sampling: str | None = None,
    num_samples: int | None = 4,
    **settings: Any,
) -> Predictor:
    """Return a predictor with random weights, large enough that samples and members disagree."""
    transform: TableTransform | ArrayTransform
    transform = TableTransform.fit(Table.of(frame()), "label") if table else ArrayTransform.fit(rows())
    config = network_config(name, {"hidden": (5, 4), **settings})
    network = build(config, transform.features, len(classes), list(range(members)))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2.0)
    return Predictor(network, config, transform, classes, sampling=sampling, num_samples=num_samples)


# ---- the numbers


def by_definition(made: Predictor, x: Array, samples: int) -> tuple[Array, Array, Array]:
    """Return probabilities, entropy and mutual information, sample by sample in eval mode, in float64."""
    network = copy.deepcopy(made.network).double()
    for layer in network.modules():
        if isinstance(layer, (SquadLayer, GaussianLinear)):
            layer.sampling = made.sampling
    encoded = torch.from_numpy(made.transform.apply(x).x).double()  # type: ignore[arg-type]
    each = []
    for index in range(samples):
        with squad.sample_index(index), torch.no_grad():
            each.extend(network(encoded).logits.softmax(-1).numpy())  # one per member

    def entropy(p: Array) -> Array:
        return np.asarray([-math.fsum(q * math.log(q) for q in row if q > 0) for row in p])

    p = np.mean(each, axis=0)
    return p, entropy(p), entropy(p) - np.mean([entropy(one) for one in each], axis=0)


SAMPLINGS = [
    (name, sampling) for name, kind in CONFIGS.items() for sampling in kind.samplings if sampling != "stratified"
]


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize(("name", "sampling"), SAMPLINGS)
def test_numbers_follow_their_definitions(name: str, sampling: str, members: int) -> None:
    made = predictor(name, members, sampling=sampling, num_samples=5)
    made.network.double()
    dropping = sampling == "mean" and name in ("relu-dropout", "maxout-dropout")
    if dropping:
        for stage in made.network.stages:
            stage.dropout.sampling = "mean"  # type: ignore[union-attr]
    x = rows(30)
    answer = made.answer(x)
    p, entropy, mutual = by_definition(made, x, 1 if sampling == "mean" else 5)
    np.testing.assert_allclose(answer.probabilities, p, atol=1e-9)
    np.testing.assert_allclose(answer.entropy, entropy, atol=1e-9)
    np.testing.assert_allclose(answer.mutual_information, mutual, atol=1e-9)
    if sampling == "mean" and members == 1:
        assert not answer.mutual_information.any()
    else:
        assert answer.mutual_information.max() > 1e-3


@pytest.mark.parametrize("name", CONFIGS)
def test_invariants_of_every_answer(name: str) -> None:
    answer = predictor(name).answer(rows())
    assert len(answer) == 40
    for number in NUMBERS:
        assert getattr(answer, number).dtype == np.float64
        assert np.isfinite(getattr(answer, number)).all()
    np.testing.assert_allclose(answer.probabilities.sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(answer.confidence, answer.probabilities.max(1), rtol=0, atol=1.6e-5)  # on a grid
    assert answer.label.tolist() == [("a", "b", "c")[position] for position in answer.probabilities.argmax(1)]
    assert (answer.mutual_information >= 0).all()
    assert (answer.mutual_information <= answer.entropy + 1e-12).all()
    assert (answer.entropy <= math.log(3) + 1e-12).all()
    assert set(answer.decision) == {"uncertified"}
    assert set(answer.reason) == {""}


def test_an_ensemble_is_the_mean_of_its_members() -> None:
    together = predictor("squad", 3)
    alone = []
    for member in squad.unstack(together.network):
        made = Predictor(member, together.config, together.transform, together.classes, num_samples=4)
        assert made.members == 1
        alone.append(made.answer(rows()).probabilities)
    np.testing.assert_allclose(together.answer(rows()).probabilities, np.mean(alone, axis=0), atol=1e-6)


def test_equal_members_do_not_disagree() -> None:
    config = network_config("mlp", {"hidden": (5,)})
    network = build(config, 6, 3, [4, 4, 4])
    made = Predictor(network, config, ArrayTransform.fit(rows()), ("a", "b", "c"))
    assert made.answer(rows()).mutual_information.max() < 1e-12
    assert made.answer(rows()).entropy.min() > 1e-3


def test_certain_predictions_have_no_entropy() -> None:
    made = predictor("mlp", 1)
    with torch.no_grad():
        for parameter in made.network.parameters():
            parameter.mul_(1e4)
    answer = made.answer(rows())
    assert answer.confidence.max() == 1.0
    assert np.isfinite(answer.entropy).all()
    assert answer.entropy.min() == 0.0


# ---- a function of the row


@pytest.mark.parametrize("table", [False, True])
def test_chunks_do_not_matter(table: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made = predictor(table=table)
    x: Any = frame() if table else rows()
    if table:
        x.loc[[3, 17, 39], "color"] = "mauve"
    else:
        x[[3, 17, 39], 2] = np.nan
    whole = made.answer(x)
    for size in (1, 7, 39, 40):
        monkeypatch.setattr(row_pass, "CHUNK", size)
        assert_guaranteed(made.answer(x), whole)
    monkeypatch.undo()
    order = np.random.default_rng(0).permutation(40)
    assert_guaranteed(made.answer(x.iloc[order] if table else x[order]), whole, order)
    for row in (0, 3, 39):
        assert_guaranteed(made.answer(x[row : row + 1]), whole, slice(row, row + 1))


@pytest.mark.parametrize("table", [False, True])
def test_no_rows(table: bool) -> None:
    made = predictor(table=table)
    answer = made.answer(frame()[:0] if table else rows(0))
    assert len(answer) == 0
    assert answer.probabilities.shape == (0, 3)
    assert len(answer.to_frame()) == 0


def test_inputs_are_not_modified() -> None:
    x, table = rows(), frame()
    before = x.copy(), table.copy()
    predictor().answer(x)
    predictor(table=True).answer(table)
    np.testing.assert_array_equal(x, before[0])
    pd.testing.assert_frame_equal(table, before[1])


# ---- rows that cannot be read


def check_referred(made: Predictor, x: Any, clean: Any, reasons: dict[int, str]) -> None:
    answer, expected = made.answer(x), made.answer(clean)
    others = [row for row in range(len(answer)) if row not in reasons]
    picked = {name: getattr(answer, name)[others] for name in EXACT + CLOSE}
    assert_same(picked, vars(expected), others)
    for row in reasons:
        assert reasons[row] in answer.reason[row]
        assert answer.decision[row] == "referred"
        assert answer.label[row] is None
        for number in NUMBERS:
            assert np.isnan(getattr(answer, number)[row]).all()


def test_rows_with_non_finite_numbers_are_referred() -> None:
    x = rows()
    x[0, 0], x[7, 5], x[39, 1], x[5, 2] = np.nan, np.inf, -np.inf, 1e300
    wrong = "NaN or infinite"
    check_referred(predictor(), x, rows(), {0: wrong, 7: wrong, 39: wrong, 5: "too far from its mean"})
    check_referred(predictor(), rows() * np.nan, rows(), dict.fromkeys(range(40), wrong))


@pytest.mark.parametrize("name", CONFIGS)
def test_rows_that_overflow_are_referred(name: str) -> None:
    x = rows()
    x[3] = [1e38, -1e38, 1e38, 1e38, -1e38, 1e38]
    answer = predictor(name).answer(x)
    assert answer.decision[3] == "referred"
    if np.isnan(answer.confidence[3]):
        check_referred(predictor(name), x, rows(), {3: "output is not finite"})
    else:
        assert answer.novel[3]
        assert np.isfinite([getattr(answer, number)[3].max() for number in NUMBERS]).all()


def test_an_mlp_overflows() -> None:
    answer = predictor("mlp").answer(np.full((1, 6), 1e38))
    assert answer.decision.tolist() == ["referred"]


def test_rows_with_unreadable_cells_are_referred() -> None:
    x = frame().astype({"age": object})
    x.loc[1, "color"] = "mauve"
    x.loc[2, "color"] = None
    x.loc[5, "age"] = None
    x.loc[8, "age"] = float("inf")
    x.loc[9, "age"] = 1e300
    reasons = {
        1: "column 'color' is 'mauve'",
        2: "column 'color' is empty",
        5: "column 'age' is empty",
        8: "inf",
        9: "column 'age' is 1e+300",
    }
    check_referred(predictor(table=True), x, frame(), reasons)


def test_unreadable_lines_are_referred() -> None:
    table = Table(frame(), "some.csv", {4: "line 6 has 3 cells of 4"})
    check_referred(predictor(table=True), table, frame(), {4: "line 6 has 3 cells of 4"})


def test_answers_as_a_data_frame() -> None:
    x = rows()
    x[1, 0] = np.nan
    found = predictor(classes=(10, 20, 30)).answer(x).to_frame()
    assert list(found.columns) == ["label", "confidence", "decision", "entropy", "mutual_information", "reason"]
    assert found.label[1] is None
    assert found.label[0] in (10, 20, 30)
    assert found.decision.tolist().count("referred") == 1


# ---- inputs of any kind


def test_columns_in_any_order_with_others() -> None:
    made, x = predictor(table=True), frame()
    expected = made.answer(x)
    for other in (x[["dose", "color", "label", "age"]], x.drop(columns="label"), x.assign(more=1)):
        assert_guaranteed(made.answer(other), expected)
    assert_guaranteed(made.answer(x.set_index(np.arange(40)[::-1])), expected)
    assert_guaranteed(made.answer(Table.of(x)), expected)


def test_arrays_of_any_type() -> None:
    made, x = predictor(), rows().astype(np.float32)
    expected = made.answer(x)
    for other in (x.tolist(), torch.from_numpy(x), torch.from_numpy(x).requires_grad_(), np.asfortranarray(x)):
        assert_guaranteed(made.answer(other), expected)
    assert_guaranteed(made.answer(pd.DataFrame(x)), expected)
    whole = np.round(x).astype(int)
    assert_guaranteed(made.answer(whole), made.answer(whole.astype(float)))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((3, 5)), r"x .*6\).*\(3, 5\)"),
        (np.zeros((0, 5)), r"x .*6\).*\(0, 5\)"),
        (np.zeros(6), r"x .*6\).*\(6,\).*x\[None\]"),
        (np.float64(3), r"x .*6\).*\(\)"),
        ([], r"x .*6\).*\(0,\)"),
        ([[1, 2], [3]], r"x .*numbers.*got list"),
        ("text", r"x .*numbers.*<U4"),
        (None, r"x .*6\).*\(\)"),
        ([["a"] * 6], r"x .*numbers.*<U1"),
        (Table.of(frame()), r"x .*\(6,\)"),
    ],
    ids=range(10),
)
def test_wrong_arrays_are_refused(x: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        predictor().answer(x)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (rows(), r"pandas\.DataFrame.*got ndarray"),
        (None, r"pandas\.DataFrame.*got NoneType"),
        (frame().drop(columns="age"), "'age'"),
        (frame()[:0].drop(columns="age"), "'age'"),
        (frame()[["label"]], "'age'.*'color'.*'dose'"),
        (frame().rename(columns={"age": "Age"}), "'age'.*'Age'"),
        (pd.concat([frame(), frame()], axis=1), "column.*'age'"),
    ],
    ids=range(7),
)
def test_wrong_tables_are_refused(x: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        predictor(table=True).answer(x)
    assert issubclass(DataError, squad.SquadError)


# ---- labels


@pytest.mark.parametrize(
    "classes", [("no", "yes", "ä b"), (1, 5, -3), (False, True), (0.5, 1.5, 2.0), (2**70, 1, 2)], ids=str
)
def test_labels_keep_their_type(classes: tuple[Any, ...]) -> None:
    made = predictor(classes=classes)
    x = rows()
    labels = made.answer(x).label.tolist()
    assert set(labels) <= set(classes)
    assert {type(label) for label in labels} == {type(classes[0])}
    x[0, 0] = np.nan
    with_none = made.answer(x).label.tolist()
    assert with_none[0] is None
    assert with_none[1:] == labels[1:]
    assert list(map(type, with_none[1:])) == list(map(type, labels[1:]))


def test_positions_of_labels() -> None:
    made = predictor(classes=(1, 5, 10))
    for labels in ([5, 1, 10], np.array([5, 1, 10]), ["5", "1", "10"], np.array(["5", "1", "10"], dtype=object), (5.0, 1.0, 10.0)):  # fmt: skip  # noqa: E501
        found = class_positions(made.classes, labels)
        assert found.tolist() == [1, 0, 2]
        assert found.dtype == np.int64
    assert class_positions(made.classes, []).tolist() == []
    assert class_positions(("b", "a", "c"), ["a", "c", "a"]).tolist() == [1, 2, 1]
    with pytest.raises(ArgumentError, match=r"labels.*\(1, 5, 10\).*got 7, x\."):
        class_positions(made.classes, [5, "x", 7, 7])
    with pytest.raises(ArgumentError, match=r"labels.*got shape \(2, 1\)"):
        class_positions(made.classes, [[1], [5]])
    many = predictor(classes=tuple(range(20)))
    with pytest.raises(ArgumentError, match=r"\(0, 1, 2, 3, 4, 5, 6, 7, \.\.\.\).*20, 21, 22, 23, 24 and 15 more"):
        class_positions(many.classes, np.arange(20, 40))


# ---- the object


def test_parts_that_do_not_fit_together_are_refused() -> None:
    made = predictor()
    parts = (made.network, made.config, made.transform)
    for classes, message in (
        (("a", "b"), "classes.*3.*got 2 names"),
        (("a", "b", "b"), r"classes.*unique.*\['a', 'b', 'b'\]"),
        (("a", "b", 1), r"classes.*\['a', 'b', 1\]"),
        ((1, True, 2), r"classes.*unique.*\[1, True, 2\]"),
        (("a", "b", None), "classes.*got None"),
        ((1.0, 2.0, float("nan")), "classes.*got nan"),
    ):
        with pytest.raises(ArgumentError, match=message):
            Predictor(*parts, classes)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"transform.*\(6\), got 5"):
        Predictor(made.network, made.config, ArrayTransform.fit(rows()[:, :5]), made.classes)
    with pytest.raises(ArgumentError, match=r"dropout.*2 members.*3"):
        Predictor(made.network, network_config("squad", {"dropout": (0.1, 0.2, 0.3)}), made.transform, made.classes)
    with pytest.raises(ArgumentError, match=r"sampling.*'luck'"):
        Predictor(*parts, made.classes, sampling="luck")


def test_another_sampling_mode() -> None:
    made = predictor()
    before = made.answer(rows())
    other = made.with_sampling("relaxed", 9)
    assert (other.sampling, other.num_samples, other.network) == ("relaxed", 9, made.network)
    assert (made.with_sampling().sampling, made.with_sampling().num_samples) == ("stratified", 4)
    assert (made.with_sampling("hard").num_samples, made.with_sampling(num_samples=2).sampling) == (4, "stratified")
    assert not np.array_equal(other.answer(rows()).probabilities, before.probabilities)
    assert_guaranteed(made.answer(rows()), before)
    for wrong in (0, -1, 1.5):
        with pytest.raises(ArgumentError, match=f"num_samples.*{wrong}"):
            made.with_sampling(num_samples=wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"sampling.*''"):
        made.with_sampling("")


def test_more_samples_agree_better() -> None:
    made = predictor()
    exact = made.with_sampling("hard", 2000).answer(rows()).probabilities
    few, many = (np.abs(made.with_sampling("hard", t).answer(rows()).probabilities - exact).mean() for t in (2, 100))
    assert many < few / 3


def test_other_devices() -> None:
    made = predictor()
    before = made.answer(rows())
    assert made.to("cpu") is made
    assert made.device == torch.device("cpu")
    assert_guaranteed(made.answer(rows()), before)
    for wrong in ("abacus", "meta", "cuda:99", "", 3.5, None):
        with pytest.raises(ArgumentError, match=f"device.*{re.escape(repr(wrong))}"):
            made.to(wrong)  # type: ignore[arg-type]
    assert_guaranteed(made.answer(rows()), before)


def test_the_sampler_follows_weights_to_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are shared: another predictor may have moved them."""
    made = predictor()
    before = made.answer(rows())
    ready = made._sampler
    assert made.answer(rows()) is not None
    assert made._sampler is ready
    monkeypatch.setattr(ready, "device", torch.device("cuda"))
    assert_guaranteed(made.answer(rows()), before)
    assert made._sampler is not ready


def test_choosing_a_device() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device(torch.device("cpu")) == torch.device("cpu")
    assert choose_device().type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_copies_and_pickles() -> None:
    made = predictor()
    before = made.answer(rows())
    assert made._sampler is not None
    for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert other._sampler is None
        assert_guaranteed(other.answer(rows()), before)
        assert repr(other) == repr(made)
        with torch.no_grad():
            next(other.network.parameters()).zero_()
        assert_guaranteed(made.answer(rows()), before)
    ready = len(pickle.dumps(made))
    made._sampler = None
    assert len(pickle.dumps(made)) == ready


def test_repr() -> None:
    assert repr(predictor()) == "Predictor(squad 6 - 5 - 4 - 3, 2 members, 4 stratified samples)"
    assert repr(predictor("mlp", 1, num_samples=None)) == "Predictor(mlp 6 - 5 - 4 - 3, 1 mean samples)"


def test_predictions_do_not_depend_on_torchs_generator_or_mode() -> None:
    made = predictor("relu-dropout")
    before = made.answer(rows())
    torch.manual_seed(5)
    state = torch.get_rng_state()
    made._sampler = None
    made.network.train()
    assert_guaranteed(made.answer(rows()), before)
    assert torch.equal(state, torch.get_rng_state())


def test_an_ensemble_of_five_is_a_function_of_the_row_to_the_bit() -> None:
    """Members are summed one by one: the order of a reduction would depend on the number of rows."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(150, 6)), random.integers(3, size=150)
    settings = FitSettings(
        network=network_config("squad", {"hidden": (16,)}), training=TrainConfig(max_epochs=2), members=5
    )
    predictor = fit_predictor(x, y, settings)
    whole = predictor.answer(x).probabilities
    alone = np.concatenate([predictor.answer(x[row : row + 1]).probabilities for row in range(150)])
    assert np.abs(alone - whole).max() < 1e-7
    assert isinstance(predictor.transform, ArrayTransform)
    drawn = predictor._ready_sampler()(torch.from_numpy(predictor.transform.apply(x).x)).probabilities
    for count in (1, 3, 17, 150):
        assert torch.equal(_mean_over_members(drawn[:, :count].contiguous()), _mean_over_members(drawn)[:count])


def test_labels_match_as_text_and_then_as_numbers() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(40, 2)), np.array(["0.0", "1.0", "x"] * 13 + ["x"])
    predictor = fit_predictor(x, y, FitSettings(training=TrainConfig(max_epochs=1)))
    assert class_positions(predictor.classes, ["0", 1, "x", "1.0", 0.0]).tolist() == [0, 1, 2, 1, 0]
    with pytest.raises(ArgumentError, match="got 2"):
        class_positions(predictor.classes, [2])


def test_decisions_leave_the_predictions_as_they_were() -> None:
    """One prediction serves several targets."""
    random = np.random.default_rng(0)
    x = random.normal(size=(900, 2))
    y = np.where(x[:, 0] + 0.3 * random.normal(size=900) > 0, "a", "b")
    site = np.where(random.random(900) < 0.5, "u", "v")
    made = fit_predictor(x[:300], y[:300], FitSettings(training=TrainConfig(max_epochs=3)))
    safe = made.certify(x[300:], y[300:], [0.3, 0.4], by=site[300:])
    rows = x[:50]
    answer = predict(safe, encode_in_chunks(safe, rows), 50)
    for target in (0.3, 0.4):
        decided = decide(safe, rows, answer, np.full(50, "w"), target)  # a group that was not certified
        assert set(decided.reason) == {"nothing was certified where group is w"}
    assert set(answer.reason) == {""}
    assert set(answer.decision) == {"uncertified"}


def test_problems_of_later_chunks_stay_with_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_pass, "CHUNK", 4)
    random = np.random.default_rng(0)
    x, y = random.normal(size=(200, 2)), np.arange(200) % 2
    made = fit_predictor(x, y, FitSettings(training=TrainConfig(max_epochs=1)))
    rows = x[:11].copy()
    rows[9] = 1e6
    encoded = encode(made, rows)
    assert np.flatnonzero(predict(made, encoded, 11).novel).tolist() == [9]
    assert np.flatnonzero(predict(made, encode_in_chunks(made, rows), 11).novel).tolist() == [9]
