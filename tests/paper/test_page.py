"""The pages of the reproduction; tests/test_experiments.py compares the committed pages with their records."""

import shutil
from pathlib import Path

from experiments.paper.drawings.paper_figures import CAPTIONS
from experiments.paper.pages import page, studies
from experiments.paper.sources import Sources
from squad.records import Record
from tests.paper.examples import PAPER, PLAN_START, plan_of, study_of, trial


def written(tmp_path: Path, sources: Sources) -> dict[str, str]:
    return {
        path.name: path.read_text(encoding="utf-8") for path in page.write(sources, tmp_path, {"figures/a.png": "A."})
    }


def test_pages_of_a_quick_run_have_a_notice_and_no_conclusions(tmp_path: Path) -> None:
    pages = written(tmp_path, Sources(PAPER, tmp_path / "none", quick=True))
    assert sorted(pages) == ["README.md", "table1.md", "table2.md", "table3.md"]
    for text in pages.values():
        assert "**This is a quick run**" in text
        assert "difference |" not in text
    for word in ("Goals", "Claims", "Summary", "Deviations", "](search)", "](notes)"):
        assert word not in pages["README.md"]
    assert "![A.](figures/a.png)" in pages["README.md"]


def test_without_records_every_row_is_marked_as_not_run(tmp_path: Path) -> None:
    pages = written(tmp_path, Sources(PAPER, tmp_path / "none"))
    assert "0 of " in pages["README.md"]
    assert pages["README.md"].count("not run yet") > 100
    assert "## Certificates" not in pages["table1.md"]
    assert "quick run" not in "".join(pages.values())


def test_notes_on_a_table_are_on_its_page(tmp_path: Path) -> None:
    folder = shutil.copytree(PAPER, tmp_path / "paper", ignore=shutil.ignore_patterns("results", "figures", "search"))
    (folder / "notes" / "table2.md").write_text("A note on table 2.\n", encoding="utf-8")
    pages = written(tmp_path, Sources(folder, tmp_path / "none"))
    assert [name for name, text in pages.items() if "A note on table 2." in text] == ["README.md", "table2.md"]


def test_an_incomplete_study_is_marked(tmp_path: Path) -> None:
    text = PLAN_START + '[search]\ntrials = 3\n[row.mlp]\nmodel = "mlp"\nsearch = "digits/mlp"\n'
    study_of(tmp_path, [trial(0, 0.5), trial(1, 0.6), trial(2, None, state="waiting", ended=None)])
    found = studies.page([plan_of(tmp_path, text)], "")
    assert found.endswith("## digits/mlp\n\nNot complete: 2 of 3 trials have finished.\n")


def test_the_figure_index_links_our_figures() -> None:
    text = page._figure_index(
        {"figures/diagram-priors.png": "P.", "figures/stereotypes-layer2.png": "S.", "figures/own.png": ""}
    )
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:12]]
    assert [row[0] for row in rows] == [str(place) for place in range(1, 11)]
    found = {row[0]: row[2] for row in rows if row[2] != "not drawn yet"}
    assert found == {
        "5": "[diagram-priors](figures/diagram-priors.png)",
        "7": "[stereotypes-layer2](figures/stereotypes-layer2.png)",
    }
    assert text.endswith("Not in the paper: [own](figures/own.png).")


def test_we_have_every_figure_of_the_paper() -> None:
    for _, stems in page.PAPER_FIGURES:
        assert set(stems) <= CAPTIONS.keys()


def test_outdated_records_are_listed(tmp_path: Path) -> None:
    results = shutil.copytree(PAPER / "results" / "table1", tmp_path / "results" / "table1").parent
    record = Record.load(results / "table1" / "mlp.json")
    record.settings["fit"]["training"]["lr"] = 0.5
    record.save(results / "table1" / "mlp.json")
    text = written(tmp_path, Sources(PAPER, results))["README.md"]
    assert "settings or their study is missing: table1/mlp." in text
