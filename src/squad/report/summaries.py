"""Counts that tables and bars show: by confidence, by harm, by class."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.metrics.calibration import Bin, reliability
from squad.predictor.harms import known_harm
from squad.selective import Certificate, Scores
from squad.selective.certificate_text import risks_text
from squad.selective.scored_cases import WRONG

__all__ = ["ClassRow", "Group", "HarmRow", "by_class", "by_harm", "confidence_groups", "reliability_groups"]

#: Where groups of confidences end: narrower towards 1, where most answers are.
EDGES = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)
#: Groups of a reliability diagram, of equal width.
BINS = 10
#: So many classes are told apart, those with most mistakes first.
CLASSES = 30


@dataclass(frozen=True)
class Group:
    """Answers with similar confidence.

    Attributes:
        low, high: between which confidences.
        n, wrong: how many answers, and how many wrong ones.
    """

    low: float
    high: float
    n: int
    wrong: int


@dataclass(frozen=True)
class HarmRow:
    """One harm: how often it happened.

    Attributes:
        target: which one accepts the cases, of a certificate with several; else empty.
        name: such as "wrong" or "missed 3".
        limit: the largest share of accepted cases, or their largest mean cost, that was asked for, if any.
        calibration, calibration_n: how many of the accepted calibration cases that it is counted on, or what these cost
            in all; None if not known.
        test, test_n: the same of the (accepted) test cases; None if labels alone do not tell.
        costs: whether it has costs between 0 and 1 instead of errors.
    """

    target: str
    name: str
    limit: float | None
    calibration: float | None
    calibration_n: int | None
    test: float | None
    test_n: int
    costs: bool = False


@dataclass(frozen=True)
class ClassRow:
    """One class, among the accepted cases (without a certificate: among all).

    Attributes:
        n: cases that are of this class; missed: how many of them were called something else.
        said: answers that name this class; false: how many of them are wrong.
        referred: cases of this class that were referred; None without a certificate.
        mostly: what its missed cases were called most often, "" if there are none.
    """

    name: str
    n: int
    missed: int
    said: int
    false: int
    referred: int | None
    mostly: str


def confidence_groups(confidence: NDArray[np.float64], wrong: NDArray[np.bool_]) -> list[Group]:
    """Groups for the picture of right and wrong answers, narrower towards 1."""
    place = np.clip(np.searchsorted(EDGES, confidence, side="right") - 1, 0, len(EDGES) - 2)
    n, errors = (np.bincount(place, weights, minlength=len(EDGES) - 1) for weights in (None, wrong))
    return [Group(*edges, int(a), int(b)) for edges, a, b in zip(pairwise(EDGES), n, errors, strict=True)]


def reliability_groups(confidence: NDArray[np.float64], wrong: NDArray[np.bool_]) -> list[Bin]:
    """Groups of equal width that have answers, for the reliability diagram."""
    return reliability(confidence, ~wrong, BINS)


def by_harm(
    certificate: Certificate | None,
    scores: Scores | None,
    classes: Sequence[Any],
    said: NDArray[np.int64],
    truth: NDArray[np.int64],
    accepted: Sequence[NDArray[np.bool_] | None],
) -> list[HarmRow]:
    """Each harm of each target, among the cases that it accepts, and "wrong" always.

    Args:
        certificate: if there is one.
        scores: of the calibration cases, if they were kept.
        classes: of the model.
        said: (N,), the place of each answer.
        truth: (N,), the place of each right answer.
        accepted: for each target (one, where there is no certificate) which cases it accepts; None counts all.
    """
    targets = [{}] if certificate is None else certificate.targets
    several = len(targets) > 1
    found = []
    for target, mask in zip(targets, accepted, strict=True):
        within = np.ones(len(said), dtype=bool) if mask is None else mask
        others = [] if several or scores is None else list(scores.harms)
        own = () if certificate is None else certificate.target(target)
        for name in dict.fromkeys([WRONG, *target, *others]):
            suffered = known_harm(name, classes, said, truth, {} if certificate is None else certificate.details)
            test, test_n = (None, int(within.sum())) if suffered is None else _counted(suffered[within])
            counted = [rule for rule in own if name in rule.errors]
            found.append(
                HarmRow(
                    risks_text(target) if several else "",
                    name,
                    target.get(name),
                    sum(rule.errors[name] for rule in counted) if counted else None,
                    sum(rule.counts(name)[0] for rule in counted) if counted else None,
                    test,
                    test_n,
                    any(name in rule.costs for rule in counted),
                )
            )
    return found


def _counted(suffered: NDArray[Any]) -> tuple[float, int]:
    """How many suffered a harm (or what they cost in all), of how many that it is counted on."""
    if suffered.dtype == np.bool_:
        return int(suffered.sum()), len(suffered)
    there = suffered[~np.isnan(suffered)]
    total = float(there.sum())
    return (int(total) if total.is_integer() else total), len(there)


def by_class(
    classes: Sequence[Any], said: NDArray[np.int64], truth: NDArray[np.int64], accepted: NDArray[np.bool_] | None
) -> list[ClassRow]:
    """The classes in their order; of many, those with most mistakes."""
    within = np.ones(len(said), dtype=bool) if accepted is None else accepted
    count = len(classes)
    table = np.bincount(truth[within] * count + said[within], minlength=count * count).reshape(count, count)
    hits = table.diagonal()
    found = []
    for place, name in enumerate(classes):
        others = table[place].copy()
        others[place] = 0
        referred = None if accepted is None else int(((truth == place) & ~accepted).sum())
        found.append(
            ClassRow(
                str(name),
                int(table[place].sum()),
                int(others.sum()),
                int(table[:, place].sum()),
                int(table[:, place].sum() - hits[place]),
                referred,
                str(classes[int(others.argmax())]) if others.any() else "",
            )
        )
    if len(found) <= CLASSES:
        return found
    return sorted(found, key=lambda row: -(row.missed + row.false))[:CLASSES]
