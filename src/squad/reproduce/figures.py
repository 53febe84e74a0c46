"""The figures of the page: by name, each from records alone, and written as PNG."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from squad.reproduce import claims, curves, diagrams, latents
from squad.reproduce.sources import Sources

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CAPTIONS", "DPI", "FIGURES", "Sources", "write"]

DPI = 160

#: By the stem of a file's name; None of those whose records are not there.
FIGURES: dict[str, Callable[[Sources], "Figure | None"]] = {
    "coverage-table1": curves.coverage_table1,
    "risk-coverage": curves.risk_coverage,
    "samples": curves.samples,
    "stereotypes-layer1": partial(latents.stereotypes, layer=1),
    "stereotypes-layer2": partial(latents.stereotypes, layer=2),
    "activation": latents.activation,
    "weights": latents.weights,
    "pairwise": latents.pairwise,
    "depth": claims.depth,
    "bins": claims.bins,
    "ablation": claims.ablation,
    "cost": claims.cost,
}

CAPTIONS: dict[str, str] = {}


def write(folder: Path, results: Path, out: Path, quick: bool = False) -> list[Path]:
    """Draw all that can be drawn, the diagrams among it; an old file of what cannot is taken away.

    Args:
        folder: of the plans, with ``search`` beside them.
        results: of the records.
        out: where the PNG files go.
        quick: whether the records are those of --quick.
    """
    sources = Sources(folder, results, quick)
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
            path.unlink(missing_ok=True)  # it would pass for one of these records
            continue
        # Without the version of matplotlib: the same records give the same file.
        figure.savefig(path, dpi=DPI, metadata={"Software": None})
        written.append(path)
    return written
