"""Ctrl-C, SIGTERM and full disks: runs are saved, and the resumed run ends with the same weights."""

import dataclasses
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

from squad.train import TrainConfig, checkpoint, fit, save_on_interrupt
from squad.train.adam import Adam
from squad.train.loop import Fitted
from squad.train.save_on_interrupt import DUPLICATE_SECONDS, SaveOnInterrupt
from tests.train.problems import blobs, small
from tests.train.test_checkpoint import SETTINGS, assert_same
from tests.train.test_loop import Listener


def train(path: Path | None, progress: object = None, seconds: float = 1e9, settings: TrainConfig = SETTINGS) -> Fitted:
    """As in test_checkpoint, but no periodic checkpoint is ever due."""
    data = blobs(members=3, noise=2.0)
    network = small("squad", dropout=0.1)
    return fit(network, settings, data, [1, 2, 3], checkpoint=path, checkpoint_seconds=seconds, progress=progress)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def whole() -> Fitted:
    return train(None)


@pytest.fixture
def received_signals() -> Iterator[list[int]]:
    """Signals that reach the user's own handler, which raises KeyboardInterrupt as Python's does for Ctrl-C."""
    received: list[int] = []

    def handle(number: int, _: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = [signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)]
    yield received
    for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
        signal.signal(number, handler)


class SendSignal(Listener):
    """Sends a signal in the middle of an epoch, after ``after`` epochs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int, number: signal.Signals) -> None:
        super().__init__()
        self.sent = False
        step = Adam.step

        def interrupted(adam: Adam) -> None:
            step(adam)
            if len(self.reports) == after and not self.sent:
                self.sent = True
                signal.raise_signal(number)

        monkeypatch.setattr(Adam, "step", interrupted)


@pytest.mark.parametrize(("number", "after"), [(signal.SIGTERM, 1), (signal.SIGINT, 7), (signal.SIGTERM, 11)])
def test_a_signal_in_the_middle_of_an_epoch(
    tmp_path: Path,
    whole: Fitted,
    received_signals: list[int],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    after: int,
) -> None:
    path = tmp_path / "run.checkpoint"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        train(path, SendSignal(patch, after, number))
    assert received_signals == [number], "the previous handler is called once"
    listener = Listener()
    assert_same(train(path, listener), whole)
    assert listener.first == after


def test_nothing_is_saved_before_the_first_epoch(
    tmp_path: Path, received_signals: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run.checkpoint", SendSignal(monkeypatch, 0, signal.SIGINT))
    assert list(tmp_path.iterdir()) == []


def test_a_swallowed_interrupt_ends_the_run_after_the_epoch(
    tmp_path: Path, whole: Fitted, received_signals: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Libraries may catch the KeyboardInterrupt."""
    path, step = tmp_path / "run.checkpoint", Adam.step

    class Counting(Listener):
        def swallow(self, adam: Adam) -> None:
            step(adam)
            if len(self.reports) == 3 and not received_signals:
                try:
                    signal.raise_signal(signal.SIGINT)
                except BaseException:
                    return

    listener = Counting()
    with monkeypatch.context() as patch:
        patch.setattr(Adam, "step", lambda adam: listener.swallow(adam))
        with pytest.raises(KeyboardInterrupt):
            train(path, listener)
    assert received_signals == [signal.SIGINT]
    again = Listener()
    assert_same(train(path, again), whole)
    assert again.first == 4


def test_handlers_do_not_change_without_a_checkpoint_or_in_another_thread(tmp_path: Path) -> None:
    short = dataclasses.replace(SETTINGS, max_epochs=2, anneal_epochs=1)
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    class Look(Listener):
        def epoch(self, report: object) -> None:
            seen.append(signal.getsignal(signal.SIGTERM))
            super().epoch(report)  # type: ignore[arg-type]

    train(None, Look(), settings=short)
    thread = threading.Thread(target=train, args=(tmp_path / "run.checkpoint", Look(), 1e9, short))
    thread.start()
    thread.join()
    assert len(seen) == 4
    assert set(seen) == {before}
    train(tmp_path / "run.checkpoint", Look(), settings=short)
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with SaveOnInterrupt(lambda: None):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_second_interrupt_abandons_the_saving(received_signals: list[int]) -> None:
    def save() -> None:
        signal.raise_signal(signal.SIGINT)  # immediately: the same signal, forwarded by a wrapper
        signal.raise_signal(signal.SIGTERM)
        time.sleep(DUPLICATE_SECONDS)
        signal.raise_signal(signal.SIGTERM)
        steps.append("continues")
        signal.raise_signal(signal.SIGINT)
        steps.append("not reached")

    steps: list[str] = []
    with pytest.raises(KeyboardInterrupt), SaveOnInterrupt(save):
        signal.raise_signal(signal.SIGINT)
    assert steps == ["continues"]


def test_sigterm_without_a_handler_ends_the_process_after_saving() -> None:
    """The module is run as a file, without importing torch; tests/slow has a real training run."""
    code = (
        "import runpy, signal, sys\n"
        "names = runpy.run_path(sys.argv[1])\n"
        "with names['SaveOnInterrupt'](lambda: print('saved', flush=True)):\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "print('not reached')"
    )
    command = [sys.executable, "-c", code, save_on_interrupt.__file__]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGTERM, "saved\n", "")


class Disk:
    """A disk that is full for the first ``full`` writes."""

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
    messages = [text for text in listener.messages if "checkpoint" in text]
    assert len(messages) == 2
    assert messages[0].startswith("warning: ")
    assert "No space left" in messages[0]
    assert not messages[1].startswith("warning: ")
    assert "epoch 4" in messages[1]
    assert checkpoint.read(tmp_path / "run.checkpoint", _fingerprint(tmp_path)) is not None


def _fingerprint(folder: Path) -> str:
    from safetensors import safe_open

    with safe_open(folder / "run.checkpoint", framework="pt") as file:
        return str(file.metadata()["fingerprint"])


def test_a_disk_that_stays_full_is_reported_again_at_the_end(
    tmp_path: Path, whole: Fitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    Disk(monkeypatch, 10**6)
    listener = Listener()
    assert_same(train(tmp_path / "run.checkpoint", listener, seconds=0), whole)
    messages = [text for text in listener.messages if "checkpoint" in text]
    assert len(messages) == 2
    assert all(text.startswith("warning: ") for text in messages)
    assert list(tmp_path.iterdir()) == []


def test_interrupted_on_a_full_disk(
    tmp_path: Path, received_signals: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    Disk(monkeypatch, 10**6)
    listener = SendSignal(monkeypatch, 2, signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run.checkpoint", listener)
    assert received_signals == [signal.SIGTERM]
    assert any(text.startswith("warning: ") and "No space left" in text for text in listener.messages)
