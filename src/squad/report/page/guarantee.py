"""The beginning: what the report is about, and whether the model can be relied on."""

from datetime import datetime

from squad.report.markup import Markup, element, join, plain_table
from squad.report.number_format import SPACE, count, exact, percent, plural, upwards
from squad.report.page.building_blocks import NOTHING, fold, section, side_by_side
from squad.report.page.mistakes import harm_name
from squad.report.report_data import Content, Model, Promise, RuleRow
from squad.selective.certificate_text import punctuated

__all__ = ["header", "promise"]

LINKS = (
    ("promise", "Guarantee"),
    ("choose", "Choose a risk"),
    ("curve", "Risk and coverage"),
    ("reliability", "Confidence"),
    ("cases", "Cases"),
    ("harms", "Mistakes"),
    ("words", "Words"),
    ("origin", "Origin"),
)


def header(content: Content) -> Markup:
    """The title, what was tested, and where to find what."""
    models = content.models
    title = models[0].name if len(models) == 1 else f"{len(models)} models side by side"
    made = datetime.fromisoformat(content.date)
    date = f"{made.day} {made:%B %Y}"
    about = element("p", f"Tested on {plural(models[0].rows, 'case')} of ", element("b", content.source), f", {date}.")
    nav = element("nav", *(element("a", text, href=f"#{name}") for name, text in LINKS), aria_label="Sections")
    return element("header", element("p", "Report on", class_="eyebrow"), element("h1", title), about, nav)


def promise(content: Content) -> Markup:
    """The certificate of each model, and what was observed under it."""
    title = "Can I rely on it?" if len(content.models) == 1 else "Can I rely on them?"
    return section(
        "promise",
        title,
        None,
        side_by_side(content.models, lambda _, model: _verdict(model)),
    )


def _verdict(model: Model) -> Markup:
    made = model.promise
    parts: list[Markup] = []
    if made is None:
        mark, title, kind = NOTHING, "Not certified: this model has no certificate", "none"
        parts.append(
            element(
                "p",
                "Nothing is known about how often it will be wrong on new cases: everything in this report is an"
                " observation on the test cases. A certificate is made from calibration cases, with ",
                element("code", "squad certify"),
                ".",
            )
        )
    elif not made.certified:
        mark, title, kind = "✕", made.title, "bad"
        parts.append(element("p", _unbroken(f"{made.failure} Every case is referred to a reviewer.".lstrip())))
    else:
        mark, kind = ("!", "bad") if made.broken else ("✓", "good")
        title = made.title
        parts.append(element("p", _unbroken(f"{made.accepted[0].upper()}{made.accepted[1:]}.")))
    badge = element("span", mark, class_=f"badge {kind}", aria_hidden="true")
    head = element("div", badge, element("p", _unbroken(title), class_="headline"), class_="verdict")
    parts = [head, *parts, *(_alert(words) for words in _doubts(model))]
    if made is not None:
        parts += [_certificate(made)]
    parts += [*(_alert(words) for words in _alerts(model)), _tiles(model)]
    parts += [_left_out(model)] if model.unreadable or model.unlabelled else []
    return join(*parts)


def _certificate(made: Promise) -> Markup:
    """What stands below the headline of a certificate, in the words and the order in which a terminal shows it."""
    parts = [element("p", _unbroken(text)) for text in made.targets]
    if made.table is not None:
        head, rows = made.table
        cells: list[list[object]] = [[*map(_unbroken, row), *[""] * (len(head) - len(row))] for row in rows]
        parts.append(plain_table(head, cells, "What is certified, line by line"))
    if made.certified:
        items = [element("li", _unbroken(text)) for text in punctuated(made.assumptions)]
        parts += [element("p", element("b", "Guarantee: "), _unbroken(f"{made.guarantee} if"))]
        parts += [element("ul", *items, class_="assumptions")]
    parts.append(element("p", f"Method: {made.method}.", class_="observed"))
    if made.certified:
        parts.append(_meaning(made))
    return join(*parts)


