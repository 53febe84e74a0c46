"""Plain data as figures for Plotly, in its JSON.

Colours are names such as "@ink", which the page replaces by those of its light or dark scheme, so that a change of
scheme is a redraw.  Plotly reads a little HTML in every text: what comes from users is escaped.
"""

import html
import math
from collections.abc import Sequence
from typing import Any

from squad.metrics.calibration import Bin
from squad.report.number_format import count, percent
from squad.report.report_data import Model
from squad.report.slider import Choice
from squad.report.summaries import Group

__all__ = ["CHOICE", "chosen", "colour", "confidences", "curve", "floor", "latents", "reliability"]

Figure = dict[str, Any]

#: How many model colours the page has.
COLOURS = 6
#: A second sign beside the colour.
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
#: What the slider moves is told by this.
CHOICE = "choice"
#: The scale makes room for the intervals of groups with so many answers.
FEW = 5
#: Shares of cases that are written at the axis.
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
TICKS = (1.0, 2.0, 5.0)


def colour(place: int) -> str:
    """The name of the colour of the model in this place."""
    return f"@model{place % COLOURS}"


def curve(models: Sequence[Model], start: int) -> Figure:
    """Risk against coverage of all models, with their certificates and the slider's choice."""
    several = len(models) > 1
    low, zero, high, first = _limits(models)
    traces: list[dict[str, Any]] = []
    for place, model in enumerate(models):
        own, name = colour(place), _escaped(model.name)
        if model.spread is not None:
            traces += _spread(model, own, name if several else "", zero)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name if several else "observed on the test",
                "x": model.curve.coverage,
                "y": [risk or zero for risk in model.curve.risk],
                "customdata": [percent(risk) for risk in model.curve.risk],
                "line": {"color": own, "width": 2.5, "dash": DASHES[place % COLOURS], "shape": "hv"},
                "hovertemplate": "%{x:.1%} answered: %{customdata} wrong<extra></extra>",
            }
        )
    for place, model in enumerate(models):
        traces += _points(model, colour(place), zero, legend=place == 0, name=model.name if several else "")
    for place, model in enumerate(models):
        x, y = chosen(model.slider.choices[start], model)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "your choice on the slider",
                "legendgroup": CHOICE,
                "showlegend": place == 0,
                "meta": CHOICE,
                "x": x,
                "y": [value or zero for value in y],
                "marker": {"symbol": "circle-open", "size": 17, "color": "@ink", "line": {"width": 2.5}},
                "hovertemplate": "your choice: %{x:.1%} answered<extra></extra>",
            }
        )
    ticks = [ten * tick for ten in _tens(low, high) for tick in TICKS if low <= ten * tick <= high * 1.2]
    bottom = zero if zero < low else None
    return {
        "data": traces,
        "layout": _layout(
            height=430,
            xaxis={
                **_axis("cases answered"),
                "type": "log",
                "range": [math.log10(first), math.log10(1.04)],
                "tickvals": [share for share in SHARES if share >= first],
                "ticktext": [percent(share) for share in SHARES if share >= first],
            },
            yaxis={
                **_axis("wrong among them"),
                "type": "log",
                "range": [math.log10((bottom or low) / 1.25), math.log10(high * 1.2)],
                "tickvals": [*([bottom] if bottom else []), *ticks],
                "ticktext": [*(["none"] if bottom else []), *(percent(tick) for tick in ticks)],
            },
        ),
    }


def chosen(choice: Choice, model: Model) -> tuple[list[float], list[float]]:
    """Where a choice of the slider stands in the picture: promised where there is a promise, else observed."""
    if choice.accepts == "none":
        return [], []
    if choice.coverage is not None:
        return [choice.coverage], [choice.risk]
    return [choice.accepted / model.used], [choice.wrong / choice.accepted]


