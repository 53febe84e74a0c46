"""Section with the slider: the reader chooses a selective risk and sees the resulting coverage."""

from squad.report.markup import Markup, element, join, plain_table
from squad.report.number_format import approximate, count, exact_percent, percent, percent_rounded_up, plural, round_up
from squad.report.page.building_blocks import EMPTY_CELL, section, side_by_side
from squad.report.report_data import ModelReport, ReportData
from squad.report.slider import REFERENCE_CASES, SliderPosition

__all__ = ["operating_point", "position_texts"]

#: Rows of the table: label, and names of the guaranteed and of the observed field.
TABLE_ROWS = (
    ("required confidence", "threshold", "threshold"),
    ("coverage", "coverage", "observed_coverage"),
    (f"referred, of {REFERENCE_CASES:,}", "referred", "observed_referred"),
    (f"accepted but wrong, of {REFERENCE_CASES:,}", "wrong", "observed_wrong"),
    ("selective risk", "rate", "observed_rate"),
)
OBSERVED = "observed on the test set"
#: Risks labelled below the slider, besides the smallest and the largest.
LABELLED_RISKS = (0.001, 0.01)


def operating_point(report: ReportData) -> Markup:
    """Render the slider and its consequences for each model."""
    models = report.models
    positions = models[0].slider.positions
    start = percent(positions[report.start].risk)
    last = len(positions) - 1
    ticks = [
        element("span", percent(position.risk), style=f"left:{100 * index / last:.3f}%")
        for index, position in enumerate(positions)
        if position.risk in LABELLED_RISKS or index in (0, last)
    ]
    selected = element("output", start, id="risk", for_="slider", class_="selected-risk")
    control = element(
        "div",
        element("label", "I can accept a selective risk of ", selected, for_="slider"),
        element(
            "input",
            type="range",
            id="slider",
            min="0",
            max=last,
            step="1",
            value=report.start,
            aria_valuetext=start,
        ),
        element("div", *ticks, class_="ticks", aria_hidden="true"),
        class_="control card",
    )
    return section(
        "operating-point",
        "Which risk can I accept, and what does it cost?",
        f"Move the slider. The lower the risk, the more cases {'these models' if len(models) > 1 else 'the model'} must"
        " refer to a reviewer.",
        control,
        side_by_side(models, lambda index, model: _card(index, model, report.start)),
        element("noscript", element("p", "The slider and the figures need JavaScript, which is disabled.")),
    )


def _card(index: int, model: ModelReport, start: int) -> Markup:
    guaranteed = model.slider.guaranteed
    initial = _texts(model, model.slider.positions[start])

    def field(name: str) -> Markup:
        """Return an element whose text the slider updates."""
        return element("span", initial[name], data_model=index, data_field=name)

    tiles = element(
        "ul",
        element("li", element("b", field("referred")), element("span", f"of {REFERENCE_CASES:,} cases are referred")),
        element(
            "li",
            element("b", field("wrong")),
            element("span", f"of {REFERENCE_CASES:,} cases are accepted but wrong"),
        ),
        class_="tiles",
    )
    legend = element(
        "p",
        f"Each square is one of {REFERENCE_CASES:,} cases: ",
        element("span", "filled", class_="key accepted"),
        " squares are accepted, ",
        element("span", "crosses", class_="key wrong"),
        f" are accepted but wrong{' (upper bound)' if guaranteed else ''}, ",
        element("span", "empty", class_="key referred"),
        " squares are referred to a reviewer.",
        class_="legend",
    )
    squares = element(
        "div", class_="squares", id=f"squares{index}", role="img", aria_label=f"{REFERENCE_CASES} cases as squares"
    )
    head = ["", "guaranteed", f"{OBSERVED}, not guaranteed"] if guaranteed else ["", f"{OBSERVED}, not guaranteed"]
    rows: list[list[object]] = [
        [label, *(field(name) for name in ((bound, observed) if guaranteed else (observed,)))]
        for label, bound, observed in TABLE_ROWS
    ]
    return join(
        element("p", field("note"), class_="slider-note", aria_live="polite"),
        element("div", element("div", tiles, squares, legend), plain_table(head, rows), class_="operating-point"),
        element("p", _guarantee_text(model) if guaranteed else _observation_text(), class_="remark"),
    )


