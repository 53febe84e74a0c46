"""tools/check_house.py: each rule finds its violations; make check applies the rules to the repository."""

from pathlib import Path

import pytest

from tools import check_house


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A repository that keeps all rules."""
    write(tmp_path, "README.md", "At most 2 % of the accepted predictions are wrong, one per row.\n")
    write(tmp_path, "CONTRIBUTING.md", "Write plainly.\n")
    write(tmp_path, "src/squad/files/writing.py", "import os\nos.replace('a', 'b')\nopen('a', 'w')\n")
    write(tmp_path, "src/squad/data/tables.py", "from squad.files.writing import write\nopen('a', 'rb')\nopen('b')\n")
    write(tmp_path, "src/squad/models/config.py", "")
    write(tmp_path, "src/squad/train/config.py", "")
    assert broken(tmp_path) == []
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, encoding="utf-8")


def broken(root: Path) -> list[str]:
    return [line for rule in check_house.RULES for line in rule(root)]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("src/squad/report/tables.py", "", "data/tables.py, report/tables.py"),
        ("src/squad/data/new.py", "from squad.data.tables import _read\n", "src/squad/data/new.py:1: _read is private"),
        ("src/squad/data/new.py", "import os\n\nos.replace('a', 'b')\n", "src/squad/data/new.py:3: os.replace"),
        ("src/squad/data/new.py", "open('a', 'wb')\n", "src/squad/data/new.py:1: open"),
        ("src/squad/data/new.py", "open('a', mode='a')\n", "src/squad/data/new.py:1: open"),
        ("src/squad/data/new.py", "path.open('w')\n", "src/squad/data/new.py:1: path.open"),
        ("src/squad/data/new.py", "path.write_text('a')\n", "src/squad/data/new.py:1: path.write_text"),
        ("docs/page.md", "A curve.\nIt promises 2 %.\n", "docs/page.md:2: 'promises'. Write: guarantee"),
        ("benchmarks/new.py", "# one a member\n", "benchmarks/new.py:1: 'one a member'"),
        ("src/squad/data/new.py", "raise ValueError('bins must be 2; got 1')\n", "'; got'"),
    ],
)
def test_what_breaks_a_rule_is_found(house: Path, name: str, text: str, found: str) -> None:
    write(house, name, text)
    (line,) = broken(house)
    assert found in line
