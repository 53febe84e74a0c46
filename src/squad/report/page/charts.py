"""Sections with charts: risk–coverage curve, reliability diagram, and confidences of correct and wrong predictions."""

from squad.report.markup import Markup, element, join, plain_table
from squad.report.number_format import percent
from squad.report.page.building_blocks import figure, fold, section, side_by_side
from squad.report.report_data import ModelReport, ReportData

__all__ = ["charts"]


def charts(report: ReportData) -> Markup:
    """Render three sections with one kind of chart each."""
    models = report.models
    return join(
        _risk_coverage(report),
        section(
            "reliability",
            "If the model is 90\u00a0% confident, is it right 9 times out of 10?",
            "In this reliability diagram, predictions are grouped by confidence. A model is perfectly calibrated if its"
            " accuracy equals its confidence (dotted line). Below the line it is overconfident, above the line"
            " underconfident. Larger dots stand for more predictions; the vertical bars are 95\u00a0% confidence"
            " intervals of the accuracy.",
            side_by_side(models, lambda index, model: figure(f"reliability{index}", _calibration_text(model))),
        ),
        section(
            "confidences",
            "Is the model less confident when it is wrong?",
            "It should be: then a confidence threshold filters out errors. Plain bars are correct predictions,"
            " striped bars wrong ones; the bars of each kind add up to 100\u00a0%. The further left the striped bars,"
            " the better.",
            side_by_side(models, lambda index, model: figure(f"confidences{index}", _confidence_text(model))),
        ),
    )


def _risk_coverage(report: ReportData) -> Markup:
    models = report.models
    lead = [
        "The risk\u2013coverage curve shows the selective risk at every confidence threshold. On the left, the"
        " threshold is strict and few cases are accepted; at the right end, all are. The lower the curve, the better."
        " Both axes are logarithmic."
    ]
    if any(model.guarantee and model.guarantee.points for model in models):
        lead.append("A star marks what a certificate guarantees, a diamond what was observed on the test set with it.")
    if any(model.spread for model in models):
        lead.append(
            "The shaded area contains 90\u00a0% of the ensemble members, each predicting alone: it shows how much"
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
    text = " ".join(_risk_text(model, model.name if several else "The model") for model in models)
    card = element("article", figure("curve", text, tall=True), fold("Numbers", table), class_="card")
    return section(
        "curve",
        "How many errors remain if the model accepts fewer cases?",
        " ".join(lead),
        element("div", card, class_="models one"),
    )


def _risk_text(model: ModelReport, name: str) -> str:
    if not model.wrong:
        return f"{name} made no error on the test set."
    half = next(risk for coverage, risk in zip(model.curve.coverage, model.curve.risk, strict=True) if coverage >= 0.5)
    return (
        f"{name} has an error rate of {percent(model.wrong / model.used)} on all test cases, and of {percent(half)} on"
        " the most confident half."
    )


def _calibration_text(model: ModelReport) -> str:
    confidence = sum(group.count * group.confidence for group in model.reliability) / model.used
    accuracy = 1 - model.wrong / model.used
    gap = confidence - accuracy
    verdict = "well calibrated" if abs(gap) < 0.005 else "overconfident" if gap > 0 else "underconfident"
    return f"Mean confidence {percent(confidence)}, accuracy {percent(accuracy)}: on average, the model is {verdict}."


def _confidence_text(model: ModelReport) -> str:
    if not model.wrong:
        return "All predictions on the test set are correct."
    high = [group for group in model.confidences if group.low >= 0.9]
    correct, wrong = sum(group.n - group.wrong for group in high), sum(group.wrong for group in high)
    fractions = [percent(correct / max(1, model.used - model.wrong)), percent(wrong / model.wrong) if wrong else "none"]
    return (
        f"The confidence is above 90\u00a0% for {fractions[0]} of the correct predictions and {fractions[1]} of the"
        " wrong ones."
    )
