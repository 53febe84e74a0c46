"""A share of rows in words: a share of few rows says little, and the words must say so."""

__all__ = ["accuracy_text"]

#: From so many rows on, a share is left to speak for itself.
ENOUGH = 200
#: Of the interval, two-sided.
LEVEL = 0.95


def accuracy_text(share: float, rows: int, digits: int = 1) -> str:
    """``93.3 % of 300 rows``; of few rows with the exact (Clopper-Pearson) 95 % interval.

    >>> accuracy_text(1.0, 2)
    '100.0 % of only 2 rows (95 % interval: 16 to 100 %)'
    """
    text = f"{100 * share:.{digits}f} %"
    if rows < 1:
        return text
    if rows >= ENOUGH:
        return f"{text} of {rows:,} rows"
    low, high = interval(round(share * rows), rows)
    return (
        f"{text} of only {rows:,} row{'' if rows == 1 else 's'} (95 % interval: {100 * low:.0f} to {100 * high:.0f} %)"
    )


def interval(hits: int, rows: int) -> tuple[float, float]:
    """The exact binomial interval of so many hits among so many rows."""
    from scipy.special import betaincinv

    out = (1 - LEVEL) / 2
    low = float(betaincinv(hits, rows - hits + 1, out)) if hits else 0.0
    high = float(betaincinv(hits + 1, rows - hits, 1 - out)) if hits < rows else 1.0
    return low, high
