"""Numbers and tables as Markdown."""


def number(value: float) -> str:
    """Three digits, as people write them."""
    return f"{float(f'{value:.3g}'):,.10g}"


def table(lines: list[list[str]]) -> str:
    """Rows, the first of which are headings."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]])
