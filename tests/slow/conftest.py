"""Fixtures of the tests of the command and of searches, for what takes longer."""

from tests.cli.conftest import here, prepared, run, uninterrupted
from tests.search.conftest import closed, empty, new, nothing, url

__all__ = ["closed", "empty", "here", "new", "nothing", "prepared", "run", "uninterrupted", "url"]
