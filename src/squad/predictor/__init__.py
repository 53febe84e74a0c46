"""What is loaded, asked, certified and saved."""

from squad.predictor.answer import Answer
from squad.predictor.certification import CertificationError
from squad.predictor.device import choose_device
from squad.predictor.predictor import Predictor, load

__all__ = ["Answer", "CertificationError", "Predictor", "choose_device", "load"]
