"""``squad search show``: what a search found, on the screen and as files."""

import contextlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from squad.cli.terminal import facts, say, table, tell

if TYPE_CHECKING:
    from squad.search.search_record import Search

__all__ = ["show"]

#: Nobody who only looks takes a silent worker's trials from it; should that change, then not for so many seconds.
NEVER = 1e9


def show(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="Folder of a search.", show_default=False)],
    storage: Annotated[
        str | None, typer.Option(metavar="URL", help="The database of the search, if it is not in the folder.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--study", metavar="NAME", help="Of the study in the database, if it holds several."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to write; the folder of the search by default.")
    ] = None,
    no_figures: Annotated[bool, typer.Option("--no-figures", help="Write no figures.")] = False,
) -> None:
    """Show what a search has found so far, and write it down.

    Prints the best settings beside those of the best trials. Writes best.toml for squad fit --config, trials.csv,
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
    from squad.search import summary as words
    from squad.search.search_record import CSV, TRIALS, read, write_csv
    from squad.search.tuning import BEST

    if out is not None:
        check_writable(out / CSV)
    refresh(study, storage, name)
    warn_of_password(storage)
    search = read(study)
    words.best_trial(search)
    try:  # all that is told, before any of it is
        words.facts(search), words.rows(search)
        text = words.best_toml(search, study.resolve().name)
    except ArgumentError as cause:
        raise RecordError(f"{study / TRIALS} is not as squad wrote it: {cause} Was it edited?") from cause
    except (LookupError, TypeError, ValueError, AttributeError) as cause:
        told = f"{type(cause).__name__}: {cause}"
        raise RecordError(f"{study / TRIALS} is not as squad wrote it ({told}). Was it edited?") from cause
    _print(search, study)
    out = study if out is None else out
    best = write_text(out / BEST, text)
    tell(best)
    tell(write_csv(search, out / CSV))
    if not no_figures:
        _draw(search, out)
    say(f"squad fit DATA --config {shlex.quote(str(best))} trains the best network again")


def _print(search: "Search", study: Path) -> None:
    """All that fits on a screen."""
    from rich.console import Console

    from squad.search import summary as words

    facts(str(study), words.facts(search))
    several = words.spread_heading(search)
    header = ["setting", "best", *([several] if several else []), "searched"]
    rows = [(row.name, row.best, *([row.top] if several else []), row.searched) for row in words.rows(search)]
    table("", header, rows, words=len(header))
    Console(highlight=False, markup=False, emoji=False).print(words.warning(search))


def _draw(search: "Search", out: Path) -> None:
    """The figures, and why one of them is missing."""
    from squad.search import study_figures

    written, left_out = study_figures.write(search, out)
    for path in written:
        tell(path)
    reasons: dict[str, list[str]] = {}
    for file, reason in left_out.items():
        reasons.setdefault(reason, []).append(file)
    for reason, files in reasons.items():
        say(f"{', '.join(files)} left out: {reason}")


def refresh(folder: Path, storage: str | None = None, name: str | None = None) -> None:
    """Write a search's record anew from its database.

    If the database of the folder cannot be used, the record that is there counts; one that was named must do.

    Args:
        folder: of the search.
        storage: address of the database; None is the file in the folder, if there is one.
        name: of the study; None is the one that the record names, or the only one.
    """
    from squad.errors import SquadError
    from squad.search.search_record import TRIALS, TrialsError, export, read
    from squad.search.storage import DamagedError, SearchError, file_url, open_storage, quiet_optuna
    from squad.search.study import load_study
    from squad.search.tuning import DATABASE

    if not folder.is_dir():
        raise TrialsError(f"STUDY must be the folder of a search; {folder} is none. squad search makes one.")
    named = storage is not None or name is not None
    known = None
    with contextlib.suppress(SquadError):  # one that cannot be read is written anew, or told of when it is shown
        known = read(folder)
    if storage is None:
        if not (folder / DATABASE).is_file():
            if name is not None:
                raise SearchError(
                    f"There is no {folder / DATABASE} to look for study {name!r} in. Name its database with --storage."
                )
            return  # the record alone, such as one that was sent by somebody
        storage = file_url(folder / DATABASE)
    _check_there(storage)
    try:
        opened = open_storage(storage, stale_after=NEVER)
        try:
            study, meta = load_study(opened, name or _name(known, opened))
            with quiet_optuna():
                record = export(study, meta, earlier=None if known is None else known.record)
        finally:
            opened.remove_session()
            opened.engine.dispose()
    except SearchError as error:
        if isinstance(error, DamagedError) and known is None and not named:
            raise SearchError(
                f"{error} There is no {TRIALS} to show instead: put a copy of {folder / DATABASE} back, or begin anew "
                "with squad search --restart."
            ) from error
        if known is None or named:
            raise
        say(f"{error} This is what {folder / TRIALS} says, of {known.record.date[:16].replace('T', ' ')} UTC.")
        return
    record.save(folder / TRIALS)


def _check_there(storage: str) -> None:
    """That a file is there: whoever only looks must not make a database."""
    from squad.search.storage import SearchError, is_file, need_optuna

    if not is_file(storage):
        return
    need_optuna()
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    with contextlib.suppress(ArgumentError):  # no address at all, which is told of when it is opened
        file = make_url(storage).database
        if file and file != ":memory:" and not Path(file).is_file():
            raise SearchError(f"--storage must be the database of a search; there is no file {file}.")


def _name(known: "Search | None", storage: Any) -> str:
    """Of the study that is meant: the one of the record, or the only one there is."""
    import optuna

    from squad.search.storage import SearchError, quiet_optuna

    if known is not None and "study" in known.record.settings:
        return str(known.record.settings["study"])
    with quiet_optuna():
        names = sorted(optuna.get_all_study_names(storage))
    if len(names) != 1:
        held = f"it holds {', '.join(names)}. Name one with --study" if names else "it holds none"
        raise SearchError(f"The database must hold one study; {held}.")
    return names[0]
