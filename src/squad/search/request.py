"""The request of a search: settings, space and objective, checked before rows are read and turned into a problem."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from squad.data.tables import Table
from squad.data.tables import groups as groups_of
from squad.errors import ArgumentError
from squad.fitting import FitSettings, prepare
from squad.output_paths import check_writable
from squad.search.objective import Objective
from squad.search.problem import Problem, make_problem, single
from squad.search.search_options import SearchOptions
from squad.search.space import Space, read_tables
from squad.search.study_folder import BEST
from squad.settings import assigned, fit_settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["build_problem", "check_request", "table_and_groups"]

#: A search space as tables, as a file, or as the name "paper"; None for the default of the model.
SpaceLike: TypeAlias = "Mapping[str, Any] | str | Path | None"


def check_request(
    settings: Mapping[str, Any], space: SpaceLike, objective: str, out: Path, options: SearchOptions
) -> None:
    """Check everything about a search that can be checked before rows are read.

    Args:
        settings: Settings shared by all trials, as tables of a fit.
        space: Search space.
        objective: Objective, such as "coverage@risk=.02".
        out: Folder of the study.
        options: How the search is run; its database and cluster must be reachable.
    """
    from squad.search.storage import close_storage, open_storage

    _parse_request(settings, space, objective)
    check_writable(out / BEST)
    if options.storage is not None:
        close_storage(open_storage(options.storage, stale_after=options.stale_after))
    if options.ray is not None:
        from squad.search import cluster

        cluster.check(options.ray)


def build_problem(
    x: Any,
    labels: "Sequence[Any] | NDArray[Any]",
    settings: Mapping[str, Any],
    space: SpaceLike,
    objective: str,
    *,
    groups: "Sequence[Any] | NDArray[Any] | None" = None,
    source: str = "",
) -> Problem:
    """Return the problem of a search; settings, space and objective are checked before the rows.

    Args:
        x: Rows (N, ...), as for :func:`squad.tune`.
        labels: Labels (N,).
        settings: Settings shared by all trials, as tables of a fit.
        space: Search space.
        objective: Objective, such as "coverage@risk=.02".
        groups: Group of each row (N,).
        source: Where the rows come from, for the record.

    Returns:
        The problem.
    """
    settings, resolved, parsed = _parse_request(settings, space, objective)
    ready = prepare(
        x,
        labels,
        resolved,
        target=settings.get("target"),
        drop=settings.get("drop", ()),
        group=settings.get("group"),
        groups=groups,
    )
    return make_problem(ready, settings, parsed, objective, {"source": source} if source else {})


def table_and_groups(
    x: Any, groups: "Sequence[Any] | NDArray[Any] | None", settings: Mapping[str, Any]
) -> tuple[Any, "Sequence[Any] | NDArray[Any] | None"]:
    """Return a data frame with a target as a table, and the groups, read from their column unless given.

    Args:
        x: Data frame, table or array.
        groups: (N,), group of each row; None to read them from the column that ``settings`` name.
        settings: Settings of a fit, with optional "target" and "group".

    Returns:
        Table or array, and the groups; None if there are none.
    """
    column = settings.get("group")
    if hasattr(x, "iloc") and hasattr(x, "columns"):  # a data frame; without a target it is an array of numbers
        if settings.get("target") is not None:
            x = Table.of(x)
        elif text := [str(name) for name, kind in x.dtypes.items() if getattr(kind, "kind", "O") not in "biuf"]:
            hint = "Name the label column with target, or pass squad.data.tables.Table.of(frame)."
            given = f"a data frame with the text column {text[0]!r} and no target"
            raise ArgumentError.of("x", given, "a table, or numbers only", hint)
    if column is None or groups is not None:
        return x, groups
    if not isinstance(x, Table):
        hint = "For an array pass groups, one per row; Table.of(frame) converts a data frame."
        raise ArgumentError.of("group", f"{column!r} with {type(x).__name__}", "a column of a table", hint)
    return x, groups_of(x, column)


def _parse_request(
    settings: Mapping[str, Any], space: SpaceLike, objective: str
) -> tuple[Mapping[str, Any], FitSettings, Space]:
    """Return the settings with the model's name, the settings of one trial, and the space."""
    from squad.search.storage import need_optuna

    need_optuna()
    Objective.parse(objective)
    tables = space if space is None or isinstance(space, Mapping) else read_tables(Path(space))
    if "model" not in settings and isinstance(tables, Mapping) and isinstance(tables.get("model"), str):
        settings = {**settings, "model": tables["model"]}
    resolved = single(fit_settings(settings))
    model = resolved.network.name
    fixed = [f"{table}.{name}" for table in ("network", "training") for name in settings.get(table, {})]
    if space is None:
        parsed = Space.default(model, fixed)
    elif isinstance(space, Mapping):
        parsed = Space.of(model, space, fixed)
    else:
        parsed = Space.read(Path(space), model, fixed)
    _check_compatible(settings, parsed)
    return settings, resolved, parsed


def _check_compatible(settings: Mapping[str, Any], space: Space) -> None:
    """Check that the space is compatible with the shared settings, which a space does not know."""
    trial = {name: entry.ends[0] for name, entry in space.entries.items()}
    for name, entry in space.entries.items():
        for end in entry.ends:
            try:
                fit_settings(assigned(settings, {**trial, name: end}))
            except ArgumentError as cause:
                raise ArgumentError(f"{name}: {cause}") from cause
