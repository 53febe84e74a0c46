"""Measurements, one file a question; results are records under benchmarks/results."""
