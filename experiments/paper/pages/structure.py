"""What the paper says of the networks themselves, each sentence beside what was measured: from records alone."""

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from experiments.paper.drawings.claims_figures import line, r_squared
from experiments.paper.pages.markdown import MEASURES, interval, number, student
from experiments.paper.pages.result_tables import Variant
from experiments.paper.pages.verdicts import BETTER, MISSING, whole, yes
from experiments.paper.sources import Sources
from squad.records import Record

__all__ = ["rows"]

#: A predicted distribution is near a shape below so many nats.
NEAR = 0.2
#: What a share must have to be called common.
COMMON = 0.1
#: Spreads of layers stay within bounds if the largest is below so many times the smallest.
STEADY = 1.5
#: The grid of the number of bins.
BINS = (3, 5, 7, 9, 11, 15, 21, 31, 45, 63)
#: Eight layers are as good as fewer if their accuracy is within so much of the best.
DEEP = 0.02
#: A function has a peak if it falls behind it by so much of its range.
PEAK = 0.05
#: An accuracy that a network has only if it has learned something of all ten classes.
LEARNED = 0.8
#: Settings of the ablation; and those compared: place, one value, another, in words.
KINDS = ("spacing", "prior", "learn_values")
CONTRASTS = (
    (0, "gaussian", "linear", "Gaussian minus linear spacing"),
    (1, "gaussian", "uniform", "Gaussian minus uniform prior"),
    (2, "per_layer", "fixed", "values learned by layer minus fixed ones"),
    (2, "per_neuron", "fixed", "values learned by neuron minus fixed ones"),
)
#: A line is straight if it explains so much of the variance.
STRAIGHT = 0.95


def rows(sources: Sources) -> list[list[str]]:
    """What the paper says, what was measured, and whether that agrees."""
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
    what = "Predicted distributions are multimodal: the flexible distribution is used to its full potential"
    record = sources.record("figures/latents")
    if record is None:
        return [what, MISSING, ""]
    told, several_modes, clean = [], [], []
    for one in record.results["probes"]["stereotypes"]:
        near = {
            shape["name"]: round(shape["shares"][shape["thresholds"].index(NEAR)] * shape["total"])
            for shape in one["nearest"]
        }
        many, total = ("two apart", "both ends", "three"), one["nearest"][0]["total"]
        several = " and ".join(f"{near[name]} of {name!r}" for name in many)
        several_modes.append(sum(one["modes"][1:]))
        clean.append(sum(near[name] for name in many) / total)
        told.append(
            f"layer {one['layer']}: {number(several_modes[-1])} % of {total:,} have two modes or more that stand out "
            f"by .05; within a KL of {NEAR:g} of a clean shape with several, of fixed distances and weights, are "
            f"{several}"
        )
    verdict = (
        "**no**" if min(several_modes) < COMMON else "yes" if min(clean) > COMMON else "in part: not in clean shapes"
    )
    return [what, "; ".join(told) + " (one network; called common: 10 %)", verdict]


def _peaks(sources: Sources) -> list[str]:
    what = 'Learned activation functions resemble "peaked" sigmoids'
    record = sources.record("figures/activation")
    if record is None:
        return [what, MISSING, ""]
    falls = []
    for unit in record.results["probes"]["activation"]["others"]:
        values = np.array(unit["mean"])
        span = float(values.max() - values.min())
        back = max(float(values.max() - values[-1]), float(values[0] - values.min()))
        falls.append(back / span if span > 0 else 0.0)
    peaked = sum(fall > PEAK for fall in falls)
    share = peaked / len(falls)
    told = (
        f"of {len(falls)} units with one input {peaked} fall after their peak, or before their trough, by more than "
        f"{number(PEAK)} % of their range, and by {number(max(falls))} % at the most; the median falls by "
        f"{number(statistics.median(falls))} % (one network)"
    )
    return [what, told, "yes" if share > 0.5 else f"some: {peaked} of {len(falls)}" if share > COMMON else "**no**"]


