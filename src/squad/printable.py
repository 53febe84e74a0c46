"""Text for a terminal: names of columns, classes and files may hold what a terminal would obey instead of show."""

import unicodedata

__all__ = ["one_line", "printable"]

#: Joiners, which some scripts and emoji are not written without; they move nothing.
HARMLESS = "\u200c\u200d"


def printable(text: str, keep: str = "\n") -> str:
    r"""``text`` without characters that a terminal obeys: each is shown as Python writes it, such as ``\x1b``.

    These are control characters (ESC and those of C1 among them), marks that turn the direction of writing, separators
    of lines, and halves of characters, which come from bytes that are no text.

    Args:
        text: anything.
        keep: control characters that are left, the line break by default.

    >>> print(printable("ill\x1b[2J"))
    ill\x1b[2J
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(letter if letter in keep or _shown(letter) else _escaped(letter) for letter in text)


def one_line(text: str) -> str:
    """``text`` in one line, without characters that a terminal obeys."""
    return printable(" ".join(text.splitlines()), keep="")


def _shown(letter: str) -> bool:
    # Cc control, Cf direction and the like, Cs half of a character, Zl and Zp separators.
    return letter in HARMLESS or unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _escaped(letter: str) -> str:
    return letter.encode("ascii", "backslashreplace").decode() if ord(letter) > 127 else repr(letter)[1:-1]
