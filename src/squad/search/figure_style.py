"""Style of the figures of a search: colours, and the trials that are drawn."""

from squad.plotting import FigureError
from squad.search.search_record import Search, TrialRecord

__all__ = ["ACCENT", "COLOURS", "EXTRA", "FAINT", "INK", "MANY_POINTS", "drawn_trials"]

#: Extra of squad-torch that installs what the figures need.
EXTRA = "search"
#: Minimum number of measured trials of a figure.
MIN_TRIALS = 2
#: Number of trials above which points are smaller.
MANY_POINTS = 200
#: Colours from bad to good: red to green as in the paper, each darker than the previous one, so that the order is
#: visible to colour-blind readers and in print.
COLOURS = ("#fdbcae", "#f0a860", "#c3a93c", "#7f9f3c", "#3f8f40", "#0f7a3d")
INK, FAINT, ACCENT = "#222222", "#9a9a9a", "#b3362b"


def drawn_trials(search: Search, *, inside: bool = False) -> tuple[TrialRecord, ...]:
    """Return the measured trials; with ``inside``, only those whose settings lie in the space.

    Args:
        search: The search.
        inside: Whether to leave out trials with settings outside the space, such as the defaults.

    Returns:
        The trials.

    Raises:
        FigureError: There are too few of them for a figure.
    """
    trials = tuple(trial for trial in search.measured if trial.inside or not inside)
    if len(trials) < MIN_TRIALS:
        raise FigureError(f"A figure needs at least {MIN_TRIALS} measured trials, got {len(trials)}.")
    return trials
