"""Numbers that say how good predictions are: arrays or tensors in, floats out."""

from squad.metrics.probabilistic import accuracy, brier, nll
from squad.metrics.ranking import aurc, coverage_at_risk

__all__ = ["accuracy", "aurc", "brier", "coverage_at_risk", "nll"]
