"""Measures of predictions: the paper's, coverage of this library's default method, and how often guarantees hold."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.metrics import aurc, nll
from squad.selective.methods import Options, certified_rules
from squad.selective.scored_cases import WRONG, Ranked, Scores, rank

__all__ = ["DEFAULT_METHOD", "DELTA", "RISKS", "measure_predictions", "risk_curve"]

#: Target risks of the paper.
RISKS = (0.005, 0.01, 0.02)
#: Probability that a guarantee is false, as in the paper.
DELTA = 0.01
#: Default method of squad.certify.
DEFAULT_METHOD = "fallback"
#: Coverages of the recorded risk-coverage curves, evenly spaced on the logarithmic axis of the paper's figure.
COVERAGES = np.geomspace(0.01, 1.0, 101)


def measure_predictions(
    p: NDArray[np.float64], y: NDArray[np.int64], halves: int, confidence: NDArray[np.float64] | None = None
) -> dict[str, Any]:
    """Return the measures of one predictor as plain data.

    Args:
        p: Predicted probabilities of the test rows, (N, classes).
        y: Their classes, (N,).
        halves: Number of random splits of the rows into two halves; one half is used for certification, the other for
            evaluation.
        confidence: Confidence per row, (N,), higher is more confident; softmax response by default.

    Returns:
        accuracy, nll and aurc; for each risk r, coverage@r by SGR and default@r by the default method, both on all test
        rows; and halves@r with, for both methods, the mean coverage and the mean selective risk of the evaluation
        halves, and the fraction of halves whose risk was above r.
    """
    correct = p.argmax(1) == y
    scores = Scores.of(p.max(1) if confidence is None else confidence, correct)
    ranked = rank(scores)
    measures: dict[str, Any] = {
        "accuracy": float(correct.mean()),
        "nll": float(nll(p, y)),
        "aurc": float(aurc(scores.confidence, correct)),
    }
    for risk in RISKS:
        measures[f"coverage@{risk}"] = _accepted("sgr", ranked, risk)[0] / len(y)
        measures[f"default@{risk}"] = _accepted(DEFAULT_METHOD, ranked, risk)[0] / len(y)
    if halves:
        measures |= {f"halves@{risk}": results for risk, results in _certify_halves(scores, halves).items()}
    return measures


def risk_curve(p: NDArray[np.float64], y: NDArray[np.int64]) -> list[float]:
    """Return the selective risk at each of :data:`COVERAGES`, accepting the most confident rows first."""
    wrong = (p.argmax(1) != y)[np.argsort(-p.max(1), kind="stable")]
    accepted = np.ceil(COVERAGES * len(y)).astype(int)
    return [float(risk) for risk in np.cumsum(wrong)[accepted - 1] / accepted]


def _accepted(method: str, ranked: Ranked, risk: float) -> tuple[int, float]:
    """Return how many rows a method accepts, and its confidence threshold."""
    shown = np.flatnonzero(certified_rules(method, ranked, {WRONG: risk}, DELTA, Options()))
    return (int(ranked.n[shown[-1]]), float(ranked.threshold[shown[-1]])) if len(shown) else (0, np.inf)


def _certify_halves(scores: Scores, count: int) -> dict[float, dict[str, dict[str, float | None]]]:
    """Certify on random halves and evaluate on the rest, per risk and method.

    The splits are the same for all predictors with the same number of rows.
    """
    rng = np.random.default_rng(0)
    results: dict[tuple[float, str], list[tuple[float, float]]] = {
        (risk, method): [] for risk in RISKS for method in ("sgr", DEFAULT_METHOD)
    }
    for _ in range(count):
        order = rng.permutation(len(scores))
        middle = len(order) // 2
        ranked, other = rank(scores.only(order[:middle])), scores.only(order[middle:])
        for (risk, method), per_split in results.items():
            accepted = other.confidence > _accepted(method, ranked, risk)[1]
            n = int(accepted.sum())
            per_split.append((n / len(other), other.harms[WRONG][accepted].mean() if n else np.nan))
    return {
        risk: {method: _summarize_halves(results[risk, method], risk) for method in ("sgr", DEFAULT_METHOD)}
        for risk in RISKS
    }


def _summarize_halves(per_split: Sequence[tuple[float, float]], risk: float) -> dict[str, float | None]:
    coverage, risks = np.array(per_split).T
    defined = risks[~np.isnan(risks)]  # the risk is undefined where nothing was accepted
    return {
        "coverage": float(coverage.mean()),
        "risk": float(defined.mean()) if len(defined) else None,
        "violations": float((defined > risk).sum() / len(per_split)),
    }
