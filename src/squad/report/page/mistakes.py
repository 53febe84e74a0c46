"""How often each harm happens, and what becomes of each class."""

from squad.report.markup import Markup, join, plain_table
from squad.report.number_format import count, exact, percent
from squad.report.page.building_blocks import NOTHING, section, side_by_side
from squad.report.report_data import Content, Model
from squad.selective.risk_text import COST, FALSE, MISS_RATE, MISSED, WRONG, amount, split_harm

__all__ = ["harm_name", "mistakes"]


def mistakes(content: Content) -> Markup:
    """Two tables a model."""
    return section(
        "harms",
        "What kinds of mistakes are there?",
        None,
        side_by_side(content.models, lambda _, model: join(_harms(model), _classes(model))),
    )


def harm_name(name: str) -> str:
    """A harm as a reader knows it."""
    kind, label = split_harm(name)
    texts = {
        MISSED: "“{}” called something else",
        FALSE: "“{}” said, but wrong",
        MISS_RATE: "“{}” called something else, of all “{}”",
        WRONG: "Wrong answer",
    }
    return texts[kind].format(label, label) if kind else "Cost" if name == COST else name


def _rate(part: float | None, whole: int | None, costs: bool = False) -> str:
    if part is None or whole is None:
        return "not known"
    if not whole:
        return NOTHING
    if costs:
        return f"mean {part / whole:.4g}, of {count(whole)}"
    return f"{amount(part)} of {count(whole)}" + (f" ({percent(part / whole)})" if part else "")


def _among(model: Model) -> str:
    return "the accepted cases" if model.among_accepted else "all test cases"


def _harms(model: Model) -> Markup:
    certified = model.promise is not None
    several = any(harm.target for harm in model.harms)
    rows: list[list[object]] = []
    for harm in model.harms:
        limit = NOTHING if harm.limit is None else f"at most {exact(harm.limit)}"
        if harm.costs and harm.limit is not None:
            limit = f"mean of at most {harm.limit:.10g}"
        promised = [limit, _rate(harm.calibration, harm.calibration_n, harm.costs)] if certified else []
        which = [harm.target] if several else []
        rows.append([*which, harm_name(harm.name), *promised, _rate(harm.test, harm.test_n, harm.costs)])
    head = [
        *(["accepted for"] if several else []),
        "harm",
        *(["asked for", "seen in calibration"] if certified else []),
        "observed on the test",
    ]
    return plain_table(head, rows, f"How often each harm happens, among {_among(model)}")


def _classes(model: Model) -> Markup:
    among = model.among_accepted
    rows: list[list[object]] = [
        [
            one.name,
            _rate(one.missed, one.n),
            one.mostly or NOTHING,
            _rate(one.false, one.said),
            *([count(one.referred or 0)] if among else []),
        ]
        for one in model.by_class
    ]
    head = ["class", "called something else", "most often", "said, but wrong", *(["referred"] if among else [])]
    title = f"Class by class, among {_among(model)}"
    if len(rows) < len(model.classes):
        title += f": the {len(rows)} of {count(len(model.classes))} classes with most mistakes"
    return plain_table(head, rows, title)
