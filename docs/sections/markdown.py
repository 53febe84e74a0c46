"""Tables in Markdown."""

__all__ = ["table"]


def table(lines: list[list[str]]) -> str:
    """Return rows, the first of which is the header, as a Markdown table."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]])
