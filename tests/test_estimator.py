"""SquadClassifier: scikit-learn's checks, pipelines and searches, parameters, and errors."""

import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import squad
from squad import SquadClassifier
from squad.data.splits import validation_rows
from squad.errors import DataError, SquadError

Array = NDArray[Any]


def quick(model: str = "squad", **parameters: Any) -> SquadClassifier:
    """Return a classifier that is fast to train, and good enough for blobs."""
    fast = {"hidden": (8,), "max_epochs": 6, "batch_size": 16, "lr": 0.03, "random_state": 0, "device": "cpu"}
    return SquadClassifier(model, **{**fast, **parameters})


def blobs(rows: int = 90, classes: int = 3) -> tuple[Array, Array]:
    x, y = make_blobs(rows, n_features=4, centers=classes, cluster_std=1.5, random_state=1)
    return x, y


# No check is expected to fail.  Scikit-learn skips one of them, unless SCIPY_ARRAY_API is set.
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        # another network is in tests/slow
        SquadClassifier(hidden=(16,), max_epochs=6, batch_size=16, lr=0.05, num_samples=4, device="cpu"),
    ]
)
def test_scikit_learn_checks(estimator: SquadClassifier, check: Callable[[SquadClassifier], None]) -> None:
    check(estimator)


# ---- fitted attributes and predictions


def test_fitted_attributes() -> None:
    x, y = blobs()
    classifier = quick().fit(x, y)
    assert classifier.classes_.tolist() == [0, 1, 2]
    assert classifier.n_features_in_ == 4
    assert not hasattr(classifier, "feature_names_in_")
    assert isinstance(classifier.predictor_, squad.Predictor)
    assert 1 <= classifier.n_iter_ <= 6
    assert classifier.seed_ == 0
    assert classifier.score(x, y) > 0.9


def test_probabilities_are_those_of_the_predictor() -> None:
    x, y = blobs()
    classifier = quick().fit(x, y)
    p = classifier.predict_proba(x)
    assert p.dtype == np.float64
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-12)
    answer = classifier.predictor_.answer(x)
    np.testing.assert_array_equal(p, answer.probabilities)
    np.testing.assert_array_equal(classifier.predict(x), answer.label)
    # Alone as in a batch, up to the rounding of another matrix product.
    np.testing.assert_allclose(classifier.predict_proba(x[40:41]), p[40:41], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "names",
    [
        np.array(["no", "yes", "who knows"]),
        np.array(["no", "yes", "who knows"], dtype=object),
        np.array([-3, 7, 40]),
        np.array([9, 10, 100]),  # sorted as text, 9 would come last
        np.array([0.0, 1.0, 2.0]),
        np.array([False, True]),
        pd.Series(["no", "yes", "who knows"], dtype="category").to_numpy(),
    ],
    ids=lambda names: f"{names.dtype}-{names[0]}",
)
def test_labels_keep_their_type_and_value(names: Array) -> None:
    x, y = blobs(classes=len(names))
    labels = names[y]
    classifier = quick().fit(x, labels)
    np.testing.assert_array_equal(classifier.classes_, np.unique(names))
    predicted = classifier.predict(x)
    assert predicted.dtype == labels.dtype
    assert np.mean(predicted == labels) > 0.9
    assert set(classifier.predictor_.classes) == set(names.tolist())
    np.testing.assert_array_equal(classifier.predictor_.answer(x).label, predicted)


def test_pandas_labels_and_frames() -> None:
    x, y = blobs()
    frame = pd.DataFrame(x, columns=["a", "b", "c", "d"], index=range(1000, 1090)).astype({"a": "float32"})
    labels = pd.Series(np.array(["x", "y", "z"])[y], index=frame.index, dtype="category")
    classifier = quick().fit(frame, labels)
    assert classifier.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert classifier.predict(frame).tolist() == classifier.predictor_.answer(frame).label.tolist()
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        classifier.predict(x)
    with pytest.raises(ValueError, match="feature names should match"):
        classifier.predict(frame[["b", "a", "c", "d"]])
    with pytest.raises(ValueError, match="could not convert string to float"):
        classifier.fit(frame.assign(a="text"), labels)


@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "uint8", "bool"])
def test_numbers_of_any_type(kind: str) -> None:
    x = np.arange(40).reshape(-1, 1) % 2
    y = np.where(x[:, 0] == 1, "odd", "even")
    classifier = quick("mlp").fit(x.astype(kind), y)
    assert classifier.score(x.astype(kind), y) == 1.0


