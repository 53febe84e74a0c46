"""The grid over the number of bins, and means over the networks of a record."""

import statistics
from typing import Any

from experiments.paper.sources import Sources
from squad.records import Record

__all__ = ["BINS", "by_bins", "first_mode_mean"]

#: Values of the grid over the number of bins.
BINS = (3, 5, 7, 9, 11, 15, 21, 31, 45, 63)


def by_bins(sources: Sources) -> dict[int, Record]:
    """Return the records by number of bins; none unless all exist."""
    found = {count: sources.record(f"figures/bins/{count}") for count in BINS}
    return {count: record for count, record in found.items() if record is not None} if all(found.values()) else {}


def first_mode_mean(record: Record, measure: str) -> float:
    """Return the mean of a measure over the networks in the first prediction mode."""
    networks: list[dict[str, Any]] = record.results["ways"][0]["each"]
    return statistics.fmean(network[measure] for network in networks)
