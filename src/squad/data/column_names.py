"""Error messages for unknown column names, with suggestions, and checks that names can be saved."""

import difflib
from collections.abc import Iterable, Sequence

from squad.errors import DataError

__all__ = ["check_names", "check_texts", "format_names", "unknown_name_message"]

#: Maximum number of names listed in an error message.
MAX_NAMES_SHOWN = 20

#: Maximum number and length of the names that are compared with an unknown one: each comparison is slow.
MAX_COMPARED_NAMES, MAX_COMPARED_LENGTH = 5000, 200


def format_names(names: Iterable[str], shown: int = MAX_NAMES_SHOWN) -> str:
    """Format names for a message.

    Args:
        names: The names.
        shown: Maximum number of names to show.

    Returns:
        The names in quotes, such as ``'a', 'b', 'c' and 4 more``.

    Examples:
        >>> format_names(["age", "sex", "weight"], 2)
        "'age', 'sex' and 1 more"
    """
    names = list(names)
    text = ", ".join(repr(name) for name in names[:shown])
    return text if len(names) <= shown else f"{text} and {len(names) - shown} more"


def check_texts(what: str, texts: Iterable[object]) -> None:
    """Check that texts can be written as UTF-8; text decoded from bytes in another encoding cannot.

    Args:
        what: Kind of texts, used in the error message.
        texts: The texts; other values are converted with ``str``.

    Raises:
        DataError: A text contains surrogates.
    """
    for text in texts:
        try:
            str(text).encode()
        except UnicodeEncodeError:
            raise DataError(
                f"{what} must be valid UTF-8, got {str(text)!r}, which contains bytes in another encoding. Decode it"
                " with the right encoding, such as latin-1."
            ) from None


def unknown_name_message(name: str, choices: Sequence[str], what: str = "column") -> str:
    """Describe an unknown name, with the closest match; to be appended to "it has".

    Args:
        name: The unknown name.
        choices: The names that exist.
        what: Kind of name; its plural must be formed with "s".

    Returns:
        The end of a sentence, and a sentence with the names that exist.

    Examples:
        >>> print("data.csv has", unknown_name_message("agee", ["age", "sex"]))
        data.csv has no column 'agee'; did you mean 'age'? The columns are 'age', 'sex'.
    """
    folded = {choice.strip().casefold(): choice for choice in choices if len(choice) <= MAX_COMPARED_LENGTH}
    wanted = name.strip().casefold()
    candidates = [wanted] if wanted in folded else list(folded)[:MAX_COMPARED_NAMES]
    closest = difflib.get_close_matches(wanted, candidates, n=1) if len(wanted) <= MAX_COMPARED_LENGTH else []
    suggestion = f"; did you mean {folded[closest[0]]!r}?" if closest else "."
    return f"no {what} {name!r}{suggestion} The {what}s are {format_names(choices)}."


def check_names(columns: Sequence[str], needed: Iterable[str], source: str) -> None:
    """Check that a table has all needed columns.

    Args:
        columns: Columns of the table.
        needed: Columns that must be present.
        source: Name of the table in error messages.

    Raises:
        DataError: Columns are missing; the message names them.
    """
    available = set(columns)
    missing = [name for name in needed if name not in available]
    if len(missing) == 1:
        raise DataError(f"{source} has {unknown_name_message(missing[0], columns)}")
    if missing:
        raise DataError(
            f"{source} must have the columns of the training set, but lacks {format_names(missing)}. Its columns are"
            f" {format_names(columns)}."
        )
