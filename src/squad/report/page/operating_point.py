"""The slider: a risk is chosen, and its cost is shown."""

from squad.report.markup import Markup, element, join, plain_table
from squad.report.number_format import at_most, count, exact, percent, plural, rounded, upwards
from squad.report.page.building_blocks import NOTHING, section, side_by_side
from squad.report.report_data import Content, Model
from squad.report.slider import OF, Choice

__all__ = ["choice", "positions"]

#: What is told at each position: in words, promised, observed.
LINES = (
    ("confidence", "threshold", "threshold"),
    ("accepted", "coverage", "observed_coverage"),
    (f"referred, of {OF:,}", "referred", "observed_referred"),
    (f"wrong, of {OF:,}", "wrong", "observed_wrong"),
    ("wrong among the accepted", "rate", "observed_rate"),
)
OBSERVED = "observed on the test, no guarantee"


def choice(content: Content) -> Markup:
    """The slider, and what follows from it for each model."""
    models = content.models
    choices = models[0].slider.choices
    start = percent(choices[content.start].risk)
    last = len(choices) - 1
    ticks = [
        element("span", percent(one.risk), style=f"left:{100 * place / last:.3f}%")
        for place, one in enumerate(choices)
        if one.risk in (0.001, 0.01) or place in (0, last)
    ]
    chosen = element("output", start, id="risk", for_="slider", class_="chosen")
    control = element(
        "div",
        element("label", "I can accept that ", chosen, " of the accepted answers are wrong.", for_="slider"),
        element(
            "input",
            type="range",
            id="slider",
            min="0",
            max=last,
            step="1",
            value=content.start,
            aria_valuetext=start,
        ),
        element("div", *ticks, class_="ticks", aria_hidden="true"),
        class_="control card",
    )
    who = "these models" if len(models) > 1 else "the model"
    return section(
        "choose",
        "What risk can I accept, and what does it cost?",
        f"Move the slider. The smaller the risk, the more cases {who} must refer to a person.",
        control,
        side_by_side(models, lambda place, model: _card(place, model, content.start)),
        element("noscript", element("p", "The slider and the pictures need JavaScript, which is switched off here.")),
    )


def _card(place: int, model: Model, start: int) -> Markup:
    promised = model.slider.promised
    first = _position(model, model.slider.choices[start])

    def live(name: str) -> Markup:
        """A place whose text the slider changes."""
        return element("span", first[name], data_model=place, data_field=name)

    tiles = element(
        "ul",
        element("li", element("b", live("referred")), element("span", f"of {OF:,} cases referred")),
        element("li", element("b", live("wrong")), element("span", f"wrong answers pass, of {OF:,} cases")),
        class_="tiles",
    )
    legend = element(
        "p",
        f"Each square is one of {OF:,} cases: ",
        element("span", "filled", class_="key answered"),
        " answered, ",
        element("span", "crossed", class_="key wrong"),
        f" wrong and not noticed{' (at most so many)' if promised else ''}, ",
        element("span", "hollow", class_="key referred"),
        " referred.",
        class_="legend",
    )
    squares = element("div", class_="squares", id=f"squares{place}", role="img", aria_label=f"{OF} cases as squares")
    head = ["", "promised", OBSERVED] if promised else ["", OBSERVED]
    rows: list[list[object]] = [
        [text, *(live(name) for name in ((sure, seen) if promised else (seen,)))] for text, sure, seen in LINES
    ]
    return join(
        element("p", live("note"), class_="nothing", aria_live="polite"),
        element("div", element("div", tiles, squares, legend), plain_table(head, rows), class_="choice"),
        element("p", _promised(model) if promised else _observed(), class_="says"),
    )


def _observed() -> str:
    return (
        "Observed on the test, no guarantee: there are no calibration scores with this model. The threshold is chosen"
        " on the very cases it is judged by, which flatters it."
    )


def _promised(model: Model) -> str:
    slider = model.slider
    able = [one.risk for one in slider.choices if one.accepts != "none"]
    least = f" The smallest risk that can be promised with them is about {percent(able[0])}." if able else ""
    return (
        f"With {percent(1 - (slider.delta or 0))} certainty the promised figures hold for every position of the slider"
        " at once, so you may choose after looking. That makes them a little more careful than the certificate, whose"
        f" risk was fixed before. They come from {plural(slider.calibration, 'calibration case')}.{least}"
        " How many cases are accepted is what was seen on these, and will differ a little. The chance to be false is"
        f" the slider's own, beside that of the certificate.{_groups(model)}"
    )


def _groups(model: Model) -> str:
    if model.promise is None or model.promise.by is None:
        return ""
    return " The slider has one threshold for all cases, and promises nothing about single groups."


def positions(model: Model) -> list[dict[str, object]]:
    """What each position of the slider shows for a model, in words: the page looks it up."""
    return [_position(model, one) for one in model.slider.choices]


def _position(model: Model, one: Choice) -> dict[str, object]:
    none, slider = one.accepts == "none", model.slider
    share = one.accepted / model.used
    passed = OF * one.wrong / model.used
    height = "of any height" if one.threshold is None else f"above {upwards(one.threshold)}"
    shown: dict[str, object] = {
        "note": "",
        "threshold": NOTHING if none else height,
        "observed_coverage": percent(share),
        "observed_referred": rounded(OF * (1 - share)),
        "observed_wrong": rounded(passed),
        "observed_rate": percent(one.wrong / one.accepted) if one.accepted else NOTHING,
    }
    if not slider.promised:
        shown["referred"], shown["wrong"] = shown["observed_referred"], shown["observed_wrong"]
        shown["squares"] = _squares(round(OF * share), at_most(passed / OF, OF))
        if none:
            shown["note"] = "At no threshold was the share of wrong answers on the test this small."
        return shown
    answered, most = round(OF * (one.coverage or 0)), one.most_wrong or 0
    shown["squares"] = _squares(answered, most)
    if none:
        shown |= {"coverage": "none", "referred": "all", "wrong": "none", "rate": NOTHING, "note": _refusal(model, one)}
        return shown
    return shown | {
        "coverage": f"about {percent(one.coverage or 0)}",
        "referred": f"about {count(OF - answered)}",
        "wrong": f"at most {count(most)}",
        "rate": f"at most {exact(one.risk)}",
    }


def _refusal(model: Model, one: Choice) -> str:
    if one.risk > model.slider.r_max:
        return f"The promise of this model goes up to a risk of {percent(model.slider.r_max)}."
    cases = plural(model.slider.calibration, "calibration case")
    text = f"Nothing can be promised at this risk with these {cases}: every case would be referred."
    if model.promise and any(risk == one.risk for _, risk in model.promise.points):
        text += " The certificate can: its risk was fixed before looking. The slider promises all positions at once."
    return text


def _squares(answered: int, wrong: int) -> list[int]:
    """How many squares are answered, wrong and referred: a wrong one is one of the answered."""
    wrong = min(wrong, answered)
    return [answered - wrong, wrong, OF - answered]
