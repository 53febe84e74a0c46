"""Ctrl-C, SIGTERM and full disks: what was trained is kept, and the weights come out the same."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from squad.train import checkpoint, fit
from squad.train.adam import Adam
from squad.train.loop import Fitted
from squad.train.save_on_interrupt import ECHO, Saving
from tests.train.problems import blobs, small
from tests.train.test_checkpoint import SETTINGS, assert_same
from tests.train.test_loop import Listener


def train(path: Path | None, progress: object = None, seconds: float = 1e9) -> Fitted:
    """As in test_checkpoint, but no checkpoint is ever due."""
    data = blobs(members=3, noise=2.0)
    network = small("squad", dropout=0.1)
    return fit(network, SETTINGS, data, [1, 2, 3], checkpoint=path, checkpoint_seconds=seconds, progress=progress)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def whole() -> Fitted:
    return train(None)


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """What reaches a handler of the user's own, which raises as Python's for Ctrl-C does."""
    came: list[int] = []

    def hear(number: int, _: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    before = [signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)]
    yield came
    for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
        signal.signal(number, handler)


class Blow(Listener):
    """Sends a signal in the middle of a step, after so many epochs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int, blow: signal.Signals) -> None:
        super().__init__()
        self.sent = False
        step = Adam.step

        def interrupted(adam: Adam) -> None:
            step(adam)
            if len(self.reports) == after and not self.sent:
                self.sent = True
                signal.raise_signal(blow)

        monkeypatch.setattr(Adam, "step", interrupted)


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after", [1, 7, 11])
def test_a_signal_in_the_middle_of_an_epoch(
    tmp_path: Path, whole: Fitted, heard: list[int], monkeypatch: pytest.MonkeyPatch, blow: signal.Signals, after: int
) -> None:
    path = tmp_path / "run.checkpoint"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        train(path, Blow(patch, after, blow))
    assert heard == [blow], "whoever listened before is told, once"
    listener = Listener()
    assert_same(train(path, listener), whole)
    assert listener.first == after


def test_before_the_first_epoch_there_is_nothing_to_keep(
    tmp_path: Path, heard: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run.checkpoint", Blow(monkeypatch, 0, signal.SIGINT))
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_that_is_swallowed_counts(
    tmp_path: Path, whole: Fitted, heard: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Libraries in between may catch more than is theirs: then the run ends with its epoch."""
    path, step = tmp_path / "run.checkpoint", Adam.step

    class Counting(Listener):
        def swallow(self, adam: Adam) -> None:
            step(adam)
            if len(self.reports) == 3 and not heard:
                try:
                    signal.raise_signal(signal.SIGINT)
                except BaseException:
                    return

    listener = Counting()
    with monkeypatch.context() as patch:
        patch.setattr(Adam, "step", lambda adam: listener.swallow(adam))
        with pytest.raises(KeyboardInterrupt):
            train(path, listener)
    assert heard == [signal.SIGINT]
    again = Listener()
    assert_same(train(path, again), whole)
    assert again.first == 4


def test_nothing_changes_without_a_checkpoint_or_in_another_thread(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    class Look(Listener):
        def epoch(self, report: object) -> None:
            seen.append(signal.getsignal(signal.SIGTERM))
            super().epoch(report)  # type: ignore[arg-type]

    train(None, Look())
    thread = threading.Thread(target=train, args=(tmp_path / "run.checkpoint", Look()))
    thread.start()
    thread.join()
    assert set(seen) == {before}
    train(tmp_path / "run.checkpoint", Look())
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Saving(lambda: None):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_second_interrupt_gives_up_the_saving(heard: list[int]) -> None:
    def save() -> None:
        signal.raise_signal(signal.SIGINT)  # at once: the same one, handed on by a wrapper
        signal.raise_signal(signal.SIGTERM)
        time.sleep(ECHO)
        signal.raise_signal(signal.SIGTERM)
        steps.append("goes on")
        signal.raise_signal(signal.SIGINT)
        steps.append("not reached")

    steps: list[str] = []
    with pytest.raises(KeyboardInterrupt), Saving(save):
        signal.raise_signal(signal.SIGINT)
    assert steps == ["goes on"]


def test_sigterm_ends_a_program_that_does_not_listen(tmp_path: Path, whole: Fitted) -> None:
    path = tmp_path / "run.checkpoint"
    code = (
        "import signal, sys; from pathlib import Path; from tests.train.test_save_on_interrupt import train, Listener\n"
        "class Blow(Listener):\n"
        "    def epoch(self, report):\n"
        "        super().epoch(report)\n"
        "        if report.epoch == 3: signal.raise_signal(signal.SIGTERM)\n"
        "train(Path(sys.argv[1]), Blow())"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGTERM, "")
    assert_same(train(path), whole)


class Disk:
    """Full, for so many writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, full: int) -> None:
        self.left, write = full, checkpoint.write

        def try_it(*arguments: object) -> None:
            if self.left:
                self.left -= 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "run.checkpoint")
            write(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(checkpoint, "write", try_it)


def test_a_full_disk_does_not_end_a_run(tmp_path: Path, whole: Fitted, monkeypatch: pytest.MonkeyPatch) -> None:
    Disk(monkeypatch, 3)
    listener = Listener()
    assert_same(train(tmp_path / "run.checkpoint", listener, seconds=0), whole)
    told = [text for text in listener.messages if "checkpoint" in text]
    assert len(told) == 2
    assert told[0].startswith("warning: ")
    assert "No space left" in told[0]
    assert not told[1].startswith("warning: ")
    assert "epoch 4" in told[1]
    assert checkpoint.read(tmp_path / "run.checkpoint", _fingerprint(tmp_path)) is not None


def _fingerprint(folder: Path) -> str:
    from safetensors import safe_open

    with safe_open(folder / "run.checkpoint", framework="pt") as file:
        return str(file.metadata()["fingerprint"])


def test_a_disk_that_stays_full_is_told_of_again(
    tmp_path: Path, whole: Fitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    Disk(monkeypatch, 10**6)
    listener = Listener()
    assert_same(train(tmp_path / "run.checkpoint", listener, seconds=0), whole)
    told = [text for text in listener.messages if "checkpoint" in text]
    assert len(told) == 2
    assert all(text.startswith("warning: ") for text in told)
    assert list(tmp_path.iterdir()) == []


def test_interrupted_on_a_full_disk(tmp_path: Path, heard: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    Disk(monkeypatch, 10**6)
    listener = Blow(monkeypatch, 2, signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run.checkpoint", listener)
    assert heard == [signal.SIGTERM]
    assert any(text.startswith("warning: ") and "No space left" in text for text in listener.messages)
