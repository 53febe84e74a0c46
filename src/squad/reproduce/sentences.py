"""What the paper says in its text, each sentence beside what was measured: from records alone."""

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from squad.records import Record
from squad.reproduce.markdown import MEASURES, interval, number, student, table
from squad.reproduce.plan import TABLES
from squad.reproduce.sources import Sources
from squad.reproduce.tables import Variant
from squad.reproduce.verdicts import BETTER, COMPARED, MISSING, ahead, mean, whole, yes

__all__ = ["claims"]

#: Two sentences of the paper's, each about SQUAD beside others.
HELD_OUT = "SQUAD exhibits strong performance on a held-out data set (notMNIST) without tuning for it"
BETTER_THAN = "SQUAD is significantly better than plain MLPs and deep Gaussian information bottlenecks"
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


def claims(sources: Sources) -> str:
    """A table: what the paper says, what was measured, and whether that agrees."""
    rows = [
        _maxout(sources),
        _against(sources, "table2", ("mlp", "maxout-dropout"), HELD_OUT),
        _against(sources, "table1", ("mlp", "dlgm"), BETTER_THAN),
        _ensembles(sources),
        _relu(sources),
        _response(sources),
        _modes(sources),
        _peaks(sources),
        _spread(sources),
        _depth(sources),
        _bottleneck(sources),
        _efficiency(sources),
        _linear(sources),
        _epoch(sources),
    ]
    return table(["the paper says", "measured", ""], rows)


def _maxout(sources: Sources) -> list[str]:
    what = "SQUAD has a slight, not significant advantage over Maxout MC dropout"
    name = "table1"
    other = sources.variant(f"{name}/maxout-dropout")
    found = [sources.variant(f"{name}/squad", way) for way in ("relaxed 32", "hard 32")]
    there = [one for one in found if one is not None]
    if other is None or not there:
        return [what, MISSING, ""]
    told = "; ".join(f"{one.way.text}: {_intervals(one, other, COMPARED)}" for one in there)
    verdict = {1: "more than that: significant", 0: "open", -1: "**no**, Maxout is ahead"}[
        ahead(there[0], other, COMPARED)
    ]
    return [what, f"SQUAD minus Maxout, {told}", verdict]


def _against(sources: Sources, table: str, names: Sequence[str], what: str) -> list[str]:
    """SQUAD minus each of some others of a table, and where it stands to each."""
    one = sources.variant(f"{table}/squad", "relaxed 32")
    others = [sources.variant(f"{table}/{name}") for name in names]
    there = [other for other in others if other is not None]
    if one is None or len(there) < len(others):
        return [what, MISSING, ""]
    told = "; ".join(f"minus {other.row.label}: {_intervals(one, other, COMPARED)}" for other in there)
    words = {1: "ahead of", 0: "not apart from", -1: "**behind**"}
    return [what, told, ", ".join(f"{words[ahead(one, other, COMPARED)]} {other.row.label}" for other in there)]


def _intervals(one: Variant, other: Variant, names: Sequence[str]) -> str:
    return ", ".join(f"{whole(MEASURES[name])} {interval(one.minus(other, name), name)}" for name in names)


def _ensembles(sources: Sources) -> list[str]:
    what = "Deep ensembles improve results for all methods"
    firsts = [one.variants()[0] for name in TABLES for one in sources.measured(name) if one.record is not None]
    if not firsts:
        return [what, MISSING, ""]
    told, counts = [], []
    for words, names in (("coverage at .5 %", ["coverage@0.005"]), ("the other figures", list(MEASURES)[1:])):
        gains = [(one, key, one.ensemble[key] - mean(one, key)) for one in firsts for key in names]
        worse = [(one, key, gain) for one, key, gain in gains if BETTER[key] * gain < 0]
        same = sum(gain == 0 for _, _, gain in gains)
        better = len(gains) - len(worse) - same
        told.append(
            f"{words}: better than the mean of its networks in {better} of {len(gains)} cells, "
            f"equal in {same}, worse in {len(worse)}"
        )
        counts.append((better, len(worse), len(gains)))
    if worse:  # of the figures that are no mixtures
        told[-1] += f" ({'; '.join(_cell(*cell) for cell in worse)})"
    shown = (
        f"{'; '.join(told)} ({len(firsts)} rows of all tables, several of them SQUAD, each asked in its first way). "
        "Where some networks have a coverage of 0 and others much, as at .5 %, their mean is a mixture. An ensemble "
        "draws as many samples as all of its networks together"
    )
    (_, low, _), (better, high, cells) = counts
    if high or not better:
        return [what, shown, f"**not always**: in {better} of {cells} cells, coverage at .5 % aside"]
    return [what, shown, "yes, but for coverage at .5 %" if low else "yes"]


def _cell(one: Variant, measure: str, gain: float) -> str:
    plan, _, _ = one.row.name.partition("/")
    name = f"{one.row.label} in {plan.replace('table', 'table ')}"
    return f"{name}, {whole(MEASURES[measure])}: {number(gain, measure, sign=True)}"


def _relu(sources: Sources) -> list[str]:
    what = "Maxout is a stronger MC dropout than ReLU with equally many units"
    maxout, relu = (sources.variant(f"table1/{name}") for name in ("maxout-dropout", "relu-dropout"))
    if maxout is None or relu is None:
        return [what, MISSING, ""]
    weights = f"with {maxout.record.results['weights']:,} weights against {relu.record.results['weights']:,}"
    told = f"Maxout minus ReLU: {_intervals(maxout, relu, COMPARED)}; {weights}"
    return [what, told, yes(ahead(maxout, relu, COMPARED) == 1)]


