"""The sections of a report in plain words: the most important first, a question with every picture."""

from squad.report.markup import Markup, join
from squad.report.page.cases import cases
from squad.report.page.charts import charts
from squad.report.page.footer import ending
from squad.report.page.guarantee import header, promise
from squad.report.page.mistakes import mistakes
from squad.report.page.operating_point import choice
from squad.report.report_data import Content

__all__ = ["body"]


def body(content: Content) -> Markup:
    """Everything that is read, from the title to the versions."""
    parts = (header, promise, choice, charts, cases, mistakes, ending)
    return join(*(part(content) for part in parts))
