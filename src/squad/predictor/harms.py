"""Harms that labels tell, by name: wrong answers, missed and false classes, the miss rate of a class, and costs.

A harm is what an accepted case must not suffer too often.  One array says of every case whether it does (booleans),
what it costs (between 0 and 1), and with NaN that the harm is not counted on it.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from squad.errors import ArgumentError
from squad.selective.certify import Risk
from squad.selective.risk_text import COST, FALSE, MISS_RATE, MISSED, WRONG, split_harm

__all__ = ["COST", "MISS_RATE", "Costs", "cost_matrix", "expand", "harm_names", "harm_of", "known_harm"]

#: Costs by (true class, predicted class), with that of all others under None; or a (C, C) array.
Costs = Mapping[tuple[Any, Any] | None, float] | ArrayLike


def harm_of(
    name: str,
    classes: Sequence[Any],
    predicted: NDArray[np.int64],
    right: NDArray[np.int64],
    costs: NDArray[np.float64] | None = None,
) -> NDArray[Any]:
    """What each answer does of the harm called ``name``: booleans, or float64 with NaN where it is not counted.

    "wrong": it is wrong; "missed CLASS": a case of the class got another label; "false CLASS": it wrongly says so;
    "miss rate CLASS": a case of the class got another label, counted on cases of the class only; "cost": what it costs.

    Args:
        name: of the harm.
        classes: of the model.
        predicted: (N,), the place of each answer among them.
        right: (N,), the place of each right answer.
        costs: (C, C), of a true class (row) that is predicted as another (column).
    """
    wrong = predicted != right
    if name == WRONG:
        return np.asarray(wrong)
    if name == COST and costs is not None:
        return np.asarray(costs[right, predicted], dtype=np.float64)
    places = {str(one): place for place, one in enumerate(classes)}
    kind, label = split_harm(name)
    if name == COST:
        raise ArgumentError.of("risk", repr(COST), "given with costs, one for each kind of confusion")
    if not kind or label not in places:
        shown = ", ".join(list(places)[:6]) + (", ..." if len(places) > 6 else "")
        raise ArgumentError.of(
            "risk",
            repr(name),
            "for 'wrong', 'missed CLASS', 'false CLASS', 'miss rate CLASS', 'miss rate' or 'cost' with a class of"
            f" training ({shown})",
        )
    place = places[label]
    if kind == MISSED:
        return np.asarray((right == place) & wrong)
    if kind == FALSE:
        return np.asarray((predicted == place) & wrong)
    return np.where(right == place, wrong, np.nan)


def known_harm(
    name: str,
    classes: Sequence[Any],
    predicted: NDArray[np.int64],
    right: NDArray[np.int64],
    details: Mapping[str, Any],
) -> NDArray[Any] | None:
    """The same for the harm of a certificate, with the costs that it notes; None if labels alone do not tell.

    Args:
        name: of the harm.
        classes: of the model.
        predicted: (N,), the place of each answer among them.
        right: (N,), the place of each right answer.
        details: of the certificate.
    """
    noted = details.get("costs")
    try:
        return harm_of(name, classes, predicted, right, None if noted is None else cost_matrix(noted, classes))
    except ArgumentError:
        return None


def expand(risk: Any, classes: Sequence[Any], given: Container[str] = ()) -> Any:
    """Targets with "miss rate" replaced by one harm for each class; a class that is named keeps its own risk.

    All must hold at one threshold, so that many harms take no part of delta from each other.

    Args:
        risk: a target, or several.
        classes: of the model.
        given: the user's own harms, or those of a certificate: one that is called "miss rate" stays what it is.
    """
    if isinstance(risk, (list, tuple)):
        return [expand(one, classes, given) for one in risk]
    if not isinstance(risk, Mapping) or MISS_RATE not in risk or MISS_RATE in given:
        return risk
    found: dict[Any, Any] = {}
    for name, value in risk.items():
        if name != MISS_RATE:
            found[name] = value
            continue
        for one in classes:
            each = f"{MISS_RATE} {one}"
            found[each] = risk.get(each, value)
    return found


def harm_names(risk: Risk | Sequence[Risk]) -> list[str]:
    """The harms that targets name, each once."""
    targets = list(risk) if isinstance(risk, (list, tuple)) else [risk]
    return list(dict.fromkeys(str(name) for target in targets if isinstance(target, Mapping) for name in target))


def cost_matrix(costs: Costs, classes: Sequence[Any]) -> NDArray[np.float64]:
    """Costs as an array (C, C): of a true class (row) that is predicted as another (column); right answers cost 0.

    Args:
        costs: by pair (true, predicted), where None stands for all pairs of different classes that are not named; or
            the array.  All between 0 and 1.
        classes: of the model, in their order.
    """
    count = len(classes)
    if not isinstance(costs, Mapping):
        try:
            found = np.array(costs, dtype=np.float64)
        except (TypeError, ValueError):
            raise ArgumentError.of("costs", type(costs).__name__, "a mapping or an array of numbers") from None
        if found.shape != (count, count):
            hint = "Rows are true classes, columns are predicted ones, both in the order of predictor.classes."
            raise ArgumentError.of("costs", f"the shape {found.shape}", f"of shape ({count}, {count})", hint)
        return _between(found, classes)
    places = {str(one): place for place, one in enumerate(classes)}
    found = np.full((count, count), np.nan)
    np.fill_diagonal(found, 0.0)
    for pair, cost in costs.items():
        if pair is None:
            continue
        if not isinstance(pair, tuple) or len(pair) != 2 or any(str(one) not in places for one in pair):
            shown = ", ".join(list(places)[:6]) + (", ..." if len(places) > 6 else "")
            raise ArgumentError.of("costs", repr(pair), f"by (true, predicted) with classes of training ({shown})")
        true, predicted = (places[str(one)] for one in pair)
        found[true, predicted] = _number(pair, cost)
    missing = np.argwhere(np.isnan(found))
    if len(missing) and None not in costs:
        pair = tuple(classes[place] for place in missing[0].tolist())
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        hint = "Name it, or give one cost for all others: under None, in a file on a line without classes."
        raise ArgumentError.of("costs", f"none for {pair!r} (true, predicted){more}", "complete", hint)
    found[np.isnan(found)] = _number(None, costs.get(None, 0.0))
    return _between(found, classes)


def _number(pair: Any, cost: Any) -> float:
    try:
        return float(cost)
    except (TypeError, ValueError):
        raise ArgumentError.of(f"costs[{pair!r}]", repr(cost), "a number between 0 and 1") from None


def _between(costs: NDArray[np.float64], classes: Sequence[Any]) -> NDArray[np.float64]:
    if len(right := np.flatnonzero(np.diag(costs))):
        name = classes[right[0]]
        raise ArgumentError(
            f"Right predictions must cost 0; costs[({name!r}, {name!r})] is {costs[right[0], right[0]]:g}. Costs are"
            " for confusions only."
        )
    bad = np.argwhere(~((costs >= 0) & (costs <= 1)))
    if len(bad):
        pair = tuple(classes[place] for place in bad[0].tolist())
        value, largest = float(costs[tuple(bad[0])]), float(np.nanmax(costs))
        hint = f"Divide all costs, and the risk, by {largest:g}." if value > 1 and np.isfinite(largest) else ""
        raise ArgumentError.of(f"costs[{pair!r}]", f"{value:g}", "a number between 0 and 1", hint)
    return costs
