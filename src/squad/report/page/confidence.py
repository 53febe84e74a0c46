"""Sections on the confidences: the reliability diagram, and the confidences of correct and wrong predictions."""

import math

import numpy as np

from squad.metrics.calibration import clopper_pearson
from squad.report.markup import Markup, element, join
from squad.report.number_format import count, percent
from squad.report.page.building_blocks import section, side_by_side
from squad.report.plot_area import Axis, bar, chart, lines, model_class, percent_axis
from squad.report.report_data import ModelReport, ReportData
from squad.report.summaries import ConfidenceBin

__all__ = ["confidence"]

#: Bins with at least this many predictions extend the vertical axis to show their whole interval; others, their dot.
MIN_BIN_COUNT = 5
#: One minus the confidence level of the interval of the accuracy.
INTERVAL_MISS = 0.05
#: Diameters of the smallest and the largest dot of a reliability diagram, in pixels.
DOT_SIZES = (8, 20)


def confidence(report: ReportData) -> Markup:
    """Render two sections with one kind of chart each."""
    models = report.models
    return join(
        section(
            "reliability",
            "If the model is 90\u00a0% confident, is it right 9 times out of 10?",
            "In this reliability diagram, predictions are grouped by confidence. A model is perfectly calibrated if its"
            " accuracy equals its confidence (dotted line). Below the line it is overconfident, above the line"
            " underconfident. Larger dots stand for more predictions; the vertical bars are 95\u00a0% confidence"
            " intervals of the accuracy.",
            side_by_side(models, _reliability),
        ),
        section(
            "confidences",
            "Is the model less confident when it is wrong?",
            "It should be: then a confidence threshold filters out errors. Plain bars are correct predictions,"
            " striped bars wrong ones; the bars of each kind add up to 100\u00a0%. The further left the striped bars,"
            " the better.",
            side_by_side(models, lambda _, model: _histogram(model)),
        ),
    )


def _reliability(index: int, model: ModelReport) -> Markup:
    bins, colour = model.reliability, model_class(index)
    largest = max(group.count for group in bins)
    first = min(group.start for group in bins)
    lowest = min(first, 0.9, *(group.low if group.count >= MIN_BIN_COUNT else group.accuracy for group in bins))
    x = percent_axis("confidence", min(first, 0.9), 1)
    y = percent_axis("accuracy", math.floor(10 * lowest) / 10, 1)
    start = max(x.low, y.low)
    drawn = [lines(x, y, [(start, start), (1, 1)], "reference")]
    placed = []
    for group in bins:
        drawn.append(lines(x, y, [(group.confidence, group.low), (group.confidence, group.high)], f"interval {colour}"))
        size = DOT_SIZES[0] + (DOT_SIZES[1] - DOT_SIZES[0]) * math.sqrt(group.count / largest)
        left, bottom = x.place(group.confidence), y.place(group.accuracy)
        style = f"left:{100 * left:.2f}%;bottom:{100 * bottom:.2f}%;width:{size:.0f}px;height:{size:.0f}px"
        title = (
            f"mean confidence {percent(group.confidence)}, accuracy {percent(group.accuracy)},"
            f" {count(group.count)} predictions"
        )
        placed.append(element("span", class_=f"dot {colour}", style=style, title=title))
    keys = [
        (element("span", class_="key-line reference", aria_hidden="true"), "perfectly calibrated"),
        (element("span", class_=f"dot {colour}", aria_hidden="true"), "observed, with 95\u00a0% confidence intervals"),
    ]
    return chart(x, y, _calibration_text(model), drawn, placed, keys)


def _calibration_text(model: ModelReport) -> str:
    """Compare mean confidence and accuracy; gaps of opposite sign at different confidences may cancel in them."""
    mean = sum(group.count * group.confidence for group in model.reliability) / model.used
    correct = model.used - model.wrong
    low, high = clopper_pearson(np.array([correct]), np.array([model.used]), INTERVAL_MISS)
    observed = f"Mean confidence {percent(mean)}, accuracy {percent(correct / model.used)}"
    if low[0] <= mean <= high[0]:
        return f"{observed}: the difference is within chance."
    return f"{observed}: on average, the model is {'over' if mean > high[0] else 'under'}confident."


def _histogram(model: ModelReport) -> Markup:
    bins = model.confidences
    bins = bins[next(index for index, group in enumerate(bins) if group.n) :]
    counts = {"correct": [group.n - group.wrong for group in bins], "wrong": [group.wrong for group in bins]}
    fractions = {kind: [n / max(1, sum(numbers)) for n in numbers] for kind, numbers in counts.items()}
    y = percent_axis("percentage of each kind", 0, 1.05 * max(max(numbers) for numbers in fractions.values()))
    ticks = tuple(((index + 0.5) / len(bins), _bin_name(group)) for index, group in enumerate(bins))
    x = Axis(0, 1, ticks, "confidence in %")
    placed = []
    for offset, (kind, numbers) in enumerate(counts.items()):
        for index, number in enumerate(numbers):
            fraction = fractions[kind][index]
            title = f"{count(number)} {kind} predictions ({percent(fraction)} of them)"
            left = (index + 0.12 + 0.38 * offset) / len(bins)
            placed.append(bar(left, 0.38 / len(bins), y.place(fraction), kind, title))
    keys = [
        (element("span", class_=f"key-area column {kind}", aria_hidden="true"), f"{kind} predictions ({count(sum(n))})")
        for kind, n in counts.items()
    ]
    return chart(x, y, _confidence_text(model), [], placed, keys)


def _bin_name(group: ConfidenceBin) -> str:
    low, high = (f"{100 * edge:.4g}" for edge in (group.low, group.high))
    if group.low == 0:
        return f"under {high}"
    return f"over {low}" if group.high == 1 else f"{low}\u2013{high}"


def _confidence_text(model: ModelReport) -> str:
    if model.wrong in (0, model.used):
        return f"All predictions on the test set are {'wrong' if model.wrong else 'correct'}."
    high = [group for group in model.confidences if group.low >= 0.9]
    correct, wrong = sum(group.n - group.wrong for group in high), sum(group.wrong for group in high)
    fractions = [percent(correct / (model.used - model.wrong)), percent(wrong / model.wrong) if wrong else "none"]
    return (
        f"The confidence is above 90\u00a0% for {fractions[0]} of the correct predictions and {fractions[1]} of the"
        " wrong ones."
    )
