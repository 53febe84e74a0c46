"""Plotly figures of a report, as the JSON that Plotly takes.

Colours are names such as "@ink", which the page replaces by the colours of its light or dark scheme, so that a change
of scheme only needs a redraw.  Plotly interprets some HTML in every text, so texts that come from users are escaped.
"""

import html
import math
from collections.abc import Sequence
from typing import Any

from squad.metrics.calibration import Bin
from squad.printable import printable
from squad.report.number_format import count, percent
from squad.report.report_data import ModelReport
from squad.report.slider import SliderPosition
from squad.report.summaries import ConfidenceBin

__all__ = [
    "SELECTED",
    "confidences",
    "latents",
    "model_colour",
    "reliability",
    "risk_coverage",
    "selected_point",
    "zero_risk_height",
]

Figure = dict[str, Any]

#: Number of model colours defined in page.css.
MODEL_COLOURS = 6
#: Line styles, so that models can be distinguished without colour.
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
#: ``meta`` of the traces that the slider moves; page.js looks for it.
SELECTED = "selected"
#: Bins with at least this many predictions extend the vertical axis to show their whole interval.
MIN_BIN_COUNT = 5
#: Coverages labelled on the axis.
COVERAGE_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
#: Mantissas of the risks labelled on the axis.
RISK_TICKS = (1.0, 2.0, 5.0)


def model_colour(index: int) -> str:
    """Return the name of the colour of the model with this index."""
    return f"@model{index % MODEL_COLOURS}"


def risk_coverage(models: Sequence[ModelReport], start: int) -> Figure:
    """Draw the risk–coverage curves of all models, with their certificates and the slider's position.

    Args:
        models: Results of the models.
        start: Index of the slider's initial position.

    Returns:
        Plotly figure as plain data.
    """
    several = len(models) > 1
    low, zero, high, min_coverage = _axis_limits(models)
    traces: list[dict[str, Any]] = []
    for index, model in enumerate(models):
        colour, name = model_colour(index), _escape(model.name)
        if model.spread is not None:
            traces += _spread_traces(model, colour, name if several else "", zero)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name if several else "observed on the test set",
                "x": model.curve.coverage,
                "y": [risk or zero for risk in model.curve.risk],
                "customdata": [percent(risk) for risk in model.curve.risk],
                "line": {"color": colour, "width": 2.5, "dash": DASHES[index % MODEL_COLOURS], "shape": "hv"},
                "hovertemplate": "coverage %{x:.1%}, selective risk %{customdata}<extra></extra>",
            }
        )
    for index, model in enumerate(models):
        name = model.name if several else ""
        traces += _certificate_traces(model, model_colour(index), zero, legend=index == 0, name=name)
    for index, model in enumerate(models):
        x, y = selected_point(model.slider.positions[start], model)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "slider position",
                "legendgroup": SELECTED,
                "showlegend": index == 0,
                "meta": SELECTED,
                "x": x,
                "y": [value or zero for value in y],
                "marker": {"symbol": "circle-open", "size": 17, "color": "@ink", "line": {"width": 2.5}},
                "hovertemplate": "slider position: coverage %{x:.1%}<extra></extra>",
            }
        )
    ticks = [ten * tick for ten in _powers_of_ten(low, high) for tick in RISK_TICKS if low <= ten * tick <= high * 1.2]
    bottom = zero if zero < low else None
    return {
        "data": traces,
        "layout": _layout(
            height=430,
            xaxis={
                **_axis("coverage"),
                "type": "log",
                "range": [math.log10(min_coverage), math.log10(1.04)],
                "tickvals": [tick for tick in COVERAGE_TICKS if tick >= min_coverage],
                "ticktext": [percent(tick) for tick in COVERAGE_TICKS if tick >= min_coverage],
            },
            yaxis={
                **_axis("selective risk"),
                "type": "log",
                "range": [math.log10((bottom or low) / 1.25), math.log10(high * 1.2)],
                "tickvals": [*([bottom] if bottom else []), *ticks],
                "ticktext": [*(["0\u00a0%"] if bottom else []), *(percent(tick) for tick in ticks)],
            },
        ),
    }


def selected_point(position: SliderPosition, model: ModelReport) -> tuple[list[float], list[float]]:
    """Return coverage and risk of a slider position: guaranteed if there is a guarantee, else observed.

    Args:
        position: Position of the slider.
        model: Results of the model.

    Returns:
        Two lists of one number each, or two empty lists if no case is accepted.
    """
    if position.accepts == "none":
        return [], []
    if position.coverage is not None:
        return [position.coverage], [position.risk]
    return [position.accepted / model.used], [position.wrong / position.accepted]


