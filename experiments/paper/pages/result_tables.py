"""Tables of an experiment in Markdown, from its records and the paper's results."""

import statistics
from collections.abc import Sequence
from typing import Any

from experiments.paper.jobs.measure import DEFAULT_METHOD, RISKS
from experiments.paper.pages.markdown import (
    MEASURES,
    format_difference,
    format_interval,
    format_mean,
    format_value,
    table,
)
from experiments.paper.row_results import RowResult, Variant

__all__ = [
    "RISK_TEXT",
    "certificate_table",
    "comparison_rows",
    "comparison_table",
    "confidence_table",
    "ensemble_table",
    "paired_table",
    "settings_table",
]

#: Target risks as shown in headings.
RISK_TEXT = {risk: f"{100 * risk:g} %" for risk in RISKS}
#: Cell of a row without a record.
NOT_RUN = "not run yet"


def comparison_table(results: Sequence[RowResult], groups: Sequence[str] = ("",), *, differences: bool = True) -> str:
    """Compare every row and prediction mode with the paper.

    Args:
        results: Rows of a plan.
        groups: Groups of rows that are shown.
        differences: Whether to show the differences in the paper's standard deviations.
    """
    rows = [
        [f"**{label}**, paper" if kind == "paper" else label, *cells]
        for label, kind, cells in comparison_rows(results, groups, differences=differences)
    ]
    return table(["", *MEASURES.values()], rows)


def comparison_rows(
    results: Sequence[RowResult], groups: Sequence[str] = ("",), *, differences: bool = True
) -> list[tuple[str, str, list[str]]]:
    """Return the same as rows: label, kind ("paper", "ours" or "difference"), and cells."""
    rows: list[tuple[str, str, list[str]]] = []
    already_shown: list[Any] = []  # a row of the paper that several of ours are compared with is shown once
    for result in results:
        if result.row.group not in groups:
            continue
        shown = result.row.paper
        if shown is not None and shown not in already_shown:
            rows.append((result.row.label.partition(",")[0], "paper", _format_paper(shown)))
            already_shown.append(shown)
        for variant in result.variants():
            if variant.mode.confidence != "response":
                continue
            paper = result.row.paper_results(variant.mode)
            if paper is not None and paper != shown:
                rows.append((f"{result.row.label}, T = {variant.mode.samples}", "paper", _format_paper(paper)))
            shown = paper
            rows.append(
                (f"{variant.label}, ours", "ours", [format_mean(variant.values(name), name) for name in MEASURES])
            )
            if paper is not None and differences:
                cells = [
                    format_difference(variant.values(name), values, name)
                    for name, values in zip(MEASURES, paper, strict=True)
                ]
                rows.append(("difference", "difference", cells))
        if result.record is None:
            rows.append((f"{result.row.label}, ours", "ours", [NOT_RUN] * len(MEASURES)))
    return rows


def _format_paper(values: Sequence[Sequence[float]]) -> list[str]:
    """Format the paper's results with its numbers of decimals."""
    cells = []
    for name, (mean, *spread) in zip(MEASURES, values, strict=True):
        digits = (3, 3) if name == "nll" else (1, 2)
        cells.append(f"{mean:.{digits[0]}f}" + "".join(f" ({each:.{digits[1]}f})" for each in spread))
    return cells


def ensemble_table(results: Sequence[RowResult], groups: Sequence[str] = ("",)) -> str:
    """Show deep ensembles: the paper's, ours, and the gain of ours over the mean of its networks."""
    rows: list[list[str]] = []
    already_shown: list[Any] = []
    for result in results:
        row = result.row
        if row.group not in groups:
            continue
        if row.paper_ensemble is not None and row.paper_ensemble not in already_shown:
            rows.append([f"**{row.label.partition(',')[0]}**, paper", *_format_paper(row.paper_ensemble)])
            already_shown.append(row.paper_ensemble)
        for variant in result.variants():
            if variant.mode.confidence != "response":
                continue
            ensemble = variant.ensemble
            single = {name: statistics.fmean(variant.values(name)) for name in MEASURES}
            rows.append([f"{variant.label}, ours", *(format_value(ensemble[name], name) for name in MEASURES)])
            gains = [format_value(ensemble[name] - single[name], name, sign=True) for name in MEASURES]
            rows.append([f"minus the mean of its {len(variant.networks)}", *gains])
        if result.record is None:
            rows.append([f"{row.label}, ours", *[NOT_RUN] * len(MEASURES)])
    return table(["", *MEASURES.values()], rows)


