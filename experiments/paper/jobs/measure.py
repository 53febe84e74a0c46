"""What is measured of answers: the paper's figures, the same by our own method, and whether its promises are kept."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.metrics import aurc, nll
from squad.selective.methods import Options, shown_for_all
from squad.selective.scored_cases import WRONG, Ranked, Scores, rank

__all__ = ["DEFAULT", "DELTA", "RISKS", "cells", "curve"]

#: The paper's targets, and the chance that its promise is false.
RISKS = (0.005, 0.01, 0.02)
DELTA = 0.01
#: What squad.certify takes unless it is told otherwise.
DEFAULT = "fallback"
#: Coverages at which a curve is kept: those of the paper's figure, whose axes are logarithmic.
COVERAGES = np.geomspace(0.01, 1.0, 101)


def cells(
    p: NDArray[np.float64], y: NDArray[np.int64], halves: int, confidence: NDArray[np.float64] | None = None
) -> dict[str, Any]:
    """The figures of one predictor, as plain data.

    Args:
        p: (N, classes), probabilities of the test rows.
        y: (N,), their classes.
        halves: how often the rows are halved, to certify on one half and look at the other.
        confidence: (N,), the higher the surer; softmax response by default.

    Returns:
        accuracy, nll and aurc; for each risk r coverage@r by SGR and default@r by our own method, both on all test
        rows; and halves@r with, for both methods, the mean coverage and risk of the other half and the share of halves
        in which that risk was above r.
    """
    correct = p.argmax(1) == y
    scores = Scores.of(p.max(1) if confidence is None else confidence, correct)
    whole = rank(scores)
    found: dict[str, Any] = {
        "accuracy": float(correct.mean()),
        "nll": float(nll(p, y)),
        "aurc": float(aurc(scores.confidence, correct)),
    }
    for risk in RISKS:
        found[f"coverage@{risk}"] = _accepted("sgr", whole, risk)[0] / len(y)
        found[f"default@{risk}"] = _accepted(DEFAULT, whole, risk)[0] / len(y)
    if halves:
        found |= {f"halves@{risk}": each for risk, each in _halves(scores, halves).items()}
    return found


def curve(p: NDArray[np.float64], y: NDArray[np.int64]) -> list[float]:
    """The risk among the surest rows, at each of :data:`COVERAGES`."""
    wrong = (p.argmax(1) != y)[np.argsort(-p.max(1), kind="stable")]
    kept = np.ceil(COVERAGES * len(y)).astype(int)
    return [float(risk) for risk in np.cumsum(wrong)[kept - 1] / kept]


def _accepted(method: str, ranked: Ranked, risk: float) -> tuple[int, float]:
    """How many rows a method accepts, and above which confidence."""
    shown = np.flatnonzero(shown_for_all(method, ranked, {WRONG: risk}, DELTA, Options()))
    return (int(ranked.n[shown[-1]]), float(ranked.threshold[shown[-1]])) if len(shown) else (0, np.inf)


def _halves(scores: Scores, count: int) -> dict[float, dict[str, dict[str, float | None]]]:
    """By risk and method; the halves are the same for all predictors of as many rows."""
    rng = np.random.default_rng(0)
    found: dict[tuple[float, str], list[tuple[float, float]]] = {
        (risk, method): [] for risk in RISKS for method in ("sgr", DEFAULT)
    }
    for _ in range(count):
        order = rng.permutation(len(scores))
        middle = len(order) // 2
        ranked, other = rank(scores.only(order[:middle])), scores.only(order[middle:])
        for (risk, method), each in found.items():
            accepted = other.confidence > _accepted(method, ranked, risk)[1]
            answered = int(accepted.sum())
            each.append((answered / len(other), other.harms[WRONG][accepted].mean() if answered else np.nan))
    return {risk: {method: _told(found[risk, method], risk) for method in ("sgr", DEFAULT)} for risk in RISKS}


def _told(each: Sequence[tuple[float, float]], risk: float) -> dict[str, float | None]:
    coverage, risks = np.array(each).T
    answered = risks[~np.isnan(risks)]
    return {
        "coverage": float(coverage.mean()),
        "risk": float(answered.mean()) if len(answered) else None,
        "violations": float((answered > risk).sum() / len(each)),
    }
