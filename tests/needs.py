"""What a test needs beyond Python: it is skipped without it, with the reason, and fails without it in CI."""

import os
import shutil
from importlib.util import find_spec

import pytest
import torch


def need(present: bool, what: str) -> None:
    """Skip the calling test unless ``present``; in CI (the variable CI is set) fail it."""
    if present:
        return
    if os.environ.get("CI"):
        pytest.fail(f"CI must provide {what}")
    pytest.skip(f"needs {what}")


def need_command(name: str) -> None:
    need(shutil.which(name) is not None, f"the command {name}")


def need_package(name: str) -> None:
    need(find_spec(name) is not None, f"the Python package {name}")


def need_gpu() -> None:
    need(torch.cuda.is_available(), "a CUDA GPU")
