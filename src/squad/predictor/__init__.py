"""The predictor: a trained model that predicts, is certified, saved and loaded."""

from squad.predictor.answer import Answer
from squad.predictor.calibration_rows import CertificationError
from squad.predictor.device import choose_device
from squad.predictor.predictor import Predictor, load

__all__ = ["Answer", "CertificationError", "Predictor", "choose_device", "load"]
