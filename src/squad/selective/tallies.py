"""Error counts or costs of the cases that each rule accepts, for one harm, and the test of its risk."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from squad.selective.betting import log_wealth
from squad.selective.bounds import passes

__all__ = ["Tally"]


@dataclass(frozen=True, eq=False)
class Tally:
    """Error counts of one harm per rule, from the strictest rule to the one with the largest coverage.

    A harm may be counted on some cases only: the miss rate of a class is counted on cases of that class.

    Attributes:
        m: Number of cases that the harm is counted on.
        n: (rules,), how many of these each rule accepts; non-decreasing.
        errors: (rules,), number of harmed cases among the n; for costs, their total cost.
        losses: (m,), costs, in the order in which rules accept the cases; None for a harm that either occurs or not.

    Examples:
        >>> wrong = np.array([False, True, False])
        >>> tally = Tally.of(wrong, np.array([0, 2, 1]), np.array([1, 2, 3]))
        >>> tally.n.tolist(), tally.errors.tolist()
        ([1, 2, 3], [0, 0, 1])
    """

    m: int
    n: NDArray[np.int64]
    errors: NDArray[Any]
    losses: NDArray[np.float64] | None = None
    _wealth: dict[float, NDArray[np.float64]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, loss: NDArray[Any], order: NDArray[np.int64], accepted: NDArray[np.int64], costs: bool = False
    ) -> "Tally":
        """Count errors or add up costs.

        Args:
            loss: (cases,), booleans, or costs between 0 and 1 with NaN where the harm is not counted.
            order: (cases,), indices of the cases, the most confident first.
            accepted: (rules,), number of cases that each rule accepts.
            costs: Whether costs between 0 and 1 are possible.  The choice of the test must not depend on the cases
                themselves.

        Returns:
            The tally of one harm, by rule.
        """
        sorted_ = loss[order].astype(np.float64) if costs else loss[order]
        if sorted_.dtype == np.bool_:
            return cls(len(loss), accepted, np.append(0, np.cumsum(sorted_, dtype=np.int64))[accepted])
        counted = ~np.isnan(sorted_)
        n = np.append(0, np.cumsum(counted, dtype=np.int64))[accepted]
        losses = sorted_[counted]
        if not costs:
            return cls(len(losses), n, np.append(0, np.cumsum(losses.astype(np.int64)))[n])
        return cls(len(losses), n, np.append(0.0, np.cumsum(losses))[n], losses)

    @property
    def rates(self) -> NDArray[np.float64]:
        """(rules,), error rate among the accepted cases that count; 0 where there are none."""
        return np.asarray(self.errors / np.maximum(self.n, 1), dtype=np.float64)

    def may_fail_anew(self, begin: int, end: int) -> NDArray[np.bool_]:
        """For rules begin + 1 to end - 1, whether each may fail although the rule before it passes.

        With the same number of errors, a larger n passes more easily.  With costs, bets depend on n, so any rule may
        fail.

        Args:
            begin: Index of the first rule.
            end: Index after the last rule.

        Returns:
            (end - begin - 1,), booleans.
        """
        if self.losses is not None:
            return np.ones(max(end - begin - 1, 0), dtype=np.bool_)
        return np.asarray(np.diff(self.errors[begin:end]) > 0)

    def passes(self, rules: ArrayLike, risk: float, level: float) -> NDArray[np.bool_]:
        """Whether each of these rules (by index) shows a risk of at most ``risk`` at ``level``.

        Args:
            rules: Indices of rules, of any shape.
            risk: Target.
            level: Significance level.

        Returns:
            Booleans, of the shape of ``rules``.
        """
        rules = np.asarray(rules)
        if self.losses is None:
            return passes(self.errors[rules], self.n[rules], risk, level)
        if risk not in self._wealth:
            self._wealth[risk] = log_wealth(self.losses, risk)
        return np.asarray(self._wealth[risk][self.n[rules]] >= -np.log(level))
