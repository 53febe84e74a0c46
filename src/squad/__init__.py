"""Classifiers that know when not to answer: quantized latent variables (SQUAD) for PyTorch.

Importing the package loads nothing else, not even torch: names are imported when they are first asked for.  So the
command can listen to Ctrl-C before it imports what takes seconds, and who needs a layer does not load scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from squad import core as core
    from squad import errors as errors
    from squad import layers as layers
    from squad import ops as ops
    from squad import records as records
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

#: Where each name stands.
_PLACES = {
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
#: Modules that ``import squad`` alone is enough for.
_MODULES = ("core", "errors", "layers", "ops", "records")


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        thing = getattr(import_module(_PLACES[name]), name)
    elif name in _MODULES:
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
