"""Section with the risk–coverage curve."""

from collections.abc import Sequence

from squad.report.markup import Markup, element, plain_table
from squad.report.number_format import percent
from squad.report.page.building_blocks import fold, section
from squad.report.plot_area import Axis, chart, lines, marker, model_class, percent_axis, shape
from squad.report.report_data import ModelReport, ReportData
from squad.report.slider import SliderPosition

__all__ = ["curve", "curve_axes", "selected_point"]

#: Selective risks at smaller coverages do not extend the vertical axis: an error among the first few cases is a peak.
MIN_COVERAGE = 0.1
#: Height of the vertical axis if there are no errors, and the room above the highest point.
DEFAULT_HEIGHT, HEADROOM = 0.01, 1.1


def curve(report: ReportData) -> Markup:
    """Render the risk–coverage curves of all models, with their certificates and the slider's position."""
    models = report.models
    lead = [
        "The risk\u2013coverage curve shows the selective risk at every confidence threshold. On the left, the"
        " threshold is strict and few cases are accepted; at the right end, all are. The lower the curve, the better."
    ]
    spreads = [model.spread for model in models if model.spread]
    if spreads:
        whole = all(spread.central == 1 for spread in spreads)
        contains = "contains" if whole else "contains, at each coverage, most of"
        lead.append(
            f"The shaded area {contains} the curves of the ensemble members, each predicting alone: it shows how much"
            " depends on the random seed of training."
        )
    several = len(models) > 1
    table = plain_table(
        ["selective risk", *(model.name if several else "coverage" for model in models)],
        [
            [percent(risk), *(percent(model.coverages[line][1]) for model in models)]
            for line, (risk, _) in enumerate(models[0].coverages)
        ],
        "Largest coverage at each selective risk (observed, not guaranteed)",
    )
    readout = element("p", id="readout", class_="readout", aria_live="polite")
    card = element("article", _figure(models, report.start), readout, fold("Numbers", table), class_="card")
    return section(
        "curve",
        "How many errors remain if the model accepts fewer cases?",
        " ".join(lead),
        element("div", card, class_="models one"),
    )


def curve_axes(models: Sequence[ModelReport]) -> tuple[Axis, Axis]:
    """Return the axes of the risk–coverage curve, on which all markers have room.

    Args:
        models: Results of the models.

    Returns:
        Axes of coverage and of selective risk.
    """
    heights = [DEFAULT_HEIGHT]
    for model in models:
        pairs = zip(model.curve.coverage, model.curve.risk, strict=True)
        heights += [risk for coverage, risk in pairs if coverage >= MIN_COVERAGE]
        heights += [] if model.guarantee is None else [risk for _, risk in model.guarantee.points]
        heights += [point[1] for position in model.slider.positions if (point := selected_point(position, model))]
        if model.spread is not None:
            pairs = zip(model.spread.coverage, model.spread.high, strict=True)
            heights += [risk for coverage, risk in pairs if coverage >= MIN_COVERAGE]
    return percent_axis("coverage", 0, 1), percent_axis("selective risk", 0, min(1.0, HEADROOM * max(heights)))


def selected_point(position: SliderPosition, model: ModelReport) -> tuple[float, float] | None:
    """Return coverage and risk of a slider position: guaranteed if there is a guarantee, else observed.

    Args:
        position: Position of the slider.
        model: Results of the model.

    Returns:
        The point; None if no case is accepted.
    """
    if position.accepts == "none":
        return None
    if position.coverage is not None:
        return position.coverage, position.risk
    return (position.accepted / model.used, position.wrong / position.accepted) if position.accepted else None


def _figure(models: Sequence[ModelReport], start: int) -> Markup:
    x, y = curve_axes(models)
    several = len(models) > 1
    drawn, placed, keys = [], [], []
    for index, model in enumerate(models):
        colour = model_class(index)
        if model.spread is not None:
            edges = [
                list(zip(model.spread.coverage, risks, strict=True)) for risks in (model.spread.low, model.spread.high)
            ]
            drawn.append(shape(x, y, edges[0] + edges[1][::-1], f"spread {colour}"))
            which = "range" if model.spread.central == 1 else percent(model.spread.central)
            text = f"{which} of the {model.members} members" + (f" of {model.name}" if several else "")
            keys.append((element("span", class_=f"key-area {colour}", aria_hidden="true"), text))
    for index, model in enumerate(models):
        points = [(0.0, model.curve.risk[0]), *zip(model.curve.coverage, model.curve.risk, strict=True)]
        drawn.append(lines(x, y, points, f"line {model_class(index)}", steps=True))
        symbol = element("span", class_=f"key-line {model_class(index)}", aria_hidden="true")
        keys.insert(index, (symbol, model.name if several else "observed on the test set"))
    for index, model in enumerate(models):
        colour, name = model_class(index), f"{model.name}: " if several else ""
        if model.guarantee is not None:
            for coverage, risk in model.guarantee.points:
                text = (
                    f"{name}guaranteed: selective risk at most {percent(risk)}, coverage {percent(coverage)} observed"
                )
                placed.append(marker("star", colour, (x.place(coverage), y.place(risk)), text))
        if model.accepted:
            coverage, risk = model.accepted / model.used, (model.accepted_wrong or 0) / model.accepted
            text = f"{name}observed: selective risk {percent(risk)}, coverage {percent(coverage)}"
            placed.append(marker("diamond", colour, (x.place(coverage), y.place(risk)), text))
    if any(model.guarantee and model.guarantee.points for model in models):
        keys.append((marker("star", "plain"), "guaranteed by the certificate"))
    if any(model.accepted for model in models):
        keys.append((marker("diamond", "plain"), "observed with the certificate"))
    for index, model in enumerate(models):
        point = selected_point(model.slider.positions[start], model)
        place = (x.place(point[0]), y.place(point[1])) if point else (0.0, 0.0)
        placed.append(
            marker("ring", model_class(index) if several else "plain", place, data_ring=index, hidden=point is None)
        )
    keys.append((marker("ring", "plain"), "position of the slider above"))
    text = " ".join(_risk_text(model, model.name if several else "The model") for model in models)
    return chart(x, y, text, drawn, placed, keys, name="plot-curve", tall=True)


def _risk_text(model: ModelReport, name: str) -> str:
    if not model.wrong:
        return f"{name} made no error on the test set."
    points = zip(model.curve.coverage, model.curve.risk, strict=True)
    coverage, risk = next(point for point in points if point[0] >= 0.5)
    return (
        f"{name} has an error rate of {percent(model.wrong / model.used)} on all test cases, and of {percent(risk)} on"
        f" the most confident {percent(coverage)}."
    )
