"""Metrics of probabilistic, selective and calibrated classification: arrays, lists or tensors in, floats out.

:mod:`squad.metrics.scores` turns class probabilities into confidence scores; :func:`bootstrap` computes a confidence
interval for any metric.
"""

from squad.metrics import scores
from squad.metrics.bootstrap import Interval, bootstrap
from squad.metrics.calibration import Bin, ece, reliability
from squad.metrics.failure import failure_ap, failure_auroc
from squad.metrics.ood import ood_ap, ood_auroc, ood_fpr
from squad.metrics.paired import paired_difference
from squad.metrics.probabilistic import accuracy, brier, nll
from squad.metrics.ranking import augrc, aurc, coverage_at_risk, e_aurc, risk_at_coverage

__all__ = [
    "Bin",
    "Interval",
    "accuracy",
    "augrc",
    "aurc",
    "bootstrap",
    "brier",
    "coverage_at_risk",
    "e_aurc",
    "ece",
    "failure_ap",
    "failure_auroc",
    "nll",
    "ood_ap",
    "ood_auroc",
    "ood_fpr",
    "paired_difference",
    "reliability",
    "risk_at_coverage",
    "scores",
]
