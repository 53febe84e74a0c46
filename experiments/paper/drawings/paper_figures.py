"""All figures of the pages by name, with their captions; drawn from records alone and written as PNG."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.paper.drawings import claims_figures, curves, diagrams, latents
from experiments.paper.sources import Sources

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CAPTIONS", "DPI", "FIGURES", "write"]

#: Resolution of the PNG files.
DPI = 160

#: Functions that draw the figures, by stem of the file name; they return None if records are missing.
FIGURES: dict[str, Callable[[Sources], "Figure | None"]] = {
    "coverage-table1": curves.coverage_table1,
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

#: Captions of all figures, including the diagrams.
CAPTIONS: dict[str, str] = {
    **diagrams.CAPTIONS,
    "coverage-table1": (
        "Table 1 as a figure: coverage guaranteed by SGR on the test rows of Fashion-MNIST at three target risks, at a "
        "confidence level of 99 %. Upper half of each row, ours: a dot for each initialization and split, a vertical "
        "mark for their mean, a diamond for their ensemble. Lower half, the paper: its mean with two standard "
        "deviations to each side, and its ensemble as a hollow diamond. SQUAD predicts with relaxed samples, T = 32. "
        "A coverage of 0 % means that SGR could not guarantee the risk."
    ),
    "risk-coverage": (
        "Risk-coverage curves of 2-layer models on notMNIST, both axes logarithmic, as in the paper's figure: the most "
        "confident rows are accepted first, and lines further down and to the right are better. SQUAD predicts with "
        "relaxed samples, T = 32. Left: mean of single networks, with its 90 % interval by Student's t over "
        "initializations and splits. Right: their ensembles. A line or band that leaves the plot at the bottom is at a "
        "risk of 0, which a logarithmic axis cannot show; a straight descent in the right plot is a single error among "
        "more and more rows."
    ),
    "samples": (
        "Effect of the number of samples on the test rows of Fashion-MNIST: the same networks with T = 1 to 64 "
        "samples. Lines are means over initializations and splits; bands are 90 % intervals of these means by "
        "Student's t. SQUAD has the paper's settings, Maxout MC dropout those of its search."
    ),
    "stereotypes-layer1": (
        "Distributions that the first layer of a SQUAD network predicts for the test rows of Fashion-MNIST. A: typical "
        "shapes. B: the predicted distributions nearest to each shape, of different units, and, dashed, the shape in "
        "its best match: a single value may be anywhere and as sharp as one bin, a bell and two peaks may be shifted, "
        "a half and a tail mirrored; distances and weights of several peaks are fixed, so that fewer distributions can "
        "be near them. C: the KL of all distributions to the shape, as fractions of all; blue is below 0.2 nats. A "
        "mode counts if its prominence is at least a probability of 0.05."
    ),
    "stereotypes-layer2": ("The same for the second layer, whose inputs are the values sampled in the first layer."),
    "activation": (
        "A learned activation function, as in the paper's figure: a unit of the first layer of a SQUAD-factorized "
        "network with B = 1, over its one input. Red: its expected value; blue: its most likely value; green, on the "
        "left axis: the probability of that value; dots: samples; bottom: distribution of the test rows of "
        "Fashion-MNIST. The small plots show the expected value of every unit of the layer; inputs are oriented so "
        "that each function rises."
    ),
    "weights": (
        "Where the distributions come from: the weights of each of the C bins of the twelfth unit of the first layer, "
        "minus the mean over the bins, as pictures of 28 x 28; and five test rows of Fashion-MNIST for which the unit "
        "predicts a distribution near a typical shape, with that distribution and its KL to the shape."
    ),
    "pairwise": (
        "Each pair of settings of the search for SQUAD on Fashion-MNIST, coloured by coverage on the validation rows; "
        "the best trials are ringed, 60 of them or a quarter if there are fewer than 240. As in the paper, only trials "
        "with the best trial's bin values and prior are shown. Points of settings with few values are jittered, so "
        "that all can be seen."
    ),
    "depth": (
        "Networks of increasing depth without batch normalization, on the test rows of Fashion-MNIST. Left: standard "
        "deviation of each hidden layer's output, over rows and units, in the deepest networks before and after "
        "training; the logits of the output layer are left out. Middle and right: accuracy and coverage over the "
        "number of layers, also with a ninth of the paper's KL multiplier, because every layer adds its KL to the "
        "loss. Lines are means over initializations and splits, bands 90 % intervals of these means by Student's t, "
        "dots single networks."
    ),
    "bins": (
        "Bins as a bottleneck: SQUAD networks that differ in their number of bins C, on the test rows of "
        "Fashion-MNIST. Left: mutual information of a latent and its layer's input, which cannot exceed log2 C bits; "
        "mean over the units of a layer and, dotted, the largest. Right: coverage by SGR. Lines are means over "
        "initializations and splits, bands 90 % intervals of these means by Student's t, dots single networks."
    ),
    "ablation": (
        "Ablation of the spacing of the bins, the prior, and learned values: every combination, with SQUAD's other "
        "settings as in the paper, on the test rows of Fashion-MNIST. Dots are single networks, vertical marks means "
        "over initializations and splits, bars 90 % intervals of these means by Student's t."
    ),
    "cost": (
        "Cost of bins. Left: time of the training steps of an epoch of one SQUAD network, the median of seven epochs "
        "with quartiles (most are smaller than the points), and a least-squares line. Right: its number of weights."
    ),
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
