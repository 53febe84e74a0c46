"""torch-uncertainty's MC-dropout wrapper, its own file as installed, loaded without the rest of the package.

``import torch_uncertainty`` imports Lightning and torchvision, and torchvision 0.28.0 as pip installs it failed beside
the CPU build of torch 2.13.0 ("operator torchvision::nms does not exist").  The wrapper itself needs torch and einops
alone, so its file is run as it is, from where pip put it.
"""

import importlib.util
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from typing import cast

import torch
from torch import Tensor, nn

FILE = "torch_uncertainty/methods/mc_dropout.py"


def mc_dropout() -> Callable[..., nn.Module]:
    """``torch_uncertainty.methods.mc_dropout``."""
    try:
        path = distribution("torch-uncertainty").locate_file(FILE)
    except PackageNotFoundError:
        sys.exit("torch-uncertainty must be installed for this benchmark; it is not. Run `make bench-others`.")
    spec = importlib.util.spec_from_file_location("torch_uncertainty_mc_dropout", str(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast(Callable[..., nn.Module], module.mc_dropout)


class Wrapped:
    """A network asked through the wrapper.

    Args:
        network: with torch's own dropout modules, (N, in) -> (N, classes).
        samples: T, the wrapper's ``num_estimators``.
        on_batch: its batched option, T copies of the rows in one pass; otherwise it loops.
    """

    def __init__(self, network: nn.Module, samples: int, on_batch: bool) -> None:
        self.samples = samples
        self.model = mc_dropout()(network, num_estimators=samples, on_batch=on_batch).eval()

    @torch.inference_mode()
    def __call__(self, x: Tensor) -> Tensor:
        """(N, in) -> the mean probabilities (N, classes)."""
        logits: Tensor = self.model(x)  # (T N, classes), sample by sample
        return logits.softmax(-1).view(self.samples, len(x), -1).mean(0)
