"""Runs the examples of README.md, docs/ and the docstrings; `make check` collects them.

An example is python in a fenced block, run from top to bottom of its file, or a >>> line, whose output is compared.
"""

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser

pages = Sybil(parsers=[PythonCodeBlockParser(), SkipParser()], patterns=["*.md"], excludes=[".venv/**"])


def _names(namespace: dict[str, object]) -> None:
    """What a docstring's example may use without an import: torch, and everything public in its own module."""
    import torch

    namespace["torch"] = torch


docstrings = Sybil(parsers=[DocTestParser()], patterns=["src/**/*.py"], setup=_names)

pytest_collect_file = (pages + docstrings).pytest()
