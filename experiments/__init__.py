"""Experiments run by the project: code, settings and records; not part of the package."""
