"""All figures of the pages by name; drawn from records alone and written as PNG."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.paper.drawings import claims_figures, coverage, curves, diagrams, latents
from experiments.paper.sources import Sources

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DPI", "FIGURES", "write"]

#: Resolution of the PNG files.
DPI = 160

#: Functions that draw the figures, by stem of the file name; they return None if records are missing.
FIGURES: dict[str, Callable[[Sources], "Figure | None"]] = {
    "overview": coverage.overview,
    "coverage-table1": coverage.table1,
    "risk-coverage": curves.risk_coverage,
    "samples": curves.samples,
    "stereotypes-layer1": partial(latents.stereotypes, layer=1),
    "stereotypes-layer2": partial(latents.stereotypes, layer=2),
    "activation": latents.activation,
    "weights": latents.weights,
    "pairwise": latents.pairwise,
    "depth": claims_figures.depth,
    "bins": claims_figures.bins,
    "ablation": claims_figures.ablation,
    "cost": claims_figures.cost,
}


def write(sources: Sources, out: Path, log: Callable[[str], None] = lambda line: None) -> list[Path]:
    """Draw all figures whose records exist, including the diagrams; remove old files of the others.

    Args:
        sources: Plans and their records.
        out: Folder of the PNG files.
        log: Called with a line for each removed file.

    Returns:
        The files written.
    """
    out.mkdir(parents=True, exist_ok=True)
    written = []
    drawn: dict[str, Callable[[], Figure | None]] = {
        **diagrams.DIAGRAMS,
        **{name: partial(draw, sources) for name, draw in FIGURES.items()},
    }
    for name, draw in drawn.items():
        path = out / f"{name}.png"
        figure = draw()
        if figure is None:
            if path.exists():  # it would pass for a figure of the current records
                path.unlink()
                log(f"{path} was removed: records it needs are missing")
            continue
        # Without matplotlib's version: the same records give the same file.
        figure.savefig(path, dpi=DPI, metadata={"Software": None})
        written.append(path)
    return written
