"""Generated sections of the documentation are up to date, and the figures of README.md are those of the records."""

import re
import statistics
from pathlib import Path

import pytest

from docs import write
from docs.sections.commands import all_commands
from docs.sections.settings import all_settings
from docs.sections.tables import comparison_table, comparison_text
from squad.records import Record

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def test_settings_are_up_to_date() -> None:
    assert all_settings() in (DOCS / "reference/settings.md").read_text(encoding="utf-8"), "run `make docs`"


def test_the_commands_are_up_to_date() -> None:
    assert all_commands() in (DOCS / "reference/command.md").read_text(encoding="utf-8"), "run `make docs`"


def test_the_table_of_sampling_modes_is_up_to_date() -> None:
    assert write.sampling_table() in (DOCS / "explanation/sampling.md").read_text(encoding="utf-8"), "run `make docs`"


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_the_default_sampling_mode_is_accurate(device: str) -> None:
    record = Record.load(write.RESULTS / f"fashion_mnist-{device}.json")
    (default,) = (m for m in record.results["ways"] if (m["sampling"], m["samples"]) == ("stratified", 8))
    assert default["each"]["accuracy"]["mean"] >= 0.89


def test_tables_of_certification_are_up_to_date() -> None:
    page = (DOCS / "evidence/validity.md").read_text(encoding="utf-8")
    for name, text in write.selection_sections().items():
        assert f"<!-- {name}: begin -->\n{text}\n<!-- {name}: end -->" in page, f"{name}: run `make docs`"


def test_failed_cells_of_the_validity_table_are_shown() -> None:
    """The table is computed by an exact binomial test; the page must not hide a cell that failed it."""
    page = (DOCS / "evidence/validity.md").read_text(encoding="utf-8")
    validity = Record.load(write.RESULTS / "certify_validity.json")
    assert all(cell["verdict"].startswith("held") for cell in validity.results) == ("**some**" not in page)


def test_a_section_without_markers_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- a: begin -->\nold\n<!-- a: end -->\n", encoding="utf-8")
    write.replace_section(page, "a", "new")
    assert page.read_text(encoding="utf-8") == "<!-- a: begin -->\nnew\n<!-- a: end -->\n"
    with pytest.raises(AssertionError, match="markers of b"):
        write.replace_section(page, "b", "new")


@pytest.mark.parametrize(
    "kinds", [("begin", "end", "begin", "end"), ("begin", "begin", "end"), ("begin", "end", "end")]
)
def test_markers_that_occur_twice_are_an_error(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    page = tmp_path / "page.md"
    before = "\nby hand\n".join(f"<!-- a: {kind} -->" for kind in kinds)
    page.write_text(before, encoding="utf-8")
    with pytest.raises(AssertionError, match="markers of a exactly once"):
        write.replace_section(page, "a", "new")
    assert page.read_text(encoding="utf-8") == before


def coverage_at_1_percent(row: str) -> list[str]:
    """Return the coverages of a row of table 1, of single networks and then of ensembles."""
    page = (ROOT / "experiments" / "paper" / "table1.md").read_text(encoding="utf-8")
    return [line.split("|")[3].split("(")[0].strip() for line in page.splitlines() if line.startswith(f"| {row} |")]


def test_readme_has_the_results_of_the_paper() -> None:
    """Pages of the paper are written from records and tested; README.md repeats a few of their numbers by hand."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    squad, maxout = (
        coverage_at_1_percent(f"{name}, ours")[:2] for name in ("SQUAD, relaxed, T = 32", "Maxout MC dropout")
    )
    mlp, published = coverage_at_1_percent("Plain MLP, ours")[0], coverage_at_1_percent("**SQUAD**, paper")[0]
    text = " ".join(readme.split())
    assert f"accepts {squad[0]} % of cases at a guaranteed risk of 1 %; the paper has {published}." in text
    assert f"A plain MLP accepts {mlp} %, tuned Maxout MC dropout {maxout[0]} %." in text
    assert f"Ensembles of ten reach {squad[1]} % (SQUAD) and {maxout[1]} % (Maxout)." in text


def test_readme_recommends_what_the_records_show() -> None:
    """The table of when to use what repeats differences between single networks and between ensembles."""
    page = (ROOT / "experiments" / "paper" / "README.md").read_text(encoding="utf-8")
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())

    def coverage_difference(claim: str) -> str:
        (line,) = [line for line in page.splitlines() if line.startswith(f"| [{claim}]")]
        return line.split("|")[3].split(":")[1].split("(")[0].strip()

    fashion, notmnist, svhn = map(
        coverage_difference,
        (
            "SQUAD has a slight advantage over Maxout MC dropout",
            "SQUAD is strong on a new data set without tuning",
            "Quantization hinders SQUAD on SVHN",
        ),
    )
    words = f"{fashion[1:]} points above SQUAD's on Fashion-MNIST, {notmnist[1:]} on notMNIST and {svhn[1:]} on SVHN"
    assert f"tuned Maxout MC dropout: at a risk of 1 % its coverage is {words}" in readme
    assert {fashion[0], notmnist[0], svhn[0]} == {"-"}
    assert "behind Maxout MC dropout on Fashion-MNIST and notMNIST, level with it on SVHN" in page  # SQUAD-factorized
    ensembles = re.findall(r"([\d.]+) % \(([\d.]+) %\) on", page)
    ahead = [float(squad) - float(maxout) for squad, maxout in ensembles]
    assert len(ahead) == 3
    assert max(map(abs, ahead[:2])) < 0.5  # level
    assert ahead[2] < -2


def test_the_comparison_with_boosting_is_up_to_date() -> None:
    record = Record.load(write.RESULTS / "tables.json")
    page = (DOCS / "evidence/tables.md").read_text(encoding="utf-8")
    text = comparison_text(record)
    assert text in page, "run `make docs`"
    assert comparison_table(record) in page, "run `make docs`"
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    count, ahead, behind = re.findall(r"\d+", text)[:3]
    assert f"[On {count} public tables](docs/evidence/tables.md)" in readme
    assert f"SQUAD has more certified coverage on {ahead}, boosting on {behind}" in readme
    gaps = [one["squad"]["certified"] - one["boosting"]["certified"] for one in record.results.values()]
    assert f"is up to {-100 * min(gaps):.0f} points below that of gradient boosting" in readme
    slower = [one["squad"]["seconds"] / one["boosting"]["seconds"] for one in record.results.values()]
    assert 45 < statistics.median(slower) < 65  # "about fifty times"


def test_readme_is_short_and_its_links_resolve() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 150
    targets = [target for target in re.findall(r"\]\(([^)#]+)\)", readme) if not target.startswith("https://")]
    assert len(targets) > 15
    assert [target for target in targets if not (ROOT / target).is_file()] == []
