"""Reading tables, arrays and image datasets; transforms, splits, and the leakage and novelty checks."""
