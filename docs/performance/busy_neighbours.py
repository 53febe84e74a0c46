"""Time of a fit next to processes that use the same cores: with the library's choice of threads, one and two."""

from pathlib import Path

from docs.performance.markdown import number, table
from docs.performance.records import read, where


def busy_table(results: Path | None = None) -> str:
    """Return a table with one row per fit: wall and CPU seconds next to busy processes."""
    record = read("busy_neighbour", results)
    choices = list(next(iter(record.results["busy"].values())))
    lines = [["fit", *(f"{choice}: wall s (CPU s)" for choice in choices)]]
    for name, one in record.results["busy"].items():
        settings = record.settings["fits"][name]
        sizes = "-".join(map(str, (settings["inputs"], *settings["hidden"])))
        cells = [
            f"{number(one[choice]['wall']['median'])} ({number(one[choice]['cpu']['median'])})" for choice in choices
        ]
        lines.append([f"{name}: {sizes}, batch {settings['batch']}", *cells])
    load = f"{record.settings['load']:.0f}"
    count = record.settings["neighbours"]
    note = f"{count} other busy processes (load average {load}), {where(record)}, {record.date[:10]}"
    return f"{note}.\n\n{table(lines)}"
