"""Interrupted runs resume from their last checkpoint and end with the same weights, bit by bit."""

import os
from pathlib import Path

import pytest
import torch

from squad.train import CheckpointError, TrainConfig, checkpoint, fit
from squad.train.adam import flatten
from squad.train.loop import Fitted
from tests.train.problems import blobs, small
from tests.train.test_loop import Listener

SETTINGS = TrainConfig(lr=3e-3, batch_size=48, max_epochs=30, anneal_epochs=5, stop_patience=5, lr_patience=2)


def train(path: Path | None, progress: object = None, settings: TrainConfig = SETTINGS) -> Fitted:
    data = blobs(members=3, noise=2.0)
    return fit(
        small("squad", dropout=0.1), settings, data, [1, 2, 3], checkpoint=path, checkpoint_seconds=0, progress=progress  # type: ignore[arg-type]
    )  # fmt: skip


class Interrupt(Listener):
    """Interrupts the run as Ctrl-C would, after ``after`` epochs."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def epoch(self, report: object) -> None:
        if len(self.reports) == self.after:
            raise KeyboardInterrupt
        super().epoch(report)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def whole() -> Fitted:
    return train(None)


def assert_same(found: Fitted, expected: Fitted) -> None:
    assert torch.equal(flatten(found.network), flatten(expected.network))
    assert found.members == expected.members
    assert found.history == expected.history


@pytest.mark.parametrize("after", [1, 11])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, whole: Fitted, after: int) -> None:
    assert len({member.epochs for member in whole.members}) > 1, "members must leave at different times"
    path = tmp_path / "run.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        train(path, Interrupt(after))
    listener = Listener()
    assert_same(train(path, listener), whole)
    assert listener.first == after
    assert f"epoch {after}," in listener.messages[0]


def test_interrupted_several_times(tmp_path: Path, whole: Fitted) -> None:
    path = tmp_path / "run.checkpoint"
    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            train(path, Interrupt(3))
    assert_same(train(path), whole)


def test_a_failed_write_leaves_the_previous_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.checkpoint"
    checkpoint.write(path, {"a": torch.ones(3)}, {"epoch": 1}, "print")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.write(path, {"a": torch.zeros(3)}, {"epoch": 2}, "print")
    monkeypatch.undo()
    found = checkpoint.read(path, "print")
    assert found is not None
    assert found[1] == {"epoch": 1}
    assert found[0]["a"].tolist() == [1, 1, 1]
    assert [file.name for file in tmp_path.iterdir()] == ["run.checkpoint"]


def test_a_damaged_checkpoint_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    checkpoint.write(path, {"a": torch.ones(300)}, {"epoch": 1}, "print")
    data = path.read_bytes()
    for damaged in (data[:100], data[:-1], b"", b"not this"):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"run\.checkpoint.*Delete"):
            checkpoint.read(path, "print")


def test_a_flipped_bit_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    checkpoint.write(path, {"a": torch.ones(300), "b": torch.zeros(7)}, {"epoch": 1}, "print")
    data = bytearray(path.read_bytes())
    for position in (-1, -500, -1228):
        data[position] ^= 0x10
        path.write_bytes(data)
        with pytest.raises(CheckpointError, match=r"run\.checkpoint.*Delete"):
            checkpoint.read(path, "print")
        data[position] ^= 0x10


def test_a_finished_run_is_not_trained_again(tmp_path: Path, whole: Fitted) -> None:
    """The last checkpoint is of the last epoch, for a process killed before it saves the model."""
    path = tmp_path / "run.checkpoint"
    train(path)
    listener = Listener()
    assert_same(train(path, listener), whole)
    assert listener.reports == []


def test_a_checkpoint_of_another_run_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        train(path, Interrupt(2))
    with pytest.raises(CheckpointError, match=r"run\.checkpoint.*other settings or other data"):
        train(path, settings=TrainConfig.of({**SETTINGS.to_dict(), "lr": 1e-3}))
    data = blobs(members=3, noise=2.0)
    with pytest.raises(CheckpointError, match=r"run\.checkpoint.*other settings or other data"):
        fit(small("squad", dropout=0.1), SETTINGS, data, [1, 2, 4], checkpoint=path)
    data.x[0, 0] += 1
    with pytest.raises(CheckpointError, match=r"run\.checkpoint.*other settings or other data"):
        fit(small("squad", dropout=0.1), SETTINGS, data, [1, 2, 3], checkpoint=path)


def test_another_format_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.checkpoint"
    monkeypatch.setattr(checkpoint, "FORMAT", 99)
    checkpoint.write(path, {"a": torch.ones(3)}, {}, "print")
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="format 99"):
        checkpoint.read(path, "print")
