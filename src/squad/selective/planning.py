"""Sample size planning: how many labels a certificate needs, before collecting them and after too few were."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from squad.core.checks import check_choice, check_count, check_fraction, check_number
from squad.errors import ArgumentError
from squad.selective.attempts import check_attempt, delta_share
from squad.selective.bounds import MAX_CASES
from squad.selective.labels_needed import cases_for_one_test
from squad.selective.methods import FALLBACK, FIXED, Options
from squad.selective.pilots import PILOTED
from squad.selective.power import (
    SAMPLES,
    SEED,
    SIMULATED,
    LeastFavourable,
    PilotPopulation,
    succeeds,
    success_of_one_threshold,
)
from squad.selective.power_piloted import Piloted
from squad.selective.scored_cases import WRONG, Scores

__all__ = ["plan", "success_probability"]

#: Fraction of the desired coverage that counts as success.
SUCCESS_COVERAGE = 0.9
#: Margin by which the simulated probability must exceed the requested power.
POWER_MARGIN = 0.004
#: Number of samples in the first stage of the search.
SEARCH_SAMPLES = 2000
#: Where few cases may be enough although many are not, the search stops at this multiple of what one test needs.
LATE_START_FACTOR = 16
#: Maximum number of cases planned for from a pilot.
MAX_PILOTED_CASES = 1 << 24


def plan(
    risk: float,
    delta: float = 0.01,
    coverage: float | None = None,
    error: float = 0.0,
    power: float = 0.9,
    *,
    method: str = "fallback",
    pilot: tuple[ArrayLike, ArrayLike] | None = None,
    attempt: int | None = None,
    ranks: int = 20,
    r_max: float = 0.1,
) -> int:
    """Compute how many labelled calibration cases to collect for a certificate.

    With that many cases, certification succeeds with probability ``power``: a rule is certified that accepts at least
    nine tenths of ``coverage``.  If all that is known about the model is that a fraction ``coverage`` of the cases can
    be accepted with error rate ``error``, the probability is that of the least favourable population, in which all
    accepted cases have this error rate and all others are wrong; it is no lower for any other population whose risk
    increases with coverage and whose confidences are almost never tied.  If a ``pilot`` is given, the probability is
    that of cases drawn from it: an estimate, as good as the pilot is large.

    Args:
        risk: Largest error rate allowed among accepted predictions.
        delta: Probability that the certificate is false.
        coverage: Fraction of cases to accept.  None for all cases; with a pilot, for any certificate.
        error: Expected error rate among these cases; below ``risk``.
        power: Probability of success.
        method: Method to be used, see :func:`squad.certify`.  "grid" stands for one threshold, fixed in advance, that
            accepts ``coverage``.  "preset" and "pareto" need a ``pilot``, which is then assumed to choose their
            thresholds as well.
        pilot: (confidence, correct) of cases that are from the same distribution as future cases and new to the model.
            They must not be among the calibration cases.
        attempt: Number of the attempt to certify the model, which determines its share of ``delta``: 1 for the first
            attempt of ``Predictor.certify`` and ``squad certify``.  None for the only attempt, the default of
            :func:`squad.certify`.
        ranks: For "bonferroni".
        r_max: For "band".

    Returns:
        The number of cases.

    Raises:
        ArgumentError: If no number of cases is enough, for example because ``error`` is not below ``risk``.

    See Also:
        success_probability: Probability of success for a given number of cases.
        certify: Creates the certificate.

    Examples:
        >>> plan(risk=0.02, delta=0.01)  # if no prediction is wrong
        228
        >>> plan(risk=0.02, delta=0.01, coverage=0.7, error=0.01)
        6192
    """
    power = check_fraction("power", power)
    question = _Plan.of(risk, delta, coverage, error, method, pilot, attempt, ranks, r_max)
    return question.fewest(power)


def success_probability(
    m: int,
    risk: float,
    delta: float = 0.01,
    coverage: float | None = None,
    error: float = 0.0,
    *,
    method: str = "fallback",
    pilot: tuple[ArrayLike, ArrayLike] | None = None,
    attempt: int | None = None,
    ranks: int = 20,
    r_max: float = 0.1,
) -> float:
    """Compute the probability that certification succeeds with m calibration cases, as defined in :func:`plan`.

    Simulated with a fixed seed, to within 0.4 percentage points.

    Args:
        m: Number of calibration cases.
        risk: Largest error rate allowed among accepted predictions.
        delta: Probability that the certificate is false.
        coverage: Fraction of cases to accept.  None for all cases; with a pilot, for any certificate.
        error: Expected error rate among these cases; below ``risk``.
        method: Method to be used, see :func:`plan`.
        pilot: (confidence, correct) of cases outside the calibration set, see :func:`plan`.
        attempt: Number of the attempt, see :func:`plan`.
        ranks: For "bonferroni".
        r_max: For "band".

    Returns:
        The probability.

    See Also:
        plan: The number of cases for a given probability.

    Examples:
        >>> success_probability(500, risk=0.02, coverage=0.8) > success_probability(300, risk=0.02, coverage=0.8)
        True
    """
    m = check_count("m", m, 1, MAX_CASES)
    return _Plan.of(risk, delta, coverage, error, method, pilot, attempt, ranks, r_max).probability(m, seed=SEED + 1)


@dataclass(eq=False)
class _Plan:
    """Arguments of :func:`plan`, checked.

    Attributes:
        risk: Target.
        level: The attempt's share of delta.
        coverage: Fraction of cases to accept; None if any certificate counts as success.
        error: Expected error rate among these.
        method: Name of the method.
        options: Options of the method.
        wrong: Whether each case of the pilot is wrong, the most confident first; None without a pilot.
    """

    risk: float
    level: float
    coverage: float | None
    error: float
    method: str
    options: Options
    wrong: NDArray[np.bool_] | None = None
    _flat_cache: tuple[int, int, int, LeastFavourable] | None = None

    @classmethod
    def of(
        cls,
        risk: float,
        delta: float,
        coverage: float | None,
        error: float,
        method: str,
        pilot: tuple[ArrayLike, ArrayLike] | None,
        attempt: int | None,
        ranks: int,
        r_max: float,
    ) -> "_Plan":
        risk = check_fraction("risk", risk)
        level = check_fraction("delta", delta) * delta_share(check_attempt(attempt))
        check_choice("method", method, (*SIMULATED, *PILOTED, "grid"))
        options = Options(check_count("ranks", ranks, 1), check_fraction("r_max", r_max))
        if method == "band" and risk > options.r_max:
            raise ArgumentError.of("risk", f"{risk:g}", f"at most r_max ({options.r_max:g}) for the method band")
        if coverage is not None:
            coverage = check_number("coverage", coverage, 0.0, 1.0, exclude=0.0)
        error = check_number("error", error, 0.0, 1.0)
        if pilot is None:
            if method in PILOTED:
                raise ArgumentError(
                    f"Planning for the method {method} needs a pilot: confidence and correct of some cases. Pass pilot,"
                    " or --pilot FILE."
                )
            if error >= risk:
                hint = "More labels will not help: accept fewer cases (a lower coverage), or allow a higher risk."
                raise ArgumentError.of("error", f"{error:g}", f"below the risk of {risk:g}", hint)
            return cls(risk, level, 1.0 if coverage is None else coverage, error, method, options)
        if error:
            raise ArgumentError("Pass either `error` or `pilot`, not both: the error rate of a pilot is known.")
        scores = Scores.of(*pilot)
        if not len(scores):
            raise ArgumentError.of("pilot", "no cases", "the confidences and correctness of some cases")
        wrong = scores.harms[WRONG][np.argsort(-scores.confidence, kind="stable")]
        if not (np.cumsum(wrong) < risk * np.arange(1, len(wrong) + 1)).any():
            hint = "More labels will not help: allow a higher risk."
            raise ArgumentError(
                f"The error rate of the pilot is not below {risk:g} at any threshold ({wrong.mean():.3g} at full"
                f" coverage). {hint}"
            )
        if coverage is None:
            if method == "grid":
                raise ArgumentError(
                    "Planning for the method grid needs `coverage`: the fraction that the threshold accepts."
                )
            return cls(risk, level, None, 0.0, method, options, wrong)
        count = max(1, round((1.0 if method == "grid" else SUCCESS_COVERAGE) * coverage * len(wrong)))
        error = float(wrong[:count].mean())
        if error >= risk:
            hint = "More labels will not help: accept fewer cases (a lower coverage), or allow a higher risk."
            raise ArgumentError(
                f"The error rate of the pilot must be below the risk of {risk:g} among the {count:,} most confident"
                f" cases, got {error:.3g}. {hint}"
            )
        return cls(risk, level, coverage, error, method, options, wrong)

    def probability(self, m: int, samples: int = SAMPLES, seed: int = SEED) -> float:
        """Return the probability of success with m cases."""
        if self.method == "grid":
            assert self.coverage is not None
            return success_of_one_threshold(m, self.coverage, self.error, self.risk, self.level)
        least = 1 if self.coverage is None else math.ceil(SUCCESS_COVERAGE * self.coverage * m - 1e-9)
        if self.method in PILOTED:
            return float(self._piloted.succeeds(m, least, self.method, self.risk, self.level, samples, seed).mean())
        paths = self._population(m, samples, seed).draw(m)
        return float(succeeds(paths, least, self.method, self.risk, self.level, self.options).mean())

    @cached_property
    def _piloted(self) -> Piloted:
        """Population of the pilot, which also fixes the thresholds."""
        assert self.wrong is not None
        return Piloted.of(self.wrong)

    def _population(self, m: int, samples: int, seed: int) -> LeastFavourable | PilotPopulation:
        if self.wrong is not None:
            return PilotPopulation(self.wrong, samples, seed)
        assert self.coverage is not None
        most = 1 << math.ceil(math.log2(max(m, 2)))  # the same samples for all m up to a power of two
        if (found := self._flat_cache) is None or found[:3] != (most, samples, seed):
            found = self._flat_cache = (
                most,
                samples,
                seed,
                LeastFavourable(self.coverage, self.error, most, samples, seed),
            )
        return found[3]

    @property
    def _starts_too_late(self) -> bool:
        """Whether the method starts at a coverage with too high a risk, so that many cases are no better than few."""
        begin = {"fallback": FALLBACK, "fixed_sequence": FIXED}.get(self.method, ())
        return bool(begin) and all(self._risk_at(delta_share) >= self.risk for delta_share, _ in begin)

    def _risk_at(self, delta_share: float) -> float:
        """Return the risk of the rule with this coverage."""
        if self.wrong is not None:
            return float(self.wrong[: max(1, round(delta_share * len(self.wrong)))].mean())
        assert self.coverage is not None
        return (min(delta_share, self.coverage) * self.error + max(0.0, delta_share - self.coverage)) / delta_share

    def fewest(self, power: float) -> int:
        """Return the smallest number of cases with this power, to within one percent; power is not quite monotone."""

        def enough(m: int) -> bool:
            return self.probability(m, SEARCH_SAMPLES) >= power

        low, high = 0, max(8, round(self._guess()))
        most = MAX_CASES if self.wrong is None else MAX_PILOTED_CASES
        if self._starts_too_late:
            most = min(most, LATE_START_FACTOR * high)
        while high < most and not enough(high):
            low, high = high, high + max(1, high // (3 if self.wrong is None else 1))
        if high >= most and self._starts_too_late:
            raise ArgumentError(
                f"The method {self.method} starts at a quarter of the cases or more, where the error rate already"
                f" reaches the risk of {self.risk:g}. Use the method sgr, band or bonferroni for such a low coverage."
            )
        if high >= most:
            what = "error" if self.wrong is None else "pilot"
            raise ArgumentError.of(
                what, f"{self.error:g}", f"further below the risk of {self.risk:g}: a billion labels are not enough"
            )
        while not low and high > 1 and enough(3 * high // 4):
            high = 3 * high // 4
        low = low or 3 * high // 4
        while high - low > max(1, high // 200):
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        # The search so far used few samples.  Now use all of them, with a margin: choosing the best of several numbers
        # makes it look slightly better than it is.
        step = max(1, high // 100)

        def passes_with_margin(m: int) -> bool:
            return self.probability(m) >= power + (0.0 if self.method == "grid" else min(POWER_MARGIN, (1 - power) / 2))

        while not passes_with_margin(high):
            high += step
        while step:
            while high > step and passes_with_margin(high - step):
                high -= step
            step = step // 2 if step > max(1, high // 1000) else 0
        return high

    def _guess(self) -> float:
        """Return the approximate number of cases that a single test needs."""
        return float(cases_for_one_test(np.array(self.error), self.risk, self.level)) / (self.coverage or 1.0)
