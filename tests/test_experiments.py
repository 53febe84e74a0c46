"""experiments/paper: the pages equal what is written from the records, and all figures and records exist."""

import re
from pathlib import Path

import pytest

from experiments.paper.drawings.captions import TEXTS
from experiments.paper.jobs.plan import PLANS
from experiments.paper.jobs.run import has_record
from experiments.paper.pages import page, studies
from experiments.paper.sources import Sources
from squad.records import Record
from squad.search import search_record
from squad.search.study_figures import MIN_TRIALS_FOR_IMPORTANCE

FOLDER = Path(__file__).parents[1] / "experiments" / "paper"
SOURCES = Sources(FOLDER, FOLDER / "results")


def captions() -> dict[str, str]:
    """Return the captions of the existing figures."""
    return {
        f"figures/{name}.png": text.caption
        for name, text in TEXTS.items()
        if (FOLDER / "figures" / f"{name}.png").is_file()
    }


def test_pages_are_up_to_date(tmp_path: Path) -> None:
    pages = page.write(SOURCES, tmp_path, captions())
    assert {path.name for path in pages} == {path.name for path in FOLDER.glob("*.md")}
    for path in pages:
        assert path.read_text(encoding="utf-8") == (FOLDER / path.name).read_text(encoding="utf-8"), (
            f"{path.name}: run `make paper`"
        )


def test_links_and_figures_exist() -> None:
    links = [
        (name, link)
        for name in sorted(path.name for path in FOLDER.glob("*.md"))
        for link in re.findall(r"\]\(([^)#:]+)\)", (FOLDER / name).read_text(encoding="utf-8"))
    ]
    assert len(links) > 20
    for name, link in links:
        assert (FOLDER / link).exists(), (name, link)
        if link.endswith(".png"):
            assert (FOLDER / link).read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("name", PLANS)
def test_every_record_belongs_to_a_row(name: str) -> None:
    """A record without a row, or with other settings, would not be shown anywhere."""
    plan = SOURCES.plan(name)
    rows = {f"{row.name}.json": row for row in plan.rows}
    for path in (FOLDER / "results" / name).rglob("*.json"):
        row = rows[path.relative_to(FOLDER / "results").as_posix()]
        assert has_record(plan.job(row), FOLDER / "results"), path
        assert Record.load(path).name == row.name


def test_studies_have_their_figures() -> None:
    for folder in (path.parent for path in (FOLDER / "search").rglob("trials.json")):
        few = sum(trial.state == "complete" for trial in search_record.read(folder).trials) < MIN_TRIALS_FOR_IMPORTANCE
        for picture in studies.PICTURES:
            # Importances need a minimum number of complete trials.
            assert (folder / picture).is_file() or (few and picture == "importances.png"), folder
