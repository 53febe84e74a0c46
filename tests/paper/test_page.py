"""The pages of the reproduction; tests/test_experiments.py compares the committed pages with their records."""

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from experiments.paper.drawings.captions import TEXTS
from experiments.paper.pages import figure_pages, page, readme, studies, table_page
from experiments.paper.sources import Sources
from squad.records import Record
from tests.paper.examples import PAPER, PLAN_START, plan_of, study_of, trial

#: Captions of all figures, by path.
FIGURES = {f"figures/{name}.png": text.caption for name, text in TEXTS.items()}


def written(tmp_path: Path, sources: Sources) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in page.write(sources, tmp_path, FIGURES)}


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages of the committed records."""
    return written(tmp_path_factory.mktemp("pages"), Sources(PAPER, PAPER / "results"))


def test_pages_of_a_quick_run_have_a_notice_and_no_conclusions(tmp_path: Path) -> None:
    pages = written(tmp_path, Sources(PAPER, tmp_path / "none", quick=True))
    assert sorted(pages) == ["README.md", "figures.md", "networks.md", "table1.md", "table2.md", "table3.md"]
    for text in pages.values():
        assert "**This is a quick run**" in text
        assert "difference |" not in text
        for word in ("## Goals", "## Claims", "## Conclusion", "Deviations", "](search)", "](notes)"):
            assert word not in text
    assert "](figures/risk-coverage.png)" in pages["figures.md"]


def test_without_records_every_row_is_marked_as_not_run(tmp_path: Path) -> None:
    pages = written(tmp_path, Sources(PAPER, tmp_path / "none"))
    assert "0 of " in pages["README.md"]
    assert pages["README.md"].count("| **not tested** | not run yet |") >= 25
    assert pages["table1.md"].count("not run yet") > 50
    assert "## Certificates" not in pages["table1.md"]
    assert "quick run" not in "".join(pages.values())


def test_notes_on_a_table_are_on_its_page(tmp_path: Path) -> None:
    folder = shutil.copytree(PAPER, tmp_path / "paper", ignore=shutil.ignore_patterns("results", "figures", "search"))
    (folder / "notes" / "table2.md").write_text("A note on table 2.\n", encoding="utf-8")
    pages = written(tmp_path, Sources(folder, tmp_path / "none"))
    assert [name for name, text in pages.items() if "A note on table 2." in text] == ["table2.md"]


def test_the_readme_is_short(committed: dict[str, str]) -> None:
    text = committed["README.md"]
    assert len(re.findall(r"\S*\w\S*", text)) <= 900  # without the rules of tables
    assert text.count("![") == 1
    rows = [line for line in text.splitlines() if line.startswith("| [")]
    verdicts = [line.split(" | ")[1].strip("*") for line in rows]
    assert Counter(verdicts).keys() == {"holds", "partly", "fails", "not tested"}
    assert len({line.split("](")[0] for line in rows}) == len(rows) >= 25


def test_links_lead_to_pages_and_headings(committed: dict[str, str]) -> None:
    headings = {
        name: {
            re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")
            for line in text.splitlines()
            if line.startswith("#")
        }
        for name, text in committed.items()
    }
    links = [
        (name, *link) for name, text in committed.items() for link in re.findall(r"\]\((\w+\.md)(?:#([^)]+))?\)", text)
    ]
    assert len(links) > 40
    for name, target, anchor in links:
        assert target in committed, (name, target)
        assert not anchor or anchor in headings[target], (name, target, anchor)


def test_every_figure_and_its_caption_are_on_one_page(committed: dict[str, str]) -> None:
    every = "\n".join(committed.values())
    for file, caption in FIGURES.items():
        assert every.count(f"]({file})") == 1
        assert every.count(caption) == 1


def test_no_paragraph_is_repeated(committed: dict[str, str]) -> None:
    paragraphs = Counter(
        part
        for text in committed.values()
        for part in text.split("\n\n")
        if len(part) > 150 and not part.startswith(("|", "**Holds", "**Partly", "**Fails", "    "))
    )
    assert [part for part, count in paragraphs.items() if count > 1] == []


def test_an_incomplete_study_is_marked(tmp_path: Path) -> None:
    text = PLAN_START + '[search]\ntrials = 3\n[row.mlp]\nmodel = "mlp"\nsearch = "digits/mlp"\n'
    study_of(tmp_path, [trial(0, 0.5), trial(1, 0.6), trial(2, None, state="waiting", ended=None)])
    found = studies.page([plan_of(tmp_path, text)], "")
    assert found.endswith("## digits/mlp\n\nNot complete: 2 of 3 trials have finished.\n")


def test_all_figures_of_the_paper_are_shown() -> None:
    assert len(figure_pages.PAPER_FIGURES) == 10
    shown = [name for names in figure_pages.PAPER_FIGURES for name in names]
    others = [*figure_pages.NETWORK_FIGURES, "ablation", *table_page.FIGURES.values(), readme.PICTURE]
    assert sorted([*shown, *others]) == sorted(TEXTS)


def test_figures_that_do_not_exist_are_marked(tmp_path: Path) -> None:
    text = figure_pages.paper(Sources(PAPER, tmp_path), {"figures/diagram-priors.png": "P."})
    assert text.count("Not drawn yet.") == 9
    assert "## Figure 5\n\n![Priors and spacings](figures/diagram-priors.png)\n\n*Priors and spacings.* P.\n" in text


def test_outdated_records_are_listed(tmp_path: Path) -> None:
    results = shutil.copytree(PAPER / "results" / "table1", tmp_path / "results" / "table1").parent
    record = Record.load(results / "table1" / "mlp.json")
    record.settings["fit"]["training"]["lr"] = 0.5
    record.save(results / "table1" / "mlp.json")
    text = written(tmp_path, Sources(PAPER, results))["README.md"]
    assert "settings or their study is missing: table1/mlp." in text
