"""Tables of an experiment, in Markdown, from its records and the paper's figures alone."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.paper.jobs.measure import DEFAULT, RISKS
from experiments.paper.jobs.plan import MissingStudyError, Plan, Row, Way
from experiments.paper.jobs.run import record_path
from experiments.paper.pages.markdown import MEASURES, difference, interval, mean_and_spread, number, table
from squad.records import Record, RecordError

__all__ = [
    "Measured",
    "Variant",
    "against_paper",
    "certificates",
    "compared",
    "ensembles",
    "load",
    "paired",
    "scores_compared",
    "settings",
]


@dataclass(frozen=True)
class Measured:
    """A row, and its record if there is one; ``other``: whether there is one of other settings, which is none of it."""

    row: Row
    record: Record | None
    other: bool = False

    def variants(self) -> list["Variant"]:
        """One for each way in which it was asked."""
        if self.record is None:
            return []
        return [Variant(self.row, way, self.record) for way in self.record.results["ways"]]


@dataclass(frozen=True)
class Variant:
    """A row, asked in one way."""

    row: Row
    content: Mapping[str, Any]
    record: Record

    @property
    def way(self) -> Way:
        """Which."""
        return Way(self.content["sampling"], self.content["samples"], self.content["confidence"])

    @property
    def each(self) -> list[dict[str, Any]]:
        """Figures of each network."""
        return list(self.content["each"])

    @property
    def ensemble(self) -> dict[str, Any]:
        """Figures of all together."""
        return dict(self.content["ensemble"])

    def values(self, measure: str) -> list[float]:
        """One a network."""
        return [one[measure] for one in self.each]

    def minus(self, other: "Variant", measure: str) -> list[float]:
        """The differences between networks with the same seed and split."""
        theirs = {each["seed"]: each[measure] for each in other.each}
        return [each[measure] - theirs[each["seed"]] for each in self.each if each["seed"] in theirs]

    @property
    def label(self) -> str:
        """With the way, unless it is the one that networks of its kind are usually asked in."""
        usual = self.way in (Way("mean", 1), Way("sample", 32))
        return self.row.label if usual else f"{self.row.label}, {self.way.text}"


def load(plan: Plan, results: Path) -> list[Measured]:
    """The rows of a plan, with what was measured of them; a record of other settings than the plan's is not theirs."""
    return [_measured(plan, row, record_path(results, row.name)) for row in plan.rows]


def _measured(plan: Plan, row: Row, path: Path) -> Measured:
    try:
        asked = plan.job(row).described()  # whether there is a record or not: what is wrong in a plan is told
    except MissingStudyError:  # and with it what a record should be compared with
        asked = None
    if not path.exists():
        return Measured(row, None)
    record = Record.load(path)
    if record.settings != asked:
        return Measured(row, None, other=True)
    wrong = _wrong(record, row)
    if wrong:
        raise RecordError(
            f"{path} must be the record of an experiment; {wrong}. Delete it, and the same command makes it again."
        )
    return Measured(row, record)


def _wrong(record: Record, row: Row) -> str:
    """What a record lacks, in words; nothing if it has all that pages are made of."""
    results = record.results if isinstance(record.results, Mapping) else {}
    kinds: dict[str, Any] = {
        "ways": list, "members": list, "notes": list, "weights": int, "seconds": (int, float),
    }  # fmt: skip
    for name, kind in kinds.items():
        if not isinstance(results.get(name), kind):
            return f"its {name} are {results.get(name)!r}"
    probes = results.get("probes") or {}  # of a row without any there need be none
    lacking = [name for name in record.settings["probes"] if name not in (*probes, "curves")]
    if lacking:
        return f"it has no {lacking[0]}"
    asked = [[way.sampling, way.samples, way.confidence] for way in row.ways]
    told = [[way.get(key) for key in ("sampling", "samples", "confidence")] for way in results["ways"]]
    if told != asked:
        return f"its ways are {told}, not {asked}"
    for place, way in enumerate(results["ways"], 1):
        each = way.get("each")
        if not isinstance(each, list) or not each:
            return f"its way {place} has no networks"
        named = [*((f"network {count}", one) for count, one in enumerate(each, 1)), ("ensemble", way.get("ensemble"))]
        for name, figures in named:
            if wrong := _wrong_figures(figures, bool(record.settings["halves"]), name != "ensemble"):
                return f"{wrong} of {name} in its way {place}"
    return ""


