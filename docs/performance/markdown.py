"""Format numbers and tables as Markdown."""


def number(value: float) -> str:
    """Format a number with three significant digits."""
    return f"{float(f'{value:.3g}'):,.10g}"


def table(lines: list[list[str]]) -> str:
    """Format rows as a table; the first row is the header."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]])
