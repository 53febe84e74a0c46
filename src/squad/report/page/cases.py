"""Section of individual cases: errors and referred cases, each of which opens to show its details."""

from collections.abc import Sequence

from squad.report.case_latents import CaseLatents
from squad.report.case_selection import Case
from squad.report.case_values import CaseValue
from squad.report.markup import Markup, element, join
from squad.report.number_format import count, percent
from squad.report.page.building_blocks import section, side_by_side
from squad.report.pictures import latent_map
from squad.report.report_data import ModelReport, ReportData

__all__ = ["cases"]

#: Number of cases shown before "show more", and of values in the preview of a row.
FIRST_CASES, PREVIEW_VALUES = 6, 3


def cases(report: ReportData) -> Markup:
    """Render two galleries per model."""
    return section(
        "cases",
        "Which cases should I look at myself?",
        "Open a case to see the model's prediction in detail.",
        side_by_side(report.models, _galleries, wide=True),
    )


def _galleries(index: int, model: ModelReport) -> Markup:
    certified = model.guarantee is not None
    parts: list[Markup | None] = [element("h4", "Most confident errors")]
    if model.mistakes:
        text = "Wrong predictions, most confident first. A confidence threshold is least likely to filter these out."
        parts += [
            element("p", text + _shown(len(model.mistakes), model.wrong)),
            _gallery(f"errors{index}", model, model.mistakes),
        ]
    else:
        parts.append(element("p", "All predictions on the test set are correct."))
    parts.append(element("h4", "Cases referred to a reviewer" if certified else "Least confident cases"))
    if model.referred:
        text = "The model abstains on these cases, least confident first." if certified else "Least confident first."
        total = model.used - (model.accepted or 0)
        parts += [
            element("p", text + _shown(len(model.referred), total)),
            _gallery(f"referred{index}", model, model.referred),
        ]
    else:
        parts.append(element("p", "None: the model accepts every test case that it can read."))
    if any(case.values for case in model.cases):
        parts.append(
            element("p", "Rows show the values that are most unusual among the test cases first.", class_="remark")
        )
    return join(*parts)


def _shown(shown: int, total: int) -> str:
    return f" The report contains {shown} of {count(total)}." if total > shown else ""


def _gallery(name: str, model: ModelReport, selection: Sequence[int]) -> Markup:
    # Cases of one name exclude each other: opening one closes the other.
    made = [_case(name, model.cases[index], model.members) for index in selection]
    class_ = "gallery" if model.cases[0].picture else "gallery rows"
    first, others = made[:FIRST_CASES], made[FIRST_CASES:]
    more = element(
        "details",
        element("summary", f"Show {len(others)} more"),
        element("div", *others, class_=class_),
        class_="more",
    )
    return join(element("div", *first, class_=class_), more if others else None)


def _case(gallery: str, case: Case, members: int) -> Markup:
    correct = case.predicted == case.truth
    outcome = element(
        "span",
        "✓ correct" if correct else f"✕ true class: {case.truth}",
        class_="correct" if correct else "wrong",
    )
    preview = (
        element(
            "span",
            *(element("span", element("i", value.name), " ", value.text) for value in case.values[:PREVIEW_VALUES]),
            class_="cells",
        )
        if case.picture is None
        else element("img", src=case.picture, alt="The case", class_="pixels")
    )
    decision = "" if case.accepted is None else f", {'accepted' if case.accepted else 'referred'}"
    label = element(
        "span",
        element("b", f"predicted {case.predicted}"),
        outcome,
        element("small", f"confidence {percent(case.confidence)}{decision}"),
        class_="label",
    )
    return element("details", element("summary", preview, label), _details(case, members), class_="pick", name=gallery)


def _details(case: Case, members: int) -> Markup:
    bars = [
        join(
            element("span", name, class_="name"),
            element("span", element("span", style=f"width:{100 * probability:.1f}%"), class_="bar", aria_hidden="true"),
            element("span", percent(probability)),
        )
        for name, probability in case.classes
    ]
    left = [
        element("p", f"{case.where[0].upper()}{case.where[1:]}. Predicted probabilities:"),
        element("div", *bars, class_="bars"),
    ]
    if case.disagreement is not None:
        text = (
            f"{percent(round(case.disagreement, 3))} of the uncertainty comes from samples that disagree with each"
            " other; the rest is uncertainty within each sample."
        )
        left.append(element("p", text, class_="remark"))
    if case.values:
        left += [element("p", element("b", "Feature values")), _value_list(case.values)]
    right = None if case.latents is None else element("div", _latents(case.latents, members))
    return element("div", element("div", *left), right, class_="case")


def _value_list(values: Sequence[CaseValue]) -> Markup:
    items = [
        join(
            element("dt", value.name),
            element("dd", value.text, element("small", f" {value.remark}") if value.remark else None),
        )
        for value in values
    ]
    return element("dl", *items, class_="facts")


def _latents(latents: CaseLatents, members: int) -> Markup:
    text = (
        "Each row is a latent variable of the first layer; the stronger the colour of a cell, the more probable its"
        " value. A row with several coloured cells is a latent variable that is uncertain about its value. For this"
        f" case, {count(latents.settled)} of {count(latents.total)} latent variables give more than 90\u00a0%"
        " probability to one value."
    )
    if latents.total > len(latents.units):
        text += f" The {len(latents.units)} most uncertain ones are shown."
    if members > 1:
        text += f" They belong to the first of {members} ensemble members."
    same = all(row == latents.values[0] for row in latents.values)
    low, high = (
        ("lowest value", "highest value")
        if not same
        else (f"{value:.2g}" for value in latents.values[0][:: len(latents.values[0]) - 1])
    )
    picture = latent_map([[number / 1000 for number in row] for row in latents.per_mille])
    return join(
        element("p", element("b", "Latent variables. "), text),
        element(
            "div",
            element("div", *(element("span", unit) for unit in latents.units), class_="units", aria_hidden="true"),
            element("img", src=picture, alt=text, class_="pixels map", style=f"--units:{len(latents.units)}"),
            element("div", element("span", low), element("span", "value"), element("span", high), class_="values"),
            class_="latents",
        ),
    )
