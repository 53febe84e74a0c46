"""Prediction side by side with what a user would do otherwise; `make bench-others`, in an environment of its own.

Networks of 784-32-32-10, all with the same weights whoever runs them (checked before anything is measured), the mean
probabilities of T samples of 4,000 rows.  `wrapper.py` is torch-uncertainty's MC dropout, `plain.py` is what one writes
in plain PyTorch, `__main__.py` measures.
"""
