"""Signatures as people write them: ArrayLike and NDArray by name, and no defaults that are not Python.

Aliases of types are evaluated when a module is imported; without this, the reference would print what they stand for.
"""

import re

from numpy.typing import ArrayLike
from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

#: What numpy's ArrayLike stands for.  As an argument of another type, None and duplicates can stand in between.
ARRAY_LIKE = stringify_annotation(ArrayLike, "smart")
NDARRAY = re.compile(r"~numpy\.ndarray\[tuple\[~typing\.Any, \.\.\.\], ~numpy\.dtype\[(~?[\w.]+)\]\]")


def shorten(signature: str) -> str:
    """Return a signature with the names of aliases, and with ``...`` for defaults that a factory makes.

    Examples:
        >>> shorten("(x: ~numpy.ndarray[tuple[~typing.Any, ...], ~numpy.dtype[~numpy.float64]], y: dict = <factory>)")
        '(x: NDArray[~numpy.float64], y: dict = ...)'
    """
    return NDARRAY.sub(r"NDArray[\1]", signature.replace(ARRAY_LIKE, "ArrayLike")).replace("<factory>", "...")


def process(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Shorten the signature and the annotation of the result."""
    return signature and shorten(signature), returned and shorten(returned)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the step."""
    app.connect("autodoc-process-signature", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
