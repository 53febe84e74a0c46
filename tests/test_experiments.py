"""experiments/paper: its pages are what its records say, byte for byte, and its figures are there."""

import re
from pathlib import Path

import pytest

from experiments.paper.drawings import paper_figures
from experiments.paper.jobs.plan import PLANS
from experiments.paper.jobs.run import has_record
from experiments.paper.pages import page, studies
from experiments.paper.sources import Sources
from squad.search import search_record
from squad.search.study_figures import LEAST

FOLDER = Path(__file__).parents[1] / "experiments" / "paper"
SOURCES = Sources(FOLDER, FOLDER / "results")


def captions() -> dict[str, str]:
    """Of the figures that are there, in the order of the page."""
    return {
        f"figures/{name}.png": text
        for name, text in paper_figures.CAPTIONS.items()
        if (FOLDER / "figures" / f"{name}.png").is_file()
    }


def test_the_pages_are_written_from_the_records(tmp_path: Path) -> None:
    for path in page.write(SOURCES, tmp_path, captions()):
        assert path.read_text(encoding="utf-8") == (FOLDER / path.name).read_text(encoding="utf-8"), path.name


def test_what_the_pages_show_is_there() -> None:
    shown = [
        (name, link)
        for name in ("README.md", "search.md", "table1.md", "table2.md", "table3.md")
        for link in re.findall(r"\]\(([^)#:]+)\)", (FOLDER / name).read_text(encoding="utf-8"))
    ]
    assert len(shown) > 20
    for name, link in shown:
        assert (FOLDER / link).exists(), (name, link)
        if link.endswith(".png"):
            assert (FOLDER / link).read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("name", PLANS)
def test_records_are_those_of_the_plans(name: str) -> None:
    """A record that no row has, or that was made with other settings, would be shown nowhere."""
    plan = SOURCES.plan(name)
    rows = {f"{row.name}.json": row for row in plan.rows}
    for path in (FOLDER / "results" / name).rglob("*.json"):
        row = rows[path.relative_to(FOLDER / "results").as_posix()]
        assert has_record(plan.job(row), FOLDER / "results"), path


def test_studies_have_their_pictures() -> None:
    for folder in (path.parent for path in (FOLDER / "search").rglob("trials.json")):
        few = sum(trial.state == "complete" for trial in search_record.read(folder).trials) < LEAST
        for picture in studies.PICTURES:
            # Of a study that has just begun there is no telling what its objective depends on.
            assert (folder / picture).is_file() or (few and picture == "importances.png"), folder
