"""docs/evidence/tables.md: SQUAD and gradient boosting on public tables."""

from collections.abc import Mapping
from typing import Any

from docs.sections.markdown import table
from squad.records import Record

__all__ = ["comparison_table", "comparison_text"]


def comparison_text(record: Record) -> str:
    """Say on how many tables each classifier accepts more, and ranks better."""
    found = list(record.results.values())
    gaps = [100 * (one["squad"]["certified"] - one["boosting"]["certified"]) for one in found]
    ahead, behind = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
    ranked = sum(one["squad"]["aurc"] < one["boosting"]["aurc"] for one in found)
    mean = sum(gaps) / len(gaps)
    return (
        f"Of {len(found)} tables, SQUAD has more certified coverage on {ahead} and gradient boosting on {behind}; on"
        f" the other {len(found) - ahead - behind} neither certifies anything. SQUAD's coverage minus boosting's is"
        f" between {min(gaps):+.0f} and {max(gaps):+.0f} points, {mean:+.1f} on average. SQUAD has the lower AURC on"
        f" {ranked} tables."
    )


def comparison_table(record: Record) -> str:
    """Return a table with one row per public table: results of SQUAD / those of boosting."""
    lines = [
        ["table", "rows", "features", "classes", "accuracy, %", "AURC x 1000", "risk, %", "certified, %", "fit, s"]
    ]
    for name, one in record.results.items():
        size = [f"{one['rows']:,}", str(one["features"]), str(one["classes"])]
        risk = f"{100 * one['risk']:.1f}"
        ranking, coverage = _both(one, "aurc", 1000), _both(one, "certified", 100)
        lines.append([name, *size, _both(one, "accuracy", 100), ranking, risk, coverage, _both(one, "seconds", 1)])
    return table(lines)


def _both(results: Mapping[str, Any], key: str, unit: float) -> str:
    return " / ".join(f"{unit * results[model][key]:.1f}" for model in ("squad", "boosting"))
