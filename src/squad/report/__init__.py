"""A report on models: one HTML file, to be read by people who decide what to rely on."""

from squad.report.html import ReportError, check_place, write_report

__all__ = ["ReportError", "check_place", "write_report"]
