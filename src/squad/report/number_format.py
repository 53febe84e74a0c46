"""Numbers formatted for readers: rounded to the digits that matter, and never in the model's favour."""

import math
from decimal import ROUND_CEILING, Decimal

from squad.selective.certificate_text import percent as guaranteed_percent

__all__ = ["NBSP", "approximate", "count", "exact_percent", "percent", "percent_rounded_up", "plural", "round_up"]

#: Non-breaking space between a number and its unit.
NBSP = "\u00a0"
#: Maximum number of decimals of a percentage.
MAX_DECIMALS = 4


def percent(fraction: float) -> str:
    r"""Format a fraction as a percentage, with more decimals near 0 and near 1.

    Only 0 is shown as 0 %, and only 1 as 100 %.

    Returns:
        The percentage, with a no-break space before the sign.

    Examples:
        >>> percent(0.632), percent(0.0062), percent(0.99973)
        ('63.2\xa0%', '0.62\xa0%', '99.973\xa0%')
    """
    value = 100.0 * fraction
    gap = min(value, 100.0 - value)
    if not 0 < gap < 100:
        return f"{value:g}{NBSP}%"
    text = _trim(f"{value:.{_decimals(gap)}f}")
    smallest = 10.0**-MAX_DECIMALS
    if text == "0":
        return f"under {smallest:.{MAX_DECIMALS}f}{NBSP}%"
    if text == "100":
        return f"over {100 - smallest:.{MAX_DECIMALS}f}{NBSP}%"
    return f"{text}{NBSP}%"


def exact_percent(fraction: float) -> str:
    r"""Format a guaranteed risk with all its digits: rounding could make the guarantee look stronger than it is.

    Returns:
        The percentage, with a no-break space before the sign.

    Examples:
        >>> exact_percent(0.02), exact_percent(0.0199)
        ('2\xa0%', '1.99\xa0%')
    """
    return guaranteed_percent(fraction).replace(" ", NBSP)


def percent_rounded_up(threshold: float) -> str:
    r"""Format a threshold as a percentage, rounded up: a confidence above the number shown is above the threshold.

    Near 1 it has as many decimals as it takes to differ from 100 %.

    Returns:
        The percentage, with a no-break space before the sign.

    Examples:
        >>> percent_rounded_up(0.902435), percent_rounded_up(0.5), percent_rounded_up(0.99999999)
        ('90.3\xa0%', '50\xa0%', '99.999999\xa0%')
    """
    if not 0 < threshold < 1:
        return percent(threshold)
    decimals = _decimals(100.0 * min(threshold, 1 - threshold))
    unit, number = Decimal(1).scaleb(-decimals), 100 * Decimal(threshold)
    # A threshold that was written with few decimals, such as 0.9, is a little more or less as a binary number.
    value = (number * (1 - Decimal("1e-12"))).quantize(unit, ROUND_CEILING)
    while value >= 100:
        unit /= 10
        value = number.quantize(unit, ROUND_CEILING)
    return _trim(f"{value:f}") + f"{NBSP}%"


def _decimals(gap: float) -> int:
    """Return the number of decimals for a percentage that is ``gap`` percentage points away from 0 or 100."""
    return 1 if gap >= 1 else min(MAX_DECIMALS, 1 - math.floor(math.log10(gap)))


def _trim(text: str) -> str:
    """Remove trailing zeros after the decimal point."""
    return text.rstrip("0").rstrip(".")


def count(number: float) -> str:
    """Format a count with thousands separators; a sum of costs with two decimals.

    Returns:
        Text such as "1,234".

    Examples:
        >>> count(1234), count(0.25)
        ('1,234', '0.25')
    """
    return f"{number:,}" if isinstance(number, int) else f"{number:,.2f}"


def plural(number: int, noun: str) -> str:
    """Format a count with its noun: "1 case", "2 cases".

    Args:
        number: The count.
        noun: Its noun in the singular, which takes an s in the plural.

    Returns:
        The count and the noun, with a no-break space between them.
    """
    return f"{count(number)}{NBSP}{noun if number == 1 else f'{noun}s'}"


def round_up(fraction: float, of: int = 1000) -> int:
    """Convert an upper bound on a fraction into a whole number of cases, rounded up apart from floating-point error.

    Args:
        fraction: Upper bound on a fraction.
        of: Number of cases that the fraction refers to.

    Returns:
        Number of cases.

    Examples:
        >>> round_up(0.0061), round_up(0.006)
        (7, 6)
    """
    return math.ceil(fraction * of - 1e-9)


def approximate(number: float) -> str:
    """Format an observed count, with one decimal if it is below 10.

    Returns:
        Text such as "3.3" or "31".

    Examples:
        >>> approximate(3.26), approximate(31.2), approximate(0.0)
        ('3.3', '31', '0')
    """
    if number >= 10:
        return count(round(number))
    return f"{number:.1f}".removesuffix(".0")
