"""Storages of studies: a SQLite file for workers of one machine, or a PostgreSQL database for many machines."""

import logging
import math
import re
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from squad.errors import ArgumentError
from squad.search import optuna_private
from squad.search.storage_guard import DamagedError, Guard, SearchError, chain, guarded_storage, reason

if TYPE_CHECKING:
    import optuna
    import sqlalchemy

__all__ = [
    "DamagedError",
    "SearchError",
    "close_storage",
    "file_url",
    "has_password",
    "is_file",
    "open_storage",
    "quiet_optuna",
]

#: Seconds to wait for a lock of the SQLite file, and for a server to answer.
LOCK_TIMEOUT = 60.0
CONNECT_TIMEOUT = 10
#: Heartbeats per ``stale_after``: several may be late before a trial counts as lost.
BEATS_PER_STALE_PERIOD = 10
#: Maximum number of retries of a trial whose worker was lost.  Settings that kill their worker, by using up all memory
#: for example, would otherwise kill one worker after another; losing a machine three times in one trial is rare.
MAX_RETRIES = 3
#: System attribute of a trial with the number of the trial that it retries.
RETRY_OF = "squad:after"
#: User attributes of a trial that its retries inherit, because they belong to its settings.
INHERITED_ATTRS = ("settings", "defaults")
#: Errors that Optuna raises when it reads a database that it did not write.
READ_ERRORS = (ValueError, LookupError, TypeError, AttributeError, AssertionError)
#: SQLSTATEs of PostgreSQL if another worker creates the same tables: table, type or row exists, deadlock.
RACE_STATES = ("42P07", "42710", "23505", "40P01")
#: SQLSTATE of PostgreSQL for a row whose study was deleted.
ORPHAN_STATE = "23503"

DELETED_STUDY = (
    "The study is gone from its storage: it was deleted, or restarted with --restart. "
    "Run the same command again to take part in the new study, or to create one."
)
URL_FORMATS = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST:PORT/DATABASE"


