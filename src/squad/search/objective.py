"""Objectives of a search, measured on the validation rows of a trial.

An objective compares trials; it guarantees nothing.  The validation rows also chose the epoch of each trial and the
best trial, so the coverage of the best trial is optimistic.  A guarantee needs new rows (:func:`squad.certify`).
"""

import difflib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from squad.core.checks import check_fraction
from squad.errors import ArgumentError
from squad.metrics import aurc
from squad.selective import Scores, plan
from squad.selective.certificate_text import confidence_level, percent
from squad.selective.methods import Options, certified_rules
from squad.selective.scored_cases import WRONG, rank

__all__ = ["Objective"]

#: Default delta, the paper's.
DEFAULT_DELTA = 0.01
#: Coverage needs this many times the rows of an error-free certificate; with fewer, most trials would have coverage 0.
MIN_CERTIFICATES = 3
#: Error probability of the confidence intervals in the details.
INTERVAL_ALPHA = 0.05
#: Valid objectives, for error messages.
EXAMPLE = "coverage@risk=.02, coverage@risk=.02,delta=.05, aurc or accuracy"


@dataclass(frozen=True)
class Objective:
    """A number to maximize.

    - "coverage": proportion of validation rows accepted by selection with guaranteed risk (SGR, the paper's method) at
      ``risk`` and ``delta``; 0 if no row can be accepted.
    - "aurc": area under the risk-coverage curve, negated.
    - "accuracy": accuracy on the validation rows.

    Attributes:
        kind: "coverage", "aurc" or "accuracy".
        risk: Risk of "coverage"; None for the others.
        delta: Error probability of "coverage", 1 - confidence level; None for the others.

    References:
        Y. Geifman and R. El-Yaniv, "Selective Classification for Deep Neural Networks", 2017.

    Examples:
        >>> objective = Objective.parse("coverage@risk=.02")
        >>> objective.text
        'coverage@risk=0.02,delta=0.01'
        >>> value, details = objective.measure(np.linspace(0, 1, 1000), np.arange(1000) >= 400)
        >>> value, details["accepted"], details["errors"]
        (0.602, 602, 2)
        >>> [round(end, 3) for end in details["coverage_interval"]]
        [0.571, 0.632]
    """

    kind: Literal["coverage", "aurc", "accuracy"]
    risk: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in _WORST_VALUES:
            near = difflib.get_close_matches(str(self.kind), _WORST_VALUES, 1)
            hint = f"Did you mean {near[0]!r}?" if near and near[0] != "coverage" else f"Write it as {EXAMPLE}."
            raise ArgumentError.of("objective", repr(self.kind), "one of " + ", ".join(map(repr, _WORST_VALUES)), hint)
        if self.kind != "coverage":
            if self.risk is not None or self.delta is not None:
                raise ArgumentError(f"objective {self.kind} takes no risk and no delta. Write it as {self.kind!r}.")
            return
        if self.risk is None:
            raise ArgumentError("objective coverage has no risk. Write it as coverage@risk=.02.")
        object.__setattr__(self, "risk", check_fraction("risk", self.risk))
        object.__setattr__(self, "delta", check_fraction("delta", DEFAULT_DELTA if self.delta is None else self.delta))

    @classmethod
    def parse(cls, text: str) -> "Objective":
        """Parse "coverage@risk=.02", "coverage@risk=.02,delta=.05" (delta is .01 by default), "aurc" or "accuracy".

        Returns:
            The objective.
        """
        given: object = text
        if not isinstance(given, str):
            raise ArgumentError.of("objective", repr(given), f"text, such as {EXAMPLE}")
        kind, at, rest = (part.strip() for part in given.partition("@"))
        options: dict[str, float] = {}
        for part in rest.split(",") if at else ():
            name, equals, number = (piece.strip() for piece in part.partition("="))
            if name not in ("risk", "delta") or not equals or name in options:
                wrong = f"{name} twice" if name in options else repr(part)
                raise ArgumentError.of("objective", f"{wrong} in {given!r}", f"of the form {EXAMPLE}")
            try:
                options[name] = float(number)
            except ValueError:
                hint = "Write a percentage as a fraction: 2 % is .02." if "%" in number else f"Write it as {EXAMPLE}."
                raise ArgumentError(f"The {name} of objective {given!r} must be a number. {hint}") from None
        try:
            return cls(kind, **options)  # type: ignore[arg-type]  # the constructor checks the text
        except ArgumentError as cause:
            raise ArgumentError(f"objective {given!r}: {cause}") from None

    @property
    def text(self) -> str:
        """Canonical form, which :meth:`parse` reads."""
        return self.kind if self.kind != "coverage" else f"coverage@risk={self.risk!r},delta={self.delta!r}"

    @property
    def worst(self) -> float:
        """Worst possible value, given to trials that diverged."""
        return _WORST_VALUES[self.kind]

    def for_rows(self, rows: int) -> tuple["Objective", str | None]:
        """Return the objective to use with this number of validation rows, and a note for the user if it differs.

        Coverage needs three times the rows of an error-free certificate, ``squad.plan(risk, delta)``, which is the
        smallest number of rows that shows the risk in one test.  SGR tests ceil(log2 rows) thresholds, each at a part
        of delta, and needs more (at .02 and .01: 342 of 684 rows, where one test needs 228); for any delta up to .25,
        three times is enough for SGR, too.

        Args:
            rows: Number of validation rows.

        Returns:
            This objective and None; or AURC and a note, if there are too few rows for coverage.
        """
        if self.risk is None or self.delta is None:
            return self, None
        error_free = plan(self.risk, self.delta)
        if rows >= MIN_CERTIFICATES * error_free:
            return self, None
        there = "There is 1 validation row" if rows == 1 else f"There are {rows:,} validation rows"
        note = (
            f"{there}, fewer than {MIN_CERTIFICATES} times the {error_free:,} rows of an error-free certificate at risk"
            f" {percent(self.risk)} and confidence level {confidence_level(self.delta)}: -AURC is maximized instead of"
            " coverage."
        )
        return Objective("aurc"), note

    def measure(self, confidence: NDArray[Any], correct: NDArray[Any]) -> tuple[float, dict[str, Any]]:
        """Return the value to maximize, and further measurements as plain data.

        The details have rows, accuracy (with its exact 95 % interval, accuracy_interval) and aurc.  For coverage they
        also have coverage, accepted, errors (among the accepted rows), accepts ("above", "all" or "none"), threshold
        (for "above", else None) and coverage_interval, the exact 95 % binomial interval of accepted / rows.  That
        interval takes the threshold as fixed: it ignores that the same rows chose the threshold.

        Args:
            confidence: Confidences (rows,), higher is surer; NaN is refused.
            correct: Whether each prediction is right (rows,).

        Returns:
            The value, and the details by name.
        """
        scores = Scores.of(confidence, correct)
        rows = len(scores)
        if not rows:
            raise ArgumentError("confidence must have at least one row, got an empty array.")
        right = rows - int(scores.harms[WRONG].sum())
        area = aurc(scores.confidence, ~scores.harms[WRONG])
        details: dict[str, Any] = {
            "rows": rows,
            "accuracy": right / rows,
            "accuracy_interval": _interval(right, rows),
            "aurc": area,
        }
        if self.risk is None or self.delta is None:
            return (-area if self.kind == "aurc" else right / rows), details
        ranked = rank(scores)
        certified = np.flatnonzero(certified_rules("sgr", ranked, {WRONG: self.risk}, self.delta, Options()))
        accepted, errors, threshold = 0, 0, np.inf
        if len(certified):
            best = int(certified[-1])
            accepted, errors = int(ranked.n[best]), int(ranked.errors[WRONG][best])
            threshold = float(ranked.threshold[best])
        details |= {
            "coverage": accepted / rows,
            "coverage_interval": _interval(accepted, rows),
            "accepted": accepted,
            "errors": errors,
            "accepts": "above" if np.isfinite(threshold) else "none" if threshold > 0 else "all",
            "threshold": threshold if np.isfinite(threshold) else None,  # JSON has no infinity
        }
        return accepted / rows, details


#: Value of a trial that diverged.
_WORST_VALUES: dict[str, float] = {"coverage": 0.0, "aurc": -1.0, "accuracy": 0.0}


def _interval(hits: int, rows: int) -> list[float]:
    """Exact confidence interval of a binomial proportion (Clopper and Pearson, 1934)."""
    low = float(betaincinv(hits, rows - hits + 1, INTERVAL_ALPHA / 2)) if hits else 0.0
    high = float(betaincinv(hits + 1, rows - hits, 1 - INTERVAL_ALPHA / 2)) if hits < rows else 1.0
    return [low, high]
