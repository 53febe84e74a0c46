"""What the figures of a search share: colours, the trials that are drawn, and what is told where none can be."""

from typing import TYPE_CHECKING

from squad.errors import SquadError
from squad.search.search_record import Search, TrialRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "ACCENT", "COLOURS", "FAINT", "INK", "MANY", "FigureError", "matplotlib_figure", "missing", "points", "value_of",
]  # fmt: skip

#: Trials with a value that a figure needs.
LEAST_POINTS = 2
#: More trials than these have smaller points.
MANY = 200
#: Bad to good: red to green as in the paper, but each darker than the one before, so that those who see no difference
#: between red and green see it all the same, and so does a printer.
COLOURS = ("#fdbcae", "#f0a860", "#c3a93c", "#7f9f3c", "#3f8f40", "#0f7a3d")
INK, FAINT, ACCENT = "#222222", "#9a9a9a", "#b3362b"


class FigureError(SquadError):
    """A figure that cannot be drawn: a package is missing, or there are too few trials."""


def points(search: Search, *, inside: bool = False) -> tuple[TrialRecord, ...]:
    """The measured trials, of which a figure needs some; only those inside the space where a figure is one of it."""
    found = tuple(trial for trial in search.measured if trial.inside or not inside)
    if len(found) < LEAST_POINTS:
        raise FigureError(f"A figure needs {LEAST_POINTS} measured trials at least; there are {len(found)}.")
    return found


def matplotlib_figure() -> "type[Figure]":
    """Matplotlib's figure itself: pyplot would change the state of a process that is not ours."""
    try:
        from matplotlib.figure import Figure
    except ImportError as cause:
        raise missing("Matplotlib", "figures") from cause
    return Figure


def missing(package: str, what: str) -> FigureError:
    """Of a package that is not installed."""
    return FigureError(f"{package} is not installed, which {what} need. Install it: pip install 'squad-torch[search]'")


def value_of(trial: TrialRecord) -> float:
    """What a measured trial reached."""
    assert trial.value is not None
    return trial.value
