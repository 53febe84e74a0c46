"""Selective classification with a guarantee, from confidences and correctness alone: works with any model.

:func:`certify` chooses a threshold on confidence and returns a :class:`Certificate`: with confidence level 1 - delta,
the selective risk (error rate among accepted cases) of the threshold is at most the target.  :func:`plan` computes how
many labelled cases that takes; :func:`band_of` bounds the risk of all thresholds at once.
"""

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
