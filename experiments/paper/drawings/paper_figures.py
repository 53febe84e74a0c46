"""The figures of the page: by name, each from records alone, and written as PNG."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.paper.drawings import claims_figures, curves, diagrams, latents
from experiments.paper.sources import Sources

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
    "depth": claims_figures.depth,
    "bins": claims_figures.bins,
    "ablation": claims_figures.ablation,
    "cost": claims_figures.cost,
}

#: What stands below each, the diagrams among them.
CAPTIONS: dict[str, str] = {
    **diagrams.CAPTIONS,
    "coverage-table1": (
        "Table 1 as a picture: coverage on the test rows of Fashion-MNIST that SGR guarantees at three risks, with a "
        "chance of 1 % that a guarantee is false. Above, ours: a dot for each initialization and split, a "
        "stroke for their mean, a diamond for their ensemble. Below, the paper's: its mean with two standard "
        "deviations to each side, and its ensemble as a hollow diamond. SQUAD is asked by relaxed samples, T = 32. "
        "0 % is what SGR says where it can guarantee nothing."
    ),
    "risk-coverage": (
        "Risk over coverage of 2-layer models on notMNIST, both axes logarithmic, as in the paper's figure: the rows "
        "of which a model is surest are answered first, and lines further down and to the right are better. SQUAD is "
        "asked by relaxed samples, T = 32. Left: the "
        "mean of single networks, and around it 90 % bounds of that mean, by Student's t over initializations and "
        "splits. Right: their ensembles. A line or a band that leaves the picture below is at a risk of 0, "
        "which a logarithmic axis does not have; what falls straight in the right picture is one wrong answer among "
        "more and more rows."
    ),
    "samples": (
        "What more samples are worth on the test rows of Fashion-MNIST: the same networks, asked with T = 1 to 64 "
        "samples. Lines are means over initializations and splits; bands are 90 % intervals of these means by "
        "Student's t. SQUAD has the paper's settings, Maxout MC dropout those of its search."
    ),
    "stereotypes-layer1": (
        "Distributions that the first layer of a SQUAD network predicts for the test rows of Fashion-MNIST. A: shapes "
        "one hopes to find. B: the predicted distributions nearest to each, of different units, and, dashed, the shape "
        "as it matches best: one value may be anywhere and as sharp as one bin, a bell and two peaks may be moved, a "
        "half and a tail mirrored; distances and weights of several peaks are fixed, so that fewer distributions can "
        "be near them. C: how near all of them are, as a share of all; blue is what is below a KL of 0.2 nats. "
        "A mode counts if it stands out by a probability of 0.05."
    ),
    "stereotypes-layer2": ("The same for the second layer, whose input are values that were sampled in the first."),
    "activation": (
        "An activation function that was learned, as in the paper's figure: a unit of the first layer of a "
        "SQUAD-factorized network with B = 1, along its one input. Red: its expected value; blue: its most likely "
        "value; green, on the left axis: the probability of that value; dots: samples; below: where the test rows of "
        "Fashion-MNIST are. The small pictures show the expected value of every unit of the layer; inputs are turned "
        "so that each rises."
    ),
    "weights": (
        "Where the distributions come from: the weights of each of the C bins of the twelfth unit of the first layer, "
        "less what all bins have in common, as pictures of 28 x 28; and five test rows of Fashion-MNIST for which the "
        "unit predicts what is nearest to a typical shape, with what it predicts and its KL to the shape."
    ),
    "pairwise": (
        "Each pair of settings of the search for SQUAD on Fashion-MNIST, coloured by coverage on the validation rows; "
        "the best trials are ringed, 60 of them or a quarter if there are fewer than 240. As in the paper, only trials "
        "with the best one's bin values and prior are shown. A point of a setting that has few values stands a little "
        "beside its value, so that others can be seen."
    ),
    "depth": (
        "Networks without batch normalization, deeper and deeper, on the test rows of Fashion-MNIST. Left: standard "
        "deviation of what each hidden layer puts out, over rows and units, in the deepest networks before training "
        "and after; the logits of the output layer are left out. Middle and right: accuracy and coverage over the "
        "number of layers, also with a ninth of the paper's KL multiplier, because every layer adds its KL to the "
        "loss. Lines are means over initializations and splits, bands 90 % intervals of these means by Student's t, "
        "dots single networks."
    ),
    "bins": (
        "Bins as a bottleneck: SQUAD networks that differ in their number of bins C, on the test rows of "
        "Fashion-MNIST. Left: mutual information of a latent and its layer's input, which cannot exceed log2 C bits; "
        "the mean over the units of a layer, and, dotted, the largest. Right: coverage by SGR. Lines are means over "
        "initializations and splits, bands 90 % intervals of these means by Student's t, dots single networks."
    ),
    "ablation": (
        "Spacing of the bins, prior, and whether their values are learned: every combination, with SQUAD's other "
        "settings as they are in the paper, on the test rows of Fashion-MNIST. Dots are single networks, strokes means "
        "over initializations and splits, bars 90 % intervals of these means by Student's t."
    ),
    "cost": (
        "What bins cost. Left: the time of an epoch's steps in training one SQUAD network, the median of seven epochs "
        "with quartiles (most are smaller than the points), and a straight line by least squares. Right: its number of "
        "weights."
    ),
}


def write(
    folder: Path, results: Path, out: Path, quick: bool = False, tell: Callable[[str], None] = lambda line: None
) -> list[Path]:
    """Draw all that can be drawn, the diagrams among it; an old file of what cannot is taken away.

    Args:
        folder: of the plans, with ``search`` beside them.
        results: of the records.
        out: where the PNG files go.
        quick: whether the records are those of --quick.
        tell: called with a line for each file that was taken away.
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
            if path.exists():  # it would pass for one of these records
                path.unlink()
                tell(f"{path} is taken away: records that it needs are not there")
            continue
        # Without the version of matplotlib: the same records give the same file.
        figure.savefig(path, dpi=DPI, metadata={"Software": None})
        written.append(path)
    return written