def _wrong_figures(figures: Any, halves: bool, seeded: bool) -> str:
    """The same of one predictor."""
    if not isinstance(figures, Mapping):
        return f"{figures!r} in the place of the figures"
    names = [*MEASURES, "aurc", *(f"default@{risk}" for risk in RISKS), *(["seed"] if seeded else [])]
    for name in names:
        value = figures.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return f"{value!r} as {name}"
    if halves:
        for risk in RISKS:
            found = figures.get(f"halves@{risk}")
            if not isinstance(found, Mapping) or not {"sgr", DEFAULT} <= found.keys():
                return f"{found!r} as halves@{risk}"
    return ""


def _variants(measured: Sequence[Measured], groups: Sequence[str]) -> list[Variant]:
    return [variant for one in measured if one.row.group in groups for variant in one.variants()]


def against_paper(measured: Sequence[Measured], groups: Sequence[str] = ("",), *, differences: bool = True) -> str:
    """For every row and way: the paper's figures, ours, and the difference in the paper's standard deviations."""
    rows = [
        [f"**{label}**, paper" if who == "paper" else label, *cells]
        for label, who, cells in compared(measured, groups, differences=differences)
    ]
    return table(["", *MEASURES.values()], rows)


def compared(
    measured: Sequence[Measured], groups: Sequence[str] = ("",), *, differences: bool = True
) -> list[tuple[str, str, list[str]]]:
    """The same as rows: a label, whose figures they are ("paper", "ours" or "difference"), and the cells."""
    rows: list[tuple[str, str, list[str]]] = []
    told: list[Any] = []  # a row of the paper that several of ours are set beside is told once, by its own name
    for one in measured:
        if one.row.group not in groups:
            continue
        shown = one.row.paper
        if shown is not None and shown not in told:
            rows.append((one.row.label.partition(",")[0], "paper", _published(shown)))
            told.append(shown)
        for variant in one.variants():
            if variant.way.confidence != "response":
                continue
            paper = one.row.published(variant.way)
            if paper is not None and paper != shown:
                rows.append((f"{one.row.label}, T = {variant.way.samples}", "paper", _published(paper)))
            shown = paper
            found = [mean_and_spread(variant.values(name), name) for name in MEASURES]
            rows.append((f"{variant.label}, ours", "ours", found))
            if paper is not None and differences:
                apart = [
                    difference(variant.values(name), figures, name)
                    for name, figures in zip(MEASURES, paper, strict=True)
                ]
                rows.append(("difference", "difference", apart))
        if one.record is None:
            rows.append((f"{one.row.label}, ours", "ours", ["not run yet"] * len(MEASURES)))
    return rows


def _published(figures: Sequence[Sequence[float]]) -> list[str]:
    """As the paper prints them, with its numbers of decimals."""
    found = []
    for name, (mean, *spread) in zip(MEASURES, figures, strict=True):
        digits = (3, 3) if name == "nll" else (1, 2)
        found.append(f"{mean:.{digits[0]}f}" + "".join(f" ({each:.{digits[1]}f})" for each in spread))
    return found


def ensembles(measured: Sequence[Measured], groups: Sequence[str] = ("",)) -> str:
    """Deep ensembles: the paper's, ours, and how much better than its single networks ours is."""
    rows: list[list[str]] = []
    told: list[Any] = []
    for one in measured:
        if one.row.group not in groups:
            continue
        if one.row.paper_ensemble is not None and one.row.paper_ensemble not in told:
            rows.append([f"**{one.row.label.partition(',')[0]}**, paper", *_published(one.row.paper_ensemble)])
            told.append(one.row.paper_ensemble)
        for variant in one.variants():
            if variant.way.confidence != "response":
                continue
            together = variant.ensemble
            single = {name: statistics.fmean(variant.values(name)) for name in MEASURES}
            rows.append([f"{variant.label}, ours", *(number(together[name], name) for name in MEASURES)])
            gains = [number(together[name] - single[name], name, sign=True) for name in MEASURES]
            rows.append([f"minus the mean of its {len(variant.each)}", *gains])
        if one.record is None:
            rows.append([f"{one.row.label}, ours", *["not run yet"] * len(MEASURES)])
    return table(["", *MEASURES.values()], rows)


