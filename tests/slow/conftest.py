"""Fixtures of the command's tests, for what takes longer."""

from tests.cli.conftest import here, prepared, run

__all__ = ["here", "prepared", "run"]
