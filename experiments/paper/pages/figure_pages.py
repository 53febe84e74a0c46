"""The pages of figures: those of the paper, and those of its claims about the networks."""

from collections.abc import Mapping
from pathlib import Path

from experiments.paper.drawings.captions import TEXTS
from experiments.paper.pages.ablation import ablation
from experiments.paper.pages.claim import section
from experiments.paper.pages.claims import CLAIMS
from experiments.paper.pages.markdown import QUICK_NOTICE, joined
from experiments.paper.sources import Sources

__all__ = ["NETWORK_FIGURES", "PAPER_FIGURES", "networks", "paper", "show"]

#: The paper's figures in its order, with the names of ours.
PAPER_FIGURES = (
    ["diagram-latent-layers"],
    ["diagram-approximation"],
    ["diagram-quantized-domain"],
    ["diagram-sampling"],
    ["diagram-priors"],
    ["risk-coverage"],
    ["stereotypes-layer1", "stereotypes-layer2"],
    ["activation"],
    ["weights"],
    ["pairwise"],
)
#: Figures of claims about the networks, which are not in the paper.
NETWORK_FIGURES = ("samples", "bins", "cost", "depth")


def show(name: str, figures: Mapping[str, str]) -> str:
    """Return a figure with its caption; "" if it does not exist.

    Args:
        name: Stem of its file name.
        figures: Captions of the existing figures, by path.
    """
    for file, caption in figures.items():
        if Path(file).stem == name:
            title = TEXTS[name].title if name in TEXTS else name
            return f"![{title}]({file})\n\n*{title}.* {caption}"
    return ""


def paper(sources: Sources, figures: Mapping[str, str]) -> str:
    """Return the page of the paper's figures, in its order."""
    parts = [
        "# Figures of the paper",
        QUICK_NOTICE if sources.quick else "",
        "Drawn again, in the paper's order: diagrams by the library, the others from the records. What our networks "
        "say about the paper's claims is on the page of [the networks](networks.md).",
    ]
    for number, names in enumerate(PAPER_FIGURES, 1):
        shown = [text for name in names if (text := show(name, figures))]
        parts += [f"## Figure {number}", *(shown or ["Not drawn yet."])]
    return joined(parts)


def networks(sources: Sources, figures: Mapping[str, str]) -> str:
    """Return the page of the claims about the networks, and of their figures."""
    quick = sources.quick
    parts = [
        "# The networks: samples, bins, depth, latents",
        QUICK_NOTICE if quick else "",
        "Networks of two layers of 32 on Fashion-MNIST, unless a figure says otherwise. Distributions and activation "
        "functions are drawn on the page of [the paper's figures](figures.md).",
    ]
    if not quick:
        parts += ["## Claims", *(section(claim) for claim in CLAIMS["networks"](sources))]
    parts += ["## Figures", *(show(name, figures) for name in NETWORK_FIGURES)]
    parts += ["" if quick else ablation(sources), show("ablation", figures)]
    return joined(parts)
