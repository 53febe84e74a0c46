"""Groups of rows as text."""

import numpy as np
from numpy.typing import ArrayLike

from squad.data.cells import cell_text

__all__ = ["group_names"]


def group_names(groups: ArrayLike | None) -> list[str]:
    """Return the group of each row as text, the way tables show it: 5 and 5.0 are the same group.

    Args:
        groups: (rows,), or None for rows without groups.

    Examples:
        >>> group_names([5.0, 7.0])
        ['5', '7']
    """
    return [] if groups is None else [cell_text(group) or "" for group in np.asarray(groups).tolist()]
