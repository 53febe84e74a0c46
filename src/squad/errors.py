"""The errors this library raises on purpose.

Every message says what was expected, what came, and what to do about it.
"""

__all__ = ["ArgumentError", "DataError", "SquadError", "SquadWarning"]


class SquadError(Exception):
    """Base of every error that squad raises itself."""


class SquadWarning(UserWarning):
    """Something that a user should know before relying on a result; the command prints it on a line of its own."""


class ArgumentError(SquadError, ValueError):
    """An argument that cannot be used.  Also a ``ValueError``, so that callers need not know this library."""

    @classmethod
    def of(cls, name: str, value: object, allowed: str, hint: str = "") -> "ArgumentError":
        """``name must be allowed, got value. hint``."""
        return cls(f"{name} must be {allowed}, got {value}." + (f" {hint}" if hint else ""))


class DataError(SquadError, ValueError):
    """Data that cannot be used.  Also a ``ValueError``, which is what callers of an estimator expect."""
