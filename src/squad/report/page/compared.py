"""Section that compares several models on the same cases."""

from squad.report.comparison import MIN_ALLOWED_ERRORS, MIN_CASES, RESAMPLES, TOO_FEW
from squad.report.markup import Markup, element, plain_table
from squad.report.number_format import percent, plural
from squad.report.page.building_blocks import section
from squad.report.report_data import ReportData

__all__ = ["compared"]


def compared(report: ReportData) -> Markup | None:
    """Render the differences of all models from the first; nothing for a single model."""
    if not report.comparison:
        return None
    rows: list[list[object]] = []
    for row in report.comparison:
        metric = "error rate, all cases" if row.risk is None else f"coverage at a selective risk of {percent(row.risk)}"
        points = _points(row.other - row.first)
        if row.verdict != TOO_FEW:
            points += f" ({_points(row.low)} to {_points(row.high)})"
        rows.append([metric, row.name, percent(row.other), percent(row.first), points, row.verdict])
    first = report.models[0].name
    table = plain_table(
        [
            "",
            "model",
            "its result",
            first,
            "difference in points (approximate 95\u00a0% interval)",
            f"compared with {first}",
        ],
        rows,
        "Differences from the first model, observed on the same test cases",
    )
    remark = (
        "Error rates are judged by an exact McNemar test, coverages by the intervals, from"
        f" {RESAMPLES:,} paired bootstrap resamples of the test cases. There are too few cases to tell if fewer than"
        f" {MIN_CASES} are predicted correctly by one model only (for coverages: wrongly by either), or if the risk"
        f" allows fewer than {MIN_ALLOWED_ERRORS} errors. Neither accounts for the random seed of training, nor for the"
        " number of comparisons."
    )
    card = element("article", table, element("p", remark, class_="remark"), class_="card")
    return section(
        "comparison",
        "Is one of them better?",
        f"All models predict the same {plural(report.models[0].used, 'case')}.",
        element("div", card, class_="models one"),
    )


def _points(difference: float) -> str:
    """Format a difference of two percentages."""
    return f"{100 * difference:+.1f}".replace("-", "\u2212").replace("+0.0", "0").replace("\u22120.0", "0")
