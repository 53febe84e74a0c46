"""Generated parts of docs/evidence/performance.md: claims, tables and figures, from benchmarks/results."""

from collections.abc import Callable

from docs.performance.busy_neighbours import busy_table
from docs.performance.claims import claims_table
from docs.performance.other_libraries import libraries_table
from docs.performance.pictures import PICTURES, draw_all
from docs.performance.precision import precision_text
from docs.performance.recommended_samples import recommendation
from docs.performance.validation import validation_table

__all__ = ["PARTS", "PICTURES", "draw_all"]

#: Generated parts of the page, by the name of their markers.
PARTS: dict[str, Callable[[], str]] = {
    "claims": claims_table,
    "libraries": libraries_table,
    "recommendation": recommendation,
    "validation": validation_table,
    "busy": busy_table,
    "precision": precision_text,
}