def paired(pairs: Sequence[tuple[Variant, Variant]]) -> str:
    """The first minus the second, over networks with the same seed and split."""
    rows = []
    for one, other in pairs:
        if one.minus(other, "accuracy"):
            each = [interval(one.minus(other, name), name) for name in MEASURES]
            rows.append([f"{one.label} minus {other.label}", *each])
    return table(["", *MEASURES.values()], rows)


def scores_compared(measured: Sequence[Measured]) -> str:
    """Softmax response against variance, where a row has both."""
    rows = []
    covered = [name for name in MEASURES if name.startswith("coverage")]
    for one in measured:
        ways = {
            (variant.way.sampling, variant.way.samples, variant.way.confidence): variant for variant in one.variants()
        }
        for (sampling, samples, confidence), variant in ways.items():
            if confidence != "variance" or (sampling, samples, "response") not in ways:
                continue
            response = ways[sampling, samples, "response"]
            for name, found in (("softmax response", response), ("variance", variant)):
                rows.append(
                    [
                        f"{one.row.label}, {name}",
                        *(mean_and_spread(found.values(key), key) for key in covered),
                        f"{1000 * statistics.fmean(found.values('aurc')):.2f}",
                    ]
                )
    return table(["", *(MEASURES[name] for name in covered), "AURC x 1000"], rows)


def certificates(measured: Sequence[Measured], risk: float) -> str:
    """What each method answers at a risk, on all test rows and over halves of them: means over the networks."""
    rows = []
    for variant in _variants(measured, sorted({one.row.group for one in measured})):
        for label, figures in ((variant.label, variant.each), (f"{variant.label}, ensemble", [variant.ensemble])):
            if f"halves@{risk}" not in figures[0]:
                continue
            row = [
                label,
                *(
                    number(statistics.fmean(one[f"{kind}@{risk}"] for one in figures))
                    for kind in ("coverage", "default")
                ),
            ]
            for method in ("sgr", DEFAULT):
                halves = [one[f"halves@{risk}"][method] for one in figures]
                risks = [one["risk"] for one in halves if one["risk"] is not None]
                row += [
                    number(statistics.fmean(one["coverage"] for one in halves)),
                    f"{100 * statistics.fmean(risks):.2f}" if risks else "",
                    number(statistics.fmean(one["violations"] for one in halves)),
                ]
            rows.append(row)
    heads = ["SGR", "default"]
    for method in ("SGR", "default"):
        heads += [f"{method}, halves", "its risk", "above r"]
    return table(["", *heads], rows)


def settings(measured: Sequence[Measured]) -> str:
    """Where each row's settings come from, what they are, and what they cost."""
    rows = []
    for one in measured:
        if one.record is None:
            continue
        asked, found = one.record.settings, one.record.results
        source = asked["source"]
        chosen = (
            f"best of {source['first']} trials, number {source['trial']}: {number(source['value'])} %"
            if "study" in source
            else "given"
        )
        given = {**asked["fit"].get("network", {}), **asked["fit"].get("training", {})}
        if given.get("spacing") == "gaussian":  # which has none
            given.pop("limit", None)
        members, epoch = found["members"], found.get("probes", {}).get("epoch")
        rows.append(
            [
                one.row.label,
                chosen,
                ", ".join(f"{name} {_value(value)}" for name, value in given.items() if name != "hidden"),
                f"{found['weights']:,}",
                f"{statistics.fmean(member['epochs'] for member in members):.0f}",
                f"{found['seconds']:.0f} s" + ("" if one.record.machine.get("gpu") else ", on a CPU"),
                f"{1000 * epoch['median']:.0f} ms" if epoch else "",
            ]
        )
    heads = ["", "chosen", "settings", "weights", "epochs", "training, all networks", "an epoch's steps, one network"]
    timed = any(row[-1] for row in rows)
    return table(heads if timed else heads[:-1], rows if timed else [row[:-1] for row in rows])


def _value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def of_name(measured: Sequence[Measured], name: str, way: str | None = None) -> Variant | None:
    """A row by the last part of its name, asked in a way (its first by default)."""
    for one in measured:
        if one.row.name.partition("/")[2] == name:
            for variant in one.variants():
                if way is None or variant.way == Way.parse(way):
                    return variant
    return None


#: Risks as they are written in headings.
RISK_TEXT = {risk: f"{100 * risk:g} %" for risk in RISKS}
