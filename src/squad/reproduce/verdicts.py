"""What was aimed at and what the paper claims, each beside what was measured: from records alone."""

import statistics
from collections.abc import Sequence
from typing import Any

from squad.records import Record
from squad.reproduce.markdown import MEASURES, number, table
from squad.reproduce.plan import TABLES
from squad.reproduce.sources import Sources
from squad.reproduce.tables import Variant

__all__ = ["aims", "claims"]

#: What the factorized network is to reach on SVHN, and how many weights it may have: the paper's 3.4 million + 5 %.
SVHN_AIMS = {"coverage@0.01": 0.50, "coverage@0.02": 0.64, "accuracy": 0.858}
SVHN_WEIGHTS = 3_570_000
#: In which direction a measure is better.
BETTER = {name: -1 if name == "nll" else 1 for name in MEASURES}
MISSING = "not run yet"


def mean(variant: Variant, measure: str) -> float:
    """Over its networks."""
    return statistics.fmean(variant.values(measure))


def aims(sources: Sources) -> str:
    """A table: the aim, what was reached, whether that is it."""
    rows = [*_near_the_paper(sources), *_order(sources), *_svhn(sources)]
    return table(["aim", "reached", ""], rows)


def _near_the_paper(sources: Sources) -> list[list[str]]:
    variant = sources.variant("table1/squad", "relaxed 32")
    rows = []
    for place, (name, heading) in enumerate(MEASURES.items()):
        if name == "coverage@0.005":
            continue  # no aim: its spread is a quarter of all rows
        what = (
            f"SQUAD on Fashion-MNIST, {_whole(name, heading)}: within two of the paper's standard deviations, or better"
        )
        if variant is None or variant.row.paper is None:
            rows.append([what, MISSING, ""])
            continue
        paper, spread = variant.row.paper[place]
        ours = mean(variant, name) * (1 if name == "nll" else 100)
        good = BETTER[name] * (ours - paper) >= -spread
        shown = f"{number(mean(variant, name), name)} against {paper:g} ({spread:g})"
        rows.append([what, shown, _yes(good)])
    return rows


def _whole(name: str, heading: str) -> str:
    return f"coverage {heading}" if heading.startswith("at ") else heading


def _order(sources: Sources) -> list[list[str]]:
    rows = []
    for first, second in (("squad", "mlp"), ("maxout-dropout", "mlp"), ("mlp", "dlgm")):
        for name in ("coverage@0.01", "coverage@0.02"):
            one, other = sources.variant(f"table1/{first}"), sources.variant(f"table1/{second}")
            if one is None or other is None:
                rows.append([f"{first} ahead of {second}", MISSING, ""])
                continue
            what = f"{one.row.label} ahead of {other.row.label}, coverage {MEASURES[name]}"
            shown = f"{number(mean(one, name))} against {number(mean(other, name))}"
            rows.append([what, shown, _yes(mean(one, name) > mean(other, name))])
    return rows


def _svhn(sources: Sources) -> list[list[str]]:
    ours = sources.variant("table3/squad-factorized", "relaxed 32")
    plain = sources.variant("table3/squad", "relaxed 32")
    rows = []
    for name, aim in SVHN_AIMS.items():
        what = f"SQUAD-factorized on SVHN, {_whole(name, MEASURES[name])}: {number(aim)} at least"
        rows.append(
            [what, MISSING, ""] if ours is None else [what, number(mean(ours, name)), _yes(mean(ours, name) >= aim)]
        )
    for name in ("coverage@0.01", "coverage@0.02"):
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


def claims(sources: Sources) -> str:
    """A table: what the paper says, what was measured, and whether that agrees."""
    rows = [
        _modes(sources),
        _ensembles(sources),
        _relu(sources),
        _response(sources),
        _depth(sources),
        _bottleneck(sources),
        _efficiency(sources),
        _linear(sources),
        _epoch(sources),
    ]
    return table(["the paper says", "measured", ""], rows)


def _modes(sources: Sources) -> list[str]:
    record = sources.record("figures/latents")
    what = "Predicted distributions are multimodal, not one peak each"
    if record is None:
        return [what, MISSING, ""]
    shares = {one["layer"]: sum(one["modes"][1:]) for one in record.results["probes"]["stereotypes"]}
    told = ", ".join(f"layer {layer}: {number(share)} % have two modes or more" for layer, share in shares.items())
    return [what, told, _yes(min(shares.values()) > 0.1)]


def _ensembles(sources: Sources) -> list[str]:
    what = "Deep ensembles improve results for all methods"
    cells = better = 0
    for name in TABLES:
        for variant in (variant for one in sources.measured(name) for variant in one.variants()):
            for key in MEASURES:
                cells += 1
                better += BETTER[key] * (variant.ensemble[key] - mean(variant, key)) >= 0
    if not cells:
        return [what, MISSING, ""]
    return [
        what,
        f"better or equal in {better} of {cells} cells",
        "yes" if better == cells else "nearly" if better > 0.95 * cells else "**no**",
    ]


