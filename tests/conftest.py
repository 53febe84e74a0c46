"""Settings of the test run."""

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

# Before numpy and torch are imported, for them and for processes that tests start: work this small gains nothing from a
# second thread, and loses much where other processes want the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings

# Before scipy is imported: scikit-learn's checks of arrays other than numpy's are skipped without it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

# Before Triton is imported: its kernels run in its interpreter, on the CPU (tests/gpu/conftest.py takes that back).
os.environ.setdefault("TRITON_INTERPRET", "1")

# Deterministic: a run that fails on one machine fails on the next.
settings.register_profile("squad", deadline=None, derandomize=True, max_examples=60, print_blob=True)
settings.load_profile("squad")

SUITES = {"slow": "make test-slow", "gpu": "make test-gpu"}


FSYNC = os.fsync


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """os.fsync, which guards against power failures and takes milliseconds, only checks its file descriptor."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: os.fstat(descriptor) and None)
        yield


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """Every test starts from the same state of torch's generator, and leaves torch's settings as they were."""
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    # torch.compile turns the validation of distributions off for good.
    torch.distributions.Distribution.set_default_validate_args(__debug__)
    if "torch._dynamo" in sys.modules:
        with warnings.catch_warnings():  # of torch about itself, on loading its compiler
            warnings.simplefilter("ignore")
            torch._dynamo.reset()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which suites did not run."""
    here = Path(__file__).parent
    ignored = {Path(path).resolve() for path in config.getoption("ignore") or ()}
    left = [f"tests/{name} ({command})" for name, command in SUITES.items() if here / name in ignored]
    if left:
        terminalreporter.write_line("not run here: " + ", ".join(left))
    if os.environ.get("CI"):
        terminalreporter.write_line("CI: whatever is missing fails its tests instead of skipping them")
