"""``squad.tune``: search for the best settings from Python."""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from squad.errors import ArgumentError
from squad.search.progress import SearchProgress
from squad.search.request import build_problem, check_request, table_and_groups
from squad.search.run_search import run_search
from squad.search.search_options import SearchOptions, check_option_names
from squad.search.search_record import Search
from squad.settings import checked

if TYPE_CHECKING:
    import optuna
    from numpy.typing import NDArray

    from squad.search.study_source import Callback

__all__ = ["tune"]


def tune(
    x: Any,
    labels: "Sequence[Any] | NDArray[Any]",
    *,
    model: str | None = None,
    trials: int = 100,
    objective: str = "coverage@risk=.02",
    out: str | Path = "study",
    space: "Mapping[str, Any] | str | Path | None" = None,
    settings: Mapping[str, Any] | None = None,
    target: str | None = None,
    drop: Sequence[str] = (),
    group: str | None = None,
    groups: "Sequence[Any] | NDArray[Any] | None" = None,
    progress: SearchProgress | None = None,
    sampler: "optuna.samplers.BaseSampler | None" = None,
    callbacks: "Sequence[Callback]" = (),
    **options: Any,
) -> Search:
    """Search for the best settings of a model with TPE; several trials train together as one batched network.

    Trials are measured on validation rows, which are split off as by ``squad fit``: certify a model trained with the
    best settings on other rows.  A search that was stopped is resumed by the same call.

    Trial 0 of a new study has the default settings, which win ties: the best settings are never worse on the objective.

    Args:
        x: A table, a data frame, or an array (N, features), (N, height, width) or (N, height, width, channels).
        labels: Labels (N,).
        model: "squad", "squad-factorized", "maxout-dropout", "relu-dropout", "dlgm" or "mlp"; by default that of the
            space, or else "squad".
        trials: Total number of trials, including those of earlier runs.
        objective: ``"coverage@risk=R"``, ``"coverage@risk=R,delta=D"``, ``"aurc"`` (which is minimized) or
            ``"accuracy"``.
        out: Folder of the study.
        space: Search space as tables or as a TOML file (the guide "Search" has both); "paper" for the paper's space,
            None for the default space of the model.
        settings: Settings shared by all trials, as tables, such as {"network": {"hidden": [64]}}; the page "Settings"
            of the documentation lists them.
        target: Column of the labels, if ``x`` is a table.
        drop: Columns to leave out, if ``x`` is a table.
        group: Column of the groups, if ``x`` is a table.  Rows of one group always land in the same split.
        groups: Group of each row (N,), for an array or instead of a column.
        progress: Progress reports; by default none, except a warning if there are too few rows for the objective.
        sampler: Optuna sampler to use instead of TPE; it maximizes.  Trials train together, so it proposes while
            others are running (as with ``study.ask()``), and its ``after_trial`` is not called.  Each worker has its
            own copy, reseeded (``reseed_rng``); on a Ray cluster it must be picklable.  State that it stores in its
            trials is kept; other state is lost when a search is resumed.
        callbacks: Functions called as ``callback(study, trial)``, as by Optuna, after every trial that ended in this
            process: each worker calls its own for its own trials, one after the other.  ``study.stop()`` stops this
            worker: running trials are queued again, and the same call resumes.  An exception ends the search.
        **options: ``slots``, ``device``, ``minutes``, ``storage``, ``ray``, ``defaults`` and the other attributes of
            :class:`~squad.search.search_options.SearchOptions`.

    Returns:
        The search, with all trials, the best trial and its settings.

    See Also:
        squad.certify: Certify a model on rows that the search has not seen.

    References:
        J. Bergstra, R. Bardenet, Y. Bengio and B. Kégl, "Algorithms for Hyper-Parameter Optimization", 2011.

        T. Akiba et al., "Optuna: A Next-generation Hyperparameter Optimization Framework", 2019.

    Examples:
        >>> import tempfile
        >>> from sklearn.datasets import load_iris
        >>> x, y = load_iris(return_X_y=True)
        >>> few = {"training": {"max_epochs": 3, "anneal_epochs": 1}}
        >>> found = tune(x, y, trials=2, objective="aurc", settings=few, out=tempfile.mkdtemp())
        >>> sorted(found.best().settings)[:3]
        ['network.bins', 'network.dropout', 'network.hidden']
        >>> found.best_settings().network.name
        'squad'
    """
    check_option_names(options)
    if not isinstance(out, (str, os.PathLike)):
        raise ArgumentError.of("out", repr(out), "the folder of the study")
    _check_sampler_and_callbacks(sampler, callbacks)
    search_options = SearchOptions(trials=trials, **options)
    given = {"model": model, "target": target, "group": group, "drop": list(drop) or None}
    tables = checked({**(settings or {}), **{name: value for name, value in given.items() if value is not None}})
    check_request(tables, space, objective, Path(out), search_options)
    x, groups = table_and_groups(x, groups, tables)
    problem = build_problem(x, labels, tables, space, objective, groups=groups)
    _, note = problem.requested.for_rows(problem.data.validation.shape[1])
    if note is not None and progress is None:  # a change of the objective is never silent
        warnings.warn(note, stacklevel=2)
    return run_search(problem, Path(out), search_options, progress, sampler=sampler, callbacks=tuple(callbacks))


def _check_sampler_and_callbacks(sampler: Any, callbacks: Any) -> None:
    from squad.search.storage import need_optuna

    if sampler is not None:
        need_optuna()
        import optuna

        if not isinstance(sampler, optuna.samplers.BaseSampler):
            hint = "Pass an object, such as optuna.samplers.RandomSampler(seed=1)."
            raise ArgumentError.of("sampler", repr(sampler)[:60], "an Optuna sampler", hint)
    if not isinstance(callbacks, Sequence) or not all(map(callable, callbacks)):
        hint = "Each function is called with the study and the trial that ended."
        raise ArgumentError.of("callbacks", repr(callbacks)[:60], "a list of functions", hint)
