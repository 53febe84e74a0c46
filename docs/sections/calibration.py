"""docs/evidence/validity.md: tables about recalibration and intervals of metrics."""

from docs.sections.markdown import table
from squad.records import Record

__all__ = ["few_rows_table", "interval_table", "recalibration_table"]


def recalibration_table(record: Record) -> str:
    """Compare networks without and with each kind of recalibration."""
    lines = [["network", "recalibration", "NLL", "ECE", "AURC x 1000", "reordered"]]
    for one in record.results:
        way = "none" if one["way"] == "raw" else one["way"].replace("softmax", "softmax, Guo et al.:")
        shown = [
            f"{one['nll']:.4f}",
            f"{100 * one['ece']:.2f} %",
            f"{1000 * one['aurc']:.2f}",
            f"{100 * one['moved']:.0f} %",
        ]
        lines.append([one["network"], way, *shown])
    return table(lines)


def few_rows_table(record: Record) -> str:
    """Show the effect of recalibration on few rows on the true NLL: of maximum likelihood alone, and of the library."""
    heads = ["worse: likelihood alone", "worse: the library", "unchanged: the library"]
    heads += ["NLL gained: likelihood alone", "NLL gained: the library", "NLL gained: at most"]
    lines = [["logits too large", "rows", *heads]]
    cells = {(one["scale"], one["n"], one["way"]): one for one in record.results}
    for scale in record.settings["scales"]:
        for n in record.settings["sizes"]:
            old, new = cells[scale, n, "before"], cells[scale, n, "temperature"]
            shares = [f"{100 * share:.0f} %" for share in (old["worse"], new["worse"], new["unchanged"])]
            gains = [f"{round(one['gain'], 4) + 0.0:.4f}" for one in (old, new)]
            name = "by nothing (calibrated)" if scale == 1 else f"{scale:g} times"
            lines.append([name, f"{n:,}", *shares, *gains, f"{new['most']:.4f}"])
    return table(lines)


def interval_table(record: Record) -> str:
    """Show the coverage of intervals: of the percentile bootstrap, and of the library, marked if approximate."""
    sizes = sorted({one["n"] for one in record.results})
    cells = {(one["metric"], one["n"], one["rate"]): one for one in record.results}
    lines = [["metric", "errors", *(f"n = {n:,}" for n in sizes)]]
    for name in dict.fromkeys(one["metric"] for one in record.results):
        for rate in record.settings["rates"]:
            shown = []
            for n in sizes:
                one = cells.get((name, n, rate))
                if one is None:
                    shown.append("")
                    continue
                mark = " ~" if one["flagged"] > 0.5 else ""
                shown.append(f"{100 * one['before']:.1f} → {100 * one['after']:.1f}{mark}")
            lines.append([f"`{name}`", f"{100 * rate:g} %", *shown])
    samples = [one["defined"] for one in record.results]
    note = f"{min(samples):,} to {max(samples):,} samples per cell, {record.settings['repeats']} resamples each."
    return f"{table(lines)}\n\n{note}"