def need_optuna() -> None:
    """Raise an error that says what to install if Optuna is missing."""
    try:
        import optuna  # noqa: F401
    except ImportError as cause:
        raise SearchError(f"A search needs Optuna ({cause}). Run: pip install 'squad-torch[search]'") from cause


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silence Optuna's log and warnings inside the block, and convert its database errors to one-line errors.

    Optuna warns that heartbeats are experimental, and that they are meant for its own loop; here they are recorded
    explicitly.  Its settings are restored afterwards.
    """
    import optuna
    import sqlalchemy.exc

    logger = logging.getLogger("optuna")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", "Heartbeat of storage is supposed", UserWarning)
        logger.setLevel(logging.ERROR)
        try:
            yield
        except KeyError as cause:
            if not optuna_private.is_missing(cause):
                raise
            raise SearchError(DELETED_STUDY) from cause
        except (optuna.exceptions.StorageInternalError, sqlalchemy.exc.DBAPIError) as cause:
            if getattr(chain(cause)[-1], "sqlstate", None) == ORPHAN_STATE:
                raise SearchError(DELETED_STUDY) from cause
            if _is_damage(cause):
                raise DamagedError(f"The study's file is damaged: {reason(cause)}.") from cause
            raise SearchError(
                f"The study's database failed: {reason(cause)}. Finished trials are saved; "
                "run the same command again to resume."
            ) from cause
        finally:
            logger.setLevel(level)


def file_url(path: str | Path) -> str:
    """Return the URL of a file, for workers in any folder of this machine."""
    need_optuna()
    from sqlalchemy import URL

    return URL.create("sqlite", database=str(Path(path).absolute())).render_as_string()


def is_file(url: str) -> bool:
    """Return whether a storage is a file, which only workers of one machine can share.

    Examples:
        >>> is_file("sqlite:///study.db"), is_file("postgresql://host/name")
        (True, False)
    """
    return url.startswith("sqlite")


def has_password(url: str) -> bool:
    """Return whether a URL contains a password."""
    import sqlalchemy

    try:
        parsed = sqlalchemy.make_url(url)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        return False
    return bool(parsed.password) or any("password" in name for name in parsed.query)


def open_storage(
    url: str, *, stale_after: float, retry_for: float = 0.0, say: Callable[[str], None] = lambda text: None
) -> "optuna.storages.RDBStorage":
    """Open Optuna's storage, and create its tables if there are none.

    Args:
        url: URL of a SQLite file (:func:`file_url`) or a PostgreSQL database.
        stale_after: Seconds without a heartbeat after which a running trial counts as lost: more than the longest
            epoch takes.  It must be the same for all workers of a study.
        retry_for: Seconds to retry for if a server becomes unreachable; 0 disables retries.
        say: Called with a message when retrying begins, and when it succeeds.

    Returns:
        The storage; close it with :func:`close_storage`.
    """
    if not (math.isfinite(stale_after) and stale_after >= 1):
        raise ArgumentError.of("stale_after", stale_after, "a number of seconds, 1 or more")
    need_optuna()
    import sqlalchemy

    parsed = _parse_url(url)
    shown = _without_password(url)
    sqlite = parsed.get_backend_name() == "sqlite"
    options = {"connect_args": {"timeout": LOCK_TIMEOUT}} if sqlite else _postgres_options(parsed)
    deadline = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            with quiet_optuna():
                storage = guarded_storage()(
                    # Escaped, because Optuna formats the URL, which may contain {SCHEMA_VERSION}.
                    parsed.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}"),
                    engine_kwargs=options,
                    heartbeat_interval=max(1, round(stale_after / BEATS_PER_STALE_PERIOD)),
                    grace_period=math.ceil(stale_after),
                    heartbeat_stale_trial_callback=retry_trial,
                )
                storage.guard = Guard(0.0 if sqlite else retry_for, say)  # type: ignore[attr-defined]
                if sqlite:
                    _tune_sqlite(storage.engine)
                    _create_missing_indexes(storage.engine)
            return storage
        except SearchError as error:
            cause = error.__cause__ or error
            # Two workers that start on an empty database create the same tables; the second one retries.
            if _is_race(cause) and time.monotonic() < deadline:
                time.sleep(0.1)
                continue
            kind, hint = (DamagedError, "") if isinstance(error, DamagedError) else (SearchError, f" {_hint(sqlite)}")
            raise kind(f"The study's storage {shown} cannot be used: {reason(cause)}.{hint}") from None
        except ImportError:
            raise SearchError(f"{shown} needs a PostgreSQL driver. Run: pip install 'squad-torch[postgres]'") from None
        except (RuntimeError, sqlalchemy.exc.SQLAlchemyError, *READ_ERRORS) as cause:
            # Optuna raises RuntimeError if another version of it created the schema.
            raise SearchError(f"The study's storage {shown} cannot be used: {reason(cause)}. {_hint(sqlite)}") from None


def close_storage(storage: "optuna.storages.RDBStorage") -> None:
    """Close all connections of a storage."""
    storage.remove_session()
    storage.engine.dispose()


def retry_trial(study: "optuna.Study", trial: "optuna.trial.FrozenTrial") -> None:
    """Queue the settings of a trial whose worker was lost again, at most :data:`MAX_RETRIES` times.

    Its worker and its intermediate results are not inherited.
    """
    import optuna

    for name in set(trial.user_attrs) - set(INHERITED_ATTRS):
        del trial.user_attrs[name]
    trial.system_attrs[RETRY_OF] = trial.number
    with quiet_optuna():
        optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=MAX_RETRIES)(study, trial)


def _parse_url(url: str) -> "sqlalchemy.URL":
    """Parse and check a URL; the driver of squad-torch[postgres] is used unless the URL names another one."""
    import sqlalchemy

    try:
        parsed = sqlalchemy.make_url(url)
        backend = parsed.get_backend_name()
    except (sqlalchemy.exc.ArgumentError, ValueError):
        raise ArgumentError.of("storage", _without_password(url), URL_FORMATS) from None
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        hint = "A study in memory would be lost when the process ends."
        raise ArgumentError.of("storage", url, "sqlite:///FILE", hint)
    if backend == "sqlite":
        return parsed
    if backend not in ("postgresql", "postgres"):
        raise ArgumentError.of("storage", _without_password(url), URL_FORMATS)
    if "@" in (parsed.host or ""):
        raise ArgumentError.of("storage", _without_password(url), URL_FORMATS, "Write an @ in a password as %40.")
    return parsed.set(drivername="postgresql+psycopg") if "+" not in parsed.drivername else parsed


def _postgres_options(parsed: "sqlalchemy.URL") -> dict[str, Any]:
    # There may be hours of training between two writes: connections lost meanwhile are replaced before use.
    options: dict[str, Any] = {"pool_pre_ping": True}
    if "connect_timeout" not in parsed.query:
        options["connect_args"] = {"connect_timeout": CONNECT_TIMEOUT}
    return options


def _tune_sqlite(engine: "sqlalchemy.Engine") -> None:
    """Make a SQLite file fast, and safe for several processes.

    With a write-ahead log and synchronous = NORMAL, a killed process loses nothing (a power failure loses at worst the
    last transactions, never the file), and a commit does not wait for the disk.  BEGIN IMMEDIATE makes Optuna's
    read-then-write operations atomic: with Python's own transactions, which begin at the first write, two workers could
    take the same trial from the queue, or queue the same lost trial twice.
    """
    from sqlalchemy import event

    def on_connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # Python begins no transactions
        connection.execute(f"PRAGMA busy_timeout = {1000 * LOCK_TIMEOUT:.0f}")
        connection.execute("PRAGMA synchronous = NORMAL")

    def on_begin(connection: "sqlalchemy.Connection") -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", on_connect)
    with engine.connect() as connection:  # stored in the file
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    engine.dispose()  # connections opened without the handler
    event.listen(engine, "begin", on_begin)


def _create_missing_indexes(engine: "sqlalchemy.Engine") -> None:
    """Create missing indexes: a process that was killed while creating the tables may have left some out.

    SQLite creates tables and indexes one by one, and Optuna creates no index for an existing table.  Without the index
    of study names there could be two studies of one name.
    """
    for table in optuna_private.tables():
        for index in table.indexes:
            index.create(engine, checkfirst=True)


def _without_password(url: str) -> str:
    """Return a URL without user and password, also if the password contains an @ or is in the query."""
    shown = re.sub(r"://.*@", "://...@", url, flags=re.DOTALL)
    return re.sub(r"(password=)[^&]*", r"\1...", shown, flags=re.DOTALL)


def _is_race(error: BaseException) -> bool:
    """Return whether another worker has just created the same tables or rows, or has locked the file to do so."""
    import sqlalchemy.exc

    root = chain(error)[-1]
    if isinstance(error, sqlalchemy.exc.IntegrityError) or getattr(root, "sqlstate", None) in RACE_STATES:
        return True
    return isinstance(root, sqlite3.OperationalError) and bool(re.search("already exists|locked", str(root)))


def _is_damage(error: BaseException) -> bool:
    """Return whether a SQLite file is damaged."""
    root = chain(error)[-1]
    return isinstance(root, sqlite3.DatabaseError) and bool(re.search("not a database|malformed", str(root)))


def _hint(sqlite: bool) -> str:
    if sqlite:
        return "Check that the folder exists, that it can be written, and that the file belongs to a search."
    return "Check that the server is running, and that user, password and database are correct."
