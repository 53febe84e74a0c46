"""Runs the examples of README.md, docs/ and the docstrings; `make check` collects them.

An example in a page is a fenced block of python, run from top to bottom of its page; one in a docstring is a >>> line,
which sees the names of its module, and whose output is compared.
"""

from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser

pages = Sybil(parsers=[PythonCodeBlockParser(), SkipParser()], patterns=["*.md"])
docstrings = Sybil(
    parsers=[DocTestParser()], patterns=["*.py"], path="src", document_types={".py": PythonDocStringDocument}
)

pytest_collect_file = (pages + docstrings).pytest()
