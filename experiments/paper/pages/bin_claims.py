"""The paper's claims about the number of bins: fidelity, information and cost; from records alone."""

import statistics
from itertools import pairwise

import numpy as np

from experiments.paper.drawings.claims_figures import fit_line, format_r_squared
from experiments.paper.pages.claim import Claim, judge, untested
from experiments.paper.pages.comparison import COMPARED_MEASURES, compare, describe_differences
from experiments.paper.pages.grids import BINS, by_bins, first_mode_mean
from experiments.paper.pages.markdown import format_interval, format_value, t_interval, table
from experiments.paper.pages.result_tables import NOT_RUN
from experiments.paper.sources import Sources

__all__ = ["bottleneck", "cost", "quantization"]

#: The paper's example of a strong quantization.
FEW_BINS = 11
#: A loss that the intervals must exclude.
FIDELITY_MARGIN = 0.01
#: Minimum R² of a straight line for a relation to count as linear.
MIN_R_SQUARED = 0.95


def quantization(sources: Sources) -> Claim:
    """Judge whether few bins predict as well as many."""
    title = "Strong quantization loses no predictive fidelity"
    few, many = (sources.variant(f"figures/bins/{count}") for count in (FEW_BINS, BINS[-1]))
    if few is None or many is None:
        return untested(title, NOT_RUN)
    measures = ("accuracy", *COMPARED_MEASURES)
    bounds = {measure: t_interval(few.paired_differences(many, measure)) for measure in measures}
    excluded = [middle - half > -FIDELITY_MARGIN for middle, half in bounds.values()]
    return Claim(
        title,
        judge(excluded),
        f"{FEW_BINS} bins minus {BINS[-1]} bins",
        format_interval(few.paired_differences(many, "coverage@0.01"), "coverage@0.01"),
        [
            f"{FEW_BINS} bins minus {BINS[-1]} bins: {describe_differences(few, many, measures)}",
            f"no difference in coverage is significant, but {len(few.networks)} networks each leave room for a loss"
            if not all(excluded) and not any(compare(few, many, measure) for measure in COMPARED_MEASURES)
            else f"{len(few.networks)} networks each",
        ],
        f"The paper assumes it. It holds if the intervals exclude that SQUAD with {FEW_BINS} bins, the paper's "
        f"example, loses {format_value(FIDELITY_MARGIN)} points or more in accuracy, or in coverage at 1 % and at 2 %. "
        "This margin was chosen after the results were known.",
    )


def bottleneck(sources: Sources) -> Claim:
    """Judge whether more bins let a latent carry more information."""
    title = "The number of bins controls the information bottleneck"
    records = by_bins(sources)
    if not records:
        return untested(title, NOT_RUN)
    layers = [
        [statistics.fmean(record.results["probes"]["information"][layer]["mean"]) for record in records.values()]
        for layer in (0, 1)
    ]
    rises = [[other > one for one, other in pairwise(layer)] for layer in layers]
    rows = [
        ["bound, log2 C", *(f"{np.log2(count):.2f}" for count in records)],
        *([f"layer {number}", *(f"{bits:.2f}" for bits in layer)] for number, layer in enumerate(layers, 1)),
        ["coverage at 2 %", *(format_value(first_mode_mean(one, "coverage@0.02")) for one in records.values())],
    ]
    words = ["rise" if all(each) else "rise and fall" if any(each) else "fall" for each in rises]
    return Claim(
        title,
        judge(all(each) for each in rises),
        f"bits in layer 2, {BINS[-1]} minus {BINS[0]} bins",
        f"{layers[1][-1] - layers[1][0]:+.2f}",
        [f"layer {number}: bits {word} with the number of bins" for number, word in enumerate(words, 1)],
        "It holds if, in each layer, the mutual information of a latent and its layer's input rises with every step "
        "of the number of bins C. The bound always holds.",
        table(["C", *map(str, records)], rows),
    )


def cost(sources: Sources) -> Claim:
    """Judge whether time and weights are linear in the number of bins."""
    title = "Costs grow linearly with the number of bins"
    records = by_bins(sources)
    if not records:
        return untested(title, NOT_RUN)
    if any(record.machine != records[BINS[0]].machine for record in records.values()):
        return untested(title, "measured on different machines")
    bins = np.array(BINS, dtype=float)
    weights = np.array([record.results["weights"] for record in records.values()], dtype=float)
    seconds = np.array([record.results["probes"]["epoch"]["median"] for record in records.values()])
    weights_slope, _, weights_r2 = fit_line(bins, weights)
    slope, intercept, seconds_r2 = fit_line(bins, seconds)
    return Claim(
        title,
        judge([weights_r2 > MIN_R_SQUARED and weights_slope > 0, seconds_r2 > MIN_R_SQUARED and slope > 0]),
        "R² of epoch times on a line",
        format_r_squared(seconds_r2),
        [
            f"weights: R² = {format_r_squared(weights_r2)}",
            f"time of an epoch: {1e3 * intercept:.1f} ms + {1e3 * slope:.3f} ms x C, R² = "
            f"{format_r_squared(seconds_r2)}",
            f"with {BINS[-1]} bins, {format_value(slope * BINS[-1] / (intercept + slope * BINS[-1]))} % of the time "
            f"depends on the bins, and an epoch takes {seconds[-1] / seconds[BINS.index(15)]:.2f} times as long as "
            "with 15",
        ],
        f"It holds if straight lines fitted over {len(BINS)} numbers of bins rise and have an R² above "
        f"{MIN_R_SQUARED:g}, for the weights and for the time.",
    )
