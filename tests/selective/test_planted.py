"""Planted faults: the comparison with the literal methods detects each of them."""

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from squad.selective import Certificate
from squad.selective import methods as library
from squad.selective.methods import Options, Start
from squad.selective.scored_cases import Ranked
from tests.selective.test_brute import check, draw, sizes

# `squad.selective.certify` is the function; its module is needed to replace what it imports.
module = importlib.import_module("squad.selective.certify")
rank = module.rank


def found(method: str, targets: int = 1, groups: int = 1, harms: int = 1, inputs: int = 300) -> bool:
    """Whether a rule differs from the literal one, or accepts other cases than those it was tested on."""
    rng = np.random.default_rng(9)
    for _ in range(inputs):
        case = draw(rng, targets, groups, harms, sizes(method))
        certificate = case.certificate(method)
        try:
            check(case, method, certificate)
            if targets == groups == 1:
                assert certificate.accepts(np.array(case.confidence)).sum() == certificate.rules[0].n
        except AssertionError:
            return True
    return False


def test_nothing_is_detected_without_a_fault() -> None:
    assert not found("fallback")


def one_error_dropped(*args: Any) -> Ranked:
    ranked: Ranked = rank(*args)
    fewer = {
        name: dataclasses.replace(tally, errors=np.maximum(tally.errors - 1, 0))
        for name, tally in ranked.tallies.items()
    }
    return dataclasses.replace(ranked, tallies=fewer)


def tie_group_split(*args: Any) -> Ranked:
    """Every case is a group end of its own, with its threshold just below it."""
    scores = args[0]
    apart = dataclasses.replace(scores, confidence=scores.confidence - 1e-9 * np.arange(len(scores)))
    ranked: Ranked = rank(apart, *args[1:])
    return ranked


def threshold_of_the_last_accepted(*args: Any) -> Ranked:
    """As in the published code: the threshold is the lowest accepted confidence, although > is strict."""
    ranked: Ranked = rank(*args)
    return dataclasses.replace(ranked, threshold=np.append(np.inf, ranked.threshold[:-1]))


@pytest.mark.parametrize("fault", [one_error_dropped, tie_group_split, threshold_of_the_last_accepted])
@pytest.mark.parametrize("method", ["fallback", "fixed_sequence", "sgr", "bonferroni"])
def test_faults_of_the_ranks_are_detected(
    method: str, fault: Callable[..., Ranked], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "rank", fault)
    assert found(method)


def test_greater_or_equal_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def accepts(self: Certificate, confidence: Any) -> Any:
        return confidence >= self.rules[0].threshold

    monkeypatch.setattr(Certificate, "accepts", accepts)
    assert found("fallback")


@pytest.mark.parametrize(("targets", "groups", "harms"), [(3, 1, 1), (1, 3, 1), (2, 1, 2)])
def test_a_level_that_is_not_divided_is_detected(
    targets: int, groups: int, harms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = targets * groups
    plain = library.METHODS["fallback"]

    def unsplit(ranked: Any, tally: Any, risk: float, level: float, options: Options) -> Any:
        return plain(ranked, tally, risk, level * whole, options)

    monkeypatch.setitem(library.METHODS, "fallback", unsplit)
    assert found("fallback", targets, groups, harms)


@pytest.mark.parametrize(
    "plan",
    [
        ((1 / 4, 0.1), (1 / 2, 0.1), (3 / 4, 0.8)),
        ((1 / 4, 0.9), (1 / 2, 0.05), (3 / 4, 0.05)),
        ((1 / 4, 1.0),),
    ],
)
def test_other_weights_are_detected(plan: tuple[tuple[float, float], ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "FALLBACK", plan)
    assert found("fallback")


def test_a_moved_start_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = library.starts

    def late(m: int, risk: float, level: float, plan: Any) -> Any:
        return [Start(start.n + 1, start.weight) for start in plain(m, risk, level, plan)]

    monkeypatch.setattr(library, "starts", late)
    assert found("fixed_sequence")
