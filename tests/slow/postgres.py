"""A temporary PostgreSQL server for tests, which are skipped without one."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.needs import need
from tools import postgres_server
from tools.postgres_server import PASSWORD, Server

__all__ = ["PASSWORD", "Server", "running"]


@contextmanager
def running() -> Iterator[Server]:
    """Run a server inside the block; skip the test if PostgreSQL is not installed."""
    need(postgres_server.server_commands() is not None, "the server of PostgreSQL (Debian's package postgresql)")
    with postgres_server.running() as server:
        yield server
