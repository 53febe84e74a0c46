"""Comparison of prediction with other libraries; `make bench-others`, in a separate environment.

All libraries run 784-32-32-10 networks with the same weights (verified before anything is measured), and compute the
mean probabilities of T samples for 4,000 rows.  `wrapper.py` uses torch-uncertainty's MC dropout, `plain.py` is a plain
PyTorch implementation, `__main__.py` measures.
"""
