"""Comparison with other libraries."""

from pathlib import Path

from docs.performance.markdown import number, table
from docs.performance.records import read, where


def libraries_table(results: Path | None = None) -> str:
    """Return a table with one row per network, library and method."""
    record = read("side_by_side", results)
    heads = ["network", "library", "method", "networks", "T", "ms (quartiles)", "relative to one pass", "MiB"]
    lines = []
    for one in sorted(record.results, key=lambda one: (one["members"] > 1, one["network"])):
        low, median, high = (number(1e3 * one["seconds"][name]) for name in ("q25", "median", "q75"))
        lines.append(
            [
                *(one["network"], one["who"], one["how"], str(one["members"]), str(one["samples"])),
                f"{median} ({low} to {high})",
                f"{one['passes']['median']:.1f}",
                # The memory of a loop is not measured: it is that of one pass.
                "as one pass" if one["bytes"] is None else f"{one['bytes'] / 2**20:.0f}",
            ]
        )
    versions = ", ".join(f"{name} {record.versions[name]}" for name in ("torch", "torch-uncertainty"))
    note = f"{record.settings['rows']:,} rows, {where(record)}, {record.date[:10]}, {versions}."
    return f"{note}\n\n{table([heads, *lines])}"