def _response(sources: Sources) -> list[str]:
    what = "Softmax response serves MC dropout better than variance"
    told, good = [], []
    for name, data in (
        ("table1/maxout-dropout", "Fashion-MNIST"),
        ("table1/relu-dropout", "Fashion-MNIST"),
        ("table2/maxout-dropout", "notMNIST"),
        ("table3/maxout-dropout", "SVHN"),
    ):
        response, variance = (sources.variant(name, way) for way in ("sample 32", "sample 32 by variance"))
        if response is not None and variance is not None:
            told.append(f"{response.row.label} on {data} {_intervals(response, variance, COMPARED)}")
            good.append(ahead(response, variance, COMPARED) == 1)
    if not told:
        return [what, MISSING, ""]
    return [what, f"response minus variance: {'; '.join(told)}", yes(all(good))]


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
    spreads = {
        (name, when): [statistics.fmean(layer["std"]) for layer in found[8].results["probes"]["spread"][when][:-1]]
        for name, found in deep.items()
        for when in ("before", "after")
    }
    told = "; ".join(
        f"{name} {when} training {min(found):.2f} to {max(found):.2f}" for (name, when), found in spreads.items()
    )
    steady = {key: max(found) < STEADY * min(found) for key, found in spreads.items()}
    accuracies = ", ".join(f"{name} {number(_first(found[8], 'accuracy'))} %" for name, found in deep.items())
    return [
        what,
        f"standard deviation of what each of eight layers puts out: {told}. Called within bounds: the largest below "
        f"{STEADY:g} times the smallest. The accuracy of these networks: {accuracies}",
        "; ".join(f"{name} {when} training: {yes(good)}" for (name, when), good in steady.items()),
    ]


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


def _bottleneck(sources: Sources) -> list[str]:
    what = "The number of bins, which bounds the bits a latent can carry, controls that bottleneck"
    found = {count: sources.record(f"figures/bins/{count}") for count in BINS}
    kept = {count: record for count, record in found.items() if record is not None}
    if len(kept) < len(found):
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


def _efficiency(sources: Sources) -> list[str]:
    what = "SQUAD's results suffer less from few samples than MC dropout's"
    pairs = {
        "Fashion-MNIST": ("figures/samples-squad", "figures/samples-maxout-dropout", ("hard", "relaxed", "stratified")),
        "SVHN, factorized": ("table3/squad-factorized", "table3/maxout-dropout", ("hard", "relaxed")),
    }
    told, verdicts = [], []
    for data, (ours, theirs, samplings) in pairs.items():
        for sampling in samplings:
            found = [
                *(sources.variant(ours, f"{sampling} {count}") for count in (4, 32)),
                *(sources.variant(theirs, f"sample {count}") for count in (4, 32)),
            ]
            there = [one for one in found if one is not None]
            if len(there) < len(found):
                break
            few, more, few_other, more_other = there
            parts, words = [], []
            for name in COMPARED:
                differences = zip(few.minus(more, name), few_other.minus(more_other, name), strict=True)
                extra = [own - others for own, others in differences]
                middle, half = student(extra)
                word = "less" if middle > half else "**more**" if middle < -half else "open"
                words.append(f"{word} {MEASURES[name]}")
                parts.append(f"{interval(extra, name)} {MEASURES[name]}")
            told.append(f"{data}, {sampling}: {', '.join(parts)}")
            verdicts.append(f"{data}, {sampling}: {', '.join(words)}")
    if not told:
        return [what, MISSING, ""]
    shown = (
        f"what T = 4 instead of 32 changes, SQUAD's minus Maxout's: {'; '.join(told)}. On Fashion-MNIST SQUAD has the "
        "paper's settings, Maxout those of its search"
    )
    return [what, shown, "; ".join(verdicts)]


def _linear(sources: Sources) -> list[str]:
    what = "Cost and the number of weights are linear in C"
    few, many = sources.record("figures/bins/15"), sources.record("figures/bins/63")
    if few is None or many is None:
        return [what, MISSING, ""]
    if few.machine != many.machine:
        return [what, "measured on different machines", ""]
    ratio = 63 / 15
    weights = many.results["weights"] / few.results["weights"]
    seconds = many.results["probes"]["epoch"]["median"] / few.results["probes"]["epoch"]["median"]
    told = (
        f"63 bins instead of 15, {ratio:.1f} times as many, take {weights:.2f} times the weights and {seconds:.2f} "
        "times the time of an epoch (networks as small as these spend much of it on other things)"
    )
    growth = "less than linear" if seconds < 0.9 * ratio else "linear" if seconds < 1.1 * ratio else "**more**"
    return [what, told, f"weights: {yes(abs(weights / ratio - 1) < 0.1)}; time: {growth}"]


def _epoch(sources: Sources) -> list[str]:
    what = "On SVHN an epoch of SQUAD-factorized takes less time than one of Maxout (9 s against 13 s on a Titan XP)"
    ours, maxout = (sources.record(f"table3/{name}") for name in ("squad-factorized", "maxout-dropout"))
    if ours is None or maxout is None:
        return [what, MISSING, ""]
    if ours.machine != maxout.machine:
        return [what, "measured on different machines", ""]
    one, other = (record.results["probes"]["epoch"] for record in (ours, maxout))
    told = (
        f"{one['median']:.3f} s in batches of {one['batch_size']} against {other['median']:.3f} s in batches of "
        f"{other['batch_size']} on one {ours.machine.get('gpu') or ours.machine['cpu']}"
    )
    return [what, told, yes(one["median"] < other["median"])]


def _first(record: Record, measure: str) -> float:
    each: list[dict[str, Any]] = record.results["ways"][0]["each"]
    return statistics.fmean(one[measure] for one in each)
