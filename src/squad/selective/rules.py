"""Rules of a certificate: a threshold on confidence, and what was shown for it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Rule", "read_count", "read_fraction"]


@dataclass(frozen=True)
class Rule:
    """A threshold on confidence, and what was shown for it.

    Attributes:
        risks: By harm, the largest certified rate among accepted cases; "wrong" is a wrong prediction.
        group: Group that the rule applies to; None for all cases.
        threshold: Predictions with a confidence above it are accepted; -inf accepts all, +inf none.
        n: Number of calibration cases (of the group) that it accepts.
        m: Number of calibration cases (of the group).
        errors: By harm, number of harmed cases among the n; for costs, their total cost.
        level: Significance level of the test of each harm: its part of delta.
        needed: For an uncertified rule, approximate number of calibration cases that the next attempt needs; None if
            unknown.
        hopeless: Whether the observed errors reach the risk at every threshold, so that more labels will not help.
        counted: For harms that are counted on some cases only: how many of those are accepted, and how many there are.
        costs: Harms with costs between 0 and 1 instead of errors.
        closest: If ``hopeless``, by harm: errors at the threshold closest to the risks, and the number of cases they
            are counted on.
        failing: By harm that could not be certified even alone, if there are several: errors with all cases accepted,
            and the number of cases they are counted on.

    See Also:
        Certificate: Consists of rules.

    Examples:
        >>> from squad import certify
        >>> rule = certify([0.9] * 500, [True] * 500, risk=0.01).rules[0]
        >>> rule.certified, rule.threshold, rule.coverage, rule.errors
        (True, -inf, 1.0, {'wrong': 0})
    """

    risks: Mapping[str, float]
    group: Any
    threshold: float
    n: int
    m: int
    errors: Mapping[str, float]
    level: float
    needed: int | None = None
    hopeless: bool = False
    counted: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    costs: tuple[str, ...] = ()
    closest: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    failing: Mapping[str, tuple[float, int]] = field(default_factory=dict)

    @property
    def certified(self) -> bool:
        """Whether the rule accepts anything."""
        return self.threshold < math.inf

    @property
    def coverage(self) -> float:
        """Fraction of the calibration cases that the rule accepts."""
        return self.n / self.m if self.m else 0.0

    def counts(self, harm: str) -> tuple[int, int]:
        """Return how many accepted cases, and how many cases in total, a harm is counted on."""
        return self.counted.get(harm, (self.n, self.m))

    def to_json(self) -> dict[str, Any]:
        """Return the rule as plain data; JSON has no infinity."""
        accepts = "above" if math.isfinite(self.threshold) else "none" if self.threshold > 0 else "all"
        return {
            "risks": dict(self.risks),
            "group": self.group,
            "accepts": accepts,
            "threshold": self.threshold if accepts == "above" else None,
            "n": self.n,
            "m": self.m,
            "coverage": self.coverage,
            "errors": dict(self.errors),
            "level": self.level,
            "needed": self.needed,
            "hopeless": self.hopeless,
            "counted": {name: list(pair) for name, pair in self.counted.items()},
            "costs": list(self.costs),
            "closest": {name: list(pair) for name, pair in self.closest.items()},
            "failing": {name: list(pair) for name, pair in self.failing.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Rule":
        """Read what :meth:`to_json` wrote.

        Args:
            data: One entry of "rules" in a saved certificate.

        Returns:
            The rule.
        """
        accepts, threshold = data["accepts"], data["threshold"]
        finite = type(threshold) in (int, float) and math.isfinite(threshold)
        if accepts not in ("above", "all", "none") or (not finite if accepts == "above" else threshold is not None):
            raise ValueError(f"'accepts' is {accepts!r} but the threshold is {threshold!r}")
        if type(data["hopeless"]) is not bool:
            raise ValueError(f"'hopeless' is {data['hopeless']!r}, not true or false")
        limit = {"all": -math.inf, "none": math.inf}.get(accepts, threshold)
        costs = tuple(str(name) for name in data.get("costs", ()))  # format 1 had neither costs nor counts
        counted = {str(name): _read_pair(pair) for name, pair in data.get("counted", {}).items()}
        rule = cls(
            {str(name): read_fraction(risk) for name, risk in data["risks"].items()},
            data["group"],
            float(limit),
            read_count(data["n"]),
            read_count(data["m"]),
            {str(name): (_read_sum if name in costs else read_count)(count) for name, count in data["errors"].items()},
            read_fraction(data["level"]),
            None if data["needed"] is None else read_count(data["needed"]),
            data["hopeless"],
            counted,
            costs,
            _read_error_counts(data.get("closest", {}), costs),
            _read_error_counts(data.get("failing", {}), costs),
        )
        named = {*counted, *costs, *rule.closest, *rule.failing}
        if set(rule.errors) != set(rule.risks) or not rule.risks or not named <= set(rule.risks):
            raise ValueError(f"it has risks of {', '.join(rule.risks)}, but errors of {', '.join(rule.errors)}")
        if rule.n > rule.m or data["coverage"] != rule.coverage:
            raise ValueError(f"{rule.n:,} of {rule.m:,} cases are accepted, but the coverage is {data['coverage']!r}")
        return rule


def read_fraction(value: Any) -> float:
    """Check a number strictly between 0 and 1 from a file.

    Returns:
        The number as a float.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        raise ValueError(f"{value!r} is not between 0 and 1")
    return float(value)


def read_count(value: Any) -> int:
    """Check a count from a file.

    Returns:
        The count.
    """
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError(f"{str(value)[:40]} is not a count")
    return value


def _read_pair(value: Any) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{str(value)[:40]} is not a pair of counts")
    accepted, all_ = map(read_count, value)
    return accepted, all_


def _read_error_counts(data: Mapping[str, Any], costs: tuple[str, ...]) -> dict[str, tuple[float, int]]:
    """Check, by harm, errors (or total costs) and the number of cases they are counted on."""
    return {
        str(name): ((_read_sum if name in costs else read_count)(pair[0]), read_count(pair[1]))
        for name, pair in data.items()
    }


def _read_sum(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1 << 53:
        raise ValueError(f"{str(value)[:40]} is not a sum of costs")
    return float(value)
