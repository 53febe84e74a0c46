"""``squad search show``: print the results of a search, and write them to files."""

import contextlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from squad.cli.terminal import facts, print_message, print_result, table

if TYPE_CHECKING:
    from squad.search.search_record import Search

__all__ = ["show"]

#: Heartbeat timeout in seconds that never expires, because showing a study must not take trials from its workers.
NO_TIMEOUT = 1e9


def show(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="Folder of a search.", show_default=False)],
    storage: Annotated[
        str | None, typer.Option(metavar="URL", help="Database of the search, if it is not in the folder.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--study", metavar="NAME", help="Name of the study, if the database has several."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for the files.  [default: the folder of the search]")
    ] = None,
    no_figures: Annotated[bool, typer.Option("--no-figures", help="Write no figures.")] = False,
) -> None:
    """Show the results of a search so far, and write them to files.

    Prints the best settings next to the range of the best trials. Writes best.toml for squad fit --config, trials.csv,
    history.png, importances.png and pairwise.png.

    \b
    Examples:
      squad search show study
      squad fit train.csv --config study/best.toml --out model
      squad search show study --storage postgresql://user@host/searches
    """
    from squad.cli.search import warn_of_password
    from squad.errors import ArgumentError
    from squad.files import write_text
    from squad.output_paths import check_writable
    from squad.records import RecordError
    from squad.search import summary
    from squad.search.export import write_csv
    from squad.search.search_record import CSV, TRIALS, read
    from squad.search.study_folder import BEST

    if out is not None:
        check_writable(out / CSV)
    refresh(study, storage, name)
    warn_of_password(storage)
    search = read(study)
    summary.best_trial(search)
    try:  # check everything before printing anything
        summary.facts(search), summary.rows(search)
        text = summary.best_toml(search, study.resolve().name)
    except ArgumentError as cause:
        raise RecordError(f"{study / TRIALS} is not a valid record: {cause} Was it edited?") from cause
    except (LookupError, TypeError, ValueError, AttributeError) as cause:
        detail = f"{type(cause).__name__}: {cause}"
        raise RecordError(f"{study / TRIALS} is not a valid record ({detail}). Was it edited?") from cause
    _print(search, study)
    out = study if out is None else out
    best = write_text(out / BEST, text)
    print_result(best)
    print_result(write_csv(search, out / CSV))
    if not no_figures:
        _draw(search, out)
    print_message(f"squad fit DATA --config {shlex.quote(str(best))} trains the best network")


def _print(search: "Search", study: Path) -> None:
    """Print the facts, the table of settings and the warning."""
    from rich.console import Console

    from squad.search import summary

    facts(str(study), summary.facts(search))
    spread = summary.spread_heading(search)
    header = ["setting", "best", *([spread] if spread else []), "searched"]
    rows = [(row.name, row.best, *([row.top] if spread else []), row.searched) for row in summary.rows(search)]
    table("", header, rows, words=len(header))
    Console(highlight=False, markup=False, emoji=False).print(summary.warning(search))


def _draw(search: "Search", out: Path) -> None:
    """Draw the figures, and say why one could not be drawn."""
    from squad.search import study_figures

    written, left_out = study_figures.write(search, out)
    for path in written:
        print_result(path)
    reasons: dict[str, list[str]] = {}
    for file, reason in left_out.items():
        reasons.setdefault(reason, []).append(file)
    for reason, files in reasons.items():
        print_message(f"{', '.join(files)} left out: {reason}")


def refresh(folder: Path, storage: str | None = None, name: str | None = None) -> None:
    """Update a search's record from its database.

    If the folder's own database cannot be used, the existing record is kept; a database or study that the user named
    must be usable.

    Args:
        folder: Folder of the search.
        storage: URL of the database; None for the file in the folder, if there is one.
        name: Name of the study; None for the one named in the record, or the only one.
    """
    from squad.errors import SquadError
    from squad.search.export import export_record
    from squad.search.search_record import TRIALS, TrialsError, read
    from squad.search.storage import DamagedError, SearchError, close_storage, file_url, open_storage, quiet_optuna
    from squad.search.study import load_study
    from squad.search.study_folder import DATABASE

    if not folder.is_dir():
        raise TrialsError(f"STUDY must be the folder of a search, got {folder}. Run squad search to make one.")
    named = storage is not None or name is not None
    known = None
    with contextlib.suppress(SquadError):  # an unreadable record is replaced, or reported when it is shown
        known = read(folder)
    if storage is None:
        if not (folder / DATABASE).is_file():
            if name is not None:
                raise SearchError(
                    f"There is no {folder / DATABASE} with study {name!r}. Name its database with --storage."
                )
            return  # a record without a database, such as a copy
        storage = file_url(folder / DATABASE)
    _check_exists(storage)
    try:
        opened = open_storage(storage, stale_after=NO_TIMEOUT)
        try:
            study, meta = load_study(opened, name or _name(known, opened))
            with quiet_optuna():
                record = export_record(study, meta, earlier=None if known is None else known.record)
        finally:
            close_storage(opened)
    except SearchError as error:
        if isinstance(error, DamagedError) and known is None and not named:
            raise SearchError(
                f"{error} There is no {TRIALS} to show instead: restore a copy of {folder / DATABASE}, or start over "
                "with squad search --restart."
            ) from error
        if known is None or named:
            raise
        print_message(f"{error} Showing {folder / TRIALS} of {known.record.date[:16].replace('T', ' ')} UTC instead.")
        return
    record.save(folder / TRIALS)


def _check_exists(storage: str) -> None:
    """Check that a file exists, because showing a study must not create a database."""
    from squad.search.storage import SearchError, is_file, need_optuna

    if not is_file(storage):
        return
    need_optuna()
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    with contextlib.suppress(ArgumentError):  # an invalid URL is reported when it is opened
        file = make_url(storage).database
        if file and file != ":memory:" and not Path(file).is_file():
            raise SearchError(f"--storage must be the database of a search, but there is no file {file}.")


def _name(known: "Search | None", storage: Any) -> str:
    """Return the name of the study: that of the record, or the only one in the database."""
    import optuna

    from squad.search.storage import SearchError, quiet_optuna

    if known is not None and "study" in known.record.settings:
        return str(known.record.settings["study"])
    with quiet_optuna():
        names = sorted(optuna.get_all_study_names(storage))
    if len(names) != 1:
        known_names = f"it has {', '.join(names)}. Choose one with --study" if names else "it has none"
        raise SearchError(f"The database must have exactly one study; {known_names}.")
    return names[0]
