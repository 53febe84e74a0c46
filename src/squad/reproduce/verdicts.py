"""What was aimed at and what the paper claims, each beside what was measured: from records alone."""

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from squad.records import Record
from squad.reproduce.markdown import MEASURES, interval, number, student, table
from squad.reproduce.plan import TABLES
from squad.reproduce.sources import Sources
from squad.reproduce.tables import Variant

__all__ = ["aims", "claims", "summary"]

#: What the factorized network is to reach on SVHN, and how many weights it may have: the paper's 3.4 million + 5 %.
SVHN_AIMS = {"coverage@0.01": 0.50, "coverage@0.02": 0.64, "accuracy": 0.858}
SVHN_WEIGHTS = 3_570_000
#: In which direction a measure is better.
BETTER = {name: -1 if name == "nll" else 1 for name in MEASURES}
#: Those that are compared: at .5 % a network has a third of the rows or none, and a mean of that tells little.
COMPARED = ("coverage@0.01", "coverage@0.02")
MISSING = "not run yet"
#: A predicted distribution is near a shape below so many nats.
NEAR = 0.2


def mean(variant: Variant, measure: str) -> float:
    """Over its networks."""
    return statistics.fmean(variant.values(measure))


# -- aims


def aims(sources: Sources) -> str:
    """A table: the aim, what was reached, whether that is it."""
    rows = [*_near_the_paper(sources), *_order(sources), *_svhn(sources)]
    return table(["aim", "reached", ""], rows)


def _near_the_paper(sources: Sources) -> list[list[str]]:
    rows = []
    for place, (name, heading) in enumerate(MEASURES.items()):
        if name == "coverage@0.005":
            continue  # no aim: its spread is a quarter of all rows
        what = f"SQUAD on Fashion-MNIST, {_whole(heading)}: within two of the paper's standard deviations, or better"
        for way in ("relaxed 32", "hard 32"):
            variant = sources.variant("table1/squad", way)
            if variant is None or variant.row.paper is None:
                rows.append([what, MISSING, ""])
                continue
            paper, spread = variant.row.paper[place]
            ours = mean(variant, name) * (1 if name == "nll" else 100)
            shown = f"{variant.way.text}: {number(mean(variant, name), name)} against {paper:g} ({spread:g})"
            rows.append([what, shown, _yes(BETTER[name] * (ours - paper) >= -spread)])
    return rows


def _whole(heading: str) -> str:
    return f"coverage {heading}" if heading.startswith("at ") else heading


def _order(sources: Sources) -> list[list[str]]:
    rows = []
    for first, second in (("squad", "mlp"), ("maxout-dropout", "mlp"), ("mlp", "dlgm")):
        for name in COMPARED:
            one, other = sources.variant(f"table1/{first}"), sources.variant(f"table1/{second}")
            if one is None or other is None:
                rows.append([f"{first} ahead of {second}", MISSING, ""])
                continue
            what = f"{one.row.label} ahead of {other.row.label} on Fashion-MNIST, coverage {MEASURES[name]}"
            shown = f"{number(mean(one, name))} against {number(mean(other, name))}"
            rows.append([what, shown, _yes(mean(one, name) > mean(other, name))])
    return rows


def _svhn(sources: Sources) -> list[list[str]]:
    ours = sources.variant("table3/squad-factorized", "relaxed 32")
    plain = sources.variant("table3/squad", "relaxed 32")
    rows = []
    for name, aim in SVHN_AIMS.items():
        what = f"SQUAD-factorized on SVHN, {_whole(MEASURES[name])}: {number(aim)} at least"
        got = None if ours is None else mean(ours, name)
        rows.append([what, MISSING, ""] if got is None else [what, number(got), _yes(got >= aim)])
    for name in COMPARED:
        what = f"SQUAD-factorized ahead of SQUAD on SVHN, coverage {MEASURES[name]}"
        if ours is None or plain is None:
            rows.append([what, MISSING, ""])
        else:
            shown = f"{number(mean(ours, name))} against {number(mean(plain, name))}"
            rows.append([what, shown, _yes(mean(ours, name) > mean(plain, name))])
    what = f"SQUAD-factorized with {SVHN_WEIGHTS:,} weights at the most"
    if ours is None:
        rows.append([what, MISSING, ""])
    else:
        weights = ours.record.results["weights"]
        rows.append([what, f"{weights:,}", _yes(weights <= SVHN_WEIGHTS)])
    return rows


