"""Pages that are written from code say what the code says."""

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]


def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_write", ROOT / "docs" / "write.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_settings_are_those_of_the_code() -> None:
    assert writer().all_settings() in (ROOT / "docs" / "settings.md").read_text(), "run `make docs`"


def test_the_table_of_ways_to_sample_is_that_of_the_records() -> None:
    from squad.records import Record

    results = ROOT / "benchmarks" / "results"
    gpu, cpu = (Record.load(results / f"fashion_mnist-{device}.json") for device in ("cuda", "cpu"))
    assert writer().ways(gpu, cpu) in (ROOT / "docs" / "prediction.md").read_text(), "run `make docs`"
    for record in (gpu, cpu):
        default = next(w for w in record.results["ways"] if (w["sampling"], w["samples"]) == ("stratified", 8))
        assert default["each"]["accuracy"]["mean"] >= 0.89


def test_what_certificates_cover_is_that_of_the_records() -> None:
    from squad.records import Record

    results = ROOT / "benchmarks" / "results"
    page = (ROOT / "docs" / "selection.md").read_text()
    for name, text in writer().selection_tables().items():
        assert f"<!-- {name}: begin -->\n{text}\n<!-- {name}: end -->" in page, f"{name}: run `make docs`"
    # The table is found by an exact binomial test; the page must not hide a cell that failed it.
    validity = Record.load(results / "certify_validity.json")
    assert all(cell["verdict"].startswith("held") for cell in validity.results) == ("**some**" not in page)
