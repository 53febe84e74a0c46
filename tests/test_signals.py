"""Clean shutdown on SIGTERM."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from squad.search.deferred_interrupts import pending, uninterrupted
from squad.signals import TERMINATED, Terminated, terminating


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def test_sigterm_raises_and_the_handler_is_restored() -> None:
    with pytest.raises(Terminated) as caught, terminating():
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.code == TERMINATED == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_an_uncaught_sigterm_cleans_up_and_exits_with_143() -> None:
    code = (
        "import os, signal\n"
        "from squad.signals import terminating\n"
        "with terminating():\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    finally:\n"
        "        print('cleaned')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (143, "cleaned\n", "")


def test_an_existing_handler_is_kept() -> None:
    came = []
    signal.signal(signal.SIGTERM, lambda *_: came.append(True))
    with terminating():
        signal.raise_signal(signal.SIGTERM)
    assert came == [True]


def test_no_handler_is_set_in_a_thread() -> None:
    def run() -> None:
        with terminating(), uninterrupted():
            found.append(signal.getsignal(signal.SIGTERM))

    found: list[object] = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL]


def test_sigterm_waits_for_the_end_of_a_transaction() -> None:
    seen = []

    def transaction() -> None:
        with uninterrupted():
            seen.append(pending())
            with uninterrupted():
                signal.raise_signal(signal.SIGTERM)
                seen.append(pending())
            seen.append(pending())

    with pytest.raises(Terminated), terminating():
        transaction()
    assert seen == [False, True, True]
    assert not pending()
