"""Optuna's migration scripts."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def loaded_once() -> Iterator[None]:
    """Load Optuna's migration scripts once; otherwise Alembic compiles all of them whenever a storage is opened."""
    from alembic import util

    if not hasattr(util, "load_python_file"):  # another version of Alembic: as slow as it is
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(util, "load_python_file", functools.cache(util.load_python_file))
        yield
