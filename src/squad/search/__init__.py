"""Hyper-parameter search: TPE over whole populations of trials, on one device or on many machines."""

from squad.search.tuning import tune

__all__ = ["tune"]