def _relu(sources: Sources) -> list[str]:
    what = "Maxout is a stronger MC dropout than ReLU with equally many units"
    maxout, relu = (sources.variant(f"table1/{name}") for name in ("maxout-dropout", "relu-dropout"))
    if maxout is None or relu is None:
        return [what, MISSING, ""]
    return _compared(what, maxout, relu, ("coverage@0.01", "coverage@0.02"))


def _response(sources: Sources) -> list[str]:
    what = "Softmax response serves MC dropout better than variance"
    response, variance = (
        sources.variant("table1/maxout-dropout", way) for way in ("sample 32", "sample 32 by variance")
    )
    if response is None or variance is None:
        return [what, MISSING, ""]
    return _compared(what, response, variance, ("coverage@0.005", "coverage@0.01", "coverage@0.02"))


def _compared(what: str, one: Variant, other: Variant, names: Sequence[str]) -> list[str]:
    told = "; ".join(
        f"{_whole(name, MEASURES[name])} {number(mean(one, name))} against {number(mean(other, name))}"
        for name in names
    )
    return [what, told, _yes(all(mean(one, name) > mean(other, name) for name in names))]


def _depth(sources: Sources) -> list[str]:
    what = "Self-normalizing: no batch normalization is needed"
    found = {depth: sources.record(f"figures/depth-squad/{'x'.join(['32'] * depth)}") for depth in range(1, 9)}
    if any(record is None for record in found.values()):
        return [what, MISSING, ""]
    accuracy = {depth: _first(record, "accuracy") for depth, record in found.items() if record is not None}
    deep = found[8]
    assert deep is not None
    before = [statistics.fmean(layer["std"]) for layer in deep.results["probes"]["spread"]["before"][:-1]]
    told = (
        f"before training the spread of activations stays between {min(before):.2f} and {max(before):.2f} over eight "
        f"layers; accuracy with 1, 2, ... 8 layers is {', '.join(number(share) for share in accuracy.values())} %"
    )
    return [what, told, _yes(min(accuracy.values()) > max(accuracy.values()) - 0.02)]


def _bottleneck(sources: Sources) -> list[str]:
    what = "The number of bins bounds the bits a latent carries, and controls that bottleneck"
    bins = [3, 5, 7, 9, 11, 15, 21, 31, 45, 63]
    found = [sources.record(f"figures/bins/{count}") for count in bins]
    kept = [record for record in found if record is not None]
    if len(kept) < len(found):
        return [what, MISSING, ""]
    bits = [statistics.fmean(record.results["probes"]["information"][0]["mean"]) for record in kept]
    told = (
        f"with C = 3, 15 and 63 a latent of the first layer carries {bits[0]:.2f}, {bits[5]:.2f} and {bits[-1]:.2f} "
        f"bits of at most {1.58:.2f}, {3.91:.2f} and {5.98:.2f}; coverage at 2 % is "
        f"{number(_first(kept[0], 'coverage@0.02'))}, {number(_first(kept[5], 'coverage@0.02'))} and "
        f"{number(_first(kept[-1], 'coverage@0.02'))}"
    )
    return [what, told, _yes(bits[0] < bits[5] <= bits[-1] + 0.05)]


def _efficiency(sources: Sources) -> list[str]:
    what = "SQUAD suffers less from few samples than MC dropout"
    squad, maxout = sources.record("figures/samples-squad"), sources.record("figures/samples-maxout-dropout")
    if squad is None or maxout is None:
        return [what, MISSING, ""]

    def loss(record: Record, sampling: str) -> tuple[float, str]:
        ways = {way["samples"]: way["each"] for way in record.results["ways"] if way["sampling"] == sampling}
        few, many = (statistics.fmean(one["coverage@0.02"] for one in ways[samples]) for samples in (4, 32))
        return many - few, f"{number(few)} against {number(many)}"

    told = {
        "SQUAD, relaxed": loss(squad, "relaxed"),
        "hard": loss(squad, "hard"),
        "stratified": loss(squad, "stratified"),
        "Maxout": loss(maxout, "sample"),
    }
    shown = "; ".join(f"{name} {text}" for name, (_, text) in told.items())
    return [
        what,
        f"coverage at 2 % on Fashion-MNIST with T = 4 against T = 32: {shown}",
        _yes(told["SQUAD, relaxed"][0] < told["Maxout"][0]),
    ]


def _linear(sources: Sources) -> list[str]:
    what = "Cost and weights are linear in C"
    found = {count: sources.record(f"figures/bins/{count}") for count in (15, 63)}
    few, many = found[15], found[63]
    if few is None or many is None:
        return [what, MISSING, ""]
    weights = many.results["weights"] / few.results["weights"]
    seconds = many.results["probes"]["epoch"]["median"] / few.results["probes"]["epoch"]["median"]
    told = (
        f"63 bins instead of 15, 4.2 times as many, take {weights:.2f} times the weights and {seconds:.2f} times the "
        "time of an epoch"
    )
    return [what, told, _yes(weights < 4.2 and seconds < 4.2)]


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
