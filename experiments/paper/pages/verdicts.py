"""What was aimed at, and in short what came of it: from records alone."""

import statistics

from experiments.paper.pages.markdown import MEASURES, interval, number, student, table
from experiments.paper.pages.result_tables import Variant
from experiments.paper.sources import Sources

__all__ = ["BETTER", "COMPARED", "MISSING", "aims", "mean", "standing", "summary", "where", "whole", "yes"]

#: What the factorized network is to reach on SVHN, and how many weights it may have: the paper's 3.4 million + 5 %.
SVHN_AIMS = {"coverage@0.01": 0.50, "coverage@0.02": 0.64, "accuracy": 0.858}
SVHN_WEIGHTS = 3_570_000
#: In which direction a measure is better.
BETTER = {name: -1 if name == "nll" else 1 for name in MEASURES}
#: Those that are compared: at .5 % many networks have no coverage and others much, and a mean of that tells little.
COMPARED = ("coverage@0.01", "coverage@0.02")
MISSING = "not run yet"


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
        what = f"SQUAD on Fashion-MNIST, {whole(heading)}: within two of the paper's standard deviations, or better"
        for way in ("relaxed 32", "hard 32", "stratified 8"):
            variant = sources.variant("table1/squad", way)
            if variant is None or variant.row.paper is None:
                rows.append([what, MISSING, ""])
                continue
            paper, spread = variant.row.paper[place]
            ours = mean(variant, name) * (1 if name == "nll" else 100)
            shown = (
                f"{variant.way.text}: {number(mean(variant, name), name)} against {paper:g}, give or take {spread:g}"
            )
            rows.append([what, shown, yes(BETTER[name] * (ours - paper) >= -spread)])
    return rows


def whole(heading: str) -> str:
    """A heading that makes sense by itself."""
    return f"coverage {heading}" if heading.startswith("at ") else heading


def _order(sources: Sources) -> list[list[str]]:
    rows = []
    for first, second in (("squad", "mlp"), ("maxout-dropout", "mlp"), ("mlp", "dlgm")):
        for name in COMPARED:
            one, other = sources.variant(f"table1/{first}"), sources.variant(f"table1/{second}")
            labels = {row.name.partition("/")[2]: row.label for row in sources.plan("table1").rows}
            what = f"{labels[first]} ahead of {labels[second]} on Fashion-MNIST, {whole(MEASURES[name])}"
            if one is None or other is None:
                rows.append([what, MISSING, ""])
                continue
            shown = f"{number(mean(one, name))} against {number(mean(other, name))}"
            rows.append([what, shown, yes(mean(one, name) > mean(other, name))])
    return rows


def _svhn(sources: Sources) -> list[list[str]]:
    ours = sources.variant("table3/squad-factorized", "relaxed 32")
    plain = sources.variant("table3/squad", "relaxed 32")
    rows = []
    for name, aim in SVHN_AIMS.items():
        what = f"SQUAD-factorized on SVHN, {whole(MEASURES[name])}: {number(aim)} at least"
        if ours is None:
            rows.append([what, MISSING, ""])
        else:
            rows.append([what, f"{ours.way.text}: {number(mean(ours, name))}", yes(mean(ours, name) >= aim)])
    for name in COMPARED:
        what = f"SQUAD-factorized ahead of SQUAD on SVHN, coverage {MEASURES[name]}"
        if ours is None or plain is None:
            rows.append([what, MISSING, ""])
        else:
            shown = f"{number(mean(ours, name))} against {number(mean(plain, name))}"
            rows.append([what, shown, yes(mean(ours, name) > mean(plain, name))])
    what = f"SQUAD-factorized with {SVHN_WEIGHTS:,} weights at the most (kept by the space that was searched)"
    if ours is None:
        rows.append([what, MISSING, ""])
    else:
        weights = ours.record.results["weights"]
        rows.append([what, f"{weights:,}", yes(weights <= SVHN_WEIGHTS)])
    return rows


def yes(good: bool) -> str:
    """A verdict in a word."""
    return "yes" if good else "**no**"


# -- in short


def summary(sources: Sources) -> str:
    """A point for each data set: SQUAD beside the paper, and beside Maxout MC dropout; then how that is meant."""
    told = []
    for name, data in (("table1", "Fashion-MNIST"), ("table2", "notMNIST"), ("table3", "SVHN")):
        rows = "squad-factorized" if name == "table3" else "squad"
        one, other = sources.variant(f"{name}/{rows}", "relaxed 32"), sources.variant(f"{name}/maxout-dropout")
        if one is None or one.row.paper is None:
            told.append(f"- On {data} nothing can be said yet.")
            continue
        places = [list(MEASURES).index(key) for key in COMPARED]
        told.append(
            f"- On {data} {one.row.label} has a coverage of "
            + " and ".join(
                f"{number(mean(one, key))} {MEASURES[key]} (the paper's: {one.row.paper[place][0]:g})"
                for key, place in zip(COMPARED, places, strict=True)
            )
            + ("" if other is None else f"; {_beside(one, other)}")
            + "."
        )
    if len(told) == sum("nothing can be said" in line for line in told):
        return "\n".join(told)
    told.append(
        "\nAll of SQUAD by relaxed samples, T = 32. Intervals are over seeds and splits, not over test rows, nor over "
        "searches that might have been."
    )
    return "\n".join(told)


def _beside(one: Variant, other: Variant) -> str:
    """A network beside another: single ones in pairs, then ensembles."""
    parts = [f"{interval(one.minus(other, key), key)} {MEASURES[key]}" for key in COMPARED]
    ensembles = " and ".join(
        f"{number(one.ensemble[key])} against {number(other.ensemble[key])} {MEASURES[key]}" for key in COMPARED
    )
    return (
        f"with single networks it is {where(one, other)} (difference of pairs with a 95 % interval: "
        f"{', '.join(parts)}), and as ensembles of {len(one.each)} they have {ensembles}"
    )


def where(one: Variant, other: Variant, behind: str = "behind") -> str:
    """Where the first stands to the second, in words: by each figure if they disagree."""
    words = {1: "ahead of", 0: "not clearly apart from", -1: behind}
    found = [standing(one, other, key) for key in COMPARED]
    if len(set(found)) == 1:
        return f"{words[found[0]]} {other.row.label}"
    return " and ".join(
        f"{words[each]} {other.row.label} {MEASURES[key]}" for key, each in zip(COMPARED, found, strict=True)
    )


def standing(one: Variant, other: Variant, name: str) -> int:
    """1 if the first is ahead by a measure, beyond a 95 % interval; -1 if it is behind; 0 if neither."""
    middle, half = student(one.minus(other, name))
    return (middle > half) - (middle < -half)
