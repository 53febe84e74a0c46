"""Where a study is kept: a file of SQLite's for workers of one machine, or a PostgreSQL that many machines share."""

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

#: Seconds that a worker waits for others to write to the same file, and for a server to answer.
PATIENCE = 60.0
ANSWER = 10
#: A beat every so-manieth of ``stale_after``: several may be late before a trial counts as lost.
BEATS = 10
#: How often trials whose worker was lost are tried again.  Settings that kill their worker, by taking all memory say,
#: would otherwise kill one after another for ever; a machine that is taken away three times in one trial is rare.
RETRIES = 3
#: The attribute of a trial that says whose settings it tries again.
AFTER = "squad:after"
#: Attributes of a trial that belong to its settings, not to whoever tries them.
KEPT = ("settings", "defaults")
#: What Optuna stumbles with over a database that is not as it made it.
READING = (ValueError, LookupError, TypeError, AttributeError, AssertionError)
#: What PostgreSQL says to the second of two who make the same tables at once: table, type or row exists, deadlock.
RACES = ("42P07", "42710", "23505", "40P01")
#: What it says about a row of something that was deleted meanwhile.
ORPHAN = "23503"

GONE = (
    "The study is gone from its storage: somebody has deleted it, or begun it anew with --restart. "
    "The same command takes part in the new one, or makes one."
)
ADDRESS = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST:PORT/DATABASE"


def need_optuna() -> None:
    """Say what to install where there is no Optuna."""
    try:
        import optuna  # noqa: F401
    except ImportError as cause:
        raise SearchError(f"A search needs Optuna ({cause}). Install it: pip install 'squad-torch[search]'") from cause


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Optuna's notices kept off the screen, its settings left as they were, and a database that is lost told in a line.

    It warns of what is experimental (heartbeats), and that heartbeats are meant for its own loop: here they are
    recorded by hand.
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
            raise SearchError(GONE) from cause
        except (optuna.exceptions.StorageInternalError, sqlalchemy.exc.DBAPIError) as cause:
            if getattr(chain(cause)[-1], "sqlstate", None) == ORPHAN:
                raise SearchError(GONE) from cause
            if _is_damage(cause):
                raise DamagedError(f"The study's file is damaged: {reason(cause)}.") from cause
            raise SearchError(
                f"The study's database failed: {reason(cause)}. What was told to it is kept; "
                "the same command goes on from there."
            ) from cause
        finally:
            logger.setLevel(level)


def file_url(path: str | Path) -> str:
    """The address of a file, for workers in any folder of this machine."""
    need_optuna()
    from sqlalchemy import URL

    return URL.create("sqlite", database=str(Path(path).absolute())).render_as_string()


def is_file(url: str) -> bool:
    """Whether a storage is a file, which only the workers of one machine can share."""
    return url.startswith("sqlite")


def has_password(url: str) -> bool:
    """Whether an address holds a password, for all to see who see the command line."""
    import sqlalchemy

    try:
        where = sqlalchemy.make_url(url)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        return False
    return bool(where.password) or any("password" in name for name in where.query)


def open_storage(
    url: str, *, stale_after: float, retry_for: float = 0.0, say: Callable[[str], None] = lambda text: None
) -> "optuna.storages.RDBStorage":
    """Optuna's storage at an address, with its tables made if there are none.

    Args:
        url: of SQLite or PostgreSQL; :func:`file_url` makes one of a path.
        stale_after: seconds without a beat after which a trial that is running counts as lost: more than the longest
            epoch takes.  All workers of a study must say the same.
        retry_for: seconds for which a server that is away is waited for, once it has been reached; 0 is not to.
        say: told when a server is waited for, and when it is back.
    """
    if not (math.isfinite(stale_after) and stale_after >= 1):
        raise ArgumentError.of("stale_after", stale_after, "a number of seconds, 1 or more")
    need_optuna()
    import sqlalchemy

    where = _checked(url)
    shown = _without_password(url)
    sqlite = where.get_backend_name() == "sqlite"
    options = _sqlite_options() if sqlite else _postgres_options(where)
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with quiet_optuna():
                storage = guarded_storage()(
                    # Optuna formats the address: {SCHEMA_VERSION} may stand in it.
                    where.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}"),
                    engine_kwargs=options,
                    heartbeat_interval=max(1, round(stale_after / BEATS)),
                    grace_period=math.ceil(stale_after),
                    heartbeat_stale_trial_callback=ask_anew,
                )
                storage.guard = Guard(0.0 if sqlite else retry_for, say)  # type: ignore[attr-defined]
                if sqlite:
                    _tune_sqlite(storage.engine)
                    _complete(storage.engine)
            return storage
        except SearchError as error:
            cause = error.__cause__ or error
            # Two workers that begin at once on an empty database make the same tables; the second finds them made.
            if _is_race(cause) and time.monotonic() < deadline:
                time.sleep(0.1)
                continue
            kind, hint = (DamagedError, "") if isinstance(error, DamagedError) else (SearchError, f" {_hint(sqlite)}")
            raise kind(f"The study's storage {shown} cannot be used: {reason(cause)}.{hint}") from None
        except ImportError:
            raise SearchError(
                f"{shown} needs a driver of PostgreSQL. Install it: pip install 'squad-torch[postgres]'"
            ) from None
        except (RuntimeError, sqlalchemy.exc.SQLAlchemyError, *READING) as cause:
            # A schema of another version of Optuna's is a RuntimeError of its.
            raise SearchError(f"The study's storage {shown} cannot be used: {reason(cause)}. {_hint(sqlite)}") from None


