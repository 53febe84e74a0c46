"""``squad search``: the best settings of a model."""

import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from squad.cli.options import Data, DataDir, Decimal, Device, Drop, Encoding, Group, Hidden, MaxEpochs, Model, Target
from squad.cli.terminal import INTERRUPTED, StoppedError, say, tell, warn
from squad.signals import TERMINATED, Terminated

if TYPE_CHECKING:
    from squad.search.search_record import Search

__all__ = ["search", "warn_of_password"]


def search(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Of the study; one that is there goes on.")] = Path(
        "study"
    ),
    target: Target = None,
    model: Model = None,
    trials: Annotated[
        int, typer.Option(metavar="N", help="How many there are to be, those of earlier runs among them.")
    ] = 100,
    objective: Annotated[
        str,
        typer.Option(
            metavar="WHAT", help="coverage@risk=R, coverage@risk=R,delta=D, aurc or accuracy, on validation rows."
        ),
    ] = "coverage@risk=.02",
    space: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What is searched, in TOML, or the word paper; the model's own by default."),
    ] = None,
    group: Group = None,
    drop: Drop = None,
    hidden: Hidden = None,
    max_epochs: MaxEpochs = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Of the split, the search, every trial's weights and noise (0).")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings that all trials share, in TOML, as of squad fit.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="One of them; what is set is not searched. Several times."),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(metavar="N", help="Trials that train at once on a device (a fifth of all, 32 at the most)."),
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Give up trials whose accuracy stays below the median.")
    ] = False,
    minutes: Annotated[
        float | None, typer.Option(metavar="N", help="Stop after so long; the same command goes on.")
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="A database that many workers share, postgresql://USER@HOST/NAME; passwords: PGPASSWORD or ~/.pgpass.",
        ),
    ] = None,
    study: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the study in the database; the folder's name by default.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="WHERE", help="Workers on a Ray cluster: auto, HOST:PORT, or local to start one here."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Of --ray; one a GPU, or one a machine without, by default.")
    ] = None,
    stale_after: Annotated[
        float, typer.Option(metavar="S", help="Silence of a worker after which its trials go to others.")
    ] = 600.0,
    retry_for: Annotated[
        float, typer.Option(metavar="S", help="Retry this long while the database server cannot be reached.")
    ] = 60.0,
    no_defaults: Annotated[
        bool, typer.Option("--no-defaults", help="Do not begin a new study with the default settings as trial 0.")
    ] = False,
    device: Device = "auto",
    data_dir: DataDir = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    restart: Annotated[bool, typer.Option("--restart", help="Forget the study that is there, and begin anew.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Search for the best settings of a model.

    Trials train together, and settings are proposed by TPE (Optuna). Stopped or killed, a search goes on when the same
    command is given again. squad search show STUDY prints what was found, and draws it.

    \b
    Examples:
      squad search train.csv --target y --drop patient_id --out study
      squad search digits --model maxout-dropout --trials 30 --out digits-study
      squad search show study
      squad fit train.csv --config study/best.toml --out model
      squad search train.csv --target y --ray local --workers 2 --out study
    """
    from squad.cli.fit import sizes
    from squad.cli.inputs import Format, read_rows
    from squad.data.tables import Table
    from squad.errors import ArgumentError
    from squad.search.progress import SilentSearchProgress, make_progress
    from squad.search.summary import doubt
    from squad.search.tuning import BEST, SearchOptions, check, pose
    from squad.search.tuning import search as make
    from squad.settings import merged, read_toml

    options: dict[str, Any] = {
        "target": target,
        "group": group,
        "drop": drop or None,
        "model": model,
        "seed": seed,
        "network.hidden": None if hidden is None else sizes(hidden),
        "training.max_epochs": max_epochs,
    }
    settings = merged(read_toml(config), set_ or [], options)
    search_options = SearchOptions(
        trials=trials, slots=slots, device=device, storage=storage, study=study, ray=ray, workers=workers,
        minutes=minutes, prune=prune, stale_after=stale_after, retry_for=retry_for, defaults=not no_defaults,
        restart=restart,
    )  # fmt: skip
    check(settings, space, objective, out, search_options)
    warn_of_password(storage)
    rows = read_rows(
        data,
        "train",
        target=settings.get("target"),
        group=settings.get("group"),
        data_dir=data_dir,
        format=Format(encoding, decimal),
    )
    assert rows.labels is not None
    if settings.get("drop") and not isinstance(rows.x, Table):
        raise ArgumentError.of("--drop", ", ".join(settings["drop"]), f"left out for {data}, which has no columns")
    problem = pose(rows.x, rows.labels, settings, space, objective, groups=rows.groups, source=rows.source)
    title = f"{len(rows):,} rows of {rows.source}; searching settings of {problem.space.model}"

    class Quiet(SilentSearchProgress):
        def message(self, text: str) -> None:
            say(text)

    try:
        with contextlib.redirect_stdout(sys.stderr):  # Ray tells of workers that were lost on stdout
            found = make(problem, out, search_options, Quiet() if quiet else make_progress(), "" if quiet else title)
    except (KeyboardInterrupt, Terminated) as stop:
        code = TERMINATED if isinstance(stop, Terminated) else INTERRUPTED
        raise StoppedError(f"stopped; the same command goes on with {out}.", code) from None
    done = sum(trial.state in ("complete", "pruned") for trial in found.trials)
    best = found.best()
    count = f"{done} of {trials} trials" if done <= trials else f"has {done} trials already"
    if best is None or best.value is None:
        tell(f"{out}: {count}, none with a value{' yet' if done < trials else ''}")
    else:
        value = found.measure.text(best.value, 2)
        tell(f"{out}: {count}, best {value} in trial {best.number};{_compared(found)} {out / BEST}")
    if (doubted := doubt(found)) is not None:
        say(doubted)
    if done < trials:
        say(f"the same command goes on with {out}")
    elif best is None:
        say("every trial diverged: name a --space of lower learning rates")
    else:
        folder, rows_of, best_of = (shlex.quote(str(word)) for word in (out, data, out / BEST))
        say(f"squad search show {folder} shows it; squad fit {rows_of} --config {best_of} trains it")


def _compared(found: "Search") -> str:
    """What the defaults came to, beside the best."""
    defaults = found.defaults()
    if defaults is None or not defaults.measured or defaults.value is None:
        return ""
    best = found.best()
    if best is not None and best.defaults:
        return " these are the defaults;"
    return f" defaults {found.measure.short(defaults.value, 2)};"


def warn_of_password(storage: str | None) -> None:
    """Say so where a password is on the command line, which others can read."""
    if storage is None or "://" not in storage:
        return
    from squad.search.storage import has_password, need_optuna

    need_optuna()
    if has_password(storage):
        warn(
            "the password in --storage can be read by other users of this machine (ps) and stays in the "
            "shell's history. Leave it out of the address, and put it into PGPASSWORD, ~/.pgpass or a service file."
        )
