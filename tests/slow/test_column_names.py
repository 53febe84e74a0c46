"""A model fitted on a data frame, saved, and used by the command in new processes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import squad
from squad.predictor import Predictor
from tests.predictor.test_column_names import NAMES, people


@pytest.fixture
def safe() -> Predictor:
    classifier = squad.SquadClassifier(hidden=(8,), max_epochs=15, random_state=0).fit(*people(600, 0))
    return classifier.certify(*people(1000, 1), risk=0.1, delta=0.1)


def test_end_to_end_in_new_processes(safe: Predictor, tmp_path: Path) -> None:
    x, y = people(300, 3)
    expected = safe.answer(x)
    safe.save(tmp_path / "model")
    x.assign(outcome=y)[["outcome", *NAMES[::-1]]].to_csv(tmp_path / "new.csv", index=False)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "squad", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    made = run("predict", "model", "new.csv", "--out", "answers.csv")
    assert made.returncode == 0, made.stderr
    answers = pd.read_csv(tmp_path / "answers.csv", keep_default_na=False)
    assert answers["decision"].tolist() == expected.decision.tolist()
    np.testing.assert_array_equal(answers["confidence"].astype(float), expected.confidence)
    measured = run("evaluate", "model", "new.csv", "--target", "outcome")
    assert measured.returncode == 0, measured.stderr
    x.drop(columns="mass").to_csv(tmp_path / "less.csv", index=False)
    refused = run("predict", "model", "less.csv")
    assert refused.returncode == 2
    assert "'mass'" in refused.stderr
