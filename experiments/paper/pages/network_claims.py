"""The paper's claims about the networks themselves, each with what was measured: from records alone."""

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from experiments.paper.drawings.claims_figures import fit_line, format_r_squared
from experiments.paper.pages.markdown import MEASURES, format_interval, format_value, full_heading, t_interval, yes_no
from experiments.paper.pages.result_tables import NOT_RUN
from experiments.paper.pages.verdicts import IMPROVEMENT_SIGN
from experiments.paper.row_results import Variant
from experiments.paper.sources import Sources
from squad.records import Record

__all__ = ["BINS", "rows"]

#: KL in nats below which a predicted distribution counts as near a shape.
NEAR_KL = 0.2
#: Minimum fraction that counts as common.
COMMON = 0.1
#: Maximum ratio of the largest to the smallest standard deviation of layers that counts as within bounds.
MAX_SPREAD_RATIO = 1.5
#: Values of the grid over the number of bins.
BINS = (3, 5, 7, 9, 11, 15, 21, 31, 45, 63)
#: Eight layers count as no worse than fewer if their accuracy is at most this far below the best.
DEPTH_TOLERANCE = 0.02
#: Fraction of its range by which an activation function must fall after its maximum to count as peaked.
MIN_PEAK = 0.05
#: Accuracy that requires having learned something about all ten classes.
MIN_LEARNED_ACCURACY = 0.8
#: Settings varied in the ablation.
ABLATION_SETTINGS = ("spacing", "prior", "learn_values")
#: Comparisons of the ablation: index of the setting, two values, description.
CONTRASTS = (
    (0, "gaussian", "linear", "Gaussian minus linear spacing"),
    (1, "gaussian", "uniform", "Gaussian minus uniform prior"),
    (2, "per_layer", "fixed", "values learned per layer minus fixed values"),
    (2, "per_neuron", "fixed", "values learned per neuron minus fixed values"),
)
#: Minimum R² of a straight line for a relation to count as linear.
MIN_R_SQUARED = 0.95


def rows(sources: Sources) -> list[list[str]]:
    """Return rows of claim, measurement, and whether they agree."""
    return [
        _modes(sources),
        _peaks(sources),
        _spread(sources),
        _depth(sources),
        _bottleneck(sources),
        _ablation(sources),
        _linear(sources),
    ]


def _modes(sources: Sources) -> list[str]:
    claim = "Predicted distributions are multimodal: the flexible distribution is used to its full potential"
    record = sources.record("figures/latents")
    if record is None:
        return [claim, NOT_RUN, ""]
    measured, multimodal, clean = [], [], []
    for layer in record.results["probes"]["stereotypes"]:
        near = {
            shape["name"]: round(shape["shares"][shape["thresholds"].index(NEAR_KL)] * shape["total"])
            for shape in layer["nearest"]
        }
        shapes, total = ("two apart", "both ends", "three"), layer["nearest"][0]["total"]
        counts = " and ".join(f"{near[name]} of {name!r}" for name in shapes)
        multimodal.append(sum(layer["modes"][1:]))
        clean.append(sum(near[name] for name in shapes) / total)
        measured.append(
            f"layer {layer['layer']}: {format_value(multimodal[-1])} % of {total:,} have at least two modes with a "
            f"prominence of .05; within a KL of {NEAR_KL:g} of a clean multimodal shape, with fixed distances and "
            f"weights, are {counts}"
        )
    verdict = "**no**" if min(multimodal) < COMMON else "yes" if min(clean) > COMMON else "in part: not in clean shapes"
    return [claim, "; ".join(measured) + " (one network; criterion for common: 10 %)", verdict]


def _peaks(sources: Sources) -> list[str]:
    claim = 'Learned activation functions resemble "peaked" sigmoids'
    record = sources.record("figures/activation")
    if record is None:
        return [claim, NOT_RUN, ""]
    falls = []
    for unit in record.results["probes"]["activation"]["others"]:
        values = np.array(unit["mean"])
        span = float(values.max() - values.min())
        fall = max(float(values.max() - values[-1]), float(values[0] - values.min()))
        falls.append(fall / span if span > 0 else 0.0)
    peaked = sum(fall > MIN_PEAK for fall in falls)
    fraction = peaked / len(falls)
    measured = (
        f"of {len(falls)} units with one input, {peaked} fall after their maximum, or before their minimum, by more "
        f"than {format_value(MIN_PEAK)} % of their range, and by at most {format_value(max(falls))} %; the median is "
        f"{format_value(statistics.median(falls))} % (one network)"
    )
    verdict = "yes" if fraction > 0.5 else f"some: {peaked} of {len(falls)}" if fraction > COMMON else "**no**"
    return [claim, measured, verdict]


