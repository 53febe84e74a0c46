"""Models that earlier versions saved still load, predict the same, and keep their certificates and leakage checks.

tests/saved/VERSION holds a certified model with all optional files, its certificate, new rows and what that version
answered to them.  It was made by that version itself; it is never written again.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import squad
from squad.cli import main
from squad.data.seen_rows import LeakError

SAVED = sorted((Path(__file__).parent / "saved").iterdir())


def training_rows() -> pd.DataFrame:
    """The rows that the model of 0.1.0 was fitted on."""
    random = np.random.default_rng(1)
    x, colour = random.normal(size=(300, 3)), random.choice(["red", "green"], 300)
    y = np.where(x[:, 0] + 0.5 * x[:, 1] + (colour == "red") + 0.5 * random.normal(size=300) > 0.5, "ill", "well")
    x = x.round(6)
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "colour": colour, "y": y})


@pytest.mark.parametrize("folder", SAVED, ids=lambda path: path.name)
class TestSavedModels:
    def test_answers_are_the_same(self, folder: Path) -> None:
        predictor = squad.load(folder / "table")
        rows, expected = pd.read_csv(folder / "new.csv"), pd.read_csv(folder / "answers.csv", keep_default_na=False)
        found = predictor.answer(rows, risk=0.15).to_frame()
        for name in ("label", "confidence", "decision", "reason"):  # guaranteed to the bit
            assert found[name].tolist() == expected[name].tolist(), name
        for name in ("entropy", "mutual_information"):
            np.testing.assert_allclose(found[name], expected[name], atol=1e-6)

    def test_the_certificate_is_read_and_follows_from_its_scores(self, folder: Path) -> None:
        predictor = squad.load(folder / "table")
        certificate = squad.Certificate.load(folder / "certificate.json")
        assert certificate.certified
        assert predictor.certificate is not None
        assert predictor.certificate.to_json() == certificate.to_json()
        assert [len(target) for target in certificate.targets] == [1, 2]
        assert "15 %" in str(certificate)
        assert len(predictor.attempts) == 1

    def test_rows_of_training_are_still_refused(self, folder: Path) -> None:
        rows = training_rows()
        with pytest.raises(LeakError, match="300"):
            squad.load(folder / "table").certify(rows, rows["y"].to_numpy(), 0.2, 0.05)

    def test_it_is_saved_again_as_it_was(self, folder: Path, tmp_path: Path) -> None:
        rows = pd.read_csv(folder / "new.csv")
        again = squad.load(squad.load(folder / "table").save(tmp_path / "again"))
        before = squad.load(folder / "table").answer(rows, risk=0.15)
        after = again.answer(rows, risk=0.15)
        assert after.confidence.tolist() == before.confidence.tolist()
        assert after.decision.tolist() == before.decision.tolist()
        for file in (folder / "table").glob("*.safetensors"):
            assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes(), file.name

    def test_the_command_predicts_with_it(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["predict", str(folder / "table"), str(folder / "new.csv"), "--risk", ".15"]) == 0
        decisions = pd.read_csv(folder / "answers.csv")["decision"].tolist()
        assert [line.split(",")[2] for line in capsys.readouterr().out.splitlines()[1:]] == decisions