def _spread(model: Model, own: str, name: str, zero: float) -> list[dict[str, Any]]:
    assert model.spread is not None
    edge = {"type": "scatter", "mode": "lines", "line": {"width": 0, "color": own}, "hoverinfo": "skip"}
    x = model.spread.coverage
    return [
        {**edge, "x": x, "y": [max(value, zero) for value in model.spread.low], "showlegend": False},
        {
            **edge,
            "x": x,
            "y": [max(value, zero) for value in model.spread.high],
            "fill": "tonexty",
            "fillcolor": f"{own}-soft",
            "name": f"90 % of the {model.members} members{f' of {name}' if name else ''}, each alone",
        },
    ]


def _points(model: Model, own: str, zero: float, legend: bool, name: str) -> list[dict[str, Any]]:
    """The certificate's promise, and what was observed under it."""
    found = []
    whose = [f"{_escaped(name)}: " if name else ""]
    if model.promise is not None and model.promise.points:
        found.append(
            {
                "x": [point[0] for point in model.promise.points],
                "y": [point[1] for point in model.promise.points],
                "name": "the certificate's promise",
                "marker": {"symbol": "star", "size": 16, "color": own, "line": {"width": 1, "color": "@surface"}},
                "text": whose * len(model.promise.points),
                "hovertemplate": "%{text}promised: at most %{y:.2%} wrong, %{x:.1%} answered<extra></extra>",
            }
        )
    if model.accepted:
        assert model.accepted_wrong is not None
        risk = model.accepted_wrong / model.accepted
        found.append(
            {
                "x": [model.accepted / model.used],
                "y": [risk or zero],
                "customdata": [percent(risk)],
                "name": "observed under the certificate",
                "marker": {"symbol": "diamond", "size": 11, "color": own, "line": {"width": 1, "color": "@surface"}},
                "text": whose,
                "hovertemplate": "%{text}observed: %{customdata} wrong, %{x:.1%} answered<extra></extra>",
            }
        )
    return [
        {"type": "scatter", "mode": "markers", "legendgroup": str(one["name"]), "showlegend": legend, **one}
        for one in found
    ]


def _limits(models: Sequence[Model]) -> tuple[float, float, float, float]:
    """The smallest risk, where none is drawn, the largest risk, and the smallest coverage of the picture."""
    points = [point for model in models if model.promise for point in model.promise.points]
    shown = [risk for model in models for risk in model.curve.risk if risk > 0] + [risk for _, risk in points]
    shown += [max(model.spread.high) for model in models if model.spread and any(model.spread.high)]
    zeros = any(not risk for model in models for risk in model.curve.risk)
    low, high = (min(shown), max(shown)) if shown else (0.001, 0.1)
    high = max(high, 2 * low)
    ten = 10.0 ** math.floor(math.log10(low) + 1e-9)
    low = max(tick * ten for tick in TICKS if tick * ten <= low * (1 + 1e-9))
    starts = [
        share
        for model in models
        for share, risk in zip(model.curve.coverage, model.curve.risk, strict=True)
        if risk > 0
    ]
    starts = [min(starts)] if starts else [1.0]
    interesting = min([*starts, *(coverage for coverage, _ in points)]) / 1.4
    first = max((share for share in SHARES[:-2] if share <= interesting), default=SHARES[0])
    return low, (low / 2 if zeros else low), high, first


def floor(models: Sequence[Model]) -> float:
    """Where a risk of 0 is drawn, which a log scale does not have."""
    return _limits(models)[1]


def _tens(low: float, high: float) -> list[float]:
    return [10.0**power for power in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)]


