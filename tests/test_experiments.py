"""experiments/paper: its page is what its records say, byte for byte."""

from pathlib import Path

import pytest

from experiments.paper import write

FOLDER = Path(write.__file__).parent


def test_the_page_is_written_from_the_records() -> None:
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == write.page()


@pytest.mark.parametrize("name", write.PICTURES)
def test_its_pictures_are_there(name: str) -> None:
    assert (FOLDER / "search" / "squad" / name).read_bytes()[:4] == b"\x89PNG"
