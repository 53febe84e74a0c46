"""What a search maximizes, measured on the validation rows of a trial.

The value compares trials with each other; it promises nothing.  The validation rows also chose the epoch of each trial
and the best of all trials, so the coverage of the winner is too good by some, and a promise takes fresh rows
(:func:`squad.certify`).
"""

import difflib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from squad.errors import ArgumentError
from squad.metrics import aurc
from squad.selective import Scores, plan
from squad.selective.certificate_text import certainty, percent
from squad.selective.methods import Options, shown_for_all
from squad.selective.planning import check_share
from squad.selective.scored_cases import WRONG, rank

__all__ = ["Objective"]

#: The paper's.
DELTA = 0.01
#: Fewer validation rows than so many error-free certificates would leave most trials without any coverage to compare.
TIMES = 3
#: The chance that an interval in the details misses.
MISS = 0.05
EXAMPLE = "coverage@risk=.02, coverage@risk=.02,delta=.05, aurc or accuracy"


@dataclass(frozen=True)
class Objective:
    """One number to maximize.

    - "coverage": the share of the rows that selection with guaranteed risk (SGR, the paper's method) accepts at
      ``risk`` and ``delta``; 0 where it accepts none.
    - "aurc": the area under the risk-coverage curve, negated.
    - "accuracy".

    Attributes:
        kind: which of them.
        risk, delta: of coverage; None for the others.

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
        if self.kind not in _WORST:
            near = difflib.get_close_matches(str(self.kind), _WORST, 1)
            hint = f"Did you mean {near[0]!r}?" if near and near[0] != "coverage" else f"Write it as {EXAMPLE}."
            raise ArgumentError.of("objective", repr(self.kind), "one of " + ", ".join(map(repr, _WORST)), hint)
        if self.kind != "coverage":
            if self.risk is not None or self.delta is not None:
                raise ArgumentError.of("objective", f"a risk or delta for {self.kind}", f"{self.kind} by itself")
            return
        if self.risk is None:
            raise ArgumentError.of("objective", "no risk", "coverage at a risk, such as coverage@risk=.02")
        object.__setattr__(self, "risk", check_share("risk", self.risk))
        object.__setattr__(self, "delta", check_share("delta", DELTA if self.delta is None else self.delta))

    @classmethod
    def parse(cls, text: str) -> "Objective":
        """From text: "coverage@risk=.02", with ",delta=.05" if it is not .01; "aurc"; or "accuracy"."""
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
                hint = "A percentage is written as a share: 2 % is .02." if "%" in number else ""
                raise ArgumentError.of("objective", repr(given), f"with a number as {name}", hint) from None
        try:
            return cls(kind, **options)  # type: ignore[arg-type]  # any text: the constructor looks
        except ArgumentError as cause:
            raise ArgumentError(f"objective {given!r}: {cause}") from None

    @property
    def text(self) -> str:
        """The one way to write it, which :meth:`parse` reads."""
        return self.kind if self.kind != "coverage" else f"coverage@risk={self.risk!r},delta={self.delta!r}"

    @property
    def worst(self) -> float:
        """The value of a trial that diverged: the worst there is."""
        return _WORST[self.kind]

    def for_rows(self, rows: int) -> tuple["Objective", str | None]:
        """What to maximize with so many validation rows, and the sentence to say aloud if that is something else.

        Coverage takes three times the rows of an error-free certificate, which is ``squad.plan(risk, delta)``: the
        fewest that show the risk in one test.  SGR tests ceil(log2 rows) thresholds, each at its part of delta, and
        needs more (at .02 and .01: 342 of the 684, where one test needs 228); for any delta up to .25 three times is
        enough for it, too.
        """
        if self.risk is None or self.delta is None:
            return self, None
        free = plan(self.risk, self.delta)
        if rows >= TIMES * free:
            return self, None
        there = "There is 1 validation row" if rows == 1 else f"There are {rows:,} validation rows"
        sentence = (
            f"{there}, fewer than {TIMES} times the {free:,} that an error-free certificate of at most"
            f" {percent(self.risk)} wrong answers with {certainty(self.delta)} certainty takes: -AURC is maximized"
            " instead of coverage."
        )
        return Objective("aurc"), sentence

    def measure(self, confidence: NDArray[Any], correct: NDArray[Any]) -> tuple[float, dict[str, Any]]:
        """The value to maximize, and what else there is to know, as plain data.

        The details are rows, accuracy (with its exact 95 % interval, accuracy_interval) and aurc; of coverage also
        coverage, accepted, errors (among the accepted), accepts ("above", "all" or "none") and threshold (of "above",
        else None), and coverage_interval, the exact 95 % binomial interval of accepted / rows.  It is that of a fixed
        threshold: what the rows had to do with the choice of the threshold is not in it.

        Args:
            confidence: (rows,), the higher the surer; NaN is refused.
            correct: (rows,), whether each answer is right.
        """
        scores = Scores.of(confidence, correct)
        rows = len(scores)
        if not rows:
            raise ArgumentError.of("confidence", "no rows", "of one row at least")
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
        shown = np.flatnonzero(shown_for_all("sgr", ranked, {WRONG: self.risk}, self.delta, Options()))
        accepted, errors, threshold = 0, 0, np.inf
        if len(shown):
            best = int(shown[-1])
            accepted, errors = int(ranked.n[best]), int(ranked.errors[WRONG][best])
            threshold = float(ranked.threshold[best])
        details |= {
            "coverage": accepted / rows,
            "coverage_interval": _interval(accepted, rows),
            "accepted": accepted,
            "errors": errors,
            "accepts": "above" if np.isfinite(threshold) else "none" if threshold > 0 else "all",
            "threshold": threshold if np.isfinite(threshold) else None,  # JSON knows no infinity
        }
        return accepted / rows, details


#: The value of a trial that diverged.
_WORST: dict[str, float] = {"coverage": 0.0, "aurc": -1.0, "accuracy": 0.0}


def _interval(hits: int, rows: int) -> list[float]:
    """The exact interval of a binomial share (Clopper and Pearson)."""
    low = float(betaincinv(hits, rows - hits + 1, MISS / 2)) if hits else 0.0
    high = float(betaincinv(hits + 1, rows - hits, 1 - MISS / 2)) if hits < rows else 1.0
    return [low, high]