def test_members_predict_together() -> None:
    x, y = blobs()
    classifier = quick(members=3).fit(x, y)
    assert classifier.predictor_.members == 3
    assert [result["seed"] for result in classifier.predictor_.record["members"]] == [0, 1, 2]
    one, *_ = quick().fit(x, y).predict_proba(x)
    assert not np.allclose(classifier.predict_proba(x)[0], one, atol=1e-9)
    own = quick(members=2, kl_multiplier=(0.0, 10.0), dropout=[0.1, 0.2]).fit(x, y)
    assert own.predictor_.record["training"]["kl_multiplier"] == (0.0, 10.0)
    assert own.predictor_.config.dropout == (0.1, 0.2)


@pytest.mark.parametrize("model", ["squad-factorized", "mlp", "maxout-dropout", "relu-dropout", "dlgm"])
def test_every_network_by_name(model: str) -> None:
    x, y = blobs(60)
    classifier = quick(model, max_epochs=2).fit(x, y)
    assert classifier.predictor_.config.name == model
    assert classifier.predict_proba(x).shape == (60, 3)


def test_parameters_reach_the_network_and_the_training() -> None:
    x, y = blobs()
    classifier = quick(
        hidden=[5, 4],
        bins=np.int64(7),
        kl_multiplier=np.float32(0.5),
        anneal_epochs=3,
        sampling="hard",
        num_samples=5,
        validation_fraction=0.3,
        network_options={"prior": "gaussian", "limit": np.float64(2.0)},
        training_options={"weight_decay": 0.0},
    ).fit(x, y)
    predictor = classifier.predictor_
    assert (predictor.config.hidden, predictor.config.bins) == ((5, 4), 7)  # type: ignore[attr-defined]
    assert (predictor.config.prior, predictor.config.limit) == ("gaussian", 2.0)  # type: ignore[attr-defined]
    assert (predictor.sampling, predictor.num_samples) == ("hard", 5)
    training = predictor.record["training"]
    assert [training[name] for name in ("kl_multiplier", "anneal_epochs", "weight_decay")] == [0.5, 3, 0.0]
    assert predictor.record["rows"] == {"training": 63, "validation": 27}


@pytest.mark.parametrize(("model", "bins"), [("squad", 15), ("squad-factorized", 37)])
def test_default_bins_are_those_of_the_network(model: str, bins: int) -> None:
    x, y = blobs(30)
    assert quick(model, max_epochs=1).fit(x, y).predictor_.config.to_dict()["bins"] == bins


def test_every_parameter_is_documented() -> None:
    text = inspect.getdoc(SquadClassifier)
    assert text is not None
    for name in SquadClassifier().get_params():
        assert f"\n    {name}: " in text, name


# ---- seeds


def test_the_same_seed_gives_the_same_network() -> None:
    x, y = blobs()
    first = quick(random_state=7).fit(x, y)
    torch.manual_seed(99)
    np.random.seed(99)  # noqa: NPY002  # scikit-learn's random_state=None means this generator
    again = clone(first).fit(x, y)
    assert first.seed_ == again.seed_ == 7
    np.testing.assert_array_equal(first.predict_proba(x), again.predict_proba(x))
    other = quick(random_state=8).fit(x, y)
    assert not np.array_equal(first.predict_proba(x), other.predict_proba(x))


def test_without_a_seed_one_is_drawn_and_stored() -> None:
    x, y = blobs()
    one, two = (quick(random_state=None).fit(x, y) for _ in range(2))
    assert one.seed_ != two.seed_
    assert not np.array_equal(one.predict_proba(x), two.predict_proba(x))
    again = quick(random_state=one.seed_).fit(x, y)
    np.testing.assert_array_equal(one.predict_proba(x), again.predict_proba(x))


def test_a_generator_as_random_state() -> None:
    x, y = blobs(30)
    seeds = [quick("mlp", random_state=np.random.RandomState(5), max_epochs=1).fit(x, y).seed_ for _ in range(2)]
    assert seeds[0] == seeds[1]
    assert quick("mlp", random_state=np.int64(3), max_epochs=1).fit(x, y).seed_ == 3


def test_fitting_does_not_touch_global_generators() -> None:
    x, y = blobs(30)
    before = torch.get_rng_state(), np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002
    quick().fit(x, y).predict(x)
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state(legacy=False)["state"]["key"])  # noqa: NPY002


# ---- within scikit-learn


def test_scaling_first_changes_nothing_but_rounding() -> None:
    x, y = blobs()
    x = x * [1e3, 1e-3, 1, 1] + [0, 0, 50, 0]
    plain = quick().fit(x, y)
    scaled = make_pipeline(StandardScaler(), quick()).fit(x, y)
    np.testing.assert_allclose(scaled.predict_proba(x), plain.predict_proba(x), atol=1e-3)
    assert cross_val_score(scaled, x, y, cv=3).min() > 0.8


