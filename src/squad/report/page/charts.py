"""The pictures: mistakes against coverage, how honest confidence is, and how it tells right from wrong."""

from squad.report.markup import Markup, element, join, plain_table
from squad.report.number_format import percent
from squad.report.page.building_blocks import fold, plot, section, side_by_side
from squad.report.report_data import Content, Model

__all__ = ["charts"]


def charts(content: Content) -> Markup:
    """Three sections with a picture each."""
    models = content.models
    return join(
        _curve(content),
        section(
            "reliability",
            "When it says 90\u00a0% sure, is it right 9 times out of 10?",
            "Answers are put into groups by how sure the model was. On the dotted line it is right as often as it says."
            " Above the line it is more careful than it needs to be; below it is too sure of itself. Larger dots stand"
            " for more answers; the thin lines show how far chance alone could move them.",
            side_by_side(models, lambda place, model: plot(f"reliability{place}", _reliability(model))),
        ),
        section(
            "confidences",
            "Is it less sure when it is wrong?",
            "It should be: then a threshold keeps mistakes out. Plain bars are right answers, striped bars wrong ones,"
            " each as a share of its own kind. The further the striped bars stand to the left, the better.",
            side_by_side(models, lambda place, model: plot(f"confidences{place}", _confidence(model))),
        ),
    )


def _curve(content: Content) -> Markup:
    models = content.models
    lead = [
        "A model that answers only when it is sure answers fewer cases and makes fewer mistakes. Each point of a line"
        " is one threshold: to the left it is strict, at the right end every case is answered. The lower the line, the"
        " better. Both scales are stretched (logarithmic), so that small shares can be told apart."
    ]
    if any(model.promise and model.promise.points for model in models):
        lead.append("A star is what a certificate promises, a diamond what was observed on the test with it.")
    if any(model.spread for model in models):
        lead.append(
            "The shaded area holds 90\u00a0% of the members, each asked alone: it shows what luck in training does."
        )
    several = len(models) > 1
    table = plain_table(
        ["wrong among the accepted", *(model.name if several else "cases answered" for model in models)],
        [
            [percent(risk), *(percent(model.coverages[line][1]) for model in models)]
            for line, (risk, _) in enumerate(models[0].coverages)
        ],
        "Cases answered at each share of wrong answers (observed, no guarantee)",
    )
    words = " ".join(_words(model, model.name if several else "It") for model in models)
    card = element("article", plot("curve", words, tall=True), fold("The numbers", table), class_="card")
    return section(
        "curve",
        "How many mistakes remain if it answers fewer cases?",
        " ".join(lead),
        element("div", card, class_="models one"),
    )


def _words(model: Model, who: str) -> str:
    if not model.wrong:
        return f"{who} made no mistake on the test."
    half = next(risk for share, risk in zip(model.curve.coverage, model.curve.risk, strict=True) if share >= 0.5)
    surest = f"in {percent(half)} of" if half else "in none of"
    return f"{who} is wrong in {percent(model.wrong / model.used)} of all test cases, and {surest} the surest half."


def _reliability(model: Model) -> str:
    sure = sum(group.count * group.confidence for group in model.reliability) / model.used
    right = 1 - model.wrong / model.used
    gap = sure - right
    verdict = "as sure as it should be" if abs(gap) < 0.005 else "too sure of itself" if gap > 0 else "too modest"
    return f"On average it said {percent(sure)} and was right in {percent(right)}: over all it is {verdict}."


def _confidence(model: Model) -> str:
    if not model.wrong:
        return "There are no wrong answers to compare with."
    high = [group for group in model.confidences if group.low >= 0.9]
    right, wrong = sum(group.n - group.wrong for group in high), sum(group.wrong for group in high)
    shares = [percent(right / max(1, model.used - model.wrong)), percent(wrong / model.wrong) if wrong else "none"]
    return f"{shares[0]} of the right answers and {shares[1]} of the wrong ones are more than 90\u00a0% sure."
