"""All pages of the reproduction, written from records."""

from collections.abc import Mapping
from pathlib import Path

from experiments.paper.jobs.plan import PLANS, TABLES, PlanError
from experiments.paper.pages import deviations, figure_pages, readme, studies, table_page
from experiments.paper.sources import Sources
from squad.files import write_text

__all__ = ["write"]


def write(sources: Sources, out: Path, figures: Mapping[str, str]) -> list[Path]:
    """Write all pages.

    Args:
        sources: Plans and their records.
        out: Output folder.
        figures: Captions of the existing figures, by path below ``out``.

    Returns:
        The files written.
    """
    notes = {path.stem: _text(path) for path in sorted((sources.folder / "notes").glob("*.md"))}
    pages = {
        "README.md": readme.page(sources, figures),
        **{f"{name}.md": table_page.page(sources, name, notes.get(name, ""), figures) for name in TABLES},
        "networks.md": figure_pages.networks(sources, figures),
        "figures.md": figure_pages.paper(sources, figures),
    }
    if not sources.quick:
        pages["deviations.md"] = deviations.page(sources, notes.get("deviations", ""))
        pages["search.md"] = studies.page([sources.plan(name) for name in PLANS], notes.get("attempts", ""))
    out.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        write_text(out / name, text)
    return [out / name for name in pages]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        raise PlanError(f"{path} cannot be read: {cause}.") from cause
