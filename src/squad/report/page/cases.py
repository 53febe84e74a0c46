"""Cases to look at: mistakes, referred cases, and what was behind the one that is chosen."""

from collections.abc import Sequence

from squad.report.case_selection import Case
from squad.report.markup import Markup, element, join
from squad.report.number_format import count, percent
from squad.report.page.building_blocks import section, side_by_side
from squad.report.report_data import Content, Model

__all__ = ["cases"]


def cases(content: Content) -> Markup:
    """Two galleries a model, and a place for the chosen case."""
    return section(
        "cases",
        "Which cases should I look at myself?",
        "Choose a case to see what the model made of it.",
        side_by_side(content.models, _galleries, wide=True),
    )


def _galleries(place: int, model: Model) -> Markup:
    certified = model.promise is not None
    parts = [element("h4", "The most confident mistakes")]
    if model.mistakes:
        more = f" Shown are {len(model.mistakes)} of {count(model.wrong)}." if model.wrong > len(model.mistakes) else ""
        text = f"Wrong answers, the surest first: a threshold is least able to keep these out.{more}"
        parts += [element("p", text), _gallery(place, model, model.mistakes)]
    else:
        parts.append(element("p", "There are no mistakes on the test."))
    total = model.used - (model.accepted or 0)
    parts.append(element("h4", "Cases that are referred" if certified else "The cases it is least sure of"))
    if model.referred:
        more = f" Shown are {len(model.referred)} of {count(total)}." if total > len(model.referred) else ""
        text = "A person has to look at these, the least sure first." if certified else "The least sure first."
        parts += [element("p", text + more), _gallery(place, model, model.referred)]
    else:
        parts.append(element("p", "None is: every test case that could be read is accepted."))
    # The page puts it below the gallery that the case is chosen in.
    parts += [element("div", id=f"case{place}", class_="case", aria_live="polite")] if model.cases else []
    return join(*parts)


def _gallery(place: int, model: Model, chosen: Sequence[int]) -> Markup:
    buttons = [_button(place, index, model.cases[index]) for index in chosen]
    return element("div", *buttons, class_="gallery" if model.cases[0].picture else "gallery rows")


def _button(place: int, index: int, case: Case) -> Markup:
    right = case.said == case.truth
    outcome = "right" if right else f"is {case.truth}"
    sure = f"{percent(case.confidence)} sure"
    picture = (
        element(
            "span", *(element("span", element("i", name), " ", value) for name, value in case.row[:3]), class_="cells"
        )
        if case.picture is None
        else element("img", src=case.picture, alt="", class_="pixels")
    )
    decision = None if case.accepted is None else element("small", "accepted" if case.accepted else "referred")
    words = element(
        "span",
        element("b", f"says {case.said}"),
        element("span", "✓ " if right else "✕ ", outcome, class_="right" if right else "wrong"),
        element("small", sure),
        decision,
        class_="words",
    )
    return element(
        "button",
        picture,
        words,
        type="button",
        class_="pick",
        data_model=place,
        data_case=index,
        aria_pressed="false",
        aria_label=f"{case.where}: says {case.said}, {outcome}, {sure}",
    )
