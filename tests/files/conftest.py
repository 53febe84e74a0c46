"""Settings of these tests."""

import os
from collections.abc import Iterator

import pytest

from tests.conftest import FSYNC


@pytest.fixture(scope="package", autouse=True)
def waiting_for_the_disk() -> Iterator[None]:
    """These tests are about writing to a disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", FSYNC)
        yield
