"""The error that everything about data raises."""

from squad.errors import SquadError

__all__ = ["DataError"]


class DataError(SquadError, ValueError):
    """Data that cannot be used.  Also a ``ValueError``, which is what callers of an estimator expect."""
