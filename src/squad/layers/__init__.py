"""Layers as ``nn.Module`` classes, each of which can hold M members (batched copies) of itself."""

from squad.layers.dropout import Dropout
from squad.layers.factorized import FactorizedSquadLinear
from squad.layers.gaussian import GaussianLinear
from squad.layers.linear import Linear
from squad.layers.maxout import MaxoutLinear
from squad.layers.members import stack, unstack
from squad.layers.quantized import SquadLinear, set_temperature
from squad.layers.stochastic import collect_kl, reseed, sample_index

__all__ = [
    "Dropout",
    "FactorizedSquadLinear",
    "GaussianLinear",
    "Linear",
    "MaxoutLinear",
    "SquadLinear",
    "collect_kl",
    "reseed",
    "sample_index",
    "set_temperature",
    "stack",
    "unstack",
]
