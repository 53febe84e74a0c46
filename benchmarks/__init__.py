"""Benchmarks and simulations, one file per question; results are records in benchmarks/results."""
