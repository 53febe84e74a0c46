"""One training run: settings, the loop, its optimizer, checkpoints and progress."""

from squad.train.checkpoint import CheckpointError
from squad.train.config import TrainConfig
from squad.train.loop import Fitted, MemberResult, TrainingData, TrainingError, fit
from squad.train.progress import EpochReport, Progress, SilentProgress, make_progress

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
