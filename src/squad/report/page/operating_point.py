"""Section with the slider: the reader chooses a selective risk and sees the resulting coverage."""

from collections.abc import Sequence
from typing import cast

from squad.report.markup import Markup, element, join, plain_table
from squad.report.number_format import approximate, count, exact_percent, percent, percent_rounded_up, plural, round_up
from squad.report.page.building_blocks import EMPTY_CELL, fold, section, side_by_side
from squad.report.plot_area import marker
from squad.report.report_data import Guarantee, ModelReport, ReportData
from squad.report.slider import REFERENCE_CASES, SliderPosition
from squad.selective.scored_cases import WRONG

__all__ = ["operating_point", "position_texts"]

#: Rows of the table: label, and names of the guaranteed and of the observed field.
TABLE_ROWS = (
    ("required confidence", "threshold", "threshold"),
    ("coverage", "coverage", "observed_coverage"),
    (f"referred, of {REFERENCE_CASES:,}", "referred", "observed_referred"),
    (f"accepted but wrong, of {REFERENCE_CASES:,}", "wrong", "observed_wrong"),
    ("selective risk", "rate", "observed_rate"),
)
BOUNDED, OBSERVED = "from calibration (\u201cat most\u201d is guaranteed)", "observed on the test set"
#: Columns of squares, and the size of a square with its margin.
SQUARE_COLUMNS, SQUARE_SIZE = 50, 10


def operating_point(report: ReportData) -> Markup:
    """Render the slider and its consequences for each model."""
    models = report.models
    positions = models[0].slider.positions
    only_one = len(positions) == 1
    many = "these models" if len(models) > 1 else "the model"
    return section(
        "operating-point",
        "Which risk can I accept, and how many cases does it refer?",
        None if only_one else f"Move the slider. The lower the risk, the more cases {many} must refer to a reviewer.",
        _fixed_risk(models) if only_one else _slider(report),
        side_by_side(models, lambda index, model: _card(index, model, report.start)),
        None if only_one else element("noscript", element("p", "The slider needs JavaScript, which is disabled.")),
    )


def _fixed_risk(models: Sequence[ModelReport]) -> Markup:
    """Say why there is nothing to choose from."""
    slider = models[0].slider
    cases = plural(slider.calibration_cases, "calibration case")
    if slider.guaranteed and all(model.slider.positions[0].accepts == "none" for model in models):
        text = f"no risk up to {percent(slider.r_max)} can be guaranteed with {cases}."
    elif slider.guaranteed:
        text = (
            f"the only risk to choose is {percent(slider.positions[0].risk)}. With {cases}, no smaller risk can be"
            " guaranteed, and a larger one would not accept more cases."
        )
    elif not any(model.wrong for model in models):
        text = "there is no error on the test set, whatever the threshold."
    else:
        text = "on the test set, no threshold has a selective risk between 0 and that of accepting every case."
    text = f"There is no slider: {text}"
    return element("p", text, class_="control card")


def _slider(report: ReportData) -> Markup:
    """Render the slider, with the certificates marked on its track."""
    models = report.models
    positions = models[0].slider.positions
    last = len(positions) - 1
    start = percent(positions[report.start].risk)
    selected = element("output", start, id="risk", for_="slider", class_="selected-risk")
    marks: dict[int, dict[float, list[str]]] = {}
    for model in models:
        for _, risk in [] if model.guarantee is None else model.guarantee.points:
            # Beyond the end, where every case is accepted, the last position does what the certificate does.
            index = max(index for index, position in enumerate(positions) if index == 0 or position.risk <= risk)
            marks.setdefault(index, {}).setdefault(risk, []).append(model.name)
    texts = {}
    for index, risks in sorted(marks.items()):
        owned = {risk: f" of {', '.join(names)}" if len(models) > 1 else "" for risk, names in sorted(risks.items())}
        texts[index] = ", ".join(f"certificate{owners}: {exact_percent(risk)}" for risk, owners in owned.items())
    # Labels of several marks could overlap; they are listed below the slider.
    listed = len(texts) > 1

    def mark(index: int) -> Markup:
        label = None if listed else element("span", texts[index])
        side = "from-right" if index > last / 2 else "from-left"
        star = marker("star", "plain", title=texts[index])
        return element("span", star, label, class_=side, style=_along(index, last))

    ends = [element("span", percent(positions[index].risk), style=_along(index, last)) for index in (0, last)]
    return element(
        "div",
        element("label", "I can accept a selective risk of ", selected, for_="slider"),
        element("div", *map(mark, texts), class_="marks") if texts else None,
        element(
            "input", type="range", id="slider", min="0", max=last, step="1", value=report.start, aria_valuetext=start
        ),
        element("div", *ends, class_="ticks", aria_hidden="true"),
        element("ul", *(element("li", marker("star", "plain"), text) for text in texts.values()), class_="keys")
        if listed
        else None,
        _why_different(models),
        class_="control card",
    )


