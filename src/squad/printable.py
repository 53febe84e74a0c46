"""Escape text for display in a terminal.

Names of columns, classes and files may contain control characters that a terminal would execute instead of display.
"""

import unicodedata

__all__ = ["one_line", "printable"]

#: Zero-width joiners, required by some scripts and emoji; they do not move the cursor.
JOINERS = "\u200c\u200d"

#: Escaped Unicode categories: control (Cc), format such as direction marks (Cf), surrogates (Cs), line and paragraph
#: separators (Zl, Zp).
ESCAPED_CATEGORIES = ("Cc", "Cf", "Cs", "Zl", "Zp")


def printable(text: str, keep: str = "\n") -> str:
    r"""Escape characters that control a terminal, in Python's notation, such as ``\x1b``.

    Escaped are control characters (including ESC and the C1 set), marks that change the writing direction, line
    separators, and surrogates, which stand for bytes that could not be decoded.

    Args:
        text: Any text.
        keep: Control characters to leave unchanged; by default the newline.

    Returns:
        The escaped text.

    Examples:
        >>> print(printable("ill\x1b[2J"))
        ill\x1b[2J
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in keep or _is_safe(char) else _escape(char) for char in text)


def one_line(text: str) -> str:
    """Join the lines of a text with blanks and escape characters that control a terminal."""
    return printable(" ".join(text.splitlines()), keep="")


def _is_safe(char: str) -> bool:
    return char in JOINERS or unicodedata.category(char) not in ESCAPED_CATEGORIES


def _escape(char: str) -> str:
    return char.encode("ascii", "backslashreplace").decode() if ord(char) > 127 else repr(char)[1:-1]
