"""The backend "compile", tested by the complete contract: compiling every shape takes minutes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from squad.ops import compiled, eager
from tests.contracts.backends import BackendContract, problem
from tests.needs import need_command


class TestCompiled(BackendContract):
    name = "compile"
    # The compiler chooses vectors and threads by shape, and with them the order of sums; noise of another seed would
    # differ by far more.
    rounding = 1e-5

    @pytest.fixture(autouse=True)
    def serving(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Assert that kernels are compiled, without falling back to eager."""
        need_command("g++")
        state = compiled._State()
        monkeypatch.setattr(compiled, "_state", state)
        yield
        assert not state.failed

    def test_the_last_batch_of_an_epoch_is_padded(self) -> None:
        full, rest = problem((2, 20), 5, 7, members=True), problem((2, 13), 5, 7, members=True)
        full.run(compiled.sample_with_kl, torch.float32)
        got, want = rest.run(compiled.sample_with_kl, torch.float32), rest.run(eager.sample_with_kl, torch.float32)
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
        assert [list(sizes) for sizes in compiled._state.kernels.values()] == [[20]]


def test_missing_compiler(tmp_path: Path) -> None:
    """With torch's own error, in a separate process, because torch caches which compiler it found."""
    code = """
import torch, warnings
from squad.ops import sample_with_kl
a, v, r = torch.randn(4, 5, 7, requires_grad=True), torch.randn(5, 1), torch.zeros(5, 1).log_softmax(0)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    found = [sample_with_kl(a, v, r, 0.5, seed=1, backend=name)[0] for name in ("compile", "compile", "eager")]
found[0].sum().backward()
assert torch.equal(found[0], found[2]) and torch.equal(found[1], found[2])
messages = [str(w.message) for w in caught if w.category is RuntimeWarning]
assert len(messages) == 1 and "torch.compile failed" in messages[0] and '"eager"' in messages[0], messages
"""
    environment = {**os.environ, "CXX": "no-such-compiler", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 0, run.stderr[-3000:]