def _along(index: int, last: int) -> str:
    """Return the style that places an element at a position of the slider; page.css knows the width of its thumb."""
    return f"--along:{index / last:.4f}"


def _why_different(models: Sequence[ModelReport]) -> Markup | None:
    """Say in one line why the slider's numbers differ from a certificate's."""
    if not any(model.guarantee and model.guarantee.points for model in models):
        return None
    if models[0].slider.guaranteed and any(_groups_or_harms(model) for model in models):
        text = (
            "The slider bounds the selective risk of all cases together. The certificate bounds more, groups or other"
            " harms, and may therefore accept far fewer cases at the same risk."
        )
    elif models[0].slider.guaranteed:
        text = (
            "The slider is more cautious than a certificate, because it guarantees all its positions at once; a"
            f" certificate guarantees one risk that was fixed in advance.{_price(models)}"
        )
    else:
        text = (
            "The slider shows what was observed on the test set; a certificate guarantees a risk, from calibration"
            " cases."
        )
    return element("p", text, class_="remark")


def _price(models: Sequence[ModelReport]) -> str:
    """Say what this caution costs at the risk of the certificate, for a single model with one risk."""
    points = [] if models[0].guarantee is None else models[0].guarantee.points
    if len(models) > 1 or len(points) != 1:
        return ""
    ((coverage, risk),) = points
    at_risk = [position.coverage or 0 for position in models[0].slider.positions if position.risk == risk]
    if not at_risk or at_risk[0] >= coverage:
        return ""
    return (
        f" At {exact_percent(risk)}, the certificate accepts {percent(coverage)} of the calibration cases, and the"
        f" slider {percent(at_risk[0])}."
    )


def _groups_or_harms(model: ModelReport) -> bool:
    """Return whether the certificate bounds more than the selective risk of all cases together."""
    guarantee = model.guarantee
    return guarantee is not None and (guarantee.by is not None or _has_other_harms(guarantee))


def _has_other_harms(guarantee: Guarantee) -> bool:
    return any(harm != WRONG for rule in guarantee.rules for harm in rule.risks)


def _card(index: int, model: ModelReport, start: int) -> Markup:
    guaranteed = model.slider.guaranteed
    initial = _texts(model, model.slider.positions[start])

    def field(name: str) -> Markup:
        """Return an element whose text the slider updates."""
        return element("span", initial[name], data_model=index, data_field=name)

    tiles = element(
        "ul",
        element("li", element("b", field("referred")), element("span", f"of {REFERENCE_CASES:,} cases are referred")),
        element(
            "li",
            element("b", field("wrong")),
            element("span", f"of {REFERENCE_CASES:,} cases are accepted but wrong"),
        ),
        class_="tiles",
    )
    legend = element(
        "p",
        f"Each square is one of {REFERENCE_CASES:,} cases: ",
        element("span", "filled", class_="key accepted"),
        " squares are accepted, ",
        element("span", "crosses", class_="key wrong"),
        f" are accepted but wrong{' (upper bound)' if guaranteed else ''}, ",
        element("span", "empty", class_="key referred"),
        " squares are referred to a reviewer.",
        class_="legend",
    )
    squares = _squares_figure(index, cast("list[int]", initial["squares"]))
    head = ["", BOUNDED, f"{OBSERVED}, not guaranteed"] if guaranteed else ["", f"{OBSERVED}, not guaranteed"]
    rows: list[list[object]] = [
        [label, *(field(name) for name in ((bound, observed) if guaranteed else (observed,)))]
        for label, bound, observed in TABLE_ROWS
    ]
    return join(
        element("p", field("note"), class_="slider-note", aria_live="polite"),
        element("div", element("div", tiles, squares, legend), plain_table(head, rows), class_="operating-point"),
        fold("What the slider guarantees", element("p", _guarantee_text(model)))
        if guaranteed
        else element("p", _observation_text(model), class_="remark"),
    )


def _squares_figure(index: int, counts: list[int]) -> Markup:
    """Draw the cases as squares; page.js draws them again when the slider moves, in the same way."""
    correct, wrong, referred = counts
    text = (
        f"Of {REFERENCE_CASES:,} cases, {correct} are accepted and correct, {wrong} accepted but wrong, {referred}"
        " referred to a reviewer"
    )
    kinds = (
        ("wrong", 0, wrong, "M{} {}l6 6m0-6l-6 6", 2.0),
        ("accepted", wrong, correct, "M{} {}h7v7h-7z", 1.5),
        ("referred", wrong + correct, referred, "M{} {}h6v6h-6z", 2.0),
    )
    paths = []
    for name, first, many, path, margin in kinds:
        corners = [divmod(square, SQUARE_COLUMNS) for square in range(first, first + many)]
        drawn = "".join(
            path.format(f"{SQUARE_SIZE * column + margin:g}", f"{SQUARE_SIZE * row + margin:g}")
            for row, column in corners
        )
        paths.append(element("path", class_=name, d=drawn))
    rows = REFERENCE_CASES // SQUARE_COLUMNS
    svg = element("svg", *paths, viewBox=f"0 0 {SQUARE_SIZE * SQUARE_COLUMNS} {SQUARE_SIZE * rows}", aria_hidden="true")
    return element("div", svg, class_="squares", id=f"squares{index}", role="img", aria_label=text)


