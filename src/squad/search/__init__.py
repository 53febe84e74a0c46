"""Hyperparameter search with TPE (Optuna): trials train together in batches, on one device or on many machines."""

from squad.search.tuning import tune

__all__ = ["tune"]
