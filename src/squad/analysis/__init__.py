r"""Analysis of a trained network's latent variables: predicted distributions, activation functions and weights.

Layers and units are counted from 1, as in the paper's :math:`z_{l=1,k=12}` and in reports; members and rows from 0.
"""

from squad.analysis.activations import Activation, activation
from squad.analysis.latents import Posteriors, information, posteriors
from squad.analysis.layer_view import latent_layers
from squad.analysis.modes import count_modes, mode_shares
from squad.analysis.shapes import Found, Nearest, Stereotype, cases, divergences, nearest, stereotypes
from squad.analysis.unit_weights import BinWeights, bin_weights, feature_names

__all__ = [
    "Activation",
    "BinWeights",
    "Found",
    "Nearest",
    "Posteriors",
    "Stereotype",
    "activation",
    "bin_weights",
    "cases",
    "count_modes",
    "divergences",
    "feature_names",
    "information",
    "latent_layers",
    "mode_shares",
    "nearest",
    "posteriors",
    "stereotypes",
]
