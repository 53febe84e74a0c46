"""HTML reports on one or several models, for the people who decide whether to rely on them."""

from squad.report.html import ReportError, check_report_path, write_report

__all__ = ["ReportError", "check_report_path", "write_report"]
