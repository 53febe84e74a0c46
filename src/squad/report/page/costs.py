"""Section on costs: what an error and a referral cost decides which threshold is cheapest."""

from decimal import ROUND_HALF_UP, Decimal

from squad.report.cost_frontier import CostPoint, best_point
from squad.report.markup import Markup, element, join
from squad.report.number_format import count, percent_rounded_up, plural
from squad.report.page.building_blocks import fraction_bar, section, side_by_side
from squad.report.report_data import ModelReport, ReportData
from squad.report.slider import REFERENCE_CASES

__all__ = ["cost_policies", "cost_text", "costs", "threshold_text"]

#: What can be filled in: a number below a billion, with a point or a comma; not 1,000, which would be read as 1.
COST_PATTERN = "[0-9]{1,9}([.][0-9]{0,9}|,([0-9]{1,2}|[0-9]{4,9}))?"
#: Costs at which the page starts: an error costs as much as ten referrals.
ERROR_COST, REFERRAL_COST = 10.0, 1.0


def costs(report: ReportData) -> Markup:
    """Render two costs to fill in, and what each way of using a model costs then."""
    inputs = element(
        "div",
        _number_input("error-cost", "An accepted prediction that is wrong costs ", ERROR_COST),
        _number_input("referral-cost", "A referred case costs ", REFERRAL_COST),
        element("p", "In any unit, such as euros or minutes; only their ratio decides.", class_="remark"),
        element("p", id="cost-problem", class_="problem", role="alert", hidden=True),
        class_="control card costs",
    )
    remark = (
        "Observed on the test set, not guaranteed. The cheapest threshold is chosen on the same cases that its cost is"
        " computed on, so its cost is optimistic; to rely on a threshold, certify it."
    )
    return section(
        "costs",
        "What do errors and referrals cost?",
        "Fill in both costs to see which threshold has the lowest expected cost.",
        inputs,
        side_by_side(report.models, _table),
        element("p", remark, class_="remark"),
        element("noscript", element("p", "Other costs than these need JavaScript, which is disabled.")),
    )


def _number_input(name: str, label: str, value: float) -> Markup:
    field = element(
        "input",
        type="text",
        id=name,
        pattern=COST_PATTERN,
        required=True,
        autocomplete="off",
        value=f"{value:g}",
        inputmode="decimal",
    )
    return element("label", label, field)


def cost_policies(model: ModelReport) -> list[tuple[str, int, int]]:
    """Return ways of using a model: name, number of accepted cases and of errors among them."""
    policies = [("accept every case", model.used, model.wrong)]
    if model.accepted:
        name = f"accept by the certificate{' (first target)' if model.target else ''}"
        policies.append((name, model.accepted, model.accepted_wrong or 0))
    return [*policies, ("refer every case", 0, 0)]


def cost_text(cost: float) -> str:
    """Format a cost per 1,000 cases: whole numbers from 100 on, else three digits; page.js does the same.

    Halves are rounded up, as by toFixed in JavaScript.

    Examples:
        >>> cost_text(1234.5), cost_text(31.25), cost_text(0.5)
        ('1,235', '31.3', '0.5')
    """
    if cost >= 99.95:
        return count(int(cost + 0.5))
    unit = Decimal("0.1") if cost >= 9.995 else Decimal("0.01")
    return str(Decimal(cost).quantize(unit, ROUND_HALF_UP)).rstrip("0").rstrip(".")


def _table(index: int, model: ModelReport) -> Markup:
    best = best_point(model.frontier, ERROR_COST, REFERRAL_COST)
    rows = [("cheapest threshold", best.accepted, best.wrong), *cost_policies(model)]
    amounts = [
        REFERENCE_CASES * (ERROR_COST * wrong + REFERRAL_COST * (model.used - accepted)) / model.used
        for _, accepted, wrong in rows
    ]
    largest = max(*amounts, 1e-12)
    body = [
        element(
            "tr",
            element("th", name, scope="row"),
            element("td", element("span", cost_text(cost), class_="cost"), fraction_bar(cost / largest)),
            element("td", count(accepted), class_="accepted"),
            element("td", count(wrong), class_="wrong"),
            element("td", count(model.used - accepted), class_="referred"),
            class_="best" if line == 0 else None,
        )
        for line, ((name, accepted, wrong), cost) in enumerate(zip(rows, amounts, strict=True))
    ]
    head = ["", f"expected cost of {REFERENCE_CASES:,} cases", "accepted", "of these wrong", "referred"]
    table = element(
        "table",
        element("caption", f"Cost of each way to use the model, from {plural(model.used, 'test case')}"),
        element("thead", element("tr", *(element("th", name, scope="col") for name in head))),
        element("tbody", *body),
    )
    return join(
        element("p", element("b", threshold_text(best), data_best=index), class_="best-threshold", aria_live="polite"),
        element("div", table, class_="scroll", role="region", tabindex="0", aria_label="Costs", data_costs=index),
    )


def threshold_text(point: CostPoint) -> str:
    """Describe the threshold of a point."""
    if point.accepts == "none":
        return "Cheapest: refer every case."
    if point.threshold is None:
        return "Cheapest: accept every case."
    return f"Cheapest: accept a prediction if its confidence is above {percent_rounded_up(point.threshold)}."
