"""Kill a process at every file operation while it removes row hashes from a model."""

import signal
from pathlib import Path

import pytest
import torch

from squad import artifact
from squad.files import folders
from squad.files.scratch import remove_abandoned
from tests.files.faults import in_child
from tests.files.test_scratch import ROWS, names


@pytest.mark.parametrize("exchange", [True, False])
def test_killed_at_every_event_of_a_strip(tmp_path: Path, exchange: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row hashes are gone after the next save, wherever the first one was killed."""
    if not exchange:  # a system that cannot exchange two folders atomically
        monkeypatch.setattr(folders, "_exchange", lambda *_: False)
    model = tmp_path / "model"

    def whole() -> None:
        artifact.save(model, {"a": torch.zeros(3)}, {"x": 1}, overwrite=True, extras=ROWS)

    def strip() -> None:
        artifact.save(model, {"a": torch.zeros(3)}, {"x": 2}, overwrite=True)

    whole()
    code, events = in_child(strip)
    assert code == 0
    assert names(tmp_path) == ["model"]
    left = 0
    for at in range(1, events + 1):
        whole()
        code, _ = in_child(strip, at)
        assert code == -signal.SIGKILL
        left += names(tmp_path) != ["model"]
        if not model.exists():  # between two renames, only on such a system
            assert not exchange
            with pytest.raises(artifact.ArtifactError, match="saving it was cut off: the model that was there is"):
                artifact.load(model)
            remove_abandoned(model)
        tensors, config = artifact.load(model)
        assert tensors["a"].shape == (3,)
        assert (artifact.load_extra(model, "rows", config) is not None) == (config["x"] == 1)
        strip()
        assert names(tmp_path) == ["model"]
        assert names(model) == ["config.json", "model.safetensors"]
    assert left > events / 2
