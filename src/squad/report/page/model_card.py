"""Head of the page: the title, and a model card with the task, the data, the intended use and the limits."""

from collections.abc import Sequence
from datetime import datetime

from squad.report.markup import Markup, element, join
from squad.report.number_format import count, plural
from squad.report.report_data import ModelReport, ReportData

__all__ = ["model_card"]

#: Ids of the sections and their names in the navigation.
LINKS = (
    ("guarantee", "Guarantee"),
    ("operating-point", "Choose a risk"),
    ("costs", "Costs"),
    ("curve", "Risk\u2013coverage curve"),
    ("comparison", "Comparison"),
    ("classes", "Classes"),
    ("cases", "Cases"),
    ("reliability", "Confidence"),
    ("glossary", "Glossary"),
    ("provenance", "Provenance"),
)
#: Maximum number of classes named.
MAX_CLASSES_NAMED = 30
NOT_STATED = "Not stated. State it when you write the report (--intended-use)."


def model_card(report: ReportData) -> Markup:
    """Render the title, the model card and the navigation."""
    models = report.models
    created = datetime.fromisoformat(report.date)
    date = f"{created.day} {created:%B %Y}"
    used, rows = models[0].used, models[0].rows
    left_out = "" if used == rows else f" ({count(rows)} rows, of which {count(rows - used)} could not be used)"
    about = element("p", f"Tested on {plural(used, 'case')} of ", element("b", report.source), f"{left_out}, {date}.")
    entries = [
        ("Task", _task(models[0])),
        *((model.name if len(models) > 1 else "Model", _model_text(model)) for model in models),
        ("Intended use", report.intended_use or NOT_STATED),
        ("Limits", element("ul", *(element("li", text) for text in _limits(models)))),
    ]
    card = element(
        "dl", *(join(element("dt", name), element("dd", text)) for name, text in entries), class_="model-card"
    )
    links = [link for link in LINKS if link[0] != "comparison" or report.comparison]
    nav = element("nav", *(element("a", text, href=f"#{name}") for name, text in links), aria_label="Sections")
    return element("header", element("p", "Report on", class_="eyebrow"), element("h1", report.title), about, card, nav)


def _task(model: ModelReport) -> str:
    shown, more = model.classes[:MAX_CLASSES_NAMED], len(model.classes) - MAX_CLASSES_NAMED
    names = ", ".join([*shown, *([f"and {count(more)} more"] if more > 0 else [])])
    return f"Classification into {count(len(model.classes))} classes: {names}."


def _model_text(model: ModelReport) -> str:
    parts = [model.about]
    if model.training_rows:
        parts.append(f"trained on {plural(model.training_rows, 'case')}")
    if model.guarantee is not None:
        parts.append(f"certified with {plural(model.guarantee.m, 'calibration case')}")
    return "; ".join(parts) + "."


def _limits(models: Sequence[ModelReport]) -> list[str]:
    certified = [model.guarantee for model in models if model.guarantee is not None and model.guarantee.certified]
    if not certified:
        return [
            "Nothing is guaranteed: results were observed on the test cases, and other cases may give other results.",
            "It predicts one of the classes above for every case, also for a case that belongs to none of them.",
        ]
    limits = [
        "A guarantee holds for new cases from the same source as the calibration cases, not if the data change.",
        "It bounds an average over accepted cases: it says nothing about a single case, and something about a class or"
        " group only if the certificate names it.",
    ]
    return [*limits, "A case that belongs to none of the classes gets one of them, unless the model abstains."]
