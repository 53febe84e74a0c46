"""torch-uncertainty's MC dropout wrapper, loaded from its installed file without the rest of the package.

``import torch_uncertainty`` imports Lightning and torchvision, and torchvision 0.28.0 as installed by pip fails with
the CPU build of torch 2.13.0 ("operator torchvision::nms does not exist").  The wrapper itself needs only torch and
einops, so its installed file is executed unchanged.
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
    """Return ``torch_uncertainty.methods.mc_dropout``."""
    try:
        path = distribution("torch-uncertainty").locate_file(FILE)
    except PackageNotFoundError:
        sys.exit("This benchmark needs torch-uncertainty, which is not installed. Run `make bench-others`.")
    spec = importlib.util.spec_from_file_location("torch_uncertainty_mc_dropout", str(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast(Callable[..., nn.Module], module.mc_dropout)


class Wrapped:
    """Prediction through the wrapper.

    Args:
        network: Network with torch's own dropout modules, (N, in) -> (N, classes).
        samples: T, the wrapper's ``num_estimators``.
        on_batch: The wrapper's batched option, T copies of the rows in one pass; otherwise it loops.
    """

    def __init__(self, network: nn.Module, samples: int, on_batch: bool) -> None:
        self.samples = samples
        self.model = mc_dropout()(network, num_estimators=samples, on_batch=on_batch).eval()

    @torch.inference_mode()
    def __call__(self, x: Tensor) -> Tensor:
        """Return the mean probabilities for x (N, in): (N, classes)."""
        logits: Tensor = self.model(x)  # (T N, classes), sample by sample
        return logits.softmax(-1).view(self.samples, len(x), -1).mean(0)
