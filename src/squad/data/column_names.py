"""Names: what to say about one that is not there, and which ones files can keep."""

import difflib
from collections.abc import Iterable, Sequence

from squad.errors import DataError

__all__ = ["check_names", "check_texts", "listed", "missing_name"]

#: So many names are listed in a message, and no more.
SHOWN = 20

#: So many names, and so long ones, are looked through for one that is near: each takes a while.
NEAR_NAMES, NEAR_LENGTH = 5000, 200


def listed(names: Iterable[str], shown: int = SHOWN) -> str:
    """``'a', 'b', 'c' and 4 more``."""
    names = list(names)
    text = ", ".join(repr(name) for name in names[:shown])
    return text if len(names) <= shown else f"{text} and {len(names) - shown} more"


def check_texts(what: str, texts: Iterable[object]) -> None:
    """That texts are whole characters: what came from bytes in another encoding cannot be written to a file as UTF-8.

    Args:
        what: they are, for the message.
        texts: any values; those that are no text are fine.
    """
    for text in texts:
        try:
            str(text).encode()
        except UnicodeEncodeError:
            raise DataError(
                f"{what} must be text that UTF-8 can write; {str(text)!r} has bytes of another encoding in it."
                " Decode it with its own encoding, such as latin-1."
            ) from None


def missing_name(name: str, choices: Sequence[str], what: str = "column") -> str:
    """``no column 'agee'; did you mean 'age'? The columns are 'age', 'sex'``: to be put behind "it has"."""
    folded = {choice.strip().casefold(): choice for choice in choices if len(choice) <= NEAR_LENGTH}
    wanted = name.strip().casefold()
    looked = [wanted] if wanted in folded else list(folded)[:NEAR_NAMES]
    near = difflib.get_close_matches(wanted, looked, n=1) if len(wanted) <= NEAR_LENGTH else []
    guess = f"; did you mean {folded[near[0]]!r}?" if near else "."
    # An "s" makes the plural of every word that is used here.
    return f"no {what} {name!r}{guess} The {what}s are {listed(choices)}."


def check_names(columns: Sequence[str], needed: Iterable[str], source: str) -> None:
    """That ``columns`` has all that are needed; an error that names those that are missing."""
    there = set(columns)
    absent = [name for name in needed if name not in there]
    if len(absent) == 1:
        raise DataError(f"{source} has {missing_name(absent[0], columns)}")
    if absent:
        raise DataError(
            f"{source} must have the columns of training; it lacks {listed(absent)}. Its columns are {listed(columns)}."
        )
