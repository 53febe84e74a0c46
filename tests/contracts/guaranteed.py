"""Guarantees about predictions for equal rows on a CPU, however they are batched (docs/explanation/determinism.md)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from squad.predictor import Answer

#: Columns that are equal to the bit.
EXACT = ("label", "confidence", "decision", "reason")
#: Columns that are equal within ``WITHIN``.
CLOSE = ("probabilities", "entropy", "mutual_information")
WITHIN = 1e-6


def assert_guaranteed(found: Answer, expected: Answer, rows: Any = slice(None)) -> None:
    """Assert that ``found`` equals these rows of ``expected`` as far as guaranteed."""
    assert_same({name: getattr(found, name) for name in EXACT + CLOSE}, vars(expected), rows)


def assert_same(found: Mapping[str, Any], expected: Mapping[str, Any], rows: Any = slice(None)) -> None:
    """Assert the same for arrays by name, for those in ``found``."""
    for name, value in found.items():
        if name in CLOSE:
            np.testing.assert_allclose(value, expected[name][rows], rtol=0, atol=WITHIN, err_msg=name)
        else:
            np.testing.assert_array_equal(value, expected[name][rows], err_msg=name)
