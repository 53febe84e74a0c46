"""Storages of studies for tests."""

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from squad.search.storage import close_storage, file_url, open_storage
from tests.search.migrations import loaded_once
from tests.search.workers import close_all


@pytest.fixture(scope="session", autouse=True)
def migrations() -> Iterator[None]:
    with loaded_once():
        yield


@pytest.fixture
def closed() -> Iterator[None]:
    """Close the storages that a test has opened."""
    yield
    close_all()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage without studies, whose tables take a third of a second to create."""
    path = tmp_path_factory.mktemp("storage") / "study.db"
    close_storage(open_storage(file_url(path), stale_after=60))
    return path


@pytest.fixture
def new(tmp_path: Path, empty: Path, closed: None) -> Callable[[], str]:
    """A function that returns the URL of a new storage at every call."""
    numbers = count()

    def make() -> str:
        path = tmp_path / f"{next(numbers)}.db"
        shutil.copy(empty, path)
        return file_url(path)

    return make


@pytest.fixture
def url(new: Callable[[], str]) -> str:
    return new()


@pytest.fixture
def nothing(tmp_path: Path, closed: None) -> str:
    """URL of a storage that does not exist yet."""
    return file_url(tmp_path / "nothing.db")