def _yes(good: bool) -> str:
    return "yes" if good else "**no**"


# -- in short


def summary(sources: Sources) -> str:
    """A few sentences: SQUAD beside the paper, and beside Maxout MC dropout."""
    told = []
    for name, data in (("table1", "Fashion-MNIST"), ("table2", "notMNIST"), ("table3", "SVHN")):
        rows = "squad-factorized" if name == "table3" else "squad"
        one, other = sources.variant(f"{name}/{rows}", "relaxed 32"), sources.variant(f"{name}/maxout-dropout")
        if one is None or other is None:
            told.append(f"On {data} nothing can be said yet.")
            continue
        parts = [f"{interval(one.minus(other, key), key)} {MEASURES[key]}" for key in COMPARED]
        ahead = _ahead(one, other, COMPARED)
        word = {1: "is ahead of", 0: "is not told apart from", -1: "is behind"}[ahead]
        told.append(
            f"On {data} {one.row.label} {word} {other.row.label} with single networks (coverage, difference of pairs "
            f"with a 95 % interval: {', '.join(parts)}); as ensembles of {len(one.each)} they have "
            + " and ".join(
                f"{number(one.ensemble[key])} against {number(other.ensemble[key])} {MEASURES[key]}" for key in COMPARED
            )
            + "."
        )
    return " ".join(told)


def _ahead(one: Variant, other: Variant, names: Sequence[str]) -> int:
    """1 if the first is ahead by all of them, beyond a 95 % interval; -1 if it is behind; 0 if neither."""
    found = []
    for name in names:
        middle, half = student(one.minus(other, name))
        found.append((middle > half) - (middle < -half))
    return found[0] if len(set(found)) == 1 else 0


# -- claims


