"""Titles and captions of all figures: what every symbol, line, band and mark means."""

from typing import NamedTuple

__all__ = ["TEXTS", "FigureText"]


class FigureText(NamedTuple):
    """What a page says about a figure.

    Attributes:
        title: Its heading and its alternative text.
        caption: What it shows, and the meaning of every mark.
    """

    title: str
    caption: str


#: Explanation of means and bands.
_BANDS = (
    "Lines with marks are means over initializations and splits, bands 90 % intervals of these means by Student's t"
)
#: Explanation of single networks.
_DOTS = "Small dots are single networks, joined by a thin line from the lowest to the highest."

#: Titles and captions by stem of the file name.
TEXTS: dict[str, FigureText] = {
    "diagram-latent-layers": FigureText(
        "Latent layers",
        "A deep latent variable model has layers of stochastic latent variables z between the input x and the classes "
        "y. Squares are numbers, darker where they are larger. Each circle shows the distribution that a small SQUAD "
        "network predicts for one latent: a bar for the probability of each value, the sampled value in red; that "
        "value is the input of the next layer. Lines are weights, and three dots stand for further layers. Above each "
        "layer: its distribution p, given the layer before; q is that of the classes.",
    ),
    "diagram-approximation": FigureText(
        "Approximation",
        "Variational inference selects, from a tractable family, the distribution q that is closest to the true one, "
        "p. Here the family is the Gaussians. Left: p in black, some Gaussians on the path of gradient descent as thin "
        "red lines, and the closest one as a thick line. Right: each point is a Gaussian, darker where its KL "
        "divergence to p is smaller; white lines join Gaussians with equal divergence. The red line is the path, the "
        "small dots on it are the thin lines on the left, and the large dot is the closest Gaussian, with its "
        "divergence. It covers one mode and misses the other: it is overconfident.",
    ),
    "diagram-quantized-domain": FigureText(
        "The quantized domain",
        "SQUAD quantizes the domain of a latent z: probabilities of C = 11 values can follow any shape. The black line "
        "is the density of the previous figure, the bars are its mass around each value v, and the dashed line is the "
        "closest Gaussian.",
    ),
    "diagram-sampling": FigureText(
        "The sampling graph, and its factorized variant",
        "Left: how one of K latent variables is sampled in training, with the numbers of a small layer. The input x "
        "has |X| numbers (squares, darker where larger); weights W and biases b turn it into one logit per bin. "
        "Gumbel noise, -log(-log u) of the paper's uniform numbers u, is added to the logits (grey bars), a softmax at "
        "the temperature τ turns them into an almost one-hot vector (red bars), and its inner product (a dot in a "
        "circle) with the values v (black bars) is the sample z, the input of the rest of the network, f. The KL "
        "divergence of the predicted distribution (dark green) to the prior (light green) needs no sample; in the loss "
        "it has the weight β. Right: the matrix-factorized variant computes B numbers per latent first, which takes a "
        "fraction of the weights; the bars below compare their numbers.",
    ),
    "diagram-priors": FigureText(
        "Priors and spacings",
        "Three priors r(z) on C = 11 bins, with the layer settings that give them. Each green stem stands at a value; "
        "the dot at its end shows the value's probability, which is nearly 0 at both ends of the middle plot. Left: "
        "evenly spaced values with equal weights. Middle: the same values, each weighted by the mass of a normal in "
        "its cell. Right: values of cells that have equal mass under a normal, with equal weights. Grey: the standard "
        "normal density, on its own scale; where the bins depend on it, in the middle and on the right, every second "
        "cell is darker. In all three cases the values may also be learned, per layer or per neuron.",
    ),
    "overview": FigureText(
        "Coverage at a risk of 1 % on three data sets",
        "Guaranteed by SGR on the test rows at a confidence level of 99 %. Upper half of each row, ours: a dot per "
        "network, joined by a thin line; a vertical mark for their mean; a filled diamond for their ensemble. Lower "
        "half, the paper: a vertical mark for the mean, a line of two standard deviations to each side, a hollow "
        "diamond for the ensemble.",
    ),
    "coverage-table1": FigureText(
        "Table 1 as a figure",
        "Coverage guaranteed by SGR on the test rows of Fashion-MNIST at three target risks, at a confidence level of "
        "99 %. Upper half of each row, ours: a dot for each initialization and split, joined by a thin line from the "
        "lowest to the highest; a vertical mark for their mean; a filled diamond for their ensemble. Lower half, the "
        "paper: a vertical mark for its mean, a line of two standard deviations to each side, and a hollow diamond for "
        "its ensemble. SQUAD predicts with relaxed samples, T = 32. A coverage of 0 % means that SGR could not "
        "guarantee the risk; small text says so, and counts such networks.",
    ),
    "risk-coverage": FigureText(
        "Risk and coverage on notMNIST",
        "Risk-coverage curves of 2-layer models, both axes logarithmic, as in the paper's figure: the most confident "
        "rows are accepted first, and lines further down and to the right are better. Each line has the colour of its "
        "label, in the same order from top to bottom at its right end. SQUAD predicts with relaxed samples, T = 32. "
        "Left: mean of single networks; the band in the same colour is its 90 % interval by Student's t over "
        "initializations and splits; a gap means that all networks have equally many errors. Right: their ensembles. A "
        "line "
        "or band that leaves the plot at the bottom is at a risk of 0, which a logarithmic axis cannot show; a "
        "straight descent in the right plot is a single error among more and more rows.",
    ),
    "stereotypes-layer1": FigureText(
        "Stereotypes of predicted distributions, first layer",
        "Distributions that the first layer of a SQUAD network predicts for the test rows of Fashion-MNIST; each bar "
        "is the probability of a value, and the number on an axis is the largest. A: typical shapes, in green. B: the "
        "predicted distributions nearest to each shape, in blue, of different units, and, dashed, the shape in its "
        "best match: a single value may be anywhere and as sharp as one bin, a bell and two peaks may be shifted, a "
        "half and a tail mirrored; distances and weights of several peaks are fixed, so that fewer distributions can "
        "be near them. C: histogram of the KL of all distributions to the shape; those left of the dotted line, below "
        "0.2 nats, are blue, and counted above the plot, in percent or, if few, one by one. A mode counts if its "
        "prominence is at least a probability of 0.05.",
    ),
    "stereotypes-layer2": FigureText(
        "Stereotypes of predicted distributions, second layer",
        "The same for the second layer, whose inputs are the values sampled in the first layer; all marks are those "
        "of the previous figure.",
    ),
    "activation": FigureText(
        "A learned activation function",
        "A unit of the first layer of a SQUAD-factorized network with B = 1, over its one input, as in the paper's "
        "figure. Red: its expected value; blue: its most likely value; grey dots: samples, each at one of the unit's "
        "values; all three on the right axis. Green, on the left axis: the probability of the most likely value. "
        "Bottom: histogram of that input for the test rows of Fashion-MNIST. The small plots show the expected value "
        "of every unit of the layer with the unit's number, in red that of the large plot; the grey line is 0, and "
        "inputs are oriented so that each function rises. The paper shows a unit with a peak, whose expected "
        "value falls after its maximum: look for such units among the small plots.",
    ),
    "weights": FigureText(
        "Weights of a unit's bins, and five examples",
        "Where the distributions come from. Top: the weights of each of the C bins of the twelfth unit of the first "
        "layer, minus the mean over the bins, as pictures of 28 x 28 pixels with the bin's value above; red pixels "
        "make the value more likely, blue ones less likely. Bottom: five test rows of Fashion-MNIST with their "
        "classes, and the distributions that the unit predicts for them (blue bars), each with the nearest typical "
        "shape (dashed), named above with the KL to it. It is near below 0.2, and far above 0.7, the KL of one peak to "
        "two equal ones.",
    ),
    "pairwise": FigureText(
        "Pairs of settings",
        "The search for SQUAD on Fashion-MNIST. Each dot is a trial, in a plot for each pair of settings and, in the "
        "last row, of a setting and the coverage on the validation rows, which is also the dot's colour. The best "
        "trials are larger and ringed in black: 60 of them, or a quarter if there are fewer than 240. As in the paper, "
        "only trials with the best trial's bin values and prior are shown. Dots of settings with few values are "
        "jittered, so that all can be seen.",
    ),
    "samples": FigureText(
        "Number of samples",
        f"The same networks with T = 1 to 64 samples, on the test rows of Fashion-MNIST. {_BANDS}; colours and marks "
        "are those of the legend. AURC is the area under the risk-coverage curve. SQUAD has the paper's settings, "
        "Maxout MC dropout those of its search.",
    ),
    "depth": FigureText(
        "Depth without batch normalization",
        "Networks of increasing depth, on the test rows of Fashion-MNIST. Left: standard deviation of each hidden "
        "layer's output, over rows and units, in the deepest networks before (dotted) and after training (solid); the "
        "logits of the output layer are left out. Middle and right: accuracy and coverage over the number of layers; "
        "dashed, with a ninth of the paper's KL multiplier, because every layer adds its KL to the loss. "
        f"{_BANDS}. {_DOTS}",
    ),
    "bins": FigureText(
        "Bins as a bottleneck",
        "SQUAD networks that differ in their number of bins C, on the test rows of Fashion-MNIST. Left: mutual "
        "information of a latent and its layer's input, which cannot exceed log2 C bits (dotted, black); with "
        "marks, the mean over the units of a layer; dotted in the same colour, the largest, as a mean over the "
        f"networks. Right: coverage by SGR at two risks. {_BANDS}. {_DOTS}",
    ),
    "ablation": FigureText(
        "Spacing, prior and learned values",
        "Every combination of the spacing of the bins, the prior, and learned values, with SQUAD's other settings as "
        "in the paper, on the test rows of Fashion-MNIST. Vertical marks are means over initializations and splits, "
        "thick bars 90 % intervals of these means by Student's t. Dots are single networks, joined by a thin line. "
        "Colours are those of the labels.",
    ),
    "cost": FigureText(
        "Cost of bins",
        "Left: time of the training steps of an epoch of one SQUAD network; dots are medians of seven epochs, small "
        "bars at them quartiles, most of which are smaller than the dots. Right: its number of weights. Grey lines are "
        "fitted by least squares, with their formula and R² above.",
    ),
}
