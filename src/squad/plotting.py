"""Matplotlib as an optional dependency of every figure."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from squad.errors import SquadError
from squad.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FigureError", "matplotlib_figure", "missing_package", "save_figure"]


class FigureError(SquadError):
    """A figure that cannot be drawn: a package is missing, or there is too little data."""


def matplotlib_figure(extra: str = "plots") -> "type[Figure]":
    """Return Matplotlib's ``Figure`` class; pyplot would change global state of the caller's process.

    Args:
        extra: Extra of squad-torch that installs Matplotlib, named in the error message.

    Raises:
        FigureError: Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as cause:
        raise missing_package("Matplotlib", "Figures", extra) from cause
    return Figure


def save_figure(figure: "Figure", path: Path, **options: Any) -> None:
    """Write a figure atomically; the format follows the suffix of the file.

    Args:
        figure: The figure.
        path: File to write, such as figure.png, .pdf or .svg.
        options: Further arguments of Matplotlib's ``savefig``, such as ``dpi``.
    """
    with atomic_write(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower(), **options)


def missing_package(package: str, purpose: str, extra: str) -> FigureError:
    """Return the error for a package that is not installed.

    Args:
        package: Name of the package.
        purpose: What needs it, as a plural subject: "Figures".
        extra: Extra of squad-torch that installs it.
    """
    return FigureError(f"{purpose} need {package}, which is not installed. Run: pip install 'squad-torch[{extra}]'")
