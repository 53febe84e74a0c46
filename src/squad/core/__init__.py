"""The mathematics of quantized latent variables: distribution, bins, priors, divergences and noise."""

from squad.core.bins import (
    gaussian_bins,
    gaussian_log_weights,
    increasing_values,
    linear_bins,
    uniform_log_weights,
)
from squad.core.distribution import Quantized
from squad.core.divergences import js_divergence, mutual_information

__all__ = [
    "Quantized",
    "gaussian_bins",
    "gaussian_log_weights",
    "increasing_values",
    "js_divergence",
    "linear_bins",
    "mutual_information",
    "uniform_log_weights",
]
