"""Figures drawn from the records, and the diagrams of the paper."""
