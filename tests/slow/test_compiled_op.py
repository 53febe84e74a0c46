"""The backend "compile" by the whole contract of a backend: every shape of it is compiled, which takes minutes."""

from collections.abc import Iterator

import pytest

from squad.ops import compiled
from tests.contracts.backends import BackendContract
from tests.needs import need_command


class TestCompiled(BackendContract):
    name = "compile"

    @pytest.fixture(autouse=True)
    def serving(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Compiled, and not left to eager after a failure."""
        need_command("g++")
        state = compiled._State()
        monkeypatch.setattr(compiled, "_state", state)
        yield
        assert not state.failed
