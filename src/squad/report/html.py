"""The file: plain data, figures, words, styles and scripts in one page that needs nothing else."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from numpy.typing import ArrayLike, NDArray

from squad.errors import SquadError
from squad.files import write_text
from squad.predictor import Predictor
from squad.report import plotly_figures
from squad.report.case_selection import Case
from squad.report.content import gather
from squad.report.markup import join
from squad.report.number_format import count, percent
from squad.report.page import body
from squad.report.page.operating_point import positions
from squad.report.report_data import Content, Model

__all__ = ["ReportError", "check_place", "page", "to_script", "write_report"]


DOUBT = "of its doubt comes from samples that disagree with each other; the rest is doubt that they share."


class ReportError(SquadError):
    """A report that cannot be written."""


def write_report(
    path: str | Path,
    predictors: Mapping[str, Predictor],
    x: Any,
    labels: Sequence[Any] | NDArray[Any],
    *,
    source: str = "the test",
    by: ArrayLike | None = None,
    overwrite: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Look at models on rows with known answers, and write what there is to see as one HTML file.

    The file opens offline and loads nothing from anywhere.  It is written whole or not at all.

    Args:
        path: the file, ending in .html; its folder is made.
        predictors: by the name that the report calls them, one or several.
        x: rows of the test: a table, a data frame or an array, as the models take them.
        labels: (N,), the right answers; rows with an empty one are left out, and counted.
        source: what the rows are called, such as their file; if it is the path of a file, its checksum is told.
        by: (N,), the group of each row, for certificates by groups that stand in no column.
        overwrite: replace a file that is there; if not, it is an error.
        progress: is called with the number of rows a model has answered so far, and of all.
    """
    target = Path(path)
    check_place(target, overwrite)
    text = page(gather(predictors, x, labels, source, by, progress))
    try:
        return write_text(target, text)
    except OSError as cause:
        raise ReportError(f"{path} cannot be written: {cause.strerror or cause}. Name another file.") from cause


def check_place(path: str | Path, overwrite: bool = True) -> None:
    """That a report may be written at ``path``: before the work, not after."""
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ReportError(f"A report must be a file that ends in .html, which browsers open, got {path}.")
    if path.is_dir():
        raise ReportError(f"A report must be a file; {path} is a folder. Name a file in it, such as report.html.")
    if path.exists() and not overwrite:
        raise ReportError(f"{path} is there already. Name another file, or say overwrite=True.")


def page(content: Content) -> str:
    """The whole file as text."""
    from plotly.offline import get_plotlyjs

    names = content.models[0].name if len(content.models) == 1 else f"{len(content.models)} models"
    return Template(_read("page.html")).substitute(
        title=join(f"Report on {names}: {content.source}"),
        kind="single" if len(content.models) == 1 else "several",
        css=_read("page.css"),
        body=body(content),
        data=to_script(_data(content)),
        plotly=get_plotlyjs().replace("</script", "<\\/script"),
        js=_read("page.js"),
    )


def to_script(data: Any) -> str:
    """JSON that nothing can end the script element of: no <, > or &, and only ASCII."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read(name: str) -> str:
    return files("squad.report").joinpath(name).read_text(encoding="utf-8")


def _data(content: Content) -> dict[str, Any]:
    """What the page's script looks up."""
    models = content.models
    drawings: dict[str, Any] = {"curve": plotly_figures.curve(models, content.start)}
    for place, model in enumerate(models):
        drawings[f"reliability{place}"] = plotly_figures.reliability(model.reliability, place)
        drawings[f"confidences{place}"] = plotly_figures.confidences(model.confidences)
    zero = plotly_figures.floor(models)
    return {
        "risks": [percent(choice.risk) for choice in models[0].slider.choices],
        "figures": drawings,
        "models": [_model(model, place, zero) for place, model in enumerate(models)],
    }


def _model(model: Model, place: int, zero: float) -> dict[str, Any]:
    points = [plotly_figures.chosen(choice, model) for choice in model.slider.choices]
    return {
        "positions": positions(model),
        "points": [[x, [value or zero for value in y]] for x, y in points],
        "cases": [_case(case, model.members) for case in model.cases],
        "latents": plotly_figures.latents(place),
    }


def _case(case: Case, members: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "where": case.where,
        "said": case.said,
        "truth": case.truth,
        "right": case.said == case.truth,
        "classes": [[name, percent(share), round(share, 4)] for name, share in case.classes],
        "doubt": "" if case.disagreement is None else f"{percent(round(case.disagreement, 3))} {DOUBT}",
        "row": case.row,
        "latents": None,
        "inside": "",
    }
    if case.latents is not None:
        latents = case.latents
        which = f" Shown is the first of {members} members." if members > 1 else ""
        fewer = f" The {len(latents.names)} that hesitate most are shown." if latents.total > len(latents.names) else ""
        found["inside"] = (
            "Each line is a latent of the first layer; the stronger a cell's colour, the more probable its value."
            f" A line with several such cells is a latent that hesitates. Here {count(latents.settled)} of"
            f" {count(latents.total)} are settled: one value has more than 90\u00a0%.{fewer}{which}"
        )
        found["latents"] = {key: value for key, value in asdict(latents).items() if key not in ("settled", "total")}
    return found
