"""Precision of matrix products on a GPU, as a context manager around torch's process-wide setting."""

import contextlib
import threading
from collections.abc import Iterator

import torch

__all__ = ["PRECISIONS", "matmul_precision"]

PRECISIONS = ("tf32", "float32")

#: One block at a time: otherwise a thread that leaves first would reset the setting that another still needs.
_lock = threading.RLock()


@contextlib.contextmanager
def matmul_precision(precision: str, device: torch.device) -> Iterator[None]:
    """Set the precision of matrix products on a GPU inside the ``with`` block.

    Args:
        precision: "float32", or "tf32", which rounds the factors to 10 bits and is faster.
        device: Device that computes; on any device except a GPU nothing is read or changed.
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
    except RuntimeError:  # the user has set the newer fp32_precision, and torch >= 2.9 refuses to read the older one
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