def paired_table(pairs: Sequence[tuple[Variant, Variant]]) -> str:
    """Show the first minus the second of each pair, over networks with the same seed and split."""
    rows = []
    for one, other in pairs:
        if one.paired_differences(other, "accuracy"):
            cells = [format_interval(one.paired_differences(other, name), name) for name in MEASURES]
            rows.append([f"{one.label} minus {other.label}", *cells])
    return table(["", *MEASURES.values()], rows)


def confidence_table(results: Sequence[RowResult]) -> str:
    """Compare softmax response with variance, for rows that have both."""
    rows = []
    coverages = [name for name in MEASURES if name.startswith("coverage")]
    for result in results:
        by_mode = {
            (variant.mode.sampling, variant.mode.samples, variant.mode.confidence): variant
            for variant in result.variants()
        }
        for (sampling, samples, confidence), variance in by_mode.items():
            if confidence != "variance" or (sampling, samples, "response") not in by_mode:
                continue
            response = by_mode[sampling, samples, "response"]
            for name, variant in (("softmax response", response), ("variance", variance)):
                rows.append(
                    [
                        f"{result.row.label}, {name}",
                        *(format_mean(variant.values(key), key) for key in coverages),
                        f"{1000 * statistics.fmean(variant.values('aurc')):.2f}",
                    ]
                )
    return table(["", *(MEASURES[name] for name in coverages), "AURC x 1000"], rows)


def certificate_table(results: Sequence[RowResult], risk: float) -> str:
    """Show the coverage of both methods at a risk, on all test rows and on halves of them: means over the networks."""
    rows = []
    variants = [variant for result in results for variant in result.variants()]
    for variant in variants:
        for label, networks in ((variant.label, variant.networks), (f"{variant.label}, ensemble", [variant.ensemble])):
            if f"halves@{risk}" not in networks[0]:
                continue
            row = [
                label,
                *(
                    format_value(statistics.fmean(one[f"{kind}@{risk}"] for one in networks))
                    for kind in ("coverage", "default")
                ),
            ]
            for method in ("sgr", DEFAULT_METHOD):
                halves = [one[f"halves@{risk}"][method] for one in networks]
                risks = [one["risk"] for one in halves if one["risk"] is not None]
                row += [
                    format_value(statistics.fmean(one["coverage"] for one in halves)),
                    f"{100 * statistics.fmean(risks):.2f}" if risks else "",
                    format_value(statistics.fmean(one["violations"] for one in halves)),
                ]
            rows.append(row)
    header = ["", "SGR", "default"]
    for method in ("SGR", "default"):
        header += [f"{method}, halves", "its risk", "above r"]
    return table(header, rows)


def settings_table(results: Sequence[RowResult]) -> str:
    """Show where the settings of each row come from, what they are, and what they cost."""
    rows = []
    for result in results:
        if result.record is None:
            continue
        settings, content = result.record.settings, result.record.results
        source = settings["source"]
        chosen = (
            f"best of {source['first']} trials, number {source['trial']}: {format_value(source['value'])} %"
            if "study" in source
            else "given"
        )
        fit = {**settings["fit"].get("network", {}), **settings["fit"].get("training", {})}
        if fit.get("spacing") == "gaussian":  # the limit has no effect
            fit.pop("limit", None)
        members, epoch = content["members"], content.get("probes", {}).get("epoch")
        rows.append(
            [
                result.row.label,
                chosen,
                ", ".join(f"{name} {_format_setting(value)}" for name, value in fit.items() if name != "hidden"),
                f"{content['weights']:,}",
                f"{statistics.fmean(member['epochs'] for member in members):.0f}",
                f"{content['seconds']:.0f} s" + ("" if result.record.machine.get("gpu") else ", on a CPU"),
                f"{1000 * epoch['median']:.0f} ms" if epoch else "",
            ]
        )
    header = ["", "chosen", "settings", "weights", "epochs", "training, all networks", "an epoch's steps, one network"]
    timed = any(row[-1] for row in rows)
    return table(header if timed else header[:-1], rows if timed else [row[:-1] for row in rows])


def _format_setting(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
