"""What docs/performance.md shows: claims, tables and pictures, all from the records in benchmarks/results."""

from collections.abc import Callable

from docs.performance.advice import advice_lines
from docs.performance.busy import busy_table
from docs.performance.claims import claims_table
from docs.performance.looks import looks_table
from docs.performance.others import others_table
from docs.performance.pictures import PICTURES, draw_all
from docs.performance.precision import precision_text

__all__ = ["PARTS", "PICTURES", "draw_all"]

#: The parts of the page between its markers.
PARTS: dict[str, Callable[[], str]] = {
    "claims": claims_table,
    "others": others_table,
    "advice": advice_lines,
    "looks": looks_table,
    "busy": busy_table,
    "precision": precision_text,
}
