"""Numeric columns that look like identifiers, and others that do not."""

import io

import numpy as np
import pandas as pd
import pytest

from squad import SquadClassifier
from squad.data.identifiers import has_identifier_name, identifiers, is_identifier
from squad.data.tables import Table

RANDOM = np.random.default_rng(0)
#: Different numbers, far apart.
NUMBERS = RANDOM.choice(10**7, 200, replace=False).astype(float)

IDENTIFIERS = {
    "row numbers": np.arange(300.0),
    "some of them": RANDOM.permutation(1000)[:600].astype(float),
    "few of many": RANDOM.permutation(20_000)[:2000].astype(float),
    "from a million on": 1_000_000 + np.arange(50.0),
    "gaps": np.where(np.arange(100) % 7 == 3, np.nan, np.arange(100.0)),
    "falling": -np.arange(200.0),
}
HONEST = {
    "measurement": RANDOM.normal(50, 10, 500),
    "rounded": np.round(RANDOM.normal(50, 10, 500), 2),
    "cents": np.floor(RANDOM.lognormal(9, 1, 500)),
    "different cents": RANDOM.permutation(2_000_000)[:500].astype(float),
    "sorted cents": np.sort(RANDOM.permutation(2_000_000)[:500]).astype(float),
    "age": np.floor(RANDOM.normal(50, 10, 500)),
    "count": RANDOM.poisson(3, 500).astype(float),
    "flag": (np.arange(300) % 2).astype(float),
    "few rows": np.arange(8.0),
    "beyond": RANDOM.integers(2**60, 2**62, 300).astype(float),
    "missing": np.full(100, np.nan),
}


@pytest.mark.parametrize("name", IDENTIFIERS)
def test_numbers_assigned_one_by_one(name: str) -> None:
    assert is_identifier("x", IDENTIFIERS[name])


@pytest.mark.parametrize("name", HONEST)
def test_measurements(name: str) -> None:
    assert not is_identifier("x", HONEST[name])


def test_measurements_over_many_draws() -> None:
    """Integers that are distinct by chance are never reported."""
    warned = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        for size in (1000, 10_000, 1_000_000):
            warned += is_identifier("x", random.integers(0, size, 30).astype(float))
    assert warned == 0


@pytest.mark.parametrize(
    "name",
    [
        *(
            "id",
            "ID",
            "patient_id",
            "PatientID",
            "patientId",
            "patient id",
            "patientid",
            "user.id",
            "id_2",
            "ids",
            "uuid",
        ),
        *("Unnamed: 0", "index", "row", "case-id", "CUSTOMER_ID", ""),
    ],
)
def test_identifier_names(name: str) -> None:
    assert has_identifier_name(name)
    assert is_identifier(name, NUMBERS)
    assert is_identifier(name, NUMBERS.repeat(3)), "one for several rows"
    assert not is_identifier(name, HONEST["measurement"])
    assert not is_identifier(name, HONEST["flag"]), "a category"


@pytest.mark.parametrize(
    "name",
    ["paid", "width", "fluid", "acid", "valid", "amount", "idle", "price index", "body_mass_index", "age", "kidney"],
)
def test_other_names(name: str) -> None:
    assert not has_identifier_name(name)


def test_columns_of_a_table() -> None:
    frame = pd.DataFrame({"a": IDENTIFIERS["row numbers"], "b": HONEST["measurement"][:300], "c": np.arange(300) // 2})
    assert identifiers(Table.of(frame), ["a", "b", "c"]) == ["a"]
    text = pd.read_csv(io.StringIO(frame.astype({"a": int}).to_csv(index=False)), dtype=str)
    assert identifiers(Table.of(text), ["a", "b", "c"]) == ["a"]
    assert identifiers(Table.of(text), ["b", "c"]) == []


def test_the_classifier_warns_about_a_data_frame() -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"number": np.arange(60), "size": random.normal(size=60)})
    y = (frame["size"] > 0).astype(int)
    quick = SquadClassifier(hidden=(4,), max_epochs=1, random_state=0)
    with pytest.warns(UserWarning, match=r"'number' looks like an identifier.*X\.drop\(columns=\['number'\]\)"):
        quick.fit(frame, y)
    quick.fit(frame[["size"]], y)  # warnings are errors here
    quick.fit(frame.to_numpy(), y)
