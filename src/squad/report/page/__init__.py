"""Sections of a report page, the most important first."""

from squad.report.markup import Markup, join
from squad.report.page.cases import cases
from squad.report.page.charts import charts
from squad.report.page.footer import footer
from squad.report.page.guarantee import guarantee, header
from squad.report.page.mistakes import mistakes
from squad.report.page.operating_point import operating_point
from squad.report.report_data import ReportData

__all__ = ["body"]


def body(report: ReportData) -> Markup:
    """Render the contents of the page, from the title to the software versions."""
    sections = (header, guarantee, operating_point, charts, cases, mistakes, footer)
    return join(*(section(report) for section in sections))
