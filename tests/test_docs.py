"""Generated sections of the documentation are up to date."""

from pathlib import Path

import pytest

from docs import write
from docs.sections.settings import all_settings
from squad.records import Record

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_settings_are_up_to_date() -> None:
    assert all_settings() in (DOCS / "settings.md").read_text(encoding="utf-8"), "run `make docs`"


def test_the_table_of_sampling_modes_is_up_to_date() -> None:
    assert write.sampling_table() in (DOCS / "prediction.md").read_text(encoding="utf-8"), "run `make docs`"


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_the_default_sampling_mode_is_accurate(device: str) -> None:
    record = Record.load(write.RESULTS / f"fashion_mnist-{device}.json")
    (default,) = (m for m in record.results["ways"] if (m["sampling"], m["samples"]) == ("stratified", 8))
    assert default["each"]["accuracy"]["mean"] >= 0.89


def test_tables_of_certification_are_up_to_date() -> None:
    page = (DOCS / "selection.md").read_text(encoding="utf-8")
    for name, text in write.selection_sections().items():
        assert f"<!-- {name}: begin -->\n{text}\n<!-- {name}: end -->" in page, f"{name}: run `make docs`"


def test_failed_cells_of_the_validity_table_are_shown() -> None:
    """The table is computed by an exact binomial test; the page must not hide a cell that failed it."""
    page = (DOCS / "selection.md").read_text(encoding="utf-8")
    validity = Record.load(write.RESULTS / "certify_validity.json")
    assert all(cell["verdict"].startswith("held") for cell in validity.results) == ("**some**" not in page)


def test_a_section_without_markers_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- a: begin -->\nold\n<!-- a: end -->\n", encoding="utf-8")
    write.replace_section(page, "a", "new")
    assert page.read_text(encoding="utf-8") == "<!-- a: begin -->\nnew\n<!-- a: end -->\n"
    with pytest.raises(AssertionError, match="markers of b"):
        write.replace_section(page, "b", "new")
