"""Classifiers that know when to abstain: quantized latent variables (SQUAD) for PyTorch.

Importing the package loads nothing else, not even torch: names and subpackages are imported when they are first used.
So the command can handle Ctrl-C before imports that take seconds, and a layer does not load scikit-learn.
"""

from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from squad import analysis as analysis
    from squad import core as core
    from squad import data as data
    from squad import errors as errors
    from squad import layers as layers
    from squad import metrics as metrics
    from squad import models as models
    from squad import ops as ops
    from squad import records as records
    from squad import report as report
    from squad import search as search
    from squad import selective as selective
    from squad import train as train
    from squad.core import Quantized, gaussian_bins, js_divergence, linear_bins, mutual_information
    from squad.errors import ArgumentError, SquadError, SquadWarning
    from squad.estimator import SquadClassifier
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
    from squad.predictor import Predictor, load
    from squad.search import tune
    from squad.selective import Certificate, certify, plan

    __version__: str

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

#: Public name -> the module it is imported from.
_MODULE_OF = {
    **dict.fromkeys(("Quantized", "gaussian_bins", "js_divergence", "linear_bins", "mutual_information"), "squad.core"),
    **dict.fromkeys(("ArgumentError", "SquadError", "SquadWarning"), "squad.errors"),
    **dict.fromkeys(("Dropout", "FactorizedSquadLinear", "GaussianLinear", "Linear", "MaxoutLinear"), "squad.layers"),
    **dict.fromkeys(("SquadLinear", "collect_kl", "reseed", "sample_index", "set_temperature"), "squad.layers"),
    **dict.fromkeys(("stack", "unstack"), "squad.layers"),
    **dict.fromkeys(("Certificate", "certify", "plan"), "squad.selective"),
    **dict.fromkeys(("Predictor", "load"), "squad.predictor"),
    "SquadClassifier": "squad.estimator",
    "tune": "squad.search",
}
#: Subpackages and modules that are imported when they are first used: ``import squad; squad.metrics.aurc(...)``.
_MODULES = (
    "analysis", "core", "data", "errors", "layers", "metrics", "models", "ops", "records", "report", "search",
    "selective", "train",
)  # fmt: skip


#: Threads that use names for the first time import one after another: numpy and torch do not bear concurrent imports.
_IMPORTING = RLock()


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        with _IMPORTING:
            thing = getattr(import_module(_MODULE_OF[name]), name)
    elif name in _MODULES:
        with _IMPORTING:
            thing = import_module(f"squad.{name}")
    elif name == "__version__":
        thing = _version()
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=import_module(__name__))
    globals()[name] = thing
    return thing


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES, "__version__"})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("squad-torch")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0+unknown"
