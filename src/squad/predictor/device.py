"""Where a predictor computes."""

import torch

from squad.errors import ArgumentError

__all__ = ["choose_device"]


def choose_device(name: str | torch.device = "auto") -> torch.device:
    """The device called ``name``, if it is one that can be computed on; "auto" is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        # Not all devices have the float64 that answers are made in, and some ("meta") have no numbers at all.
        torch.zeros(1, dtype=torch.float64, device=device).item()
    except (RuntimeError, AssertionError, TypeError, ImportError) as cause:
        reason = str(cause).splitlines()[0]
        raise ArgumentError.of("device", repr(name), "'auto', 'cpu' or a GPU of this machine", reason) from cause
    return device
