"""Last sections of the page: the glossary, and how the results were produced."""

from squad.report.markup import Markup, element, join
from squad.report.number_format import count, percent
from squad.report.page.building_blocks import facts, fold, section
from squad.report.report_data import ReportData

__all__ = ["footer"]

#: Terms of the report with their definitions.
GLOSSARY = (
    ("Confidence", "Probability that the model assigns to its prediction, up to 100\u00a0%."),
    ("Threshold", "The confidence above which a prediction is accepted."),
    ("Accepted", "The confidence exceeds the threshold; the prediction is used without review."),
    ("Referred", "The model abstains; a reviewer has to decide the case."),
    ("Coverage", "Share of cases that are accepted."),
    ("Selective risk", "Error rate among accepted cases."),
    (
        "Calibration cases",
        "Labelled cases that the model was not trained on. The threshold and its guarantee are computed from them.",
    ),
    (
        "Test cases",
        "Other labelled cases, used in this report to evaluate the model. Results on them are observations, not"
        " guarantees.",
    ),
    ("Certificate", "A threshold with a guarantee: a bound on the selective risk, and a confidence level."),
    (
        "Confidence level",
        "The guarantee holds for at least this share of random draws of the calibration cases: 1\u00a0\u2212\u00a0δ.",
    ),
    (
        "Ensemble member",
        "One of several networks of the same architecture, trained independently, whose predicted probabilities are"
        " averaged.",
    ),
    (
        "Sample",
        "Output of a network with its latent variables drawn at random. A prediction averages several samples.",
    ),
    (
        "Latent variable",
        "An internal variable of the network that takes one of a few values. The network predicts a probability for"
        " each value.",
    ),
)


def footer(report: ReportData) -> Markup:
    """Render the glossary, then settings, checksums and versions."""
    terms = element(
        "dl", *(join(element("dt", term), element("dd", text)) for term, text in GLOSSARY), class_="glossary"
    )
    return join(
        section("glossary", "Glossary", None, terms),
        section("provenance", "How were these results produced?", None, _provenance(report)),
    )


def _provenance(report: ReportData) -> Markup:
    several = len(report.models) > 1
    parts = [facts(report.facts)]
    for model in report.models:
        name = model.name if several else "the model"
        parts.append(fold(f"How {name} was built", facts([("summary", model.about), *model.facts])))
        if model.guarantee is not None:
            settings = [
                ("method", model.guarantee.method),
                ("delta (1 \u2212 confidence level)", percent(model.guarantee.delta)),
                ("calibration cases", count(model.guarantee.m)),
                *model.guarantee.facts,
            ]
            suffix = f" of {model.name}" if several else ""
            parts.append(fold(f"How the certificate{suffix} was computed", facts(settings)))
    return element("div", element("article", *parts, class_="card"), class_="models one")