def close_storage(storage: "optuna.storages.RDBStorage") -> None:
    """Let go of its connections."""
    storage.remove_session()
    storage.engine.dispose()


def ask_anew(study: "optuna.Study", trial: "optuna.trial.FrozenTrial") -> None:
    """Put the settings of a trial whose worker was lost back into the queue, :data:`RETRIES` times at the most.

    Its worker and what was told of it halfway are not those of the next one.
    """
    import optuna

    for name in set(trial.user_attrs) - set(KEPT):
        del trial.user_attrs[name]
    trial.system_attrs[AFTER] = trial.number
    with quiet_optuna():
        optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=RETRIES)(study, trial)


def _checked(url: str) -> "sqlalchemy.URL":
    """The address, with the driver that squad-torch[postgres] installs if it names none."""
    import sqlalchemy

    try:
        where = sqlalchemy.make_url(url)
        backend = where.get_backend_name()
    except (sqlalchemy.exc.ArgumentError, ValueError):
        raise ArgumentError.of("storage", _without_password(url), ADDRESS) from None
    if backend == "sqlite" and where.database in (None, "", ":memory:"):
        raise ArgumentError.of("storage", url, "sqlite:///FILE", "A study in memory would be gone with its process.")
    if backend == "sqlite":
        return where
    if backend not in ("postgresql", "postgres"):
        raise ArgumentError.of("storage", _without_password(url), ADDRESS)
    if "@" in (where.host or ""):
        raise ArgumentError.of("storage", _without_password(url), ADDRESS, "An @ in a password is written %40.")
    return where.set(drivername="postgresql+psycopg") if "+" not in where.drivername else where


def _sqlite_options() -> dict[str, Any]:
    return {"connect_args": {"timeout": PATIENCE}}


def _postgres_options(where: "sqlalchemy.URL") -> dict[str, Any]:
    # Hours of training lie between two writes: a connection that was cut meanwhile is replaced before it is used.
    options: dict[str, Any] = {"pool_pre_ping": True}
    if "connect_timeout" not in where.query:
        options["connect_args"] = {"connect_timeout": ANSWER}
    return options


def _tune_sqlite(engine: "sqlalchemy.Engine") -> None:
    """Make a file of SQLite's fast, and safe for several processes.

    With a write-ahead log and synchronous = NORMAL nothing is lost with a process that is killed (with the power, at
    worst the last transactions, never the file), and a commit need not wait for the disk.  BEGIN IMMEDIATE makes what
    Optuna reads and then writes one step: with Python's own transactions, which begin at the first write, two workers
    could both take a trial from the queue, or both put a lost one back.
    """
    from sqlalchemy import event

    def connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # no transactions by Python
        connection.execute(f"PRAGMA busy_timeout = {1000 * PATIENCE:.0f}")
        connection.execute("PRAGMA synchronous = NORMAL")

    def began(connection: "sqlalchemy.Connection") -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", connected)
    with engine.connect() as connection:  # kept in the file: once is enough
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    engine.dispose()  # connections that were opened before
    event.listen(engine, "begin", began)


def _complete(engine: "sqlalchemy.Engine") -> None:
    """Make indexes that are missing: who was killed while making the tables may have left one without its own.

    SQLite makes tables and indexes one by one, and Optuna makes no index of a table that is there.  Without the one of
    the studies' names there could be two of one name.
    """
    for table in optuna_private.tables():
        for index in table.indexes:
            index.create(engine, checkfirst=True)


def _without_password(url: str) -> str:
    """The address without what stands before its last @, as a password with an @ in it does, or in its query."""
    shown = re.sub(r"://.*@", "://...@", url, flags=re.DOTALL)
    return re.sub(r"(password=)[^&]*", r"\1...", shown, flags=re.DOTALL)


def _is_race(error: BaseException) -> bool:
    """Whether another was quicker with the same tables, or their first rows, or has locked a file to make them."""
    import sqlalchemy.exc

    root = chain(error)[-1]
    if isinstance(error, sqlalchemy.exc.IntegrityError) or getattr(root, "sqlstate", None) in RACES:
        return True
    return isinstance(root, sqlite3.OperationalError) and bool(re.search("already exists|locked", str(root)))


def _is_damage(error: BaseException) -> bool:
    """Whether a file of SQLite's cannot be read as one."""
    root = chain(error)[-1]
    return isinstance(root, sqlite3.DatabaseError) and bool(re.search("not a database|malformed", str(root)))


def _hint(sqlite: bool) -> str:
    if sqlite:
        return "Is the folder there, can it be written, and is the file one of a search?"
    return "Is the server there, and are name, password and database right?"
