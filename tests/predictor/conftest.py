"""Small predictors, fitted once; tests must not modify them."""

import pytest

from squad.data.tables import Table
from squad.fitting import fit_predictor
from squad.predictor import Predictor
from tests.predictor.examples import QUICK, frame, points


@pytest.fixture(scope="session")
def fitted() -> Predictor:
    return fit_predictor(*points(600, 0), QUICK)


@pytest.fixture(scope="session")
def of_table() -> Predictor:
    data = frame(600, 0)
    return fit_predictor(
        Table.of(data), data["y"].to_numpy(), QUICK, target="y", group="who", groups=data["who"].to_numpy()
    )


@pytest.fixture(scope="session")
def safe(fitted: Predictor) -> Predictor:
    return fitted.certify(*points(2000, 1), risk=0.05, delta=0.05)
