"""Settings of these tests."""

from collections.abc import Iterator

import pytest

from tests.interpreter import patched_once


@pytest.fixture(scope="session", autouse=True)
def fast_interpreter() -> Iterator[None]:
    with patched_once():
        yield
