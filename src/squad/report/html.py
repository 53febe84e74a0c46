"""The HTML file: data, figures, text, styles and scripts in one self-contained page."""

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from numpy.typing import ArrayLike, NDArray

from squad.errors import SquadError
from squad.files import write_text
from squad.predictor import Predictor
from squad.report import plotly_figures
from squad.report.case_latents import CaseLatents
from squad.report.case_selection import Case
from squad.report.content import compute_report
from squad.report.markup import join
from squad.report.number_format import count, percent
from squad.report.page import body
from squad.report.page.operating_point import position_texts
from squad.report.report_data import ModelReport, ReportData

__all__ = ["ReportError", "check_report_path", "json_for_script", "render_page", "write_report"]


class ReportError(SquadError):
    """Raised if a report cannot be written."""


def write_report(
    path: str | Path,
    predictors: Mapping[str, Predictor],
    x: Any,
    labels: Sequence[Any] | NDArray[Any],
    *,
    source: str = "the test set",
    by: ArrayLike | None = None,
    overwrite: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Evaluate models on labelled rows and write the results as one HTML file.

    The file works offline and loads nothing from the network.  It is written atomically: completely or not at all.

    Args:
        path: File to write, ending in .html; its folder is created if needed.
        predictors: Models by the name they have in the report.
        x: Test rows: a table, a data frame or an array, as the models take them.
        labels: (N,), true labels; rows with an empty label are left out and counted.
        source: Name of the test set; if it is the path of a file, the report includes the checksum of the file.
        by: (N,), group of each row, for certificates whose groups are not a column of the rows.
        overwrite: Whether to replace an existing file; if False, an existing file is an error.
        progress: Callback called with the number of rows a model has predicted so far and the total.

    Returns:
        The path of the file.

    Raises:
        ReportError: If the file cannot be written.

    See Also:
        :meth:`squad.predictor.Predictor.certify`: Certify a model before reporting on it.

    Examples:
        >>> import tempfile
        >>> import numpy as np
        >>> from squad.fitting import FitSettings, fit_predictor
        >>> from squad.train import TrainConfig
        >>> x = np.random.default_rng(0).normal(size=(200, 2))
        >>> y = (x.sum(axis=1) > 0).astype(int)
        >>> predictor = fit_predictor(x[:100], y[:100], FitSettings(training=TrainConfig(max_epochs=2)))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = write_report(f"{folder}/report.html", {"my model": predictor}, x[100:], y[100:])
        >>> written.name
        'report.html'
    """
    target = Path(path)
    check_report_path(target, overwrite)
    text = render_page(compute_report(predictors, x, labels, source, by, progress))
    try:
        return write_text(target, text)
    except OSError as cause:
        raise ReportError(f"{path} cannot be written: {cause.strerror or cause}. Choose another file.") from cause


def check_report_path(path: str | Path, overwrite: bool = True) -> None:
    """Check that a report may be written to ``path``, before any computation.

    Args:
        path: File to write.
        overwrite: Whether an existing file may be replaced.

    Raises:
        ReportError: If ``path`` does not end in .html, is a folder, or exists and must not be replaced.

    Examples:
        >>> check_report_path("report.html")
        >>> check_report_path("report.pdf")
        Traceback (most recent call last):
        ...
        squad.report.html.ReportError: A report must be a file that ends in .html, got report.pdf.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ReportError(f"A report must be a file that ends in .html, got {path}.")
    if path.is_dir():
        raise ReportError(f"{path} is a folder. Choose a file in it, such as {path / 'report.html'}.")
    if path.exists() and not overwrite:
        raise ReportError(f"{path} already exists. Choose another file, or pass overwrite=True.")


def render_page(report: ReportData) -> str:
    """Return the complete HTML file as text."""
    from plotly.offline import get_plotlyjs

    names = report.models[0].name if len(report.models) == 1 else f"{len(report.models)} models"
    return Template(_read("page.html")).substitute(
        title=join(f"Report on {names}: {report.source}"),
        kind="single" if len(report.models) == 1 else "several",
        css=_read("page.css"),
        body=body(report),
        data=json_for_script(_page_data(report)),
        plotly=get_plotlyjs().replace("</script", "<\\/script"),
        js=_read("page.js"),
    )


def json_for_script(data: Any) -> str:
    """Encode data as ASCII JSON without <, > and &, so that it cannot end the script element it is embedded in.

    Returns:
        JSON text.
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read(name: str) -> str:
    return files("squad.report").joinpath(name).read_text(encoding="utf-8")


def _page_data(report: ReportData) -> dict[str, Any]:
    """Return the data that the page's script looks up."""
    models = report.models
    figures: dict[str, Any] = {"curve": plotly_figures.risk_coverage(models, report.start)}
    for index, model in enumerate(models):
        figures[f"reliability{index}"] = plotly_figures.reliability(model.reliability, index)
        figures[f"confidences{index}"] = plotly_figures.confidences(model.confidences)
    zero = plotly_figures.zero_risk_height(models)
    return {
        "risks": [percent(position.risk) for position in models[0].slider.positions],
        "figures": figures,
        "models": [_model_data(model, index, zero) for index, model in enumerate(models)],
    }


def _model_data(model: ModelReport, index: int, zero: float) -> dict[str, Any]:
    points = [plotly_figures.selected_point(position, model) for position in model.slider.positions]
    return {
        "positions": position_texts(model),
        "points": [[x, [value or zero for value in y]] for x, y in points],
        "cases": [_case_data(case, model.members) for case in model.cases],
        "latents": plotly_figures.latents(index),
    }


def _case_data(case: Case, members: int) -> dict[str, Any]:
    return {
        "where": case.where,
        "predicted": case.predicted,
        "truth": case.truth,
        "correct": case.predicted == case.truth,
        "classes": [[name, percent(probability), round(probability, 4)] for name, probability in case.classes],
        "disagreement": _disagreement_text(case),
        "row": case.row,
        "latents": None
        if case.latents is None
        else {"units": case.latents.units, "values": case.latents.values, "per_mille": case.latents.per_mille},
        "latents_text": "" if case.latents is None else _latents_text(case.latents, members),
    }


def _disagreement_text(case: Case) -> str:
    if case.disagreement is None:
        return ""
    return (
        f"{percent(round(case.disagreement, 3))} of the uncertainty comes from samples that disagree with each other;"
        " the rest is uncertainty within each sample."
    )


def _latents_text(latents: CaseLatents, members: int) -> str:
    text = (
        "Each row is a latent variable of the first layer; the stronger the colour of a cell, the more probable its"
        " value. A row with several coloured cells is a latent variable that is uncertain about its value. For this"
        f" case, {count(latents.settled)} of {count(latents.total)} latent variables give more than 90\u00a0%"
        " probability to one value."
    )
    if latents.total > len(latents.units):
        text += f" The {len(latents.units)} most uncertain ones are shown."
    if members > 1:
        text += f" They belong to the first of {members} ensemble members."
    return text