def _observation_text() -> str:
    return (
        "Observed on the test set, not guaranteed: this model has no calibration scores. The threshold is chosen on the"
        " same cases that it is evaluated on, so these results are optimistic."
    )


def _guarantee_text(model: ModelReport) -> str:
    slider = model.slider
    feasible = [position.risk for position in slider.positions if position.accepts != "none"]
    smallest = f" The smallest risk that can be guaranteed is about {percent(feasible[0])}." if feasible else ""
    delta = slider.delta or 0
    text = (
        f"At confidence level {percent(1 - delta)}, the guarantees hold for all slider positions simultaneously, so you"
        " may choose the risk after looking at the results. They are therefore slightly more conservative than the"
        " certificate, whose risk was fixed in advance. They are computed from"
        f" {plural(slider.calibration_cases, 'calibration case')}.{smallest} The coverage is the one observed on these"
        " cases, not a bound; on new cases it will differ slightly. The probability that a guarantee of the slider"
        f" fails (at most {exact_percent(delta)}) is in addition to that of the certificate."
    )
    if model.guarantee is not None and model.guarantee.by is not None:
        text += " The slider uses one threshold for all cases and does not guarantee the risk within each group."
    return text


def position_texts(model: ModelReport) -> list[dict[str, object]]:
    """Return the texts and counts that the page shows at each position of the slider."""
    return [_texts(model, position) for position in model.slider.positions]


def _texts(model: ModelReport, position: SliderPosition) -> dict[str, object]:
    none_accepted, slider = position.accepts == "none", model.slider
    coverage = position.accepted / model.used
    wrong = REFERENCE_CASES * position.wrong / model.used
    threshold = "any" if position.threshold is None else f"above {percent_rounded_up(position.threshold)}"
    texts: dict[str, object] = {
        "note": "",
        "threshold": EMPTY_CELL if none_accepted else threshold,
        "observed_coverage": percent(coverage),
        "observed_referred": approximate(REFERENCE_CASES * (1 - coverage)),
        "observed_wrong": approximate(wrong),
        "observed_rate": percent(position.wrong / position.accepted) if position.accepted else EMPTY_CELL,
    }
    if not slider.guaranteed:
        texts["referred"], texts["wrong"] = texts["observed_referred"], texts["observed_wrong"]
        texts["squares"] = _squares(
            round(REFERENCE_CASES * coverage), round_up(wrong / REFERENCE_CASES, REFERENCE_CASES)
        )
        if none_accepted:
            texts["note"] = "On the test set, the selective risk is higher than this at every threshold."
        return texts
    accepted, max_wrong = round(REFERENCE_CASES * (position.coverage or 0)), position.max_wrong or 0
    texts["squares"] = _squares(accepted, max_wrong)
    if none_accepted:
        texts |= {"coverage": percent(0), "referred": "all", "wrong": "none", "rate": EMPTY_CELL}
        return texts | {"note": _refusal(model, position)}
    return texts | {
        "coverage": f"about {percent(position.coverage or 0)}",
        "referred": f"about {count(REFERENCE_CASES - accepted)}",
        "wrong": f"at most {count(max_wrong)}",
        "rate": f"at most {exact_percent(position.risk)}",
    }


def _refusal(model: ModelReport, position: SliderPosition) -> str:
    """Explain why no case is accepted at a position."""
    if position.risk > model.slider.r_max:
        return f"The guarantee of this model covers risks up to {percent(model.slider.r_max)}."
    cases = plural(model.slider.calibration_cases, "calibration case")
    text = f"This risk cannot be guaranteed with {cases}: every case would be referred."
    if model.guarantee and any(risk == position.risk for _, risk in model.guarantee.points):
        text += (
            " The certificate does guarantee it, because its risk was fixed in advance; the slider must guarantee all"
            " positions simultaneously."
        )
    return text


def _squares(accepted: int, wrong: int) -> list[int]:
    """Return the numbers of squares that are accepted and correct, accepted but wrong, and referred."""
    wrong = min(wrong, accepted)
    return [accepted - wrong, wrong, REFERENCE_CASES - accepted]