def _spread_traces(model: ModelReport, colour: str, name: str, zero: float) -> list[dict[str, Any]]:
    assert model.spread is not None
    edge = {"type": "scatter", "mode": "lines", "line": {"width": 0, "color": colour}, "hoverinfo": "skip"}
    x = model.spread.coverage
    return [
        {**edge, "x": x, "y": [max(value, zero) for value in model.spread.low], "showlegend": False},
        {
            **edge,
            "x": x,
            "y": [max(value, zero) for value in model.spread.high],
            "fill": "tonexty",
            "fillcolor": f"{colour}-soft",
            "name": f"90 % of the {model.members} members{f' of {name}' if name else ''}, individually",
        },
    ]


def _certificate_traces(model: ModelReport, colour: str, zero: float, legend: bool, name: str) -> list[dict[str, Any]]:
    """Draw what the certificate guarantees, and what was observed with its threshold."""
    traces = []
    prefix = [f"{_escape(name)}: " if name else ""]
    if model.guarantee is not None and model.guarantee.points:
        traces.append(
            {
                "x": [point[0] for point in model.guarantee.points],
                "y": [point[1] for point in model.guarantee.points],
                "name": "guaranteed by the certificate",
                "marker": {"symbol": "star", "size": 16, "color": colour, "line": {"width": 1, "color": "@surface"}},
                "text": prefix * len(model.guarantee.points),
                "hovertemplate": "%{text}guaranteed: selective risk at most %{y:.2%} (coverage %{x:.1%} in calibration)"
                "<extra></extra>",
            }
        )
    if model.accepted:
        assert model.accepted_wrong is not None
        risk = model.accepted_wrong / model.accepted
        traces.append(
            {
                "x": [model.accepted / model.used],
                "y": [risk or zero],
                "customdata": [percent(risk)],
                "name": "observed with the certificate",
                "marker": {"symbol": "diamond", "size": 11, "color": colour, "line": {"width": 1, "color": "@surface"}},
                "text": prefix,
                "hovertemplate": "%{text}observed: selective risk %{customdata}, coverage %{x:.1%}<extra></extra>",
            }
        )
    return [
        {"type": "scatter", "mode": "markers", "legendgroup": str(trace["name"]), "showlegend": legend, **trace}
        for trace in traces
    ]


def _axis_limits(models: Sequence[ModelReport]) -> tuple[float, float, float, float]:
    """Return the lowest risk, the height at which a risk of 0 is drawn, the highest risk, and the lowest coverage."""
    points = [point for model in models if model.guarantee for point in model.guarantee.points]
    risks = [risk for model in models for risk in model.curve.risk if risk > 0] + [risk for _, risk in points]
    risks += [max(model.spread.high) for model in models if model.spread and any(model.spread.high)]
    zeros = any(not risk for model in models for risk in model.curve.risk)
    low, high = (min(risks), max(risks)) if risks else (0.001, 0.1)
    high = max(high, 2 * low)
    ten = 10.0 ** math.floor(math.log10(low) + 1e-9)
    low = max(tick * ten for tick in RISK_TICKS if tick * ten <= low * (1 + 1e-9))
    first_errors = [
        coverage
        for model in models
        for coverage, risk in zip(model.curve.coverage, model.curve.risk, strict=True)
        if risk > 0
    ]
    first_error = min(first_errors, default=1.0)
    interesting = min([first_error, *(coverage for coverage, _ in points)]) / 1.4
    min_coverage = max((tick for tick in COVERAGE_TICKS[:-2] if tick <= interesting), default=COVERAGE_TICKS[0])
    return low, (low / 2 if zeros else low), high, min_coverage


def zero_risk_height(models: Sequence[ModelReport]) -> float:
    """Return the height at which a risk of 0 is drawn, which a log axis does not have."""
    return _axis_limits(models)[1]


def _powers_of_ten(low: float, high: float) -> list[float]:
    return [10.0**power for power in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)]


def reliability(bins: Sequence[Bin], index: int) -> Figure:
    """Draw a reliability diagram: accuracy against confidence.

    Args:
        bins: Bins of the diagram.
        index: Index of the model, for its colour.

    Returns:
        Plotly figure as plain data.
    """
    colour = model_colour(index)
    largest = max(group.count for group in bins)
    first = min(group.start for group in bins)
    lowest = min(first, 0.9, *(group.low for group in bins if group.count >= MIN_BIN_COUNT))
    start = math.floor(10 * lowest) / 10
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines",
                "name": "perfectly calibrated",
                "x": [first, 1],
                "y": [first, 1],
                "line": {"color": "@muted", "width": 1.5, "dash": "dot"},
                "hoverinfo": "skip",
            },
            {
                "type": "scatter",
                "mode": "markers",
                "name": "observed, with 95 % confidence intervals",
                "x": [group.confidence for group in bins],
                "y": [group.accuracy for group in bins],
                "customdata": [[count(group.count), percent(group.accuracy)] for group in bins],
                "cliponaxis": False,
                "error_y": {
                    "type": "data",
                    "array": [group.high - group.accuracy for group in bins],
                    "arrayminus": [group.accuracy - group.low for group in bins],
                    "color": colour,
                    "thickness": 1.5,
                    "width": 4,
                },
                "marker": {"color": colour, "size": [7 + 13 * math.sqrt(group.count / largest) for group in bins]},
                "hovertemplate": "mean confidence %{x:.1%}<br>accuracy %{customdata[1]}"
                "<br>%{customdata[0]} predictions<extra></extra>",
            },
        ],
        "layout": _layout(
            height=340,
            xaxis={**_axis("confidence"), "range": [first - 0.02, 1.02], **_ticks_to_one(first)},
            yaxis={**_axis("accuracy"), "range": [start - 0.03, 1.03], **_ticks_to_one(start)},
        ),
    }


