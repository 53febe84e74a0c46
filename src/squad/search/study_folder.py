"""The folder of a study: its database, its record, and the files made from them."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from squad.errors import SquadError
from squad.output_paths import OutputError
from squad.records import Record
from squad.search.search_options import SearchOptions
from squad.search.search_record import CSV, TRIALS, read

if TYPE_CHECKING:
    import optuna

__all__ = ["BEST", "DATABASE", "count_text", "delete_shared_study", "earlier_record", "own_database", "study_name"]

#: Database of a study, unless it is in a shared storage; and the settings of its best trial.
DATABASE, BEST = "study.db", "best.toml"
#: Files made from a study, which must not survive its restart.
GENERATED = (TRIALS, CSV, BEST, "history.png", "importances.png", "pairwise.png")


@contextlib.contextmanager
def own_database(out: Path, restart: bool) -> Iterator[None]:
    """Delete the folder's database if ``restart``, and say what to do if it turns out to be damaged.

    The caller holds the lock of the folder, so that no other process uses the database.

    Args:
        out: Folder of the study.
        restart: Whether to delete the database and all generated files.
    """
    from squad.search.storage import DamagedError, SearchError

    if restart:  # whatever the file is: it may not even be a database
        _delete(out / name for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", *GENERATED))
    try:
        yield
    except DamagedError as cause:
        record = earlier_record(out)
        count = 0 if record is None else len(record.results["trials"])
        remedy = (
            f"delete it to restore {count_text(count)} from {TRIALS} into a new one"
            if count
            else "choose another --out"
        )
        raise SearchError(f"{cause} Restore a copy of it, or {remedy}, or start over with --restart.") from None


def earlier_record(out: Path) -> Record | None:
    """Return the record in a folder; None if there is none, or it cannot be read."""
    with contextlib.suppress(SquadError):
        return read(out).record
    return None


def count_text(count: int) -> str:
    """Return "1 trial" or "3 trials"."""
    return f"{count} trial{'s' * (count != 1)}"


def delete_shared_study(storage: "optuna.storages.RDBStorage", name: str, out: Path, options: SearchOptions) -> None:
    """Delete a study from a shared storage, unless other workers use it.

    Args:
        storage: Storage that holds the study.
        name: Name of the study.
        out: Folder of the study.
        options: Options of the search, used in the error message.
    """
    from squad.search.storage import SearchError
    from squad.search.study import active_workers, delete_study

    if workers := active_workers(storage, name):
        raise SearchError(
            f"Study {name!r} has running trials of these workers: {', '.join(workers)}. Stop them first; if they were "
            f"killed, wait {options.stale_after:g} seconds (--stale-after). Or choose another --study."
        )
    delete_study(storage, name)
    _delete(out / name for name in GENERATED)


def _delete(files: Iterable[Path]) -> None:
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError as cause:
            raise OutputError(f"{file} cannot be deleted: {cause.strerror or cause}.") from cause


def study_name(storage: "optuna.storages.RDBStorage", out: Path, options: SearchOptions) -> str:
    """Return the name of the study: the folder's name, or that of the only study in the folder's database.

    Args:
        storage: Open storage of the search.
        out: Folder of the study.
        options: Options of the search; a shared database may hold other studies.

    Returns:
        The name.
    """
    import optuna

    from squad.search.storage import quiet_optuna

    with quiet_optuna():
        names = [] if options.storage is not None else optuna.get_all_study_names(storage)
    return names[0] if len(names) == 1 else out.resolve().name
