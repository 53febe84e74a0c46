"""Guard between Optuna and its database: retries while a server cannot be reached, and reports damaged data."""

import functools
import inspect
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from squad.errors import SquadError
from squad.search.deferred_interrupts import pending

if TYPE_CHECKING:
    import optuna

__all__ = ["DamagedError", "Guard", "SearchError", "chain", "first_line", "guarded_storage", "is_unreachable", "reason"]

#: Seconds before the first retry, and between two retries at most; each wait is twice the previous one.
FIRST_WAIT, LONGEST_WAIT = 0.25, 5.0
#: Seconds between two checks for a deferred interrupt while waiting.
INTERRUPT_CHECK = 0.05
#: SQLSTATEs of a PostgreSQL server that stops, starts or is full, in addition to class 08, "connection exception".
UNREACHABLE_STATES = ("57P01", "57P02", "57P03", "53300")
#: Texts of a server that refuses the connection: retrying does not help.
REFUSAL_TEXTS = ("authentication failed", "does not exist", "pg_hba.conf", "no password supplied", "permission denied")

Result = TypeVar("Result")


class SearchError(SquadError):
    """A search that cannot be started or resumed."""


class DamagedError(SearchError):
    """A study's database that cannot be read."""


class Guard:
    """Retries with exponential backoff while a server cannot be reached, and reports unreadable data as damage.

    Args:
        retry_for: Seconds to retry for; 0 disables retries.
        say: Called with a message when retrying begins, and when it succeeds.
    """

    def __init__(self, retry_for: float = 0.0, say: Callable[[str], None] = lambda text: None) -> None:
        self.retry_for, self.say = retry_for, say
        self._active = threading.local()

    def run(self, call: Callable[[], Result], reset: Callable[[], object] = lambda: None) -> Result:
        """Return the result of ``call``, retrying if the server cannot be reached.

        Args:
            call: One transaction, which leaves nothing behind if it fails.
            reset: Called before each retry, to drop lost connections.

        Returns:
            Result of ``call``.
        """
        if getattr(self._active, "inside", False):  # nested: the outer call is retried as a whole
            return call()
        self._active.inside = True
        try:
            return self._retry(call, reset)
        except Exception as error:
            if _is_unreadable(error):
                detail = f"{type(error).__name__}: {reason(error)}" if str(error) else type(error).__name__
                raise DamagedError(f"The study's database is damaged: Optuna cannot read it ({detail}).") from error
            raise
        finally:
            self._active.inside = False

    def _retry(self, call: Callable[[], Result], reset: Callable[[], object]) -> Result:
        begun, wait, announced = time.monotonic(), FIRST_WAIT, False
        while True:
            try:
                result = call()
            except Exception as error:
                left = begun + self.retry_for - time.monotonic()
                if left <= 0 or not is_unreachable(error):
                    raise
                if not announced:
                    retrying = f"Retrying for up to {self.retry_for:g} s."
                    self.say(f"The database server is not reachable: {reason(error)}. {retrying}")
                    announced = True
                # Jitter, so that many workers do not retry at the same moment.
                if not _sleep(min(left, wait * random.uniform(0.75, 1.25))):
                    raise
                wait = min(2 * wait, LONGEST_WAIT)
                reset()
            else:
                if announced:
                    self.say(f"The database server is back after {time.monotonic() - begun:.0f} s.")
                return result


def _sleep(seconds: float) -> bool:
    """Sleep, and return False early if an interrupt is pending."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if pending():
            return False
        time.sleep(min(INTERRUPT_CHECK, left))
    return not pending()


@functools.cache
def guarded_storage() -> "type[optuna.storages.RDBStorage]":
    """Return Optuna's RDBStorage with methods that run under a guard; each is one transaction, or only reads."""
    from optuna.storages import RDBStorage

    class Storage(RDBStorage):
        guard = Guard()

    def through(name: str) -> Callable[..., Any]:
        @functools.wraps(getattr(RDBStorage, name))
        def method(self: Storage, *arguments: Any, **options: Any) -> Any:
            call = functools.partial(getattr(RDBStorage, name), self, *arguments, **options)
            return self.guard.run(call, self.remove_session)

        return method

    for name, member in vars(RDBStorage).items():
        if inspect.isfunction(member) and not name.startswith("__") and name != "remove_session":
            setattr(Storage, name, through(name))
    return Storage


def chain(error: BaseException) -> list[BaseException]:
    """Return an error and its causes, down to that of the database driver.

    Examples:
        >>> chain(ValueError("wrong"))
        [ValueError('wrong')]
    """
    errors = [error]
    while (cause := getattr(errors[-1], "orig", None) or errors[-1].__cause__) is not None and cause not in errors:
        errors.append(cause)
    return errors


def reason(error: BaseException) -> str:
    """Return the first line of the root cause of an error."""
    return first_line(chain(error)[-1])


def first_line(error: object) -> str:
    """Return the first line of an error's text, without its full stop; the name of its class if there is no text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


def is_unreachable(error: BaseException) -> bool:
    """Return whether a server could not be reached or was lost; False if it refused the connection, or for a file."""
    import sqlalchemy.exc

    errors = chain(error)
    # A session whose connection was lost between two statements raises PendingRollbackError.
    kinds = (sqlalchemy.exc.OperationalError, sqlalchemy.exc.InterfaceError, sqlalchemy.exc.PendingRollbackError)
    lost = any(isinstance(one, kinds) for one in errors)
    invalid = any(isinstance(one, sqlalchemy.exc.DBAPIError) and one.connection_invalidated for one in errors)
    if (not lost and not invalid) or any(type(one).__module__ == "sqlite3" for one in errors):
        return False
    state = next(filter(None, (getattr(one, "sqlstate", None) for one in errors)), None)
    if state is not None:
        return str(state).startswith("08") or state in UNREACHABLE_STATES
    text = " ".join(map(str, errors))
    return not any(words in text for words in REFUSAL_TEXTS)


def _is_unreadable(error: Exception) -> bool:
    """Return whether Optuna failed because of the data it read, rather than because of its arguments.

    A missing study is a KeyError of Optuna's, and parameters outside their range are a ValueError.
    """
    import optuna
    import sqlalchemy.exc

    from squad.search.optuna_private import is_missing

    if isinstance(error, (optuna.exceptions.OptunaError, sqlalchemy.exc.SQLAlchemyError, SquadError)):
        return False
    if isinstance(error, KeyError):
        return not is_missing(error)
    kinds = (ValueError, LookupError, TypeError, AttributeError, AssertionError, ArithmeticError, RecursionError)
    return isinstance(error, kinds)
