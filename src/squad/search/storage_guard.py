"""What stands between Optuna and its database: a server that is away is waited for, and damage is told as such."""

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

__all__ = ["DamagedError", "Guard", "SearchError", "chain", "guarded_storage", "is_away", "reason"]

#: Seconds before the first attempt at reaching a server again, and the most between two: each is twice the last.
FIRST, LONGEST = 0.25, 5.0
#: Seconds between two looks whether somebody wants to stop meanwhile.
LOOK = 0.05
#: What PostgreSQL says of a server that stops, starts or is full, beside its class 08, "connection exception".
AWAY = ("57P01", "57P02", "57P03", "53300")
#: What a server says that is there and does not let us in: no waiting will help.
REFUSED = ("authentication failed", "does not exist", "pg_hba.conf", "no password supplied", "permission denied")

Result = TypeVar("Result")


class SearchError(SquadError):
    """A search that cannot begin or go on."""


class DamagedError(SearchError):
    """A study's file that is none of SQLite's, or not any more."""


class Guard:
    """Retries what failed because a server was away, with exponential backoff, and turns damage into an error.

    Args:
        most: seconds to retry for; 0 is not to.
        say: told what is waited for, and when it is over.
    """

    def __init__(self, most: float = 0.0, say: Callable[[str], None] = lambda text: None) -> None:
        self.most, self.say = most, say
        self._within = threading.local()

    def run(self, call: Callable[[], Result], reset: Callable[[], object] = lambda: None) -> Result:
        """What ``call`` returns; it is one transaction, of which nothing is left if it fails.

        Args:
            call: what to do.
            reset: called before it is done again, to let go of connections that are lost.
        """
        if getattr(self._within, "called", False):  # as a part of another, which will be retried as a whole
            return call()
        self._within.called = True
        try:
            return self._retried(call, reset)
        except Exception as error:
            if _is_unreadable(error):
                told = f"{type(error).__name__}: {reason(error)}" if str(error) else type(error).__name__
                raise DamagedError(
                    f"The study's database is damaged: it holds what Optuna cannot read ({told})."
                ) from error
            raise
        finally:
            self._within.called = False

    def _retried(self, call: Callable[[], Result], reset: Callable[[], object]) -> Result:
        begun, wait, told = time.monotonic(), FIRST, False
        while True:
            try:
                result = call()
            except Exception as error:
                left = begun + self.most - time.monotonic()
                if left <= 0 or not is_away(error):
                    raise
                if not told:
                    self.say(
                        f"The database server is not reachable: {reason(error)}. Retrying for up to {self.most:g} s."
                    )
                    told = True
                # Many workers that lost the server at once are not to come back at once.
                if not _slept(min(left, wait * random.uniform(0.75, 1.25))):
                    raise
                wait = min(2 * wait, LONGEST)
                reset()
            else:
                if told:
                    self.say(f"The database server is back after {time.monotonic() - begun:.0f} s.")
                return result


def _slept(seconds: float) -> bool:
    """Wait; False if somebody wants to stop meanwhile."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if pending():
            return False
        time.sleep(min(LOOK, left))
    return not pending()


@functools.cache
def guarded_storage() -> "type[optuna.storages.RDBStorage]":
    """Optuna's RDBStorage, each of whose methods goes through a guard; a method is one transaction, or only reads."""
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
    """An error, and below it what SQLAlchemy, Optuna and a driver made it of."""
    found = [error]
    while (below := getattr(found[-1], "orig", None) or found[-1].__cause__) is not None and below not in found:
        found.append(below)
    return found


def reason(error: BaseException) -> str:
    """The first line of what is at the bottom of an error."""
    root = chain(error)[-1]
    lines = [line.strip() for line in str(root).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(root).__name__


def is_away(error: BaseException) -> bool:
    """Whether a server could not be reached, or was lost; not one that refuses us, nor a file."""
    import sqlalchemy.exc

    found = chain(error)
    # A session whose connection was cut between two statements says PendingRollbackError.
    kinds = (sqlalchemy.exc.OperationalError, sqlalchemy.exc.InterfaceError, sqlalchemy.exc.PendingRollbackError)
    lost = any(isinstance(one, kinds) for one in found)
    invalid = any(isinstance(one, sqlalchemy.exc.DBAPIError) and one.connection_invalidated for one in found)
    if (not lost and not invalid) or any(type(one).__module__ == "sqlite3" for one in found):
        return False
    state = next(filter(None, (getattr(one, "sqlstate", None) for one in found)), None)
    if state is not None:
        return str(state).startswith("08") or state in AWAY
    text = " ".join(map(str, found))
    return not any(words in text for words in REFUSED)


def _is_unreadable(error: Exception) -> bool:
    """Whether Optuna stumbled over what it read, rather than over what it was told.

    A study that is not there is a KeyError of its, and parameters that do not fit a ValueError.
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
