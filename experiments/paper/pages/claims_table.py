"""What the paper says in its text, each sentence beside what was measured: from records alone."""

from collections.abc import Sequence
from typing import NamedTuple

from experiments.paper.jobs.plan import TABLES
from experiments.paper.pages import structure
from experiments.paper.pages.markdown import MEASURES, interval, number, student, table
from experiments.paper.pages.result_tables import Variant
from experiments.paper.pages.verdicts import BETTER, COMPARED, MISSING, mean, standing, where, whole, yes
from experiments.paper.sources import Sources

__all__ = ["claims"]

#: Two sentences of the paper's, each about SQUAD beside others.
HELD_OUT = "SQUAD exhibits strong performance on a held-out data set (notMNIST) without tuning for it"
BETTER_THAN = "SQUAD is significantly better than plain MLPs and deep Gaussian information bottlenecks"
#: So many cells are named one by one, at the most.
NAMED = 3


def claims(sources: Sources) -> str:
    """A table: what the paper says, what was measured, and whether that agrees."""
    rows = [
        _maxout(sources),
        _against(sources, "table2", ("mlp", "maxout-dropout"), HELD_OUT),
        _against(sources, "table1", ("mlp", "dlgm"), BETTER_THAN),
        _ensembles(sources),
        _adversarial(sources),
        _relu(sources),
        _response(sources),
        *structure.rows(sources),
        _factorized(sources),
        _efficiency(sources),
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
    words = {1: "more than that: significant", 0: "open", -1: "**no**, Maxout is ahead"}
    each = [words[standing(there[0], other, key)] for key in COMPARED]
    apart = (f"{MEASURES[key]}: {verdict}" for key, verdict in zip(COMPARED, each, strict=True))
    return [what, f"SQUAD minus Maxout, {told}", each[0] if len(set(each)) == 1 else "; ".join(apart)]


def _against(sources: Sources, table: str, names: Sequence[str], what: str) -> list[str]:
    """SQUAD minus each of some others of a table, and where it stands to each."""
    one = sources.variant(f"{table}/squad", "relaxed 32")
    others = [sources.variant(f"{table}/{name}") for name in names]
    there = [other for other in others if other is not None]
    if one is None or len(there) < len(others):
        return [what, MISSING, ""]
    told = "; ".join(f"minus {other.row.label}: {_intervals(one, other, COMPARED)}" for other in there)
    return [what, told, ", ".join(where(one, other, "**behind**") for other in there)]


def _intervals(one: Variant, other: Variant, names: Sequence[str]) -> str:
    return ", ".join(f"{whole(MEASURES[name])} {interval(one.minus(other, name), name)}" for name in names)


def _ensembles(sources: Sources) -> list[str]:
    what = "Deep ensembles improve results for all methods"
    rows = [one for name in TABLES for one in sources.measured(name) if one.record is not None]
    # The paper's rows, then those that are in our tables alone: each asked in its first way.
    groups = [[one.variants()[0] for one in rows if bool(one.row.group) == further] for further in (False, True)]
    if not groups[0]:
        return [what, MISSING, ""]
    told, verdicts = [], []
    for words, firsts in zip(("rows of the paper's tables", "further rows"), groups, strict=True):
        if not firsts:
            continue
        low, others = _gains(firsts, ["coverage@0.005"]), _gains(firsts, list(MEASURES)[1:])
        told.append(
            f"{len(firsts)} {words}: coverage at .5 % better than the mean of its networks in {low.text}; the other "
            f"figures in {others.text}"
        )
        always = "always" if not others.worse else f"in {others.better} of {others.cells} cells"
        if words == "further rows":
            verdicts.append(f"further rows: {always}")
        else:
            verdicts.append(("**no**: " + always if others.worse else "yes") + ", but for coverage at .5 %" * low.worse)
    told.append(
        "Where some networks have a coverage of 0 and others much, as at .5 %, their mean is a mixture. An ensemble "
        "draws as many samples as all of its networks together"
    )
    return [what, ". ".join(told), "; ".join(verdicts)]


class _Gains(NamedTuple):
    """In how many cells ensembles are better than the mean of their networks, whether worse in any; all in words."""

    better: int
    cells: int
    worse: bool
    text: str


def _gains(firsts: Sequence[Variant], names: Sequence[str]) -> _Gains:
    gains = [(one, key, one.ensemble[key] - mean(one, key)) for one in firsts for key in names]
    worse = [(one, key, gain) for one, key, gain in gains if BETTER[key] * gain < 0]
    same = sum(gain == 0 for _, _, gain in gains)
    better = len(gains) - len(worse) - same
    text = f"{better} of {len(gains)} cells, equal in {same}, worse in {len(worse)}"
    if 0 < len(worse) <= NAMED:
        text += f" ({'; '.join(_cell(*cell) for cell in worse)})"
    return _Gains(better, len(gains), bool(worse), text)


def _cell(one: Variant, measure: str, gain: float) -> str:
    plan, _, _ = one.row.name.partition("/")
    name = f"{one.row.label} in {plan.replace('table', 'table ')}"
    return f"{name}, {whole(MEASURES[measure])}: {number(gain, measure, sign=True)}"


def _adversarial(sources: Sources) -> list[str]:
    what = "(Not of the paper's: deep ensembles were proposed with adversarial training)"
    told, words, sizes = [], [], []
    for name in ("mlp", "maxout-dropout", "dlgm", "squad"):
        one, other = sources.variant(f"table1/{name}-adversarial"), sources.variant(f"table1/{name}")
        if one is None or other is None:
            return [what, MISSING, ""]
        gains = [one.ensemble[key] - other.ensemble[key] for key in COMPARED]
        shown = (f"{number(gain, sign=True)} {MEASURES[key]}" for key, gain in zip(COMPARED, gains, strict=True))
        told.append(f"{other.row.label}: {', '.join(shown)}")
        words.append(min(gains) > 0)
        sizes.append(len(one.each))
    return [
        what,
        f"what it changes in the coverage of ensembles of {max(sizes)} on Fashion-MNIST: {'; '.join(told)}. Settings "
        "are those found without it",
        "coverage at 1 and 2 %: "
        + (
            "it helps" if all(words) else f"it helps {sum(words)} of {len(words)}" if any(words) else "it does not help"
        ),
    ]


def _relu(sources: Sources) -> list[str]:
    what = "Maxout is a stronger MC dropout than ReLU with equally many units"
    maxout, relu = (sources.variant(f"table1/{name}") for name in ("maxout-dropout", "relu-dropout"))
    if maxout is None or relu is None:
        return [what, MISSING, ""]
    weights = f"with {maxout.record.results['weights']:,} weights against {relu.record.results['weights']:,}"
    told = f"Maxout minus ReLU: {_intervals(maxout, relu, COMPARED)}; {weights}"
    return [what, told, yes(all(standing(maxout, relu, key) == 1 for key in COMPARED))]


def _response(sources: Sources) -> list[str]:
    what = "Softmax response serves MC dropout better than variance"
    told: list[str] = []
    cells: dict[int, list[str]] = {1: [], 0: [], -1: []}
    for name, data in (
        ("table1/maxout-dropout", "Fashion-MNIST"),
        ("table1/relu-dropout", "Fashion-MNIST"),
        ("table2/maxout-dropout", "notMNIST"),
        ("table3/maxout-dropout", "SVHN"),
    ):
        response, variance = (sources.variant(name, way) for way in ("sample 32", "sample 32 by variance"))
        if response is not None and variance is not None:
            told.append(f"{response.row.label} on {data} {_intervals(response, variance, COMPARED)}")
            for key in COMPARED:
                cells[standing(response, variance, key)].append(f"{response.row.label} on {data} {MEASURES[key]}")
    if not told:
        return [what, MISSING, ""]
    better, undecided, worse = cells.values()
    verdict = [yes(len(better) > len(undecided) and not worse)]
    if undecided or worse:
        verdict[0] += f", in {len(better)} of {sum(map(len, cells.values()))} cells"
    if undecided:
        verdict.append(f"open: {', '.join(undecided)}")
    if worse:
        verdict.append(f"**worse**: {', '.join(worse)}")
    return [what, f"response minus variance: {'; '.join(told)}", "; ".join(verdict)]


def _factorized(sources: Sources) -> list[str]:
    what = (
        "On SVHN quantization might hinder SQUAD, which SQUAD-factorized, using a larger amount of bins, effectively "
        "compensates"
    )
    plain, ours = (sources.variant(f"table3/{name}", "relaxed 32") for name in ("squad", "squad-factorized"))
    maxout = sources.variant("table3/maxout-dropout")
    if plain is None or ours is None or maxout is None:
        return [what, MISSING, ""]
    pairs = ((plain, maxout), (ours, plain), (ours, maxout))
    told = (f"{one.row.label} minus {other.row.label}: {_intervals(one, other, COMPARED)}" for one, other in pairs)
    sizes = (
        f"{one.row.label} has {one.record.settings['fit']['network']['bins']} bins and "
        f"{one.record.results['weights']:,} weights"
        for one in (plain, ours)
    )
    stand = (f"{one.row.label} is {where(one, other)}" for one, other in pairs)
    return [what, "; ".join((*told, *sizes)), "; ".join(stand)]


def _efficiency(sources: Sources) -> list[str]:
    what = "SQUAD's results suffer less from few samples than MC dropout's"
    pairs = {
        "Fashion-MNIST": ("figures/samples-squad", "figures/samples-maxout-dropout", ("hard", "relaxed", "stratified")),
        "SVHN": ("table3/squad", "table3/maxout-dropout", ("hard", "relaxed")),
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


def _epoch(sources: Sources) -> list[str]:
    what = (
        "On SVHN an epoch of SQUAD-factorized takes less time than one of Maxout (9 s against 13 s on a Titan XP, with "
        "3.4 million weights against 9.0)"
    )
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
    weights = [record.results["weights"] for record in (ours, maxout)]
    told += f"; with {weights[0]:,} weights against {weights[1]:,}"
    verdict = yes(one["median"] < other["median"])
    if one["batch_size"] != other["batch_size"]:
        verdict += ", each in the batches that its search chose"
    return [what, told, verdict]