def _observation_text(model: ModelReport) -> str:
    reason = (
        "this model has no calibration scores"
        if model.guarantee is None or not model.has_scores
        else "another model of this report has no calibration scores, and models are compared on the same basis"
    )
    return (
        f"Observed on the test set, not guaranteed: {reason}. The threshold is chosen on the same cases that it is"
        " evaluated on, so these results are optimistic."
    )


def _guarantee_text(model: ModelReport) -> str:
    slider = model.slider
    delta = slider.delta or 0
    text = (
        f"At confidence level {percent(1 - delta)}, the guarantees hold for all slider positions simultaneously, so you"
        " may choose the risk after looking at the results. They are computed from"
        f" {plural(slider.calibration_cases, 'calibration case')}. The range starts at the smallest risk that can be"
        " guaranteed with them, and ends where the model need not abstain"
        f" (at most {percent(slider.r_max)}, the largest risk that the guarantee covers). Risks that would accept the"
        " same cases are left out. The coverage is the one observed on these cases, not a bound; on new cases it will"
        " differ slightly. The probability that a guarantee"
        f" of the slider fails (at most {exact_percent(delta)}) is in addition to that of the certificate."
    )
    if model.guarantee is not None and model.guarantee.by is not None:
        text += " The slider uses one threshold for all cases and does not guarantee the risk within each group."
    if model.guarantee is not None and _has_other_harms(model.guarantee):
        text += " It bounds wrong predictions, and none of the other harms of the certificate."
    return text


def position_texts(model: ModelReport) -> list[dict[str, object]]:
    """Return the texts and counts that the page shows at each position of the slider."""
    return [_texts(model, position) for position in model.slider.positions]


def _texts(model: ModelReport, position: SliderPosition) -> dict[str, object]:
    none_accepted, slider = position.accepts == "none", model.slider
    coverage = position.accepted / model.used
    wrong = REFERENCE_CASES * position.wrong / model.used
    threshold = "any" if position.threshold is None else f"above {percent_rounded_up(position.threshold)}"
    texts: dict[str, object] = {
        "note": "",
        "threshold": EMPTY_CELL if none_accepted else threshold,
        "observed_coverage": percent(coverage),
        "observed_referred": approximate(REFERENCE_CASES * (1 - coverage)),
        "observed_wrong": approximate(wrong),
        "observed_rate": percent(position.wrong / position.accepted) if position.accepted else EMPTY_CELL,
    }
    if not slider.guaranteed:
        texts["referred"], texts["wrong"] = texts["observed_referred"], texts["observed_wrong"]
        texts["squares"] = _squares(
            round(REFERENCE_CASES * coverage), round_up(wrong / REFERENCE_CASES, REFERENCE_CASES)
        )
        if none_accepted:
            texts["note"] = "On the test set, the selective risk is higher than this at every threshold."
        return texts
    accepted, max_wrong = round(REFERENCE_CASES * (position.coverage or 0)), position.max_wrong or 0
    texts["squares"] = _squares(accepted, max_wrong)
    if none_accepted:
        texts |= {"coverage": percent(0), "referred": "all", "wrong": "none", "rate": EMPTY_CELL}
        return texts | {"note": _refusal(model, position)}
    return texts | {
        "coverage": f"about {percent(position.coverage or 0)}",
        "referred": f"about {count(REFERENCE_CASES - accepted)}",
        "wrong": f"at most {count(max_wrong)}",
        "rate": f"at most {exact_percent(position.risk)}",
    }


def _refusal(model: ModelReport, position: SliderPosition) -> str:
    """Explain why no case is accepted at a position."""
    cases = plural(model.slider.calibration_cases, "calibration case")
    text = f"This risk cannot be guaranteed with {cases}: every case would be referred."
    if model.guarantee and any(risk == position.risk for _, risk in model.guarantee.points):
        text += (
            " The certificate does guarantee it, because its risk was fixed in advance; the slider must guarantee all"
            " positions simultaneously."
        )
    return text


def _squares(accepted: int, wrong: int) -> list[int]:
    """Return the numbers of squares that are accepted and correct, accepted but wrong, and referred."""
    wrong = min(wrong, accepted)
    return [accepted - wrong, wrong, REFERENCE_CASES - accepted]
