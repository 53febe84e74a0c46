"""How many threads torch is given: by the work, never more than the user set, and set back afterwards."""

import threading
from collections.abc import Iterator

import pytest
import torch

from squad.core import threads
from squad.core.threads import WORTH, threads_for
from squad.models import Sampler
from squad.train import TrainConfig, fit
from squad.train import step as module
from squad.train.progress import SilentProgress
from tests.contracts.answers import WAYS, example, rows
from tests.train.problems import blobs, small

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _two() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    assert threads._process.active == 0


def now() -> int:
    return torch.get_num_threads()


def test_one_for_small_work_and_what_is_set_for_large() -> None:
    with threads_for(WORTH - 1, CPU):
        assert now() == 1
    assert now() == 2
    with threads_for(WORTH, CPU):
        assert now() == 2


def test_never_more_than_is_set() -> None:
    torch.set_num_threads(1)
    with threads_for(WORTH, CPU):
        assert now() == 1
    assert now() == 1
    torch.set_num_threads(2)


def test_within_another() -> None:
    with threads_for(0, CPU):
        with threads_for(WORTH, CPU):
            assert now() == 2
        assert now() == 1
        with threads_for(0, CPU):
            assert now() == 1
        assert now() == 1


def test_an_error_sets_it_back() -> None:
    with pytest.raises(RuntimeError, match="planted"), threads_for(0, CPU):
        raise RuntimeError("planted")
    assert now() == 2


def test_what_is_set_within_stays() -> None:
    with threads_for(WORTH, CPU):
        torch.set_num_threads(1)
    assert now() == 1
    torch.set_num_threads(2)


def test_other_devices_are_left_alone() -> None:
    with threads_for(0, torch.device("meta")):
        assert now() == 2


def test_threads_of_python_do_not_disturb_each_other() -> None:
    """One that begins while another is within finds a lowered number; afterwards it has what the user set."""
    inside, leave = threading.Event(), threading.Event()
    found: list[int] = []

    def first() -> None:
        with threads_for(0, CPU):
            inside.set()
            leave.wait(20)
            found.append(now())

    def second() -> None:
        with threads_for(WORTH, CPU):
            found.append(now())
        with threads_for(0, CPU):
            found.append(now())
            leave.set()
            one.join(20)
            found.append(now())
        found.append(now())

    one = threading.Thread(target=first)
    one.start()
    assert inside.wait(20)
    two = threading.Thread(target=second)
    two.start()
    two.join(30)
    assert found == [2, 1, 1, 1, 2]


class Listener(SilentProgress):
    """Takes note of the threads between epochs."""

    def __init__(self, seen: list[int]) -> None:
        self.seen = seen

    def epoch(self, report: object) -> None:
        self.seen.append(now())


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Threads at every step of training, and at every sum of samples."""
    found: list[int] = []
    step, add = module.PlainSteps._step, Sampler._add

    def steps(*args: object) -> object:
        found.append(now())
        return step(*args)  # type: ignore[arg-type]

    def adds(*args: object) -> None:
        found.append(now())
        add(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(module.PlainSteps, "_step", steps)
    monkeypatch.setattr(Sampler, "_add", adds)
    return found


def test_small_networks_train_and_predict_with_one(seen: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    fit(small("squad"), TrainConfig(max_epochs=1), blobs(), [0], progress=Listener(seen))
    for name, sampling in WAYS:
        Sampler(example(name), sampling, 4)(rows(5))
    assert set(seen) == {1}
    seen.clear()
    monkeypatch.setattr(threads, "WORTH", 1)
    fit(small("squad"), TrainConfig(max_epochs=1), blobs(), [0])
    Sampler(example("squad"), "hard", 4)(rows(5))
    assert set(seen) == {2}
