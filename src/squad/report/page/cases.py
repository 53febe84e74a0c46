"""Section of individual cases: errors, referred cases, and details of the selected one."""

from collections.abc import Sequence

from squad.report.case_selection import Case
from squad.report.markup import Markup, element, join
from squad.report.number_format import count, percent
from squad.report.page.building_blocks import section, side_by_side
from squad.report.report_data import ModelReport, ReportData

__all__ = ["cases"]


def cases(report: ReportData) -> Markup:
    """Render two galleries per model, and a container for the selected case."""
    return section(
        "cases",
        "Which cases should I look at myself?",
        "Click on a case to see the model's prediction in detail.",
        side_by_side(report.models, _galleries, wide=True),
    )


def _galleries(index: int, model: ModelReport) -> Markup:
    certified = model.guarantee is not None
    parts = [element("h4", "Most confident errors")]
    if model.mistakes:
        text = "Wrong predictions, most confident first. A confidence threshold is least likely to filter these out."
        parts += [
            element("p", text + _shown(len(model.mistakes), model.wrong)),
            _gallery(index, model, model.mistakes),
        ]
    else:
        parts.append(element("p", "All predictions on the test set are correct."))
    parts.append(element("h4", "Cases referred to a reviewer" if certified else "Least confident cases"))
    if model.referred:
        text = "The model abstains on these cases, least confident first." if certified else "Least confident first."
        total = model.used - (model.accepted or 0)
        parts += [
            element("p", text + _shown(len(model.referred), total)),
            _gallery(index, model, model.referred),
        ]
    else:
        parts.append(element("p", "None: the model accepts every test case that it can read."))
    # The script moves it below the gallery in which a case is selected.
    parts += [element("div", id=f"case{index}", class_="case", aria_live="polite")] if model.cases else []
    return join(*parts)


def _shown(shown: int, total: int) -> str:
    return f" Showing {shown} of {count(total)}." if total > shown else ""


def _gallery(index: int, model: ModelReport, selection: Sequence[int]) -> Markup:
    buttons = [_button(index, case, model.cases[case]) for case in selection]
    return element("div", *buttons, class_="gallery" if model.cases[0].picture else "gallery rows")


def _button(model: int, index: int, case: Case) -> Markup:
    correct = case.predicted == case.truth
    outcome = "correct" if correct else f"true class: {case.truth}"
    confidence = f"confidence {percent(case.confidence)}"
    preview = (
        element(
            "span", *(element("span", element("i", name), " ", value) for name, value in case.row[:3]), class_="cells"
        )
        if case.picture is None
        else element("img", src=case.picture, alt="", class_="pixels")
    )
    decision = None if case.accepted is None else element("small", "accepted" if case.accepted else "referred")
    label = element(
        "span",
        element("b", f"predicted {case.predicted}"),
        element("span", "✓ " if correct else "✕ ", outcome, class_="correct" if correct else "wrong"),
        element("small", confidence),
        decision,
        class_="label",
    )
    return element(
        "button",
        preview,
        label,
        type="button",
        class_="pick",
        data_model=model,
        data_case=index,
        aria_pressed="false",
        aria_label=f"{case.where}: predicted {case.predicted}, {outcome}, {confidence}",
    )
