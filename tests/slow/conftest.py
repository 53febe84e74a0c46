"""Fixtures of the tests of the command and of searches, for what takes longer."""

import os
import tempfile
from pathlib import Path

from tests.cli.conftest import here, prepared, run, uninterrupted
from tests.files.conftest import waiting_for_the_disk
from tests.search.conftest import closed, empty, new, nothing, url

__all__ = [
    "closed",
    "empty",
    "here",
    "new",
    "nothing",
    "prepared",
    "run",
    "uninterrupted",
    "url",
    "waiting_for_the_disk",
]

# PyTorch keeps what torch.compile wrote, and finds it again under another instruction set, for which it does not
# compile: a cache for each.
if (_capability := os.environ.get("ATEN_CPU_CAPABILITY")) and "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
    _cache = Path(tempfile.gettempdir()) / f"torchinductor_{os.getuid()}_{_capability}"
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(_cache)
