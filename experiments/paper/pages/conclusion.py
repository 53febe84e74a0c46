"""What follows from all claims, in three sentences: from records alone."""

from collections import Counter
from collections.abc import Sequence

from experiments.paper.pages.claim import VERDICTS, Claim
from experiments.paper.pages.comparison import compare, mean, within_paper
from experiments.paper.pages.markdown import MEASURES, format_value
from experiments.paper.row_results import Variant
from experiments.paper.sources import Sources

__all__ = ["conclusion"]

#: Data sets with the table and the row of SQUAD that stands for them.
DATA = {"Fashion-MNIST": "table1/squad", "notMNIST": "table2/squad", "SVHN": "table3/squad-factorized"}
#: Measure of the conclusion.
MEASURE = "coverage@0.01"


def conclusion(sources: Sources, claims: Sequence[Claim]) -> str:
    """Return three sentences; fewer without records."""
    sentences = [_count(claims)]
    squad = {data: sources.variant(name, "relaxed 32") for data, name in DATA.items()}
    others = {
        row: {data: sources.variant(f"{name.partition('/')[0]}/{row}") for data, name in DATA.items()}
        for row in ("mlp", "maxout-dropout")
    }
    if all(squad.values()) and all(all(found.values()) for found in others.values()):
        mlp = _single(squad, others["mlp"], "a plain MLP")
        maxout = _single(squad, others["maxout-dropout"], "Maxout MC dropout")
        sentences += [
            f"At a risk of 1 %, a single SQUAD network (on SVHN: SQUAD-factorized) is {mlp}; it is {maxout}"
            f"{_shortfall(squad)}.",
            _ensembles(squad, others["maxout-dropout"]),
        ]
    return " ".join(sentences)


def _count(claims: Sequence[Claim]) -> str:
    counts = Counter(claim.verdict for claim in claims)
    is_or_are = "is" if counts["not tested"] == 1 else "are"
    words = {"holds": "hold", "partly": "hold partly", "fails": "fail", "not tested": f"{is_or_are} not tested"}
    parts = [f"{counts[verdict]} {words[verdict]}" for verdict in VERDICTS if counts[verdict]]
    return f"Of {len(claims)} claims of the paper, {_join(parts)}."


def _single(squad: dict[str, Variant | None], other: dict[str, Variant | None], name: str) -> str:
    """Compare single networks on each data set; sets with the same result are named together."""
    words = {1: "ahead of", 0: "level with", -1: "behind"}
    by_sign: dict[int, list[str]] = {}
    for data, one in squad.items():
        second = other[data]
        assert one is not None
        assert second is not None
        by_sign.setdefault(compare(one, second, MEASURE), []).append(data)
    if len(by_sign) == 1:
        return f"{words[next(iter(by_sign))]} {name} on all three data sets"
    return ", ".join(
        f"{words[sign]} {'it' if place else name} on {_join(sets)}"
        for place, (sign, sets) in enumerate(by_sign.items())
    )


def _ensembles(squad: dict[str, Variant | None], maxout: dict[str, Variant | None]) -> str:
    parts, sizes = [], []
    for data, one in squad.items():
        other = maxout[data]
        assert one is not None
        assert other is not None
        sizes.append(len(one.networks))
        ours, theirs = (format_value(each.ensemble[MEASURE]) for each in (one, other))
        parts.append(f"{ours} % ({theirs} %) on {data}")
    return (
        f"Ensembles of {max(sizes)} SQUAD networks, on SVHN SQUAD-factorized (of Maxout MC dropout), accept "
        f"{_join(parts)}."
    )


def _shortfall(squad: dict[str, Variant | None]) -> str:
    """Name the data sets on which SQUAD is outside two standard deviations below the paper's coverage."""
    parts = []
    for data, one in squad.items():
        assert one is not None
        if one.row.paper is not None and within_paper(one, MEASURE) is False:
            published = one.row.paper[list(MEASURES).index(MEASURE)][0]
            parts.append(f"on {data} it accepts {format_value(mean(one, MEASURE))} %, the paper's {published:g} %")
    return f"; {_join(parts)}" if parts else ""


def _join(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
