"""The beginning: what the report is about, and whether the model can be relied on."""

from datetime import datetime

from squad.report.markup import Markup, element, join, plain_table
from squad.report.page.layout import NOTHING, fold, section, side_by_side
from squad.report.page.mistakes import harm_name
from squad.report.parts import Content, Model, Promise, RuleRow
from squad.report.words import count, exact, percent, plural, upwards

__all__ = ["header", "promise"]

LINKS = (
    ("promise", "The promise"),
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
        side_by_side(content.models, lambda _, model: _verdict(model, alone=len(content.models) == 1)),
    )


def _verdict(model: Model, alone: bool) -> Markup:
    made = model.promise
    if made is None:
        mark, title, kind = NOTHING, "No promise was made for this model", "none"
        text = element(
            "p",
            "It has no certificate, so nothing is known about how often it will be wrong on new cases. Everything in"
            " this report is an observation on the test cases. A certificate is made from calibration cases, with ",
            element("code", "squad certify"),
            ".",
        )
    elif not made.certified:
        mark, title, kind = "✕", "Nothing can be promised: every case is referred", "bad"
        text = element("p", made.sentence)
    else:
        mark, kind = ("!", "bad") if made.broken else ("✓", "good")
        title = _headline(made)
        text = element("p", _shown(made))
    badge = element("span", mark, class_=f"badge {kind}", aria_hidden="true")
    parts = [element("div", badge, element("p", title, class_="headline"), class_="verdict"), text]
    parts += [_alert(words) for words in _alerts(model)]
    parts.append(_tiles(model))
    parts += [_left_out(model)] if model.unreadable or model.unlabelled else []
    if made is not None and made.certified:
        parts += [_rules(made)] if len(made.rules) > 1 else []
        parts += [_assumptions(made, alone), fold("The certificate, word for word", element("p", made.sentence))]
    return join(*parts)


def _headline(made: Promise) -> str:
    good = [rule for rule in made.rules if rule.accepts != "none"]
    if all(rule.risks == made.rules[0].risks for rule in made.rules):
        limits = " and ".join(f"at most {exact(risk)} {_suffering(name)}" for name, risk in good[0].risks.items())
        where = "" if len(good) == len(made.rules) else f" in {len(good)} of {len(made.rules)} groups"
        return f"Of the answers it accepts{where}, {limits}"
    many = f"All {len(good)}" if len(good) == len(made.rules) else f"{len(good)} of the {len(made.rules)}"
    return f"{many} promises that were asked for can be made"


def _shown(made: Promise) -> str:
    """What the promise was made from, in two sentences."""
    certain = f"That is promised with {percent(1 - made.delta)} certainty."
    if len(made.rules) > 1:
        return f"{certain} It holds for all rules below at once, and comes from {plural(made.m, 'calibration case')}."
    rule = made.rules[0]
    harmed = " and ".join(f"{count(number)} {_suffering(name, number)}" for name, number in rule.errors.items())
    seen = f"Of {plural(rule.m, 'calibration case')} it accepts {count(rule.n)} ({percent(rule.n / rule.m)})"
    return f"{certain} {_accepting(rule)} {seen}, of which {harmed}."


def _accepting(rule: RuleRow) -> str:
    if rule.accepts == "all" or rule.threshold is None:
        return "Every answer is accepted."
    return f"An answer is accepted if its confidence is above {upwards(rule.threshold)}; other cases are referred."


def _suffering(harm: str, number: int = 2) -> str:
    kind, _, name = harm.partition(" ")
    one = number == 1
    if harm == "wrong":
        return "is wrong" if one else "are wrong"
    if kind == "missed" and name:
        return f"{'is a case' if one else 'are cases'} of “{name}” called something else"
    if kind == "false" and name:
        return f"wrongly {'says' if one else 'say'} “{name}”"
    return f"{'has' if one else 'have'} the harm “{harm}”"


def _alerts(model: Model) -> list[str]:
    found = []
    if model.promise is not None and model.promise.broken:
        found.append(
            "More mistakes were observed on the test than the certificate allows, and more than chance explains. The"
            " test cases may come from another source than the calibration cases, and new cases may, too. Do not rely"
            " on the promise before you know why."
        )
    if model.same:
        found.append(
            "The test cases are the calibration cases themselves. What is observed here is no independent check of the"
            " promise. Use other cases for the test."
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


def _rules(made: Promise) -> Markup:
    grouped = made.by is not None
    rows: list[list[object]] = []
    for rule in made.rules:
        limits = ", ".join(f"{harm_name(name).lower()}: {percent(risk)}" for name, risk in rule.risks.items())
        seen = ", ".join(count(number) for number in rule.errors.values()) if rule.n else NOTHING
        group = [rule.group or ""] if grouped else []
        rows.append([*group, limits, _accepts(rule), f"{count(rule.n)} of {count(rule.m)}", seen])
    head = [str(made.by)] if grouped else []
    head += ["at most", "accepts a confidence", "calibration cases accepted", "of these harmed"]
    return plain_table(head, rows, "Each threshold of the certificate")


def _accepts(rule: RuleRow) -> str:
    if rule.accepts == "all":
        return "of any height"
    if rule.threshold is not None:
        return f"above {upwards(rule.threshold)}"
    if rule.hopeless:
        return "none: more labels will not help"
    return "none" if rule.needed is None else f"none: about {count(rule.needed)} labels needed"


def _assumptions(made: Promise, unfolded: bool) -> Markup:
    items = [
        *(text[0].upper() + text[1:] + "." for text in made.assumptions),
        "The model is used as it was certified: the same weights, settings and way of sampling.",
    ]
    meaning = (
        "The promise is about many accepted cases together, not about a single one."
        f" {percent(1 - made.delta)} certainty means: if calibration cases were drawn again and again, it would be"
        f" false for at most {exact(made.delta)} of the draws. It holds provided that:"
    )
    body = [element("p", meaning), element("ul", *(element("li", item) for item in items))]
    return fold("What the promise means, and what it rests on", *body, unfolded=unfolded)
