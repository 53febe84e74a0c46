"""Markdown pages, written from the records."""
