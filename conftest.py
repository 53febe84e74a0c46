"""Runs the examples of README.md, docs/ and the docstrings; `make check` collects them.

An example in a page is a fenced block of python, run from top to bottom of its page; one in a docstring is a >>> line,
which sees the names of its module, and whose output is compared.
"""

import os
import tempfile
from typing import Any

from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser


def enter_scratch(namespace: dict[str, Any]) -> None:
    """An empty folder to run a page in: its examples save models."""
    namespace["_before"], namespace["_scratch"] = os.getcwd(), tempfile.TemporaryDirectory()
    os.chdir(namespace["_scratch"].name)


def leave_scratch(namespace: dict[str, Any]) -> None:
    """Back to where it was."""
    os.chdir(namespace["_before"])
    namespace["_scratch"].cleanup()


#: Written by `make site`.
collect_ignore_glob = ["docs/auto_*", "docs/_build"]

pages = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()], patterns=["*.md"], setup=enter_scratch, teardown=leave_scratch
)
docstrings = Sybil(
    parsers=[DocTestParser()], patterns=["*.py"], path="src", document_types={".py": PythonDocStringDocument}
)

pytest_collect_file = (pages + docstrings).pytest()