def test_grid_search() -> None:
    x, y = blobs()
    search = GridSearchCV(quick(), {"bins": np.array([3, 15]), "kl_multiplier": np.array([0.0, 100.0])}, cv=2)
    search.fit(x, y)
    assert search.best_score_ > 0.9
    assert search.best_params_["kl_multiplier"] == 0.0
    assert search.best_estimator_.predictor_.config.bins == search.best_params_["bins"]


def test_groups_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = blobs(120)
    groups = np.array([f"patient {row % 24}" for row in range(120)])
    parts = spy_on_the_split(monkeypatch)
    quick("mlp", max_epochs=1, validation_fraction=0.25).fit(x, y, groups=pd.Series(groups))
    train, validation = (set(groups[rows]) for rows in parts[0])
    assert train
    assert validation
    assert not train & validation
    quick("mlp", max_epochs=1, validation_fraction=0.25).fit(x, y)
    train, validation = (set(groups[rows]) for rows in parts[1])
    assert train & validation


def test_groups_are_routed_by_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = blobs(120)
    groups = np.arange(120) % 24
    parts = spy_on_the_split(monkeypatch)
    with sklearn.config_context(enable_metadata_routing=True):
        classifier = quick("mlp", max_epochs=1, validation_fraction=0.25).set_fit_request(groups=True)
        cross_val_score(classifier, x, y, cv=GroupKFold(2), params={"groups": groups})
    # 60 rows of 12 groups in each half: split by rows, no group of 5 would be whole.
    assert [sorted(map(len, part)) for part in parts] == [[15, 45]] * 2


def spy_on_the_split(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Array, Array]]:
    """Record the results of validation_rows."""
    seen: list[tuple[Array, Array]] = []

    def spy(*args: Any) -> tuple[Array, Array]:
        seen.append(validation_rows(*args))
        return seen[-1]

    monkeypatch.setattr("squad.fitting.validation_rows", spy)
    return seen


# ---- files


@pytest.mark.parametrize("model", ["squad", "relu-dropout"])
def test_pickles(model: str, tmp_path: Path) -> None:
    x, y = blobs()
    classifier = quick(model).fit(x, np.array(["a", "b", "c"])[y])
    fresh = pickle.loads(pickle.dumps(classifier))
    p = classifier.predict_proba(x)
    joblib.dump(classifier, tmp_path / "model.joblib")
    for copy in (fresh, pickle.loads(pickle.dumps(classifier)), joblib.load(tmp_path / "model.joblib")):
        np.testing.assert_array_equal(copy.predict_proba(x), p)
        assert copy.predict(x).tolist() == classifier.predict(x).tolist()
        assert copy.get_params() == classifier.get_params()


def test_the_predictor_can_be_saved(tmp_path: Path) -> None:
    x, y = blobs()
    # Searches pass numpy's numbers, which JSON does not know.
    classifier = quick(bins=np.int32(5), lr=np.float32(0.03), hidden=np.array([6]), dropout=np.float32(0.1))
    classifier.fit(x, y)
    saved = squad.load(classifier.predictor_.save(tmp_path / "model"))
    np.testing.assert_array_equal(saved.answer(x).probabilities, classifier.predict_proba(x))


