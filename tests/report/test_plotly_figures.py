"""Figures are valid for Plotly and show the report's data."""

import json
from typing import Any

import numpy as np
import pytest

from squad.report import plotly_figures
from squad.report.content import compute_report
from squad.report.report_data import ReportData
from tests.report.builders import certified, images, labels_for, model


def coloured(value: Any) -> Any:
    """The figure with colour names replaced, as in the page."""
    if isinstance(value, str) and value.startswith("@"):
        return "Arial" if value == "@font" else "#123456"
    if isinstance(value, list):
        return [coloured(item) for item in value]
    return {key: coloured(item) for key, item in value.items()} if isinstance(value, dict) else value


@pytest.fixture(scope="module")
def content() -> ReportData:
    good, plain = certified(model()), model("mlp", members=1)
    x = images(200, seed=3)
    return compute_report({"<b>good</b> & %{x}": good, "plain": plain}, x, labels_for(good, x, seed=4))


def test_plotly_accepts_the_figures(content: ReportData) -> None:
    import plotly.graph_objects as go

    made = [
        plotly_figures.risk_coverage(content.models, content.start),
        plotly_figures.risk_coverage(content.models[1:], content.start),
        plotly_figures.latents(0),
        *(plotly_figures.reliability(one.reliability, index) for index, one in enumerate(content.models)),
        *(plotly_figures.confidences(one.confidences) for one in content.models),
    ]
    for figure in made:
        go.Figure(coloured(figure))
        json.dumps(figure, allow_nan=False)


def test_the_curve_is_complete_on_log_axes(content: ReportData) -> None:
    figure = plotly_figures.risk_coverage(content.models, content.start)
    lines = [trace for trace in figure["data"] if trace["mode"] == "lines" and "customdata" in trace]
    zero = plotly_figures.zero_risk_height(content.models)
    for trace, one in zip(lines, content.models, strict=True):
        assert trace["x"] == one.curve.coverage
        assert trace["y"] == [risk or zero for risk in one.curve.risk]
    assert all(value > 0 for trace in figure["data"] for value in trace["y"])
    low, high = (10 ** np.array(figure["layout"]["yaxis"]["range"])).tolist()
    assert all(low <= value <= high for trace in figure["data"] for value in trace["y"])
    stars = [trace for trace in figure["data"] if trace.get("marker", {}).get("symbol") == "star"]
    guarantee = content.models[0].guarantee
    assert guarantee is not None
    assert [(stars[0]["x"][0], stars[0]["y"][0])] == guarantee.points
    start, _ = (10 ** np.array(figure["layout"]["xaxis"]["range"])).tolist()
    assert start <= guarantee.points[0][0]


def test_names_are_escaped_and_not_used_as_templates(content: ReportData) -> None:
    text = json.dumps(plotly_figures.risk_coverage(content.models, content.start))
    assert "<b>good" not in text
    assert "&lt;b&gt;good&lt;/b&gt; &amp; %{x}" in text
    templates = [
        trace.get("hovertemplate", "") for trace in plotly_figures.risk_coverage(content.models, content.start)["data"]
    ]
    assert not any("good" in template for template in templates)


def test_without_any_error() -> None:
    predictor, x = model("mlp", members=1), images(30)
    found = compute_report({"it": predictor}, x, predictor.answer(x).label)
    assert found.models[0].wrong == 0
    figure = plotly_figures.risk_coverage(found.models, found.start)
    assert set(figure["data"][0]["y"]) == {plotly_figures.zero_risk_height(found.models)}
    assert figure["layout"]["yaxis"]["ticktext"][0] == "0\u00a0%"
    plotly_figures.confidences(found.models[0].confidences)


def test_models_are_distinguished_by_more_than_colour(content: ReportData) -> None:
    many = [*content.models] * 4
    lines = [
        trace["line"]
        for trace in plotly_figures.risk_coverage(many, 0)["data"]
        if trace["mode"] == "lines" and "customdata" in trace
    ]
    assert len({(line["color"], line["dash"]) for line in lines[:6]}) == 6
    assert len({line["dash"] for line in lines[:6]}) == 6
    bars = plotly_figures.confidences(content.models[0].confidences)["data"]
    assert [bar["marker"]["pattern"]["shape"] for bar in bars] == ["", "/"]


def test_bars_of_each_kind_add_up_to_100_percent(content: ReportData) -> None:
    one = content.models[0]
    correct, wrong = plotly_figures.confidences(one.confidences)["data"]
    assert sum(correct["y"]) == pytest.approx(100)
    assert sum(wrong["y"]) == pytest.approx(100)
    assert wrong["name"] == f"wrong predictions ({one.wrong})"