def _by_depth(sources: Sources, grid: str) -> dict[int, Record]:
    """Return the records by number of hidden layers; none unless all eight exist."""
    found = {depth: sources.record(f"figures/{grid}/{'x'.join(['32'] * depth)}") for depth in range(1, 9)}
    return {depth: record for depth, record in found.items() if record is not None} if all(found.values()) else {}


def _spread(sources: Sources) -> list[str]:
    claim = "Self-normalizing: the output of a layer stays within bounds, without batch normalization"
    grids = {"SQUAD": _by_depth(sources, "depth-squad"), "MLP": _by_depth(sources, "depth-mlp")}
    if not all(grids.values()):
        return [claim, NOT_RUN, ""]
    spreads = {
        (name, when): _layer_spreads(records[8], when)
        for name, records in grids.items()
        for when in ("before", "after")
    }
    measured = "; ".join(
        f"{name} {when} training {min(values):.2f} to {max(values):.2f}" for (name, when), values in spreads.items()
    )
    accuracies = ", ".join(
        f"{name} {format_value(_first_mode_mean(records[8], 'accuracy'))} % ({format_value(min(values))} to "
        f"{format_value(max(values))})"
        for name, records in grids.items()
        for values in [[network["accuracy"] for network in records[8].results["ways"][0]["each"]]]
    )
    # If the deepest networks do not learn, the deepest that do are judged as well.
    learned = [
        depth for depth, record in grids["SQUAD"].items() if _first_mode_mean(record, "accuracy") > MIN_LEARNED_ACCURACY
    ]
    deepest = max(learned, default=8)
    if deepest < 8:
        values = _layer_spreads(grids["SQUAD"][deepest], "after")
        spreads[f"SQUAD with {deepest} layers", "after"] = values
        measured += (
            f"; with {deepest} layers, the deepest SQUAD with an accuracy above {format_value(MIN_LEARNED_ACCURACY)} "
            f"%, {min(values):.2f} to {max(values):.2f} after training"
        )
    bounded = {key: max(values) < MAX_SPREAD_RATIO * min(values) for key, values in spreads.items()}
    return [
        claim,
        f"standard deviation of the outputs of each of eight layers: {measured}. Criterion: the largest is less than "
        f"{MAX_SPREAD_RATIO:g} times the smallest. Accuracy with eight layers: {accuracies}",
        "; ".join(f"{name} {when} training: {yes_no(good)}" for (name, when), good in bounded.items()),
    ]


def _layer_spreads(record: Record, when: str) -> list[float]:
    """Return the standard deviation of each hidden layer's outputs, averaged over the networks."""
    return [statistics.fmean(layer["std"]) for layer in record.results["probes"]["spread"][when][:-1]]


def _depth(sources: Sources) -> list[str]:
    claim = "So deep networks need no batch normalization (the paper names no depth; none was run with it here)"
    grids = {"SQUAD": _by_depth(sources, "depth-squad"), "MLP": _by_depth(sources, "depth-mlp")}
    small_kl = _by_depth(sources, "depth-squad-light")
    if not all(grids.values()):
        return [claim, NOT_RUN, ""]
    if small_kl:
        grids["SQUAD with a ninth of the KL multiplier"] = small_kl
    accuracies = {
        name: [_first_mode_mean(record, "accuracy") for record in records.values()] for name, records in grids.items()
    }
    measured = "accuracy with 1, 2, ... 8 layers: " + "; ".join(
        f"{name} {', '.join(format_value(value) for value in values)}" for name, values in accuracies.items()
    )
    criterion = f"Criterion: eight layers within {format_value(DEPTH_TOLERANCE)} points of the best"
    verdict = "; ".join(
        f"{name}: {yes_no(values[-1] > max(values) - DEPTH_TOLERANCE)}" for name, values in accuracies.items()
    )
    return [claim, f"{measured}. {criterion}", verdict]


def _by_bins(sources: Sources) -> dict[int, Record]:
    """Return the records by number of bins; none unless all exist."""
    found = {count: sources.record(f"figures/bins/{count}") for count in BINS}
    return {count: record for count, record in found.items() if record is not None} if all(found.values()) else {}


