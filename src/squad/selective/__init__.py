"""Decisions with a guarantee, from arrays: confidences and whether the answers were right.  No model is needed."""

from squad.selective.bands import Band, band_of
from squad.selective.certificate import Certificate, CertificateError, Rule
from squad.selective.certify import certify
from squad.selective.planning import plan, success_probability
from squad.selective.scored_cases import Scores

__all__ = [
    "Band",
    "Certificate",
    "CertificateError",
    "Rule",
    "Scores",
    "band_of",
    "certify",
    "plan",
    "success_probability",
]
