"""An accuracy as text: with few rows it says little, and the text shows how little."""

__all__ = ["accuracy_text"]

#: From this number of rows on, no confidence interval is shown.
ENOUGH_ROWS = 200
#: Confidence level of the two-sided interval.
LEVEL = 0.95


def accuracy_text(accuracy: float, rows: int, digits: int = 1) -> str:
    """Return ``93.3 % of 300 rows``; for few rows with the exact (Clopper-Pearson) 95 % interval.

    Args:
        accuracy: Fraction of correct predictions.
        rows: Number of rows; below 1, only the percentage is returned.
        digits: Decimal places of the percentage.

    Returns:
        Percentage, number of rows, and for few rows the interval.

    Examples:
        >>> accuracy_text(1.0, 2)
        '100.0 % of only 2 rows (95 % interval: 16 to 100 %)'
    """
    text = f"{100 * accuracy:.{digits}f} %"
    if rows < 1:
        return text
    if rows >= ENOUGH_ROWS:
        return f"{text} of {rows:,} rows"
    low, high = interval(round(accuracy * rows), rows)
    return (
        f"{text} of only {rows:,} row{'' if rows == 1 else 's'} (95 % interval: {100 * low:.0f} to {100 * high:.0f} %)"
    )


def interval(hits: int, rows: int) -> tuple[float, float]:
    """Return the exact binomial (Clopper-Pearson) interval for ``hits`` successes in ``rows`` trials."""
    from scipy.special import betaincinv

    tail = (1 - LEVEL) / 2
    low = float(betaincinv(hits, rows - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, rows - hits, 1 - tail)) if hits < rows else 1.0
    return low, high