def _deep(sources: Sources, grid: str) -> dict[int, Record]:
    """By the number of hidden layers; none unless all eight are there."""
    found = {depth: sources.record(f"figures/{grid}/{'x'.join(['32'] * depth)}") for depth in range(1, 9)}
    return {depth: one for depth, one in found.items() if one is not None} if all(found.values()) else {}


def _spread(sources: Sources) -> list[str]:
    what = "Self-normalizing: the output of a layer stays within bounds, without batch normalization"
    deep = {"SQUAD": _deep(sources, "depth-squad"), "MLP": _deep(sources, "depth-mlp")}
    if not all(deep.values()):
        return [what, MISSING, ""]
    spreads = {(name, when): _spreads(found[8], when) for name, found in deep.items() for when in ("before", "after")}
    told = "; ".join(
        f"{name} {when} training {min(found):.2f} to {max(found):.2f}" for (name, when), found in spreads.items()
    )
    accuracies = ", ".join(
        f"{name} {number(_first(found[8], 'accuracy'))} % ({number(min(each))} to {number(max(each))})"
        for name, found in deep.items()
        for each in [[one["accuracy"] for one in found[8].results["ways"][0]["each"]]]
    )
    # Where the deepest do not learn, those that do are to be judged as well.
    able = max((depth for depth, one in deep["SQUAD"].items() if _first(one, "accuracy") > LEARNED), default=8)
    if able < 8:
        spreads[f"SQUAD of {able} layers", "after"] = found = _spreads(deep["SQUAD"][able], "after")
        told += (
            f"; of {able} layers, the deepest SQUAD with an accuracy above {number(LEARNED)} %, {min(found):.2f} to "
            f"{max(found):.2f} after it"
        )
    steady = {key: max(found) < STEADY * min(found) for key, found in spreads.items()}
    return [
        what,
        f"standard deviation of what each of eight layers puts out: {told}. Called within bounds: the largest below "
        f"{STEADY:g} times the smallest. The accuracy of the networks of eight: {accuracies}",
        "; ".join(f"{name} {when} training: {yes(good)}" for (name, when), good in steady.items()),
    ]


def _spreads(record: Record, when: str) -> list[float]:
    """Of each hidden layer, the mean over networks."""
    return [statistics.fmean(layer["std"]) for layer in record.results["probes"]["spread"][when][:-1]]


def _depth(sources: Sources) -> list[str]:
    what = "So deep networks need no batch normalization (no depth is named; none with it was run)"
    deep = {"SQUAD": _deep(sources, "depth-squad"), "MLP": _deep(sources, "depth-mlp")}
    light = _deep(sources, "depth-squad-light")
    if not all(deep.values()):
        return [what, MISSING, ""]
    if light:
        deep["SQUAD with a ninth of the KL multiplier"] = light
    each = {name: [_first(record, "accuracy") for record in grid.values()] for name, grid in deep.items()}
    told = "accuracy with 1, 2, ... 8 layers: " + "; ".join(
        f"{name} {', '.join(number(share) for share in shares)}" for name, shares in each.items()
    )
    verdict = "; ".join(f"{name}: {yes(shares[-1] > max(shares) - DEEP)}" for name, shares in each.items())
    return [what, f"{told}. Called yes: eight layers within {number(DEEP)} points of the best", verdict]


def _by_bins(sources: Sources) -> dict[int, Record]:
    """By the number of bins; none unless all are there."""
    found = {count: sources.record(f"figures/bins/{count}") for count in BINS}
    return {count: one for count, one in found.items() if one is not None} if all(found.values()) else {}


