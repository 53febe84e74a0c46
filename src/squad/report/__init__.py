"""A report on models: one HTML file, to be read by people who decide what to rely on."""

from squad.report.html import ReportError, write_report

__all__ = ["ReportError", "write_report"]
