"""Storages of studies for tests."""

import functools
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from alembic import util

from squad.search.storage import close_storage, file_url, open_storage
from tests.search.workers import (
    close_all,
)


@pytest.fixture(scope="session", autouse=True)
def migrations() -> Iterator[None]:
    """Optuna's scripts are loaded once: whenever a storage is opened, Alembic compiles all of them anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(util, "load_python_file", functools.cache(util.load_python_file))
        yield


@pytest.fixture
def closed() -> Iterator[None]:
    """Lets go of what a test has opened."""
    yield
    close_all()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage without studies: its tables take a third of a second to make."""
    path = tmp_path_factory.mktemp("storage") / "study.db"
    close_storage(open_storage(file_url(path), stale_after=60))
    return path


@pytest.fixture
def new(tmp_path: Path, empty: Path, closed: None) -> Callable[[], str]:
    """The address of another storage at every call."""
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
    """Where there is no storage yet."""
    return file_url(tmp_path / "nothing.db")
