"""The end: the words that were used, and where the figures come from."""

from squad.report.markup import Markup, element, join
from squad.report.number_format import count, percent
from squad.report.page.building_blocks import facts, fold, section
from squad.report.report_data import Content

__all__ = ["ending"]

#: The words a reader meets, each with a line.
GLOSSARY = (
    ("Confidence", "How sure the model says it is of an answer: the probability it gives to it, up to 100\u00a0%."),
    ("Threshold", "The confidence that an answer must exceed to be accepted."),
    ("Accepted", "The model's answer is used as it is."),
    ("Referred", "The model does not answer; a person has to look at the case."),
    ("Coverage", "The share of cases that are accepted."),
    ("Risk", "The share of wrong answers among the accepted ones."),
    (
        "Calibration cases",
        "Cases with known right answers that the model never learned from. The threshold and its promise come from"
        " them.",
    ),
    (
        "Test cases",
        "Other cases with known right answers, used here to look at the model. What is seen on them is an observation,"
        " not a promise.",
    ),
    ("Certificate", "A threshold with a promise: how often accepted answers may be wrong, and how certain that is."),
    ("Member", "One of several networks of the same kind, trained apart from each other, whose answers are averaged."),
    (
        "Sample",
        "An answer of a network with its inner doubts decided by chance. An answer is the mean of several samples.",
    ),
    (
        "Latent",
        "An inner variable of the network that takes one of a few values. The network works out how probable each value"
        " is for a case; where several are, it hesitates.",
    ),
)


def ending(content: Content) -> Markup:
    """The glossary, then settings, checksums and versions."""
    words = element(
        "dl", *(join(element("dt", word), element("dd", text)) for word, text in GLOSSARY), class_="glossary"
    )
    return join(
        section("words", "The words used here", None, words),
        section("origin", "Where do these figures come from?", None, _origin(content)),
    )


def _origin(content: Content) -> Markup:
    several = len(content.models) > 1
    parts = [facts(content.facts)]
    for model in content.models:
        of = model.name if several else "the model"
        parts.append(fold(f"How {of} was made", facts([("what it is", model.about), *model.facts])))
        if model.promise is not None:
            own = [
                ("method", model.promise.method),
                ("delta, the chance of a false promise", percent(model.promise.delta)),
                ("calibration cases", count(model.promise.m)),
                *model.promise.facts,
            ]
            parts.append(fold(f"How the certificate{f' of {model.name}' if several else ''} was made", facts(own)))
    return element("div", element("article", *parts, class_="card"), class_="models one")