# ---- errors


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"model": "squat"}, r"model.*'squat'.*Did you mean 'squad'"),
        ({"model": None}, r"model.*None"),
        ({"hidden": ()}, r"hidden.*\(\)"),
        ({"hidden": (8, 0)}, r"hidden.*\b0\b"),
        ({"bins": 1}, r"bins.*\b2\b.*\b1\b"),
        ({"model": "mlp", "bins": 15}, r"bins.*network mlp"),
        ({"members": 0}, r"members.*\b0\b"),
        ({"members": "3"}, r"members.*'3'"),
        ({"dropout": 1.0}, r"dropout.*\b1\.0"),
        ({"dropout": (0.1, 0.2), "members": 3}, r"dropout.*3 members.*\b2\b"),
        ({"lr": 0.0}, r"lr.*\b0\.0"),
        ({"lr": (0.1, 0.2)}, r"lr.*\b1 member.*\b2\b"),
        ({"batch_size": 0}, r"batch_size.*\b0\b"),
        ({"kl_multiplier": -1}, r"kl_multiplier.*-1"),
        ({"max_epochs": 0}, r"max_epochs.*\b0\b"),
        ({"max_epochs": None}, r"max_epochs.*None"),
        ({"anneal_epochs": 6}, r"anneal_epochs.*max_epochs.*6"),
        ({"sampling": "mode"}, r"sampling.*squad.*'mode'"),
        ({"num_samples": 0}, r"num_samples.*\b0\b"),
        ({"validation_fraction": 0.0}, r"validation_fraction.*\b0\.0"),
        ({"validation_fraction": 1.0}, r"validation_fraction.*\b1\.0"),
        ({"network_options": {"prio": "uniform"}}, r"prio\b.*squad.*Did you mean .?prior"),
        ({"network_options": {"bins": 7}}, r"bins=7.*network_options"),
        ({"network_options": "prior"}, r"network_options.*'prior'"),
        ({"training_options": {"lr": 1}}, r"lr=1.*training_options"),
        ({"training_options": {"weight_decai": 1}}, r"weight_decai\b.*Did you mean .?weight_decay"),
        ({"device": "abacus"}, r"device.*'abacus'"),
        ({"random_state": -1}, r"Seed must be between 0 and 2\*\*32 - 1"),
        ({"random_state": "luck"}, r"'luck' cannot be used to seed"),
        ({"verbose": -1}, r"verbose.*-1"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused_by_fit(parameters: dict[str, Any], message: str) -> None:
    x, y = blobs(30)
    classifier = quick(**parameters)  # no error yet, by scikit-learn's rule
    with pytest.raises(ValueError, match=message):
        classifier.fit(x, y)
    with pytest.raises(NotFittedError):
        classifier.predict(x)


def test_bad_data_is_refused() -> None:
    x, y = blobs(30)
    with pytest.raises(ValueError, match=r"30 labels"):
        quick().fit(x, np.ones(30, dtype=int))
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        quick().fit(x[:1], y[:1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        quick().fit(x, y, groups=np.zeros(29))
    with pytest.raises(ValueError, match=r"2 groups"):
        quick().fit(x, y, groups=np.zeros(30))
    with pytest.raises(ValueError, match="Unknown label type"):
        quick().fit(x, x[:, 0])
    with pytest.raises(ValueError, match="Unknown label type"):
        quick().fit(x, np.array([1, "one", 2] * 10, dtype=object))
    assert issubclass(DataError, SquadError)  # the library's own, and still a ValueError


def test_a_failed_fit_keeps_the_last_one() -> None:
    x, y = blobs(30)
    classifier = quick("mlp").fit(x, y)
    p = classifier.predict_proba(x)
    with pytest.raises(ValueError, match="30 labels"):
        classifier.fit(x, np.full(30, "one"))
    with pytest.raises(ValueError, match="bins"):
        classifier.set_params(bins=3).fit(x[:, :2], y)
    assert classifier.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(classifier.predict_proba(x), p)


def test_an_unreadable_row_is_named() -> None:
    x, y = blobs(30)
    classifier = quick("mlp").fit(x, y)
    x[3, 0] = 1e300
    with pytest.raises(ValueError, match=r"Row 3 .*X.*too far"):
        classifier.predict_proba(x)


def test_two_rows_are_enough() -> None:
    classifier = quick().fit([[0.0], [1.0]], ["no", "yes"])
    # One row per class: both are used for training and validation.
    assert classifier.predictor_.record["rows"] == {"training": 2, "validation": 2}
    assert classifier.predict_proba([[0.0], [1.0]]).shape == (2, 2)


def test_diverged_members_are_left_out_with_a_warning() -> None:
    x, y = blobs()
    with pytest.warns(ConvergenceWarning, match=r"\b1 of 2 members"):
        classifier = quick("mlp", members=2, lr=(0.03, 1e38)).fit(x, y)
    assert classifier.predictor_.members == 1
    assert classifier.score(x, y) > 0.9
    with pytest.raises(SquadError, match=r"learning rate|\blr\b"):
        quick("mlp", lr=1e38).fit(x, y)


def test_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = blobs(30)
    quick("mlp", max_epochs=2).fit(x, y)
    assert capsys.readouterr() == ("", "")
    quick("mlp", max_epochs=2, verbose=1).fit(x, y)
    out, err = capsys.readouterr()
    assert not out
    assert "epoch 2 of 2" in err


def test_certifying_again_is_the_next_attempt() -> None:
    """Whoever certifies until a result suits would otherwise exceed delta without noticing."""
    x, y = make_blobs(1200, 3, centers=2, random_state=0)
    fitted = SquadClassifier(hidden=(8,), max_epochs=3, random_state=0).fit(x[:200], y[:200])
    first = fitted.certify(x[200:700], y[200:700], risk=0.1, delta=0.1)
    second = fitted.certify(x[700:], y[700:], risk=0.2, delta=0.1)
    assert [len(one.attempts) for one in (first, second)] == [1, 2]
    assert first.certificate is not None
    assert second.certificate is not None
    assert (first.certificate.attempt, second.certificate.attempt) == (1, 2)
    assert fitted.predictor_.certificate is None
    assert len(fitted.fit(x[:200], y[:200]).predictor_.attempts) == 0  # another network
