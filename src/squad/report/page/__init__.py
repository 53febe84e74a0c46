"""Sections of a report page, the most important first."""

from squad.report.markup import Markup, join
from squad.report.page.cases import cases
from squad.report.page.compared import compared
from squad.report.page.confidence import confidence
from squad.report.page.costs import costs
from squad.report.page.curve import curve
from squad.report.page.footer import footer
from squad.report.page.guarantee import guarantee
from squad.report.page.mistakes import mistakes
from squad.report.page.model_card import model_card
from squad.report.page.operating_point import operating_point
from squad.report.report_data import ReportData

__all__ = ["body"]


def body(report: ReportData) -> Markup:
    """Render the contents of the page, from the title to the software versions."""
    sections = (*(model_card, guarantee, operating_point, costs, curve, compared, mistakes, cases, confidence, footer),)
    return join(*(section(report) for section in sections))