def _bottleneck(sources: Sources) -> list[str]:
    what = "The number of bins, which bounds the bits a latent can carry, controls that bottleneck"
    kept = _by_bins(sources)
    if not kept:
        return [what, MISSING, ""]
    layers = [
        [statistics.fmean(record.results["probes"]["information"][layer]["mean"]) for record in kept.values()]
        for layer in (0, 1)
    ]
    told = (
        f"with C = {', '.join(map(str, kept))} a latent carries {_list(layers[0])} bits in the first layer and "
        f"{_list(layers[1])} in the second, of at most {_list([float(np.log2(count)) for count in kept])}; coverage at "
        f"2 % is {', '.join(number(_first(record, 'coverage@0.02')) for record in kept.values())}"
    )
    verdicts = []
    for place, layer in zip(("first", "second"), layers, strict=True):
        steps = [other - one for one, other in pairwise(layer)]
        falls = all(step < 0 for step in steps)
        word = "yes" if all(step > 0 for step in steps) else f"**no**, bits {'fall' if falls else 'rise and fall'}"
        verdicts.append(f"{place} layer: {word}")
    return [what, told, "; ".join(verdicts)]


def _list(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _ablation(sources: Sources) -> list[str]:
    what = "(No claim of the paper's, which tells its best settings alone: spacing, prior, learned values)"
    grid = sources.grid("figures", "ablation")
    if grid is None:
        return [what, MISSING, ""]
    by = {tuple(one.record.settings["fit"]["network"][name] for name in KINDS): one for one in grid}
    told, verdicts, measures = [], [], ("coverage@0.01", "coverage@0.02", "nll")
    comparisons = len(CONTRASTS) * len(measures)
    for place, one, other, words in CONTRASTS:
        parts = []
        for measure in measures:
            gains = _contrast(by, place, (one, other), measure)
            parts.append(f"{whole(MEASURES[measure])} {interval(gains, measure)}")
            middle, half = student(gains, comparisons)
            if abs(middle) > half:
                better = BETTER[measure] * middle > 0
                verdicts.append(f"{words}: {'better' if better else 'worse'} {MEASURES[measure]}")
        told.append(f"{words} {', '.join(parts)}")
    shown = (
        f"means over the other settings, in pairs of one seed, each with a 95 % interval: {'; '.join(told)}. Called "
        f"better or worse: 0 is outside of the interval for all {comparisons} comparisons together (Bonferroni)"
    )
    return [what, shown, "; ".join(verdicts) or "open"]


def _contrast(by: dict[tuple[str, ...], Variant], place: int, pair: tuple[str, str], measure: str) -> list[float]:
    """One value of a setting minus another, for each seed the mean over all that the other settings are."""
    differences = []
    for key, one in by.items():
        if key[place] == pair[0]:
            differences.append(one.minus(by[(*key[:place], pair[1], *key[place + 1 :])], measure))
    return [statistics.fmean(each) for each in zip(*differences, strict=True)]


def _linear(sources: Sources) -> list[str]:
    what = "Cost and the number of weights are linear in C"
    kept = _by_bins(sources)
    if not kept:
        return [what, MISSING, ""]
    if any(record.machine != kept[BINS[0]].machine for record in kept.values()):
        return [what, "measured on different machines", ""]
    bins = np.array(BINS, dtype=float)
    weights = np.array([record.results["weights"] for record in kept.values()], dtype=float)
    seconds = np.array([record.results["probes"]["epoch"]["median"] for record in kept.values()])
    _, _, straight = line(bins, weights)
    slope, start, explained = line(bins, seconds)
    told = (
        f"straight lines through {len(BINS)} numbers of bins: R² = {r_squared(straight)} for the weights and "
        f"{r_squared(explained)} for the time of an epoch, {1e3 * start:.1f} ms + {1e3 * slope:.3f} ms x C; with "
        f"{BINS[-1]} bins {number(slope * BINS[-1] / (start + slope * BINS[-1]))} % of it depend on them, and it takes "
        f"{seconds[-1] / seconds[BINS.index(15)]:.2f} times as long as with 15. Called linear: R² above {STRAIGHT:g}"
    )
    fixed = ", beside a fixed part" if start > 0.01 * seconds.max() else ""
    growth = yes(explained > STRAIGHT and slope > 0) + fixed
    return [what, told, f"weights: {yes(straight > STRAIGHT)}; time: {growth}"]


def _first(record: Record, measure: str) -> float:
    each: list[dict[str, Any]] = record.results["ways"][0]["each"]
    return statistics.fmean(one[measure] for one in each)