def _bottleneck(sources: Sources) -> list[str]:
    claim = "The number of bins, which bounds the bits a latent can carry, controls that bottleneck"
    records = _by_bins(sources)
    if not records:
        return [claim, NOT_RUN, ""]
    layers = [
        [statistics.fmean(record.results["probes"]["information"][layer]["mean"]) for record in records.values()]
        for layer in (0, 1)
    ]
    bounds = [float(np.log2(count)) for count in records]
    coverages = ", ".join(format_value(_first_mode_mean(record, "coverage@0.02")) for record in records.values())
    measured = (
        f"with C = {', '.join(map(str, records))} a latent carries {_join(layers[0])} bits in the first layer and "
        f"{_join(layers[1])} in the second, of at most {_join(bounds)}; coverage at 2 % is {coverages}"
    )
    verdicts = []
    for name, layer in zip(("first", "second"), layers, strict=True):
        steps = [other - one for one, other in pairwise(layer)]
        falls = all(step < 0 for step in steps)
        verdict = "yes" if all(step > 0 for step in steps) else f"**no**, bits {'fall' if falls else 'rise and fall'}"
        verdicts.append(f"{name} layer: {verdict}")
    return [claim, measured, "; ".join(verdicts)]


def _join(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _ablation(sources: Sources) -> list[str]:
    claim = "(No claim of the paper, which gives only its best settings: spacing, prior, learned values)"
    grid = sources.grid("figures", "ablation")
    if grid is None:
        return [claim, NOT_RUN, ""]
    by_setting = {
        tuple(variant.record.settings["fit"]["network"][name] for name in ABLATION_SETTINGS): variant
        for variant in grid
    }
    parts, verdicts, measures = [], [], ("coverage@0.01", "coverage@0.02", "nll")
    comparisons = len(CONTRASTS) * len(measures)
    for index, one, other, words in CONTRASTS:
        intervals = []
        for measure in measures:
            gains = _contrast(by_setting, index, (one, other), measure)
            intervals.append(f"{full_heading(measure)} {format_interval(gains, measure)}")
            middle, half = t_interval(gains, comparisons)
            if abs(middle) > half:
                better = IMPROVEMENT_SIGN[measure] * middle > 0
                verdicts.append(f"{words}: {'better' if better else 'worse'} {MEASURES[measure]}")
        parts.append(f"{words} {', '.join(intervals)}")
    measured = (
        f"means over the other settings, paired by seed, each with a 95 % interval: {'; '.join(parts)}. Criterion for "
        f"better or worse: 0 is outside the interval that holds jointly for all {comparisons} comparisons (Bonferroni)"
    )
    return [claim, measured, "; ".join(verdicts) or "inconclusive"]


def _contrast(
    by_setting: dict[tuple[str, ...], Variant], index: int, pair: tuple[str, str], measure: str
) -> list[float]:
    """Return one value of a setting minus another, per seed, averaged over the values of the other settings."""
    differences = []
    for key, one in by_setting.items():
        if key[index] == pair[0]:
            other = by_setting[(*key[:index], pair[1], *key[index + 1 :])]
            differences.append(one.paired_differences(other, measure))
    return [statistics.fmean(each) for each in zip(*differences, strict=True)]


def _linear(sources: Sources) -> list[str]:
    claim = "Cost and the number of weights are linear in C"
    records = _by_bins(sources)
    if not records:
        return [claim, NOT_RUN, ""]
    if any(record.machine != records[BINS[0]].machine for record in records.values()):
        return [claim, "measured on different machines", ""]
    bins = np.array(BINS, dtype=float)
    weights = np.array([record.results["weights"] for record in records.values()], dtype=float)
    seconds = np.array([record.results["probes"]["epoch"]["median"] for record in records.values()])
    _, _, weights_r2 = fit_line(bins, weights)
    slope, intercept, seconds_r2 = fit_line(bins, seconds)
    measured = (
        f"straight lines fitted over {len(BINS)} numbers of bins: R² = {format_r_squared(weights_r2)} for the weights "
        f"and {format_r_squared(seconds_r2)} for the time of an epoch, {1e3 * intercept:.1f} ms + {1e3 * slope:.3f} ms "
        f"x C; with {BINS[-1]} bins, {format_value(slope * BINS[-1] / (intercept + slope * BINS[-1]))} % of the time "
        f"depends on the bins, and an epoch takes {seconds[-1] / seconds[BINS.index(15)]:.2f} times as long as with "
        f"15. Criterion for linear: R² above {MIN_R_SQUARED:g}"
    )
    fixed = ", plus a constant part" if intercept > 0.01 * seconds.max() else ""
    growth = yes_no(seconds_r2 > MIN_R_SQUARED and slope > 0) + fixed
    return [claim, measured, f"weights: {yes_no(weights_r2 > MIN_R_SQUARED)}; time: {growth}"]


def _first_mode_mean(record: Record, measure: str) -> float:
    """Return the mean of a measure over the networks in the first prediction mode."""
    networks: list[dict[str, Any]] = record.results["ways"][0]["each"]
    return statistics.fmean(network[measure] for network in networks)
