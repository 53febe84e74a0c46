"""The pages: what they say about themselves; test_experiments compares the committed ones with their records."""

from pathlib import Path

from squad.reproduce import page
from squad.reproduce.sources import Sources

PAPER = Path(__file__).parents[2] / "experiments" / "paper"


def written(tmp_path: Path, sources: Sources) -> dict[str, str]:
    return {
        path.name: path.read_text(encoding="utf-8") for path in page.write(sources, tmp_path, {"figures/a.png": "A."})
    }


def test_a_quick_run_says_so_and_concludes_nothing(tmp_path: Path) -> None:
    pages = written(tmp_path, Sources(PAPER, tmp_path / "none", quick=True))
    assert sorted(pages) == ["README.md", "table1.md", "table2.md", "table3.md"]
    for text in pages.values():
        assert "**This is a quick run**" in text
        assert "difference |" not in text
    for word in ("aimed at", "The paper says", "In short", "deviate"):
        assert word not in pages["README.md"]
    assert "![A.](figures/a.png)" in pages["README.md"]


def test_without_records_every_row_is_named_as_not_run(tmp_path: Path) -> None:
    pages = written(tmp_path, Sources(PAPER, tmp_path / "none"))
    assert "0 of " in pages["README.md"]
    assert pages["README.md"].count("not run yet") > 100
    assert "random halves" not in pages["table1.md"]
    assert "quick run" not in "".join(pages.values())
