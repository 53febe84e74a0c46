"""Classifiers that know when not to answer: quantized latent variables (SQUAD) for PyTorch."""

from importlib.metadata import PackageNotFoundError, version

from squad.core import Quantized, gaussian_bins, js_divergence, linear_bins, mutual_information
from squad.errors import ArgumentError, SquadError
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

__all__ = [
    "ArgumentError",
    "Dropout",
    "FactorizedSquadLinear",
    "GaussianLinear",
    "Linear",
    "MaxoutLinear",
    "Quantized",
    "SquadError",
    "SquadLinear",
    "collect_kl",
    "gaussian_bins",
    "js_divergence",
    "linear_bins",
    "mutual_information",
    "reseed",
    "sample_index",
    "set_temperature",
    "stack",
    "unstack",
]

try:
    __version__ = version("squad-torch")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+unknown"
