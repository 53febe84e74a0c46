"""Tuning must not hurt what can be certified on rows that neither training nor the search has seen."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from squad.fitting import fit_predictor
from squad.search.tuning import tune
from squad.settings import fit_settings

#: What a certificate is asked for, and what all trials share.
RISK, DELTA = 0.05, 0.1
SHARED = {"validation": 0.5, "training": {"max_epochs": 20}}
#: Of the certified coverage of one network on 1,497 rows: three standard errors of a difference of two shares, and as
#: much again for another seed of training.
NOISE = 0.11


def test_twelve_trials_certify_no_less_than_the_defaults(tmp_path: Path) -> None:
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    train, calibration = order[:300], order[300:]
    found = tune(
        *(x[train], y[train]),
        trials=12,
        objective=f"coverage@risk={RISK},delta={DELTA}",
        settings=SHARED,
        out=tmp_path / "study",
    )
    best = found.best()
    assert best is not None
    assert found.trials[0].value is not None
    assert best.value is not None
    assert best.value >= found.trials[0].value
    coverage = []
    for settings in (fit_settings(SHARED), found.best_settings()):
        safe = fit_predictor(x[train], y[train], settings).certify(
            x[calibration], y[calibration], risk=RISK, delta=DELTA
        )
        coverage.append(float((safe.answer(x[calibration]).decision == "accepted").mean()))
    default, tuned = coverage
    print(f"certified coverage: defaults {default:.3f}, trial {best.number} {tuned:.3f}")
    assert default > 0.2  # else there would be nothing to lose
    assert tuned >= default - NOISE