def claims(sources: Sources) -> str:
    """A table: what the paper says, what was measured, and whether that agrees."""
    rows = [
        _maxout(sources, "table1", "SQUAD has a slight, not significant advantage over Maxout MC dropout"),
        _maxout(sources, "table2", "On a new data set, without tuning for it, SQUAD does best"),
        _others(sources),
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


def _maxout(sources: Sources, name: str, what: str) -> list[str]:
    other = sources.variant(f"{name}/maxout-dropout")
    found = [sources.variant(f"{name}/squad", way) for way in ("relaxed 32", "hard 32")]
    there = [one for one in found if one is not None]
    if other is None or not there:
        return [what, MISSING, ""]
    told = "; ".join(f"{one.way.text}: {_intervals(one, other, COMPARED)}" for one in there)
    verdict = {1: "yes", 0: "not told apart", -1: "**no**, Maxout is ahead"}[_ahead(there[0], other, COMPARED)]
    return [what, f"SQUAD minus Maxout, {told}", verdict]


def _intervals(one: Variant, other: Variant, names: Sequence[str]) -> str:
    return ", ".join(f"{_whole(MEASURES[name])} {interval(one.minus(other, name), name)}" for name in names)


def _others(sources: Sources) -> list[str]:
    what = "SQUAD is significantly better than plain MLPs and deep Gaussian information bottlenecks"
    one = sources.variant("table1/squad", "relaxed 32")
    others = [sources.variant(f"table1/{name}") for name in ("mlp", "dlgm")]
    there = [other for other in others if other is not None]
    if one is None or len(there) < len(others):
        return [what, MISSING, ""]
    told = "; ".join(f"minus {other.row.label}: {_intervals(one, other, COMPARED)}" for other in there)
    return [what, told, _yes(all(_ahead(one, other, COMPARED) == 1 for other in there))]


def _ensembles(sources: Sources) -> list[str]:
    what = "Deep ensembles improve results for all methods"
    gains = [
        BETTER[key] * (variant.ensemble[key] - mean(variant, key))
        for name in TABLES
        for one in sources.measured(name)
        for variant in one.variants()
        if variant.way.confidence == "response"
        for key in MEASURES
    ]
    if not gains:
        return [what, MISSING, ""]
    better, same = sum(gain > 0 for gain in gains), sum(gain == 0 for gain in gains)
    told = (
        f"better than the mean of its networks in {better} of {len(gains)} cells, equal in {same}, worse in "
        f"{len(gains) - better - same}; an ensemble draws as many samples as all of its networks together"
    )
    return [what, told, "yes" if better == len(gains) else "nearly" if better > 0.95 * len(gains) else "**no**"]


def _relu(sources: Sources) -> list[str]:
    what = "Maxout is a stronger MC dropout than ReLU with equally many units"
    maxout, relu = (sources.variant(f"table1/{name}") for name in ("maxout-dropout", "relu-dropout"))
    if maxout is None or relu is None:
        return [what, MISSING, ""]
    weights = f"with {maxout.record.results['weights']:,} weights against {relu.record.results['weights']:,}"
    told = f"Maxout minus ReLU: {_intervals(maxout, relu, COMPARED)}; {weights}"
    return [what, told, _yes(_ahead(maxout, relu, COMPARED) == 1)]


def _response(sources: Sources) -> list[str]:
    what = "Softmax response serves MC dropout better than variance"
    ways = ("sample 32", "sample 32 by variance")
    response, variance = (sources.variant("table1/maxout-dropout", way) for way in ways)
    if response is None or variance is None:
        return [what, MISSING, ""]
    told = f"Maxout, response minus variance: {_intervals(response, variance, COMPARED)}"
    return [what, told, _yes(_ahead(response, variance, COMPARED) == 1)]


def _modes(sources: Sources) -> list[str]:
    what = "Predicted distributions are multimodal: the flexible distribution is used to its full potential"
    record = sources.record("figures/latents")
    if record is None:
        return [what, MISSING, ""]
    told = []
    for one in record.results["probes"]["stereotypes"]:
        near = {
            shape["name"]: round(shape["shares"][shape["thresholds"].index(NEAR)] * shape["total"])
            for shape in one["nearest"]
        }
        several = " and ".join(f"{near[name]} of {name!r}" for name in ("two apart", "both ends", "three"))
        told.append(
            f"layer {one['layer']}: {number(sum(one['modes'][1:]))} % of {one['nearest'][0]['total']:,} have two modes "
            f"or more that stand out by .05, but within a KL of {NEAR:g} of a clean shape are only {several}"
        )
    return [what, "; ".join(told) + " (one network)", "in part"]


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
    told = (
        f"of {len(falls)} units with one input the largest fall of the expected value behind its peak is "
        f"{number(max(falls))} % of its range, the median {number(statistics.median(falls))} %: sigmoids"
        + (", peaked ones among them" if max(falls) > 0.05 else " without a peak")
        + " (one network)"
    )
    return [what, told, "yes" if statistics.median(falls) > 0.05 else "in part" if max(falls) > 0.05 else "**no**"]


def _deep(sources: Sources, grid: str) -> dict[int, Record]:
    """By the number of hidden layers; none unless all eight are there."""
    found = {depth: sources.record(f"figures/{grid}/{'x'.join(['32'] * depth)}") for depth in range(1, 9)}
    return {depth: one for depth, one in found.items() if one is not None} if all(found.values()) else {}


def _spread(sources: Sources) -> list[str]:
    what = "Self-normalizing: the output of a layer stays within bounds, without batch normalization"
    deep = _deep(sources, "depth-squad")
    if not deep:
        return [what, MISSING, ""]
    spreads = [statistics.fmean(layer["std"]) for layer in deep[8].results["probes"]["spread"]["before"][:-1]]
    ends = f"{min(spreads):.2f} to {max(spreads):.2f}"
    told = f"over eight layers the standard deviation of activations before training is {ends}"
    return [what, told, _yes(max(spreads) < 1.5 * min(spreads))]


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
    good = each["SQUAD"][-1] > max(each["SQUAD"]) - 0.02
    return [what, told, "yes" if good else "**no**, not with the paper's KL multiplier"]


def _bottleneck(sources: Sources) -> list[str]:
    what = "The number of bins bounds the bits a latent carries, and controls that bottleneck"
    found = {count: sources.record(f"figures/bins/{count}") for count in (3, 7, 15, 63)}
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
    controls = layers[0][0] < layers[0][-1] and layers[1][0] < layers[1][-1]
    return [what, told, "yes" if controls else "bounds: yes; controls: only where bins are few, in the first layer"]


def _list(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _efficiency(sources: Sources) -> list[str]:
    what = "SQUAD's results suffer less from few samples than MC dropout's"
    maxout = [sources.variant("figures/samples-maxout-dropout", f"sample {count}") for count in (4, 32)]
    if any(one is None for one in maxout):
        return [what, MISSING, ""]
    told: list[str] = []
    less: dict[str, bool] = {}
    for sampling in ("hard", "relaxed", "stratified"):
        squad = [sources.variant("figures/samples-squad", f"{sampling} {count}") for count in (4, 32)]
        few, many, few_other, many_other = (one for one in (*squad, *maxout))
        if few is None or many is None or few_other is None or many_other is None:
            return [what, MISSING, ""]
        parts = []
        for name in COMPARED:
            own, others = few.minus(many, name), few_other.minus(many_other, name)
            extra = [mine - theirs for mine, theirs in zip(own, others, strict=True)]
            parts.append(f"{interval(extra, name)} {MEASURES[name]}")
            middle, half = student(extra)
            less[sampling] = less.get(sampling, True) and middle > -half
        told.append(f"{sampling} {', '.join(parts)}")
    shown = f"what T = 4 instead of 32 changes on Fashion-MNIST, SQUAD's minus Maxout's: {'; '.join(told)}"
    verdict = "yes" if less["hard"] else "**no** with hard samples"
    if not less["hard"]:
        verdict += ", but with stratified ones" if less["stratified"] else ""
    return [what, shown, verdict]


def _linear(sources: Sources) -> list[str]:
    what = "Cost and the number of weights are linear in C"
    few, many = sources.record("figures/bins/15"), sources.record("figures/bins/63")
    if few is None or many is None:
        return [what, MISSING, ""]
    weights = many.results["weights"] / few.results["weights"]
    seconds = many.results["probes"]["epoch"]["median"] / few.results["probes"]["epoch"]["median"]
    told = (
        f"63 bins instead of 15, {63 / 15:.1f} times as many, take {weights:.2f} times the weights and {seconds:.2f} "
        "times the time of an epoch, which for networks as small as these is mostly not spent on bins"
    )
    return [what, told, "weights: yes; time: at most" if seconds < 63 / 15 else "**no**"]


def _epoch(sources: Sources) -> list[str]:
    what = "On SVHN an epoch of SQUAD-factorized takes less time than one of Maxout (9 s against 13 s on a Titan XP)"
    ours, maxout = (sources.record(f"table3/{name}") for name in ("squad-factorized", "maxout-dropout"))
    if ours is None or maxout is None:
        return [what, MISSING, ""]
    one, other = (record.results["probes"]["epoch"] for record in (ours, maxout))
    told = (
        f"{one['median']:.3f} s in batches of {one['batch_size']} against {other['median']:.3f} s in batches of "
        f"{other['batch_size']} on one {ours.machine.get('gpu') or ours.machine['cpu']}"
    )
    return [what, told, _yes(one["median"] < other["median"])]


def _first(record: Record, measure: str) -> float:
    each: list[dict[str, Any]] = record.results["ways"][0]["each"]
    return statistics.fmean(one[measure] for one in each)
