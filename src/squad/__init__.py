"""Classifiers that know when not to answer: quantized latent variables (SQUAD) for PyTorch."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from squad.core import Quantized, gaussian_bins, js_divergence, linear_bins, mutual_information
from squad.errors import ArgumentError, SquadError, SquadWarning
from squad.layers import (
    Dropout,
    FactorizedSquadLinear,
    GaussianLinear,
    Linear,
    MaxoutLinear,
    SquadLinear,
    collect_kl,
    reseed,
    sample_index,
    set_temperature,
    stack,
    unstack,
)

if TYPE_CHECKING:
    from squad.estimator import SquadClassifier
    from squad.predictor import Predictor, load
    from squad.search import tune
    from squad.selective import Certificate, certify, plan

__all__ = [
    "ArgumentError",
    "Certificate",
    "Dropout",
    "FactorizedSquadLinear",
    "GaussianLinear",
    "Linear",
    "MaxoutLinear",
    "Predictor",
    "Quantized",
    "SquadClassifier",
    "SquadError",
    "SquadLinear",
    "SquadWarning",
    "certify",
    "collect_kl",
    "gaussian_bins",
    "js_divergence",
    "linear_bins",
    "load",
    "mutual_information",
    "plan",
    "reseed",
    "sample_index",
    "set_temperature",
    "stack",
    "tune",
    "unstack",
]

#: Where names stand that are imported when they are first asked for: scikit-learn is not needed to use a layer.
_LAZY = {
    "Certificate": "squad.selective",
    "Predictor": "squad.predictor",
    "SquadClassifier": "squad.estimator",
    "certify": "squad.selective",
    "load": "squad.predictor",
    "plan": "squad.selective",
    "tune": "squad.search",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=import_module(__name__))
    thing = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return thing


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


try:
    __version__ = version("squad-torch")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+unknown"