def confidences(bins: Sequence[ConfidenceBin]) -> Figure:
    """Draw the distributions of confidence of correct and of wrong predictions, each adding up to 100 %.

    Args:
        bins: Counts by confidence, from :func:`squad.report.summaries.confidence_bins`.

    Returns:
        Plotly figure as plain data.
    """
    first = next(index for index, group in enumerate(bins) if group.n)
    bins = bins[first:]
    names = [_bin_name(group) for group in bins]
    counts = {"correct": [group.n - group.wrong for group in bins], "wrong": [group.wrong for group in bins]}
    patterns = {
        "correct": {"shape": ""},
        "wrong": {"shape": "/", "size": 6, "solidity": 0.4, "fillmode": "overlay", "fgcolor": "@surface"},
    }
    return {
        "data": [
            {
                "type": "bar",
                "name": f"{kind} predictions ({count(sum(numbers))})",
                "x": names,
                "y": [100 * number / max(1, sum(numbers)) for number in numbers],
                "customdata": [count(number) for number in numbers],
                "marker": {"color": f"@{kind}", "pattern": patterns[kind]},
                "hovertemplate": f"%{{customdata}} {kind} predictions (%{{y:.1f}} % of them)<extra></extra>",
            }
            for kind, numbers in counts.items()
        ],
        "layout": _layout(
            height=340,
            barmode="group",
            bargap=0.25,
            xaxis={**_axis("confidence in %"), "type": "category", "showgrid": False},
            yaxis={**_axis("percentage of each kind"), "ticksuffix": "\u00a0%", "rangemode": "tozero"},
        ),
    }


def latents(index: int) -> Figure:
    """Return an empty heat map of latent variables, which the page fills in for the selected case.

    Args:
        index: Index of the model, for its colour.

    Returns:
        Plotly figure as plain data.
    """
    colour = model_colour(index)
    return {
        "data": [
            {
                "type": "heatmap",
                "z": [],
                "zmin": 0,
                "zmax": 1,
                "colorscale": [[0, "@surface"], [0.4, f"{colour}-soft"], [1, colour]],
                "showscale": False,
                "xgap": 1,
                "ygap": 2,
                "hovertemplate": "latent variable %{y}: value %{customdata}, probability %{text}<extra></extra>",
            }
        ],
        "layout": _layout(
            height=420,
            margin={"l": 54, "r": 8, "t": 8, "b": 48},
            xaxis={**_axis("value, from lowest to highest"), "showgrid": False},
            yaxis={
                **_axis("latent variable"),
                "type": "category",
                "autorange": "reversed",
                "showgrid": False,
            },
        ),
    }


def _ticks_to_one(first: float) -> dict[str, Any]:
    """Return ticks at tenths from ``first`` to 1."""
    step = 2 if first < 0.5 else 1
    ticks = [tenth / 10 for tenth in range(10, round(10 * first) - 1, -step)][::-1]
    return {"tickvals": ticks, "ticktext": [percent(tick) for tick in ticks]}


def _bin_name(group: ConfidenceBin) -> str:
    low, high = (f"{100 * edge:.4g}" for edge in (group.low, group.high))
    if group.low == 0:
        return f"under {high}"
    return f"over {low}" if group.high == 1 else f"{low}\u2013{high}"


def _axis(title: str) -> dict[str, Any]:
    return {
        "title": {"text": title, "standoff": 10},
        "gridcolor": "@line",
        "linecolor": "@line",
        "zeroline": False,
        # Automatic margins are found iteratively and may not converge, so margins are set explicitly.
        "automargin": False,
        "fixedrange": True,
    }


def _layout(**options: Any) -> dict[str, Any]:
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "@font", "size": 13, "color": "@ink"},
        "margin": {"l": 68, "r": 18, "t": 12, "b": 52},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        "hoverlabel": {"bgcolor": "@surface", "bordercolor": "@line", "font": {"color": "@ink"}},
        "hovermode": "closest",
        "dragmode": False,
        **options,
    }


def _escape(text: str) -> str:
    return html.escape(printable(text), quote=False)
