"""The device that a model computes on."""

import torch

from squad.errors import ArgumentError

__all__ = ["choose_device", "named_device"]

#: Devices that a user can name, as error messages call them.
DEVICES = "'auto', 'cpu' or a GPU of this machine"


def choose_device(name: str | torch.device = "auto") -> torch.device:
    """Return the device, after a check that it can compute.

    Args:
        name: "auto" (the GPU if there is one, otherwise the CPU), "cpu", "cuda", "cuda:1", or a device.

    Examples:
        >>> choose_device("cpu")
        device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = named_device(name)
    try:
        # Some devices lack float64, which predictions are computed in, and "meta" has no numbers at all.
        torch.zeros(1, dtype=torch.float64, device=device).item()
    except (RuntimeError, AssertionError, TypeError, ImportError) as cause:
        reason = str(cause).splitlines()[0]
        raise ArgumentError.of("device", repr(name), DEVICES, reason) from cause
    return device


def named_device(name: str | torch.device) -> torch.device:
    """Return the device of that name, whether this machine has it or not."""
    try:
        return torch.device(name)
    except (RuntimeError, TypeError):  # torch's own message lists every kind of device there ever was
        raise ArgumentError.of("device", repr(name), DEVICES, "The first GPU is cuda, the second cuda:1.") from None
