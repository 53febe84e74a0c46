"""The temporary PostgreSQL server of the slow tests and of the gallery, as far as it needs no server."""

from pathlib import Path

import pytest

from tools import postgres_server
from tools.postgres_server import PASSWORD, Server, UnavailableError, running


def test_without_postgresql_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_server, "server_commands", lambda: None)
    with pytest.raises(UnavailableError, match="postgresql"), running():
        pass


def test_a_url_without_a_password(tmp_path: Path) -> None:
    server = Server(tmp_path, tmp_path, {})
    assert server.password == PASSWORD
    assert server.url(password=None) == f"postgresql://squad@127.0.0.1:{server.port}/postgres"
    assert server.url("x") == f"postgresql://squad:p%40ss%2Fw%3Ard%20%25@127.0.0.1:{server.port}/x"
