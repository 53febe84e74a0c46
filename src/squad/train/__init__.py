"""Training: configuration, training loop, optimizer, checkpoints and progress display."""

from squad.train.checkpoint import CheckpointError
from squad.train.config import TrainConfig
from squad.train.loop import Fitted, TrainingError, fit
from squad.train.progress import EpochReport, Progress, SilentProgress, make_progress
from squad.train.state import MemberResult
from squad.train.training_data import TrainingData

__all__ = [
    "CheckpointError",
    "EpochReport",
    "Fitted",
    "MemberResult",
    "Progress",
    "SilentProgress",
    "TrainConfig",
    "TrainingData",
    "TrainingError",
    "fit",
    "make_progress",
]