def reliability(groups: Sequence[Bin], place: int) -> Figure:
    """How often answers were right, against how sure they were."""
    own = colour(place)
    largest = max(group.count for group in groups)
    first = min(group.start for group in groups)
    lowest = min(first, 0.9, *(group.low for group in groups if group.count >= FEW))
    start = math.floor(10 * lowest) / 10
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines",
                "name": "as sure as it should be",
                "x": [first, 1],
                "y": [first, 1],
                "line": {"color": "@muted", "width": 1.5, "dash": "dot"},
                "hoverinfo": "skip",
            },
            {
                "type": "scatter",
                "mode": "markers",
                "name": "observed, with 95 % intervals",
                "x": [group.confidence for group in groups],
                "y": [group.accuracy for group in groups],
                "customdata": [[count(group.count), percent(group.accuracy)] for group in groups],
                "cliponaxis": False,
                "error_y": {
                    "type": "data",
                    "array": [group.high - group.accuracy for group in groups],
                    "arrayminus": [group.accuracy - group.low for group in groups],
                    "color": own,
                    "thickness": 1.5,
                    "width": 4,
                },
                "marker": {"color": own, "size": [7 + 13 * math.sqrt(group.count / largest) for group in groups]},
                "hovertemplate": "on average %{x:.1%} sure<br>%{customdata[1]} right"
                "<br>%{customdata[0]} answers<extra></extra>",
            },
        ],
        "layout": _layout(
            height=340,
            xaxis={**_axis("how sure it said it was"), "range": [first - 0.02, 1.02], **_tenths(first)},
            yaxis={**_axis("how often it was right"), "range": [start - 0.03, 1.03], **_tenths(start)},
        ),
    }


def confidences(groups: Sequence[Group]) -> Figure:
    """How sure right and wrong answers were, each as shares of their own kind."""
    first = next(index for index, group in enumerate(groups) if group.n)
    groups = groups[first:]
    names = [_between(group) for group in groups]
    counts = {"right": [group.n - group.wrong for group in groups], "wrong": [group.wrong for group in groups]}
    patterns = {
        "right": {"shape": ""},
        "wrong": {"shape": "/", "size": 6, "solidity": 0.4, "fillmode": "overlay", "fgcolor": "@surface"},
    }
    return {
        "data": [
            {
                "type": "bar",
                "name": f"{kind} answers ({count(sum(numbers))})",
                "x": names,
                "y": [100 * number / max(1, sum(numbers)) for number in numbers],
                "customdata": [count(number) for number in numbers],
                "marker": {"color": f"@{kind}", "pattern": patterns[kind]},
                "hovertemplate": f"%{{customdata}} {kind} answers (%{{y:.1f}} % of them)<extra></extra>",
            }
            for kind, numbers in counts.items()
        ],
        "layout": _layout(
            height=340,
            barmode="group",
            bargap=0.25,
            xaxis={**_axis("how sure it was, in %"), "type": "category", "showgrid": False},
            yaxis={**_axis("share of its kind"), "ticksuffix": "\u00a0%", "rangemode": "tozero"},
        ),
    }


def latents(place: int) -> Figure:
    """The frame of the picture of latents; the page fills in the case that is chosen."""
    own = colour(place)
    return {
        "data": [
            {
                "type": "heatmap",
                "z": [],
                "zmin": 0,
                "zmax": 1,
                "colorscale": [[0, "@surface"], [0.4, f"{own}-soft"], [1, own]],
                "showscale": False,
                "xgap": 1,
                "ygap": 2,
                "hovertemplate": "latent %{y}: value %{customdata}, %{text}<extra></extra>",
            }
        ],
        "layout": _layout(
            height=420,
            margin={"l": 54, "r": 8, "t": 8, "b": 48},
            xaxis={**_axis("value, from lowest to highest"), "showgrid": False},
            yaxis={
                **_axis("latent"),
                "type": "category",
                "autorange": "reversed",
                "showgrid": False,
            },
        ),
    }


def _tenths(first: float) -> dict[str, Any]:
    """Marks from ``first`` to 1."""
    step = 2 if first < 0.5 else 1
    marks = [tenth / 10 for tenth in range(10, round(10 * first) - 1, -step)][::-1]
    return {"tickvals": marks, "ticktext": [percent(mark) for mark in marks]}


def _between(group: Group) -> str:
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
        # Found out by trying, and Plotly may give up: margins are set by hand.
        "automargin": False,
        "fixedrange": True,
    }


def _layout(**own: Any) -> dict[str, Any]:
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "@font", "size": 13, "color": "@ink"},
        "margin": {"l": 68, "r": 18, "t": 12, "b": 52},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        "hoverlabel": {"bgcolor": "@surface", "bordercolor": "@line", "font": {"color": "@ink"}},
        "hovermode": "closest",
        "dragmode": False,
        **own,
    }


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)
