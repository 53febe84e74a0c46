"""Formulas as MathML, which browsers draw themselves: MathJax would be fetched from the network."""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

#: What follows a formula and must not begin the next line.
CLOSING = re.compile(r"[.,;:)\]]+")


def inline_formula(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line, together with the punctuation behind it."""
    formula = convert(node.astext())
    after = node.get("after")
    translator.body.append(f'<span class="formula-with-end">{formula}{after}</span>' if after else formula)
    raise nodes.SkipNode


def block_formula(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own; a long one scrolls."""
    translator.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>\n')
    raise nodes.SkipNode


def keep_punctuation(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Move punctuation behind a formula into its node: a browser would break the line in between."""
    for node in list(doctree.findall(nodes.math)):
        following = node.next_node(descend=False, siblings=True)
        if isinstance(following, nodes.Text) and (found := CLOSING.match(following)):
            node["after"] = found[0]
            following.parent.replace(following, nodes.Text(following[found.end() :]))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer; conf.py selects it as ``html_math_renderer``."""
    app.connect("doctree-resolved", keep_punctuation)
    app.add_html_math_renderer("mathml", (inline_formula, None), (block_formula, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
