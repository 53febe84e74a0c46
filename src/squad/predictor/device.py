"""Where a predictor computes."""

import torch

from squad.errors import ArgumentError

__all__ = ["choose_device", "named_device"]

DEVICES = "'auto', 'cpu' or a GPU of this machine"


def choose_device(name: str | torch.device = "auto") -> torch.device:
    """The device called ``name``, if it is one that can be computed on; "auto" is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = named_device(name)
    try:
        # Not all devices have the float64 that answers are made in, and some ("meta") have no numbers at all.
        torch.zeros(1, dtype=torch.float64, device=device).item()
    except (RuntimeError, AssertionError, TypeError, ImportError) as cause:
        reason = str(cause).splitlines()[0]
        raise ArgumentError.of("device", repr(name), DEVICES, reason) from cause
    return device


def named_device(name: str | torch.device) -> torch.device:
    """What torch calls so, whether this machine has one or not."""
    try:
        return torch.device(name)
    except (RuntimeError, TypeError):  # with a list of all that were ever thought of
        raise ArgumentError.of("device", repr(name), DEVICES, "The first GPU is cuda, the second cuda:1.") from None
