"""Harms that follow from labels: wrong predictions, missed and false classes, miss rates of classes, and costs.

A harm is an event that may happen to only a small fraction of accepted cases.  It is represented by an array with one
entry per case: whether the harm occurs (booleans), or its cost (between 0 and 1); NaN means that it is not counted on
this case.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from squad.errors import ArgumentError
from squad.selective.certify import Risk
from squad.selective.risk_text import COST, FALSE, MISS_RATE, MISSED, WRONG, split_harm

__all__ = ["COST", "MISS_RATE", "Costs", "cost_matrix", "expand", "harm_names", "harm_of", "known_harm"]

#: Costs by (true class, predicted class), with the cost of all other confusions under None; or a (C, C) array.
Costs = Mapping[tuple[Any, Any] | None, float] | ArrayLike

#: Maximum number of classes listed in an error message.
MAX_CLASSES_SHOWN = 6


def harm_of(
    name: str,
    classes: Sequence[Any],
    predicted: NDArray[np.int64],
    right: NDArray[np.int64],
    costs: NDArray[np.float64] | None = None,
) -> NDArray[Any]:
    """Return the harm of each prediction, (N,): booleans, or float64 with NaN where it is not counted.

    "wrong": the prediction is wrong; "missed CLASS": a case of the class got another label; "false CLASS": a prediction
    of the class is wrong; "miss rate CLASS": a case of the class got another label, counted on cases of the class only;
    "cost": the cost of the confusion.

    Args:
        name: Name of the harm.
        classes: Classes of the model.
        predicted: (N,), positions of the predicted classes.
        right: (N,), positions of the true classes.
        costs: (C, C), cost of each true class (row) predicted as another (column).
    """
    wrong = predicted != right
    if name == WRONG:
        return np.asarray(wrong)
    if name == COST:
        if costs is None:
            raise ArgumentError(
                f"A risk for {COST!r} needs costs, one for each kind of confusion. Pass them (--costs)."
            )
        return np.asarray(costs[right, predicted], dtype=np.float64)
    positions = {str(label): position for position, label in enumerate(classes)}
    kind, label = split_harm(name)
    if not kind or label not in positions:
        raise ArgumentError(
            f"There is no harm {name!r}. Use 'wrong', 'missed CLASS', 'false CLASS', 'miss rate CLASS', 'miss rate' or"
            f" 'cost', with a class of the training set ({_listed(positions)})."
        )
    position = positions[label]
    if kind == MISSED:
        return np.asarray((right == position) & wrong)
    if kind == FALSE:
        return np.asarray((predicted == position) & wrong)
    return np.where(right == position, wrong, np.nan)


def known_harm(
    name: str,
    classes: Sequence[Any],
    predicted: NDArray[np.int64],
    right: NDArray[np.int64],
    details: Mapping[str, Any],
) -> NDArray[Any] | None:
    """Return a harm of a certificate, with the costs that it stores; None if the harm does not follow from labels.

    Args:
        name: Name of the harm.
        classes: Classes of the model.
        predicted: (N,), positions of the predicted classes.
        right: (N,), positions of the true classes.
        details: Details of the certificate.
    """
    stored = details.get("costs")
    try:
        return harm_of(name, classes, predicted, right, None if stored is None else cost_matrix(stored, classes))
    except ArgumentError:
        return None


def expand(risk: Any, classes: Sequence[Any], given: Container[str] = ()) -> Any:
    """Return targets with "miss rate" replaced by one harm per class; a class that is named keeps its own risk.

    All harms of a target must hold at one threshold, so that many of them do not split delta.

    Args:
        risk: A target, or several.
        classes: Classes of the model.
        given: Names of the user's own harms, or of those of a certificate: if "miss rate" is one of them, it stays.
    """
    if isinstance(risk, (list, tuple)):
        return [expand(target, classes, given) for target in risk]
    if not isinstance(risk, Mapping) or MISS_RATE not in risk or MISS_RATE in given:
        return risk
    found: dict[Any, Any] = {}
    for name, value in risk.items():
        if name != MISS_RATE:
            found[name] = value
            continue
        for label in classes:
            harm = f"{MISS_RATE} {label}"
            found[harm] = risk.get(harm, value)
    return found


def harm_names(risk: Risk | Sequence[Risk]) -> list[str]:
    """Return the names of the harms of all targets, each once."""
    targets = list(risk) if isinstance(risk, (list, tuple)) else [risk]
    return list(dict.fromkeys(str(name) for target in targets if isinstance(target, Mapping) for name in target))


def cost_matrix(costs: Costs, classes: Sequence[Any]) -> NDArray[np.float64]:
    """Return costs as an array (C, C): true classes are rows, predicted classes columns; the diagonal is 0.

    Args:
        costs: Costs between 0 and 1 by (true, predicted), where None stands for all confusions that are not named; or
            the array.
        classes: Classes of the model, in order.
    """
    count = len(classes)
    if not isinstance(costs, Mapping):
        try:
            found = np.array(costs, dtype=np.float64)
        except (TypeError, ValueError):
            raise ArgumentError.of("costs", type(costs).__name__, "a mapping or an array of numbers") from None
        if found.shape != (count, count):
            hint = "Rows are true classes, columns are predicted ones, both in the order of predictor.classes."
            raise ArgumentError.of("costs", f"shape {found.shape}", f"of shape ({count}, {count})", hint)
        return _check_range(found, classes)
    positions = {str(label): position for position, label in enumerate(classes)}
    found = np.full((count, count), np.nan)
    np.fill_diagonal(found, 0.0)
    for pair, cost in costs.items():
        if pair is None:
            continue
        if not isinstance(pair, tuple) or len(pair) != 2 or any(str(label) not in positions for label in pair):
            hint = f"The classes are {_listed(positions)}."
            raise ArgumentError.of("Keys of costs", repr(pair), "pairs (true, predicted) of classes", hint)
        true, predicted = (positions[str(label)] for label in pair)
        found[true, predicted] = _number(pair, cost)
    missing = np.argwhere(np.isnan(found))
    if len(missing) and None not in costs:
        pair = tuple(classes[position] for position in missing[0].tolist())
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise ArgumentError(
            f"costs has no cost for {pair!r} (true, predicted){more}. Name it, or give one cost for all others: under"
            " None, or in a file on a line without classes."
        )
    found[np.isnan(found)] = _number(None, costs.get(None, 0.0))
    return _check_range(found, classes)


def _listed(names: Mapping[str, int]) -> str:
    """Return the first names, comma-separated."""
    return ", ".join(list(names)[:MAX_CLASSES_SHOWN]) + (", ..." if len(names) > MAX_CLASSES_SHOWN else "")


def _number(pair: Any, cost: Any) -> float:
    """Return a cost as a number; ``pair`` is its key, used in the error message."""
    try:
        return float(cost)
    except (TypeError, ValueError):
        raise ArgumentError.of(f"costs[{pair!r}]", repr(cost), "a number between 0 and 1") from None


def _check_range(costs: NDArray[np.float64], classes: Sequence[Any]) -> NDArray[np.float64]:
    """Return the costs (C, C), after a check that they are between 0 and 1, and 0 for correct predictions."""
    if len(nonzero := np.flatnonzero(np.diag(costs))):
        label = classes[nonzero[0]]
        raise ArgumentError(
            f"Correct predictions must cost 0, got {costs[nonzero[0], nonzero[0]]:g} for costs[({label!r}, {label!r})]."
            " Costs are for confusions only."
        )
    bad = np.argwhere(~((costs >= 0) & (costs <= 1)))
    if len(bad):
        pair = tuple(classes[position] for position in bad[0].tolist())
        value, largest = float(costs[tuple(bad[0])]), float(np.nanmax(costs))
        hint = f"Divide all costs, and the risk, by {largest:g}." if value > 1 and np.isfinite(largest) else ""
        raise ArgumentError.of(f"costs[{pair!r}]", f"{value:g}", "a number between 0 and 1", hint)
    return costs
