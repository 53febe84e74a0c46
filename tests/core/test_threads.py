"""Number of torch's threads: chosen by the amount of work, never above the user's setting, and restored afterwards."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from squad.core import threads
from squad.core.threads import MIN_PARALLEL_WORK, limit_threads
from squad.models import Sampler, build
from squad.train import TrainConfig, fit
from squad.train import step as step_module
from squad.train.progress import SilentProgress
from tests.contracts.answers import WAYS, example, rows
from tests.train.problems import blobs, small

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    assert threads._process.active == 0


def num_threads() -> int:
    return torch.get_num_threads()


def test_one_thread_for_small_work_and_the_setting_for_large_work() -> None:
    with limit_threads(MIN_PARALLEL_WORK - 1, CPU):
        assert num_threads() == 1
    assert num_threads() == 2
    with limit_threads(MIN_PARALLEL_WORK, CPU):
        assert num_threads() == 2


def test_never_more_threads_than_set() -> None:
    torch.set_num_threads(1)
    with limit_threads(MIN_PARALLEL_WORK, CPU):
        assert num_threads() == 1
    assert num_threads() == 1
    torch.set_num_threads(2)


def test_nested_blocks() -> None:
    with limit_threads(0, CPU):
        with limit_threads(MIN_PARALLEL_WORK, CPU):
            assert num_threads() == 2
        assert num_threads() == 1
        with limit_threads(0, CPU):
            assert num_threads() == 1
        assert num_threads() == 1


def test_setting_is_restored_after_an_error() -> None:
    with pytest.raises(RuntimeError, match="planted"), limit_threads(0, CPU):
        raise RuntimeError("planted")
    assert num_threads() == 2


def test_a_setting_changed_inside_is_kept() -> None:
    with limit_threads(MIN_PARALLEL_WORK, CPU):
        torch.set_num_threads(1)
    assert num_threads() == 1
    torch.set_num_threads(2)


def test_other_devices_are_unaffected() -> None:
    with limit_threads(0, torch.device("meta")):
        assert num_threads() == 2


def test_python_threads_are_independent() -> None:
    """A thread that enters while another is inside finds a lowered setting; it restores the user's setting."""
    inside, leave = threading.Event(), threading.Event()
    counts: list[int] = []

    def first() -> None:
        with limit_threads(0, CPU):
            inside.set()
            leave.wait(20)
            counts.append(num_threads())

    def second() -> None:
        with limit_threads(MIN_PARALLEL_WORK, CPU):
            counts.append(num_threads())
        with limit_threads(0, CPU):
            counts.append(num_threads())
            leave.set()
            one.join(20)
            counts.append(num_threads())
        counts.append(num_threads())

    one = threading.Thread(target=first)
    one.start()
    assert inside.wait(20)
    two = threading.Thread(target=second)
    two.start()
    two.join(30)
    assert counts == [2, 1, 1, 1, 2]


class Recorder(SilentProgress):
    """Records the number of threads between epochs."""

    def __init__(self, seen: list[int]) -> None:
        self.seen = seen

    def epoch(self, report: object) -> None:
        self.seen.append(num_threads())


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of threads at every training step, and whenever samples are added up."""
    counts: list[int] = []
    step, add = step_module.PlainSteps._step, Sampler._add

    def record_step(*args: object) -> object:
        counts.append(num_threads())
        return step(*args)  # type: ignore[arg-type]

    def record_add(*args: object) -> None:
        counts.append(num_threads())
        add(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(step_module.PlainSteps, "_step", record_step)
    monkeypatch.setattr(Sampler, "_add", record_add)
    return counts


def test_preparation_of_a_fit_takes_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Initial weights, and the network that is returned, whatever the size of the steps."""
    counts: list[int] = []

    def record_build(*args: Any) -> Any:
        counts.append(num_threads())
        return build(*args)

    monkeypatch.setattr("squad.train.loop.build", record_build)
    monkeypatch.setattr(threads, "MIN_PARALLEL_WORK", 1)
    fit(small("squad"), TrainConfig(max_epochs=1), blobs(60), [0])
    assert counts == [1, 1]


def test_small_networks_train_and_predict_with_one_thread(seen: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    fit(small("squad"), TrainConfig(max_epochs=1), blobs(60), [0], progress=Recorder(seen))
    for name, sampling in WAYS:
        Sampler(example(name), sampling, 4)(rows(5))
    assert set(seen) == {1}
    seen.clear()
    monkeypatch.setattr(threads, "MIN_PARALLEL_WORK", 1)
    fit(small("squad"), TrainConfig(max_epochs=1), blobs(60), [0])
    Sampler(example("squad"), "hard", 4)(rows(5))
    assert set(seen) == {2}
