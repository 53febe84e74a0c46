"""A fit beside processes that want the same cores: threads as the library chooses them, one and two."""

from pathlib import Path

from docs.performance.markdown import number, table
from docs.performance.records import read, where


def busy_table(results: Path | None = None) -> str:
    """A row per fit, with wall and CPU seconds beside busy neighbours."""
    record = read("busy_neighbour", results)
    choices = list(next(iter(record.results["busy"].values())))
    lines = [["fit", *(f"{choice}: wall s (CPU s)" for choice in choices)]]
    for name, one in record.results["busy"].items():
        asked = record.settings["fits"][name]
        sizes = "-".join(map(str, (asked["inputs"], *asked["hidden"])))
        shown = [
            f"{number(one[choice]['wall']['median'])} ({number(one[choice]['cpu']['median'])})" for choice in choices
        ]
        lines.append([f"{name}: {sizes}, batch {asked['batch']}", *shown])
    load = f"{record.settings['load']:.0f}"
    note = f"{record.settings['neighbours']} busy neighbours (load average {load}), {where(record)}, {record.date[:10]}"
    return f"{note}.\n\n{table(lines)}"
