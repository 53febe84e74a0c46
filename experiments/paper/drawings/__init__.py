"""Figures drawn from the records, and diagrams."""
