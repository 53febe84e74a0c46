"""Section of errors: how often each harm occurs, errors and coverage per class, and confusion matrices."""

from squad.report.markup import Markup, join, plain_table
from squad.report.number_format import count, exact_percent, percent
from squad.report.page.building_blocks import EMPTY_CELL, fraction_bar, section, side_by_side
from squad.report.page.confusion import confusion_matrices
from squad.report.report_data import ModelReport, ReportData
from squad.report.summaries import ClassRow
from squad.selective.risk_text import COST, FALSE, MISS_RATE, MISSED, WRONG, amount, split_harm

__all__ = ["harm_name", "mistakes"]

#: Maximum number of classes in a table; those with the most errors are kept.
MAX_CLASSES = 30
#: Up to this number of classes, the confusion matrices of several models fit next to each other.
MAX_CLASSES_SIDE_BY_SIDE = 4


def mistakes(report: ReportData) -> Markup:
    """Render the harms, the classes and the confusion matrices of each model."""
    return section(
        "classes",
        "Which errors does the model make, and for which classes?",
        None,
        side_by_side(
            report.models,
            lambda index, model: join(_harm_table(model), _class_table(model), confusion_matrices(index, model)),
            wide=len(report.models[0].classes) > MAX_CLASSES_SIDE_BY_SIDE,
        ),
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
    return plain_table(
        head, rows, f"Frequency of each harm, among {'accepted' if model.accepts_some else 'all test'} cases"
    )


def _class_table(model: ModelReport) -> Markup:
    shown = model.by_class
    if len(shown) > MAX_CLASSES:
        shown = sorted(shown, key=lambda row: -(row.missed + row.false))[:MAX_CLASSES]
    rows: list[list[object]] = [
        [
            row.name,
            *([_coverage_bar(row)] if model.among_accepted else []),
            _rate(row.missed, row.n),
            row.mistaken_for or EMPTY_CELL,
            _rate(row.false, row.predicted),
        ]
        for row in shown
    ]
    head = [
        "class",
        *(["coverage: cases accepted"] if model.among_accepted else []),
        "missed: predicted as another class",
        "most often as",
        "predictions of it that are wrong",
    ]
    title = "Coverage and errors per class; errors among accepted cases" if model.among_accepted else "Errors per class"
    if len(shown) < len(model.classes):
        title += f": the {len(rows)} of {count(len(model.classes))} classes with the most errors"
    return plain_table(head, rows, title)


def _coverage_bar(row: ClassRow) -> Markup:
    total = row.n + (row.referred or 0)
    if not total:
        return join(EMPTY_CELL)
    coverage = row.n / total
    return join(f"{percent(coverage)} of {count(total)}", fraction_bar(coverage))
