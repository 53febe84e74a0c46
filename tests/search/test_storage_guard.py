"""The guard of the database: unreachable servers and damaged data."""

import re
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy.exc

from squad.search import storage_guard
from squad.search.deferred_interrupts import uninterrupted
from squad.search.optuna_private import backend_of
from squad.search.storage_guard import DamagedError, Guard, SearchError, chain, is_unreachable
from tests.search.workers import must, source


class DriverError(Exception):
    """An error as raised by a PostgreSQL driver."""

    def __init__(self, text: str, sqlstate: str | None = None) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


def lost(text: str = "connection refused", state: str | None = None) -> Exception:
    return sqlalchemy.exc.OperationalError("SELECT 1", {}, DriverError(text, state))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_guard, "FIRST_WAIT", 0.01)


@pytest.fixture
def interruptible() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Failing:
    """A call that fails ``times`` times."""

    def __init__(self, times: int, error: Exception | None = None) -> None:
        self.times, self.calls, self.at = times, 0, list[float]()
        self.error = error or lost()

    def __call__(self) -> str:
        self.calls += 1
        self.at.append(time.monotonic())
        if self.calls <= self.times:
            raise self.error
        return "done"


def test_retries_with_backoff() -> None:
    messages, resets = list[str](), list[int]()
    call = Failing(4)
    assert Guard(30, messages.append).run(call, lambda: resets.append(call.calls)) == "done"
    waits = [after - before for before, after in zip(call.at, call.at[1:], strict=False)]
    assert all(wait > 0.7 * 0.01 * 2**n for n, wait in enumerate(waits))
    assert resets == [1, 2, 3, 4]
    assert len(messages) == 2
    assert re.search("connection refused.*30 s", messages[0])
    assert "back after 0 s" in messages[1]


def test_retries_are_limited() -> None:
    call = Failing(10**6)
    begun = time.monotonic()
    with pytest.raises(sqlalchemy.exc.OperationalError):
        Guard(0.2).run(call)
    assert 0.1 < time.monotonic() - begun < 2
    assert call.calls > 2
    once = Failing(1)
    with pytest.raises(sqlalchemy.exc.OperationalError):
        Guard(0).run(once)
    assert once.calls == 1


@pytest.mark.parametrize(
    ("error", "unreachable"),
    [
        (lost(), True),
        (lost("terminating connection", "57P01"), True),
        (lost("starting up", "57P03"), True),
        (lost("connection failure", "08006"), True),
        (lost("deadlock", "40P01"), False),
        (lost('FATAL: password authentication failed for user "x"'), False),
        (lost('database "x" does not exist'), False),
        (ValueError("connection refused"), False),
        (sqlalchemy.exc.PendingRollbackError("Can't reconnect until invalid transaction is rolled back."), True),
    ],
)
def test_is_unreachable(error: Exception, unreachable: bool) -> None:
    assert is_unreachable(error) == unreachable
    import optuna

    above = optuna.exceptions.StorageInternalError("An exception is raised during the commit.")
    above.__cause__ = error
    assert is_unreachable(above) == unreachable
    assert chain(above)[1] is error


def test_no_retries_for_a_file(url: str) -> None:
    assert backend_of(source(url, 3).study).guard.retry_for == 0


def test_nested_calls_are_retried_as_a_whole() -> None:
    guard, inner = Guard(30), Failing(2)
    outer = 0

    def whole() -> str:
        nonlocal outer
        outer += 1
        return guard.run(inner)

    assert guard.run(whole) == "done"
    assert (outer, inner.calls) == (3, 3)


def test_an_interrupt_ends_the_wait(interruptible: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_guard, "FIRST_WAIT", 20.0)
    begun = time.monotonic()

    def away() -> None:
        signal.raise_signal(signal.SIGINT)
        raise lost()

    with pytest.raises(KeyboardInterrupt), uninterrupted():
        Guard(60).run(away)
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    "error", [ValueError("no JSON"), LookupError("'X' is not a state"), AssertionError(), KeyError("x")]
)
def test_unreadable_data_is_damage(url: str, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    mine = source(url, 3)
    must(mine.ask())

    def raised(*_: object, **__: object) -> Any:
        raise error

    monkeypatch.setattr("optuna.storages.RDBStorage.create_new_trial", raised)
    monkeypatch.setattr("optuna.storages.RDBStorage._create_new_trial", raised)
    with pytest.raises(DamagedError, match=f"damaged: .*{type(error).__name__}") as caught:
        mine.ask()
    assert isinstance(caught.value, SearchError)
    assert caught.value.__cause__ is error
