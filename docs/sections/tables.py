"""docs/evidence/tables.md: SQUAD and gradient boosting on public tables."""

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
    """Return a table with one row per public table."""
    lines = []
    for name, one in record.results.items():
        both = (one["squad"], one["boosting"])
        lines.append(
            [
                name,
                f"{one['rows']:,}",
                str(one["features"]),
                str(one["classes"]),
                *(f"{100 * each['accuracy']:.1f}" for each in both),
                *(f"{1000 * each['aurc']:.1f}" for each in both),
                f"{100 * one['risk']:.1f}",
                *(f"{100 * each['certified']:.1f}" for each in both),
                *(f"{each['seconds']:.1f}" for each in both),
            ]
        )
    heads = ["table", "rows", "features", "classes", "accuracy, %", "boosting", "AURC x 1000", "boosting"]
    heads += ["risk, %", "certified, %", "boosting", "fit, s", "boosting"]
    return table([heads, *lines])
