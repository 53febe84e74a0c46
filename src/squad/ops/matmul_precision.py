"""How exact matrix products on a GPU are: a switch of torch's for the whole process, kept in order."""

import contextlib
import threading
from collections.abc import Iterator

import torch

__all__ = ["PRECISIONS", "matmul_precision"]

PRECISIONS = ("tf32", "float32")

#: One at a time: who leaves first would otherwise set back what the other still needs.
_lock = threading.RLock()


@contextlib.contextmanager
def matmul_precision(precision: str, device: torch.device) -> Iterator[None]:
    """Inside, products on a GPU are in "float32", or in "tf32", which rounds factors to 10 bits and is faster.

    On other devices nothing is looked at or changed.
    """
    if device.type != "cuda":
        yield
        return
    with _lock:
        before = _get()
        _set(precision)
        try:
            yield
        finally:
            _set(before)


def _get() -> str:
    matmul = torch.backends.cuda.matmul
    try:
        return "tf32" if matmul.allow_tf32 else "float32"
    except RuntimeError:  # the user has used the newer switch, and torch (2.9 on) refuses to answer the older one
        return str(matmul.fp32_precision)


def _set(precision: str) -> None:
    matmul = torch.backends.cuda.matmul
    if precision in PRECISIONS:
        try:
            _ = matmul.allow_tf32
            matmul.allow_tf32 = precision == "tf32"
            return
        except RuntimeError:
            precision = "tf32" if precision == "tf32" else "ieee"
    matmul.fp32_precision = precision
