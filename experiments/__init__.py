"""Experiments that the project ran, with their code, settings and records; not part of the package."""
