"""Exceptions and warnings raised by this library.

Every message says what is wrong, shows the offending value, and says what to do about it.
"""

__all__ = ["ArgumentError", "DataError", "SquadError", "SquadWarning"]


class SquadError(Exception):
    """Base class of all exceptions raised by squad.

    See Also:
        ArgumentError: An invalid argument.
        DataError: Unusable data.

    Examples:
        >>> import squad
        >>> try:
        ...     squad.linear_bins(1)
        ... except squad.SquadError as error:
        ...     print(type(error).__name__)
        ArgumentError
    """


class SquadWarning(UserWarning):
    """A warning that a user should read before relying on a result; the command prints it on its own line.

    See Also:
        SquadError: Base class of the exceptions.

    Examples:
        >>> import warnings
        >>> warnings.simplefilter("error", SquadWarning)  # turn squad's warnings into exceptions
        >>> warnings.simplefilter("default", SquadWarning)
    """


class ArgumentError(SquadError, ValueError):
    """An invalid argument; also a ``ValueError``, so that callers can catch it without importing squad.

    See Also:
        DataError: Unusable data.

    Examples:
        >>> print(ArgumentError.of("bins", 1, "an integer >= 2"))
        bins must be an integer >= 2, got 1.
    """

    @classmethod
    def of(cls, name: str, value: object, allowed: str, hint: str = "") -> "ArgumentError":
        """Create an error that reads ``{name} must be {allowed}, got {value}. {hint}``.

        Args:
            name: Name of the argument.
            value: The offending value.
            allowed: Description of the allowed values.
            hint: A sentence that says what to do.

        Returns:
            The error, to be raised by the caller.
        """
        return cls(f"{name} must be {allowed}, got {value}." + (f" {hint}" if hint else ""))


class DataError(SquadError, ValueError):
    """Data that cannot be used; also a ``ValueError``, as scikit-learn raises for invalid data.

    Examples:
        >>> from squad.data.tables import read
        >>> try:
        ...     read("missing.csv")
        ... except DataError as error:
        ...     print("missing.csv does not exist" in str(error))
        True
    """
