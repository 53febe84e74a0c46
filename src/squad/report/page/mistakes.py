"""Section of errors: how often each harm occurs, and the errors per class."""

from squad.report.markup import Markup, join, plain_table
from squad.report.number_format import count, exact_percent, percent
from squad.report.page.building_blocks import EMPTY_CELL, section, side_by_side
from squad.report.report_data import ModelReport, ReportData
from squad.selective.risk_text import COST, FALSE, MISS_RATE, MISSED, WRONG, amount, split_harm

__all__ = ["harm_name", "mistakes"]


def mistakes(report: ReportData) -> Markup:
    """Render two tables per model: harms and classes."""
    return section(
        "harms",
        "Which errors does the model make?",
        None,
        side_by_side(report.models, lambda _, model: join(_harm_table(model), _class_table(model))),
    )


def harm_name(name: str) -> str:
    """Describe a harm in words.

    Examples:
        >>> harm_name("missed ill")
        '“ill” predicted as another class'
    """
    kind, label = split_harm(name)
    texts = {
        MISSED: "“{}” predicted as another class",
        FALSE: "“{}” wrongly predicted",
        MISS_RATE: "“{}” predicted as another class, among all “{}”",
        WRONG: "Wrong prediction",
    }
    return texts[kind].format(label, label) if kind else "Cost" if name == COST else name


def _rate(errors: float | None, cases: int | None, costs: bool = False) -> str:
    """Format a number of errors among cases, or a mean cost."""
    if errors is None or cases is None:
        return "unknown"
    if not cases:
        return EMPTY_CELL
    if costs:
        return f"mean {errors / cases:.4g}, of {count(cases)}"
    return f"{amount(errors)} of {count(cases)}" + (f" ({percent(errors / cases)})" if errors else "")


def _population(model: ModelReport) -> str:
    return "accepted cases" if model.among_accepted else "all test cases"


def _harm_table(model: ModelReport) -> Markup:
    certified = model.guarantee is not None
    several = any(harm.target for harm in model.harms)
    rows: list[list[object]] = []
    for harm in model.harms:
        limit = EMPTY_CELL if harm.limit is None else f"at most {exact_percent(harm.limit)}"
        if harm.costs and harm.limit is not None:
            limit = f"mean at most {harm.limit:.10g}"
        calibration = [limit, _rate(harm.calibration, harm.calibration_n, harm.costs)] if certified else []
        target = [harm.target] if several else []
        rows.append([*target, harm_name(harm.name), *calibration, _rate(harm.test, harm.test_n, harm.costs)])
    head = [
        *(["target"] if several else []),
        "harm",
        *(["limit", "observed in calibration"] if certified else []),
        "observed on the test set",
    ]
    return plain_table(head, rows, f"Frequency of each harm, among {_population(model)}")


def _class_table(model: ModelReport) -> Markup:
    rows: list[list[object]] = [
        [
            row.name,
            _rate(row.missed, row.n),
            row.mistaken_for or EMPTY_CELL,
            _rate(row.false, row.predicted),
            *([count(row.referred or 0)] if model.among_accepted else []),
        ]
        for row in model.by_class
    ]
    head = [
        "class",
        "cases predicted as another class",
        "most often as",
        "predictions that are wrong",
        *(["cases referred"] if model.among_accepted else []),
    ]
    title = f"Errors per class, among {_population(model)}"
    if len(rows) < len(model.classes):
        title += f": the {len(rows)} of {count(len(model.classes))} classes with the most errors"
    return plain_table(head, rows, title)
