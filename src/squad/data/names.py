"""What to say about a name that is not there."""

import difflib
from collections.abc import Iterable, Sequence

__all__ = ["listed", "missing_name"]

#: So many names are listed in a message, and no more.
SHOWN = 20

#: So many names, and so long ones, are looked through for one that is near: each takes a while.
NEAR_NAMES, NEAR_LENGTH = 5000, 200


def listed(names: Iterable[str], shown: int = SHOWN) -> str:
    """``'a', 'b', 'c' and 4 more``."""
    names = list(names)
    text = ", ".join(repr(name) for name in names[:shown])
    return text if len(names) <= shown else f"{text} and {len(names) - shown} more"


def missing_name(name: str, choices: Sequence[str], what: str = "column") -> str:
    """``no column 'agee'; did you mean 'age'? The columns are 'age', 'sex'``: to be put behind "it has"."""
    folded = {choice.strip().casefold(): choice for choice in choices if len(choice) <= NEAR_LENGTH}
    wanted = name.strip().casefold()
    looked = [wanted] if wanted in folded else list(folded)[:NEAR_NAMES]
    near = difflib.get_close_matches(wanted, looked, n=1) if len(wanted) <= NEAR_LENGTH else []
    guess = f"; did you mean {folded[near[0]]!r}?" if near else "."
    # An "s" makes the plural of every word that is used here.
    return f"no {what} {name!r}{guess} The {what}s are {listed(choices)}."
