"""The error that everything about data raises."""

from squad.errors import SquadError

__all__ = ["DataError"]


class DataError(SquadError):
    """Data that cannot be used."""
