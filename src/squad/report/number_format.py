"""Numbers as a reader meets them: rounded to what matters, and never better than they are."""

import math

from squad.selective.certificate_text import percent as promised

__all__ = ["SPACE", "at_most", "count", "exact", "percent", "plural", "rounded", "upwards"]

#: Between a number and its sign: a line must not break there.
SPACE = "\u00a0"
#: So many decimals of a percentage, at the most.
DECIMALS = 4


def percent(share: float) -> str:
    r"""A share as a percentage, exact where it matters: near 0 and near 1 more decimals are kept.

    What is not 0 is never shown as 0, and what is not 1 never as 100.

    >>> percent(0.632), percent(0.0062), percent(0.99973)
    ('63.2\xa0%', '0.62\xa0%', '99.973\xa0%')
    """
    value = 100.0 * share
    gap = min(value, 100.0 - value)
    if not 0 < gap < 100:
        return f"{value:g}{SPACE}%"
    decimals = 1 if gap >= 1 else min(DECIMALS, 1 - math.floor(math.log10(gap)))
    text = f"{value:.{decimals}f}".rstrip("0").rstrip(".")
    least = 10.0**-DECIMALS
    if text == "0":
        return f"under {least:.{DECIMALS}f}{SPACE}%"
    if text == "100":
        return f"over {100 - least:.{DECIMALS}f}{SPACE}%"
    return f"{text}{SPACE}%"


def exact(share: float) -> str:
    r"""A risk that was promised, with all its digits: it must not be rounded in the promise's favour.

    >>> exact(0.02), exact(0.0199)
    ('2\xa0%', '1.99\xa0%')
    """
    return promised(share).replace(" ", SPACE)


def upwards(threshold: float) -> str:
    r"""A threshold as a percentage, rounded up: what is above the figure is above the threshold, too.

    >>> upwards(0.902435), upwards(0.5)
    ('90.3\xa0%', '50\xa0%')
    """
    if not 0 < threshold < 1:
        return percent(threshold)
    gap = 100.0 * min(threshold, 1 - threshold)
    decimals = 1 if gap >= 1 else min(DECIMALS, 1 - math.floor(math.log10(gap)))
    value = math.ceil(100.0 * threshold * 10.0**decimals - 1e-9) / 10.0**decimals
    return percent(threshold) if value >= 100 else f"{value:.{decimals}f}".rstrip("0").rstrip(".") + f"{SPACE}%"


def count(number: float) -> str:
    """With commas between the thousands; a sum of costs to two places."""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.2f}"


def plural(number: int, word: str, words: str | None = None) -> str:
    """The number with its noun: 1 case, 2 cases."""
    return f"{count(number)}{SPACE}{word if number == 1 else words or f'{word}s'}"


def at_most(share: float, of: int = 1000) -> int:
    """An upper bound on a share, in whole cases: rounded up, floating point's own rounding aside.

    >>> at_most(0.0061), at_most(0.006)
    (7, 6)
    """
    return math.ceil(share * of - 1e-9)


def rounded(number: float) -> str:
    """A count that was observed, with one decimal where it is small.

    >>> rounded(3.26), rounded(31.2), rounded(0.0)
    ('3.3', '31', '0')
    """
    if number >= 10:
        return count(round(number))
    return f"{number:.1f}".removesuffix(".0")
