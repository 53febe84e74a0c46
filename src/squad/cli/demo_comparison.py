"""The comparison of networks in ``squad demo``: cross-validated, with intervals of the differences from SQUAD."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["INTERVAL_LEVEL", "RISK", "Comparison", "comparisons", "folds", "meaning", "pooled"]

#: Selective risk at which coverages are compared.
RISK = 0.01
#: Approximate confidence level of each interval: with five baselines, all five hold jointly at 95 % (Bonferroni).
INTERVAL_LEVEL = 0.99
#: Number of bootstrap resamples; at 99 %, 25 of them lie beyond each end of the interval.  They take two seconds.
RESAMPLES = 5000


class Comparison(NamedTuple):
    """Results of one network on all digits.

    Attributes:
        name: Name of the network.
        accuracy: Fraction of correct predictions.
        nll: Mean negative log-likelihood.
        coverage: Fraction of digits accepted at the selective risk ``RISK``.
        difference: Its coverage minus SQUAD's, or None for SQUAD itself.
        low: Lower end of the interval of the difference.
        high: Upper end of the interval of the difference.
        verdict: Whether its coverage is better or worse than SQUAD's, by the rules of a report on several models
            (:mod:`squad.report.comparison`); "" for SQUAD itself.
    """

    name: str
    accuracy: float
    nll: float
    coverage: float
    difference: float | None = None
    low: float = 0.0
    high: float = 0.0
    verdict: str = ""


def folds(digits: Any) -> list[Any]:
    """Split the digits into three folds, so that each digit is in the test set of one of them.

    The first fold is the data set itself; in the other two, the test set is one half of its training set.

    Args:
        digits: The data set.

    Returns:
        Three data sets.

    Examples:
        >>> from squad.data.images import load_images
        >>> [len(fold.x_test) for fold in folds(load_images("digits"))]
        [599, 599, 599]
    """
    import numpy as np

    from squad.cli.inputs import halves

    first, second = halves(digits.y_train).values()
    found = [digits]
    for tested, kept in ((first, second), (second, first)):
        found.append(
            dataclasses.replace(
                digits,
                x_train=np.concatenate([digits.x_train[kept], digits.x_test]),
                y_train=np.concatenate([digits.y_train[kept], digits.y_test]),
                x_test=digits.x_train[tested],
                y_test=digits.y_train[tested],
            )
        )
    return found


def pooled(sets: Sequence[Any], predictors: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], Any]:
    """Predict the test set of every fold with the networks that were trained without it.

    Args:
        sets: The folds.
        predictors: Per fold, predictors by the name of their network.

    Returns:
        Probabilities (N, classes) by the name of the network, and labels (N,), both for all folds together.
    """
    import numpy as np

    probabilities = {
        name: np.concatenate(
            [trained[name].answer(one.x_test).probabilities for one, trained in zip(sets, predictors, strict=True)]
        )
        for name in predictors[0]
    }
    return probabilities, np.concatenate([one.y_test for one in sets])


def comparisons(probabilities: Mapping[str, Any], labels: Any, reference: str = "squad") -> list[Comparison]:
    """Compare networks on the same rows.

    Intervals are percentiles over bootstrap resamples, in which all networks have the same rows. They account for the
    choice of rows; the trained networks are taken as fixed.

    Args:
        probabilities: (N, classes) by the name of the network.
        labels: (N,), class numbers.
        reference: Network from which differences are taken.

    Returns:
        One comparison per network, in the same order.

    Examples:
        >>> import numpy as np
        >>> one = np.tile([0.9, 0.1], (50, 1))
        >>> [found.coverage for found in comparisons({"squad": one, "mlp": 1 - one}, np.zeros(50, dtype=int))]
        [1.0, 0.0]
    """
    from functools import partial

    from squad.metrics import accuracy, coverage_at_risk, nll, paired_difference
    from squad.report.comparison import coverage_verdict

    metric = partial(coverage_at_risk, risk=RISK)
    rows = {name: (p.max(1), p.argmax(1) == labels) for name, p in probabilities.items()}
    found = []
    for name, p in probabilities.items():
        numbers = (name, accuracy(p, labels), nll(p, labels), metric(*rows[name]))
        if name == reference:
            found.append(Comparison(*numbers))
            continue
        gap = paired_difference(metric, rows[reference], rows[name], INTERVAL_LEVEL, RESAMPLES)
        verdict = coverage_verdict(rows[reference][1], rows[name][1], RISK, gap)
        found.append(Comparison(*numbers, gap.value, gap.low, gap.high, verdict))
    return found


def meaning(found: Sequence[Comparison]) -> str:
    """Say in one sentence which differences from SQUAD are larger than chance.

    Args:
        found: Comparisons, one of which is SQUAD's own.

    Returns:
        The sentence.

    Examples:
        >>> squad = Comparison("squad", 0.98, 0.1, 0.95)
        >>> mlp = Comparison("mlp", 0.97, 0.1, 0.94, -0.01, -0.03, 0.01, "within chance")
        >>> dlgm = Comparison("dlgm", 0.9, 0.2, 0.0, -0.95, -1.0, -0.9, "worse")
        >>> meaning([squad, mlp, dlgm])
        'In short: at 1 % risk, SQUAD accepts more digits than dlgm; its difference from mlp is within chance.'
    """
    from squad.report.comparison import BETTER, WORSE

    others = [one for one in found if one.difference is not None]
    behind = [one.name for one in others if one.verdict == WORSE]
    ahead = [one.name for one in others if one.verdict == BETTER]
    chance = [one.name for one in others if one.verdict not in (WORSE, BETTER)]
    parts = []
    if behind:
        parts.append(f"SQUAD accepts more digits than {_listed(behind)}")
    if ahead:
        parts.append(f"SQUAD accepts fewer digits than {_listed(ahead)}")
    if chance:
        many = len(chance) > 1
        whose = "its" if parts else "SQUAD's"
        parts.append(f"{whose} difference{'s' * many} from {_listed(chance)} {'are' if many else 'is'} within chance")
    return f"In short: at {100 * RISK:g} % risk, {'; '.join(parts)}." if parts else "There is no baseline to compare."


def _listed(names: Sequence[str]) -> str:
    """Join names with commas and "and"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
