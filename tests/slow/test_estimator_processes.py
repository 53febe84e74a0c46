"""SquadClassifier fitted by scikit-learn in other processes, which take seconds to start."""

import warnings

import numpy as np
from sklearn.model_selection import cross_validate

from tests.test_estimator import blobs, quick


def test_searches_in_other_processes() -> None:
    x, y = blobs(60)
    with warnings.catch_warnings():  # joblib warns about processes that are still starting
        warnings.simplefilter("ignore", UserWarning)
        made = cross_validate(quick("mlp", max_epochs=2), x, y, cv=2, n_jobs=2, return_estimator=True)
    alone = cross_validate(quick("mlp", max_epochs=2), x, y, cv=2, return_estimator=True)
    for there, here in zip(made["estimator"], alone["estimator"], strict=True):
        np.testing.assert_allclose(there.predict_proba(x), here.predict_proba(x), atol=1e-5)
