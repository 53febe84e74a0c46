"""Docstrings as pages show them: "See Also" as a list of links, short types of arrays, and no reference into nothing.

Napoleon runs the entries of "See Also" together and links none of them; here each becomes an item of a list.  What
"See Also" and "Raises" name must be in the reference: otherwise the build warns.
"""

import builtins
import re

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

logger = logging.getLogger(__name__)

#: The section, and the next line that is not indented further than its heading.
SECTION = re.compile(r"^(?P<indent> *)See Also:$")
ENTRY = re.compile(r"^(?P<name>[\w.]+): (?P<text>.+)$")
#: What napoleon makes of the docstring of a property whose first sentence has a colon.
SENTENCE = re.compile(r"^:type: [A-Z]\w* [a-z]\w* ")
#: Beginnings of names that are not this library's.
EXTERNAL = ("torch.", "numpy.", "sklearn.")
#: What numpy's NDArray stands for, as napoleon writes it, with or without "~".
NDARRAY = re.compile(r"~?numpy\.ndarray\[tuple\[~?(?:typing\.)?Any, (?:\.\.\.|…)\], ~?numpy\.dtype\[~?([\w.]+)\]\]")


def shorten_types(line: str) -> str:
    """Return a line in which arrays have the name of their alias.

    Examples:
        >>> shorten_types("   :type: numpy.ndarray[tuple[Any, ...], numpy.dtype[numpy.float64]]")
        '   :type: NDArray[float64]'
    """
    return NDARRAY.sub(lambda match: f"NDArray[{match[1].rpartition('.')[2]}]", line).replace("collections.abc.", "")


def list_see_also(lines: list[str]) -> list[str]:
    """Return a docstring in which the entries of "See Also" are items of a list, with links.

    Examples:
        >>> list_see_also(["See Also:", "    nll: Negative log-likelihood.", "", "Examples:"])
        ['See Also:', '    - :py:obj:`.nll`: Negative log-likelihood.', '', 'Examples:']
    """
    result: list[str] = []
    indent: int | None = None  # of the heading, inside the section
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if found := SECTION.match(line):
            indent = len(found["indent"])
        elif indent is not None and line.strip():
            if depth <= indent:
                indent = None
            elif entry := ENTRY.match(line.strip()):
                line = f"{' ' * depth}- :py:obj:`.{entry['name']}`: {entry['text']}"  # "." also finds other modules
            else:
                line = f"  {line}"  # continues an item
        result.append(line)
    return result


def before_napoleon(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Rewrite the section while it can still be recognized."""
    lines[:] = list_see_also(lines)


def after_napoleon(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Shorten the types that napoleon adds; a sentence up to a colon is no type."""
    lines[:] = map(shorten_types, lines)
    for line in lines:
        if SENTENCE.match(line):
            logger.warning("%s: its docstring has a colon, so that the part before it is read as a type.", name)


def warn_of_missing(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement) -> None:
    """Warn of a name in "See Also" or "Raises" that leads nowhere."""
    target = node["reftarget"]
    see_also = node["reftype"] == "obj" and node.get("refspecific")
    raised = node["reftype"] == "exc"
    known = target.startswith(EXTERNAL) or hasattr(builtins, target)
    if node.get("refdomain") == "py" and (see_also or raised) and not known:
        logger.warning("%s is not in the reference. Add it to docs/reference/api.", target, location=node)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the steps: napoleon's has priority 500."""
    app.connect("autodoc-process-docstring", before_napoleon, priority=400)
    app.connect("autodoc-process-docstring", after_napoleon, priority=600)
    app.connect("missing-reference", warn_of_missing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
