"""What a test needs beyond Python: it is skipped without it, with the reason, and fails without it in CI."""

import os
import shutil

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


def need_gpu() -> None:
    need(torch.cuda.is_available(), "a CUDA GPU")