def _meaning(made: Promise) -> Markup:
    text = (
        "The guarantee is about many accepted cases together, not about a single one. A confidence level of"
        f" {percent(1 - made.delta)} means: if calibration cases were drawn again and again, the guarantee would be"
        f" false for at most {exact(made.delta)} of the draws. It is about the model as it was certified: the same"
        " weights, settings and sampling mode."
    )
    accepting = [_accepting(made.rules[0])] if len(made.rules) == 1 else []
    return fold("What this means", element("p", " ".join([*accepting, text])))


def _accepting(rule: RuleRow) -> str:
    if rule.accepts == "all" or rule.threshold is None:
        return "Every prediction is accepted."
    return (
        f"A prediction is accepted if its confidence is above {upwards(rule.threshold)}; other cases are referred to a"
        " reviewer."
    )


def _unbroken(text: str) -> str:
    """With numbers that keep their percent sign at the end of a line."""
    return text.replace(" %", f"{SPACE}%")


def _doubts(model: Model) -> list[str]:
    """About the guarantee itself."""
    if model.promise is not None and model.promise.broken:
        return [
            "More mistakes were observed on the test than the certificate allows, and more than chance explains. The"
            " test cases may come from another source than the calibration cases, and new cases may, too. Do not rely"
            " on the guarantee before you know why."
        ]
    return []


def _alerts(model: Model) -> list[str]:
    """About what was observed on the test."""
    found = []
    if model.same:
        found.append(
            "The test cases are the calibration cases themselves. What is observed here is no independent check of the"
            " guarantee. Use other cases for the test."
        )
    if model.seen:
        found.append(
            f"The model was made from {count(model.seen)} of the {count(model.used)} test cases. It is surer and more"
            " often right about cases it has seen than about new ones: what is observed here is too good."
        )
    if not model.checked:
        found.append(
            "Whether the model has seen these test cases before could not be checked: it keeps no hashes of its rows."
        )
    return found


def _alert(words: str) -> Markup:
    return element("p", element("b", "Caution. "), words, class_="alert", role="alert")


def _tiles(model: Model) -> Markup:
    tiles = [(percent(1 - model.wrong / model.used), "right, if it answered every case")]
    if model.accepted is not None and model.promise is not None and model.promise.certified:
        tiles.append((percent(model.accepted / model.used), "of the cases accepted"))
        if model.accepted:
            wrong = model.accepted_wrong or 0
            tiles.append(
                (percent(wrong / model.accepted), f"of these wrong: {count(wrong)} of {count(model.accepted)}")
            )
    made = [element("li", element("b", number), element("span", text)) for number, text in tiles]
    which = ""
    if model.target:
        limits = ", ".join(f"{harm_name(name).lower()} {percent(risk)}" for name, risk in model.target.items())
        which = f" Accepted is what the first of the targets accepts ({limits})."
    title = f"Observed on {plural(model.used, 'test case')}, no guarantee.{which}"
    return join(element("p", title, class_="observed"), element("ul", *made, class_="tiles"))


def _left_out(model: Model) -> Markup:
    parts = []
    if model.unreadable:
        one = model.unreadable == 1
        cases = f"{count(model.unreadable)} of {plural(model.rows, 'case')}"
        parts.append(
            f"{cases} could not be read: {'it is' if one else 'they are'} referred, and in none of the figures."
        )
    if model.unlabelled:
        one = model.unlabelled == 1
        verbs = ("has", "is") if one else ("have", "are")
        parts.append(f"{plural(model.unlabelled, 'case')} {verbs[0]} no right answer, and {verbs[1]} left out.")
    reasons = [element("li", reason) for reason in model.reasons]
    more = model.unreadable - len(model.reasons)
    if more:
        reasons.append(element("li", f"and {count(more)} more"))
    return element(
        "div", element("p", " ".join(parts)), fold("Why?", element("ul", *reasons)) if reasons else None, class_="note"
    )
