"""``squad search``: search for the best settings of a model."""

import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from squad.cli.options import Data, DataDir, Decimal, Device, Drop, Encoding, Group, Hidden, MaxEpochs, Model, Target
from squad.cli.terminal import INTERRUPTED, StoppedError, print_message, print_result, warn
from squad.signals import TERMINATED, Terminated

if TYPE_CHECKING:
    from squad.search.search_record import Search

__all__ = ["search", "warn_of_password"]


def search(
    data: Data,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the study; an existing study is resumed.")
    ] = Path("study"),
    target: Target = None,
    model: Model = None,
    trials: Annotated[int, typer.Option(metavar="N", help="Total number of trials, including earlier runs.")] = 100,
    objective: Annotated[
        str,
        typer.Option(
            metavar="WHAT", help="coverage@risk=R, coverage@risk=R,delta=D, aurc or accuracy, on validation rows."
        ),
    ] = "coverage@risk=.02",
    space: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Search space in TOML, or the word paper.  [default: that of the model]"),
    ] = None,
    group: Group = None,
    drop: Drop = None,
    hidden: Hidden = None,
    max_epochs: MaxEpochs = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Seed of the split, the search, and every trial's weights and noise.  [default: 0]"
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings shared by all trials, in TOML, as for squad fit.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="One such setting; it is not searched. Repeatable."),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Trials that train together on a device.  [default: a fifth of all, at most 32]"
        ),
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Prune trials whose accuracy falls below the median.")] = False,
    minutes: Annotated[
        float | None, typer.Option(metavar="N", help="Stop after this time; the same command resumes.")
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Database shared by several workers, postgresql://USER@HOST/NAME; passwords: PGPASSWORD or ~/.pgpass.",
        ),
    ] = None,
    study: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the study in the database.  [default: that of the folder]"),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE", help="Run workers on a Ray cluster: auto, HOST:PORT, or local to start one here."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Number of workers with --ray.  [default: one per GPU, or per machine without GPUs]"
        ),
    ] = None,
    stale_after: Annotated[
        float, typer.Option(metavar="S", help="Seconds without a heartbeat after which a worker's trials go to others.")
    ] = 600.0,
    retry_for: Annotated[
        float, typer.Option(metavar="S", help="Seconds to retry for while the database server cannot be reached.")
    ] = 60.0,
    no_defaults: Annotated[
        bool, typer.Option("--no-defaults", help="Do not use the default settings as trial 0 of a new study.")
    ] = False,
    device: Device = "auto",
    data_dir: DataDir = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    restart: Annotated[bool, typer.Option("--restart", help="Delete an existing study and start over.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Search for the best settings of a model.

    Settings are proposed by TPE (Optuna), and several trials train together. If a search is stopped or killed, the same
    command resumes it. squad search show STUDY prints the results and draws figures.

    \b
    Examples:
      squad search train.csv --target y --drop patient_id --out study
      squad search digits --model maxout-dropout --trials 30 --out digits-study
      squad search show study
      squad fit train.csv --config study/best.toml --out model
      squad search train.csv --target y --ray local --workers 2 --out study
    """
    from squad.cli.fit import layer_sizes
    from squad.cli.inputs import Format, read_rows
    from squad.data.tables import Table
    from squad.errors import ArgumentError
    from squad.search.progress import SilentSearchProgress, make_progress
    from squad.search.request import build_problem, check_request
    from squad.search.run_search import run_search
    from squad.search.search_options import SearchOptions
    from squad.search.study_folder import BEST
    from squad.search.summary import doubt
    from squad.settings import merged, read_toml

    options: dict[str, Any] = {
        "target": target,
        "group": group,
        "drop": drop or None,
        "model": model,
        "seed": seed,
        "network.hidden": None if hidden is None else layer_sizes(hidden),
        "training.max_epochs": max_epochs,
    }
    settings = merged(read_toml(config), set_ or [], options)
    search_options = SearchOptions(
        trials=trials, slots=slots, device=device, storage=storage, study=study, ray=ray, workers=workers,
        minutes=minutes, prune=prune, stale_after=stale_after, retry_for=retry_for, defaults=not no_defaults,
        restart=restart,
    )  # fmt: skip
    check_request(settings, space, objective, out, search_options)
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
        raise ArgumentError(f"--drop {', '.join(settings['drop'])} needs a table, but {data} has no columns.")
    problem = build_problem(rows.x, rows.labels, settings, space, objective, groups=rows.groups, source=rows.source)
    title = f"{len(rows):,} rows of {rows.source}; searching settings of {problem.space.model}"

    class MessagesOnly(SilentSearchProgress):
        def message(self, text: str) -> None:
            print_message(text)

    try:
        with contextlib.redirect_stdout(sys.stderr):  # Ray reports lost workers on stdout
            found = run_search(
                problem, out, search_options, MessagesOnly() if quiet else make_progress(), "" if quiet else title
            )
    except (KeyboardInterrupt, Terminated) as stop:
        code = TERMINATED if isinstance(stop, Terminated) else INTERRUPTED
        raise StoppedError(f"stopped; the same command resumes {out}.", code) from None
    done = sum(trial.state in ("complete", "pruned") for trial in found.trials)
    best = found.best()
    count = f"{done} of {trials} trials" if done <= trials else f"already has {done} trials"
    if best is None or best.value is None:
        print_result(f"{out}: {count}, none of them measured{' yet' if done < trials else ''}")
    else:
        value = found.measure.text(best.value, 2)
        print_result(f"{out}: {count}, best {value} in trial {best.number};{_compared(found)} {out / BEST}")
    if (message := doubt(found)) is not None:
        print_message(message)
    if done < trials:
        print_message(f"the same command resumes {out}")
    elif best is None:
        print_message("every trial diverged: use a --space with lower learning rates")
    else:
        folder, rows_of, best_of = (shlex.quote(str(word)) for word in (out, data, out / BEST))
        print_message(
            f"squad search show {folder} shows the results; squad fit {rows_of} --config {best_of} trains the best"
        )


def _compared(found: "Search") -> str:
    """Return the value of the defaults, for comparison with the best."""
    defaults = found.defaults()
    if defaults is None or not defaults.measured or defaults.value is None:
        return ""
    best = found.best()
    if best is not None and best.defaults:
        return " these are the defaults;"
    return f" defaults {found.measure.short(defaults.value, 2)};"


def warn_of_password(storage: str | None) -> None:
    """Warn if a URL on the command line contains a password, which other users can read."""
    if storage is None or "://" not in storage:
        return
    from squad.search.storage import has_password, need_optuna

    need_optuna()
    if has_password(storage):
        warn(
            "the password in --storage can be read by other users of this machine (ps) and stays in the "
            "shell's history. Remove it from the URL, and use PGPASSWORD, ~/.pgpass or a service file."
        )
