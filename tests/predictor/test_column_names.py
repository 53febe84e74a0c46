"""Models fitted on data frames match columns by name: in memory, saved, and in files."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import squad
from squad.data.tables import Table, read
from squad.errors import DataError
from squad.predictor import CertificationError, Predictor

NAMES = ("height", "mass", "age", "smoker")


def people(count: int, seed: int) -> tuple[pd.DataFrame, Any]:
    """Columns with different scales, one of them boolean, and a label that depends on all."""
    random = np.random.default_rng(seed)
    y = random.integers(2, size=count)
    frame = pd.DataFrame(
        {
            "height": 170 + 8 * random.normal(size=count) + 6 * y,
            "mass": 70 + 9 * random.normal(size=count) - 8 * y,
            "age": random.integers(20, 80, count),
            "smoker": random.random(count) < 0.2 + 0.6 * y,
        }
    )
    return frame, np.where(y, "ill", "well")


@pytest.fixture(scope="module")
def classifier() -> squad.SquadClassifier:
    x, y = people(600, 0)
    return squad.SquadClassifier(hidden=(8,), max_epochs=15, random_state=0).fit(x, y)


@pytest.fixture(scope="module")
def safe(classifier: squad.SquadClassifier) -> Predictor:
    return copy.deepcopy(classifier).certify(*people(1000, 1), risk=0.1, delta=0.1)  # a classifier counts its attempts


def test_columns_are_matched_by_name(classifier: squad.SquadClassifier, safe: Predictor, tmp_path: Path) -> None:
    x, y = people(500, 2)
    expected = safe.answer(x)
    assert (expected.decision == "accepted").any()
    again = squad.load(safe.save(tmp_path / "model"))
    for predictor in (safe, again):
        for other in (x[list(NAMES[::-1])], x.assign(more=1)[["more", *NAMES]], Table.of(x[list(NAMES[::-1])])):
            found = predictor.answer(other)
            np.testing.assert_array_equal(found.confidence, expected.confidence)
            np.testing.assert_array_equal(found.decision, expected.decision)
        with pytest.raises(DataError, match="'mass'"):
            predictor.answer(x.drop(columns="mass"))
        with pytest.raises(DataError, match=r"'mass'.*'age'"):
            predictor.answer(x.drop(columns=["mass", "age"]))
    np.testing.assert_array_equal(classifier.predict(x), expected.label)
    with pytest.raises(ValueError, match="same order"):  # scikit-learn's rule for its own methods
        classifier.predict(x[list(NAMES[::-1])])
    assert (expected.label == y).mean() > 0.75


def test_certify_and_recalibrate_match_columns_by_name(classifier: squad.SquadClassifier, safe: Predictor) -> None:
    x, y = people(1000, 1)
    turned = x[list(NAMES[::-1])]
    for made in (
        copy.deepcopy(classifier).certify(turned, y, risk=0.1, delta=0.1),
        classifier.predictor_.certify(turned, y, 0.1, 0.1),
    ):
        assert made.certificate is not None
        assert safe.certificate is not None
        assert made.certificate.rules == safe.certificate.rules
    one, other = (classifier.predictor_.recalibrate(rows, y).answer(x).confidence for rows in (x, turned))
    np.testing.assert_array_equal(one, other)
    with pytest.raises(DataError, match="'age'"):
        classifier.certify(x.drop(columns="age"), y, risk=0.1)


def test_groups_by_a_column_of_the_frame(classifier: squad.SquadClassifier) -> None:
    x, y = people(2000, 1)
    x["site"] = np.where(np.arange(2000) % 2, "Oslo", "Bern")
    safe = classifier.predictor_.certify(x, y, 0.15, 0.1, by="site")
    assert safe.certificate is not None
    assert {rule.group for rule in safe.certificate.rules} == {"Oslo", "Bern"}


def test_missing_names_are_warned_about(classifier: squad.SquadClassifier) -> None:
    x, _ = people(5, 2)
    array = x.to_numpy(dtype=float)
    with pytest.warns(squad.SquadWarning, match="no column names"):
        found = classifier.predictor_.answer(array)
    np.testing.assert_array_equal(found.confidence, classifier.predictor_.answer(x).confidence)
    nameless = squad.SquadClassifier(hidden=(8,), max_epochs=2, random_state=0).fit(*as_arrays(*people(60, 0)))
    with pytest.warns(squad.SquadWarning, match="has column names"):
        nameless.predictor_.answer(x)
    nameless.predictor_.answer(pd.DataFrame(array))  # default names are not names


@pytest.mark.parametrize("names", [(10, 11, 12, 13), (0, 1, 2, 3), [("a", 1), ("a", 2), ("b", 1), ("b", 2)]])
def test_names_that_are_not_text(names: Any) -> None:
    def named(count: int, seed: int) -> tuple[pd.DataFrame, Any]:
        x, y = people(count, seed)
        x = x.astype(float)
        x.columns = pd.MultiIndex.from_tuples(names) if isinstance(names, list) else list(names)
        return x, y

    predictor = squad.SquadClassifier(hidden=(8,), max_epochs=5, random_state=0).fit(*named(300, 0)).predictor_
    x, _ = named(50, 1)
    np.testing.assert_array_equal(predictor.answer(x[x.columns[::-1]]).confidence, predictor.answer(x).confidence)


def test_a_repeated_name() -> None:
    x, y = people(60, 0)
    x.columns = ["a", "b", "a", "c"]
    with pytest.raises(DataError, match="'a'"):
        squad.SquadClassifier().fit(x, y)


def as_arrays(x: pd.DataFrame, y: Any) -> tuple[Any, Any]:
    return x.to_numpy(dtype=float), y


def test_a_model_of_a_frame_predicts_files(safe: Predictor, tmp_path: Path) -> None:
    x, _ = people(200, 2)
    expected = safe.answer(x)
    x.round(17)[list(NAMES[::-1])].to_csv(tmp_path / "new.csv", index=False)
    table = read(tmp_path / "new.csv")
    np.testing.assert_array_equal(safe.answer(table).decision, expected.decision)
    broken = x.astype(object)
    broken.loc[3, "age"] = "old"
    broken.loc[4, "mass"] = None
    broken.loc[5, "height"] = 1.75  # metres
    broken.to_csv(tmp_path / "broken.csv", index=False)
    found = safe.answer(read(tmp_path / "broken.csv"))
    for row, text in {3: "'old'", 4: "'mass'", 5: "'height' is 1.75"}.items():
        assert found.decision[row] == "referred"
        assert text in found.reason[row]
    assert found.label[3] is None
    assert found.novel[5]


class TestPipelines:
    def test_untransformed_rows_are_refused(self) -> None:
        x, y = people(600, 0)
        pipe = make_pipeline(StandardScaler(), squad.SquadClassifier(hidden=(8,), max_epochs=5, random_state=0))
        pipe.fit(x, y)
        new, truth = people(800, 1)
        raw = new.to_numpy(dtype=float)
        with pytest.raises(CertificationError, match=r"pipe\[:-1\]\.transform"):
            pipe[-1].certify(raw, truth, risk=0.2)
        right = pipe[-1].certify(pipe[:-1].transform(new), truth, risk=0.2)
        assert right.certificate is not None
        assert right.certificate.certified
        answer = right.answer(raw)
        assert set(answer.decision) == {"referred"}
