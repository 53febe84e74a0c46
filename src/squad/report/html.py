"""The HTML file: data, figures, text, styles and scripts in one self-contained page."""

import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from numpy.typing import ArrayLike, NDArray

from squad.errors import SquadError
from squad.files import write_text
from squad.predictor import Predictor
from squad.report.content import compute_report
from squad.report.markup import join
from squad.report.number_format import percent, percent_rounded_up
from squad.report.page import body
from squad.report.page.costs import cost_policies, threshold_text
from squad.report.page.curve import curve_axes, selected_point
from squad.report.page.operating_point import position_texts
from squad.report.plot_area import Axis
from squad.report.report_arguments import check_groups, check_models, check_path, label_list
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
    title: str | None = None,
    intended_use: str | None = None,
    overwrite: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Evaluate models on labelled rows and write the results as one HTML file.

    The file works offline and loads nothing from the network; only its slider and its cost calculator need JavaScript.
    It is written atomically: completely or not at all.  Several models are compared on the rows that all of them can
    read, and with guarantees only if all of them have calibration scores.

    Args:
        path: File to write, ending in .html; its folder is created if needed.
        predictors: Models by the name they have in the report.
        x: Test rows: a table, a data frame or an array, as the models take them.
        labels: (N,), true labels; rows with an empty label are left out and counted.
        source: Name of the test set; if it is the path of a file, the report includes the checksum of the file.
        by: (N,), group of each row, for certificates whose groups are not a column of the rows.
        title: Title of the report; by default the name of the model.
        intended_use: What the models are meant for, and for whom, in a sentence or two.
        overwrite: Whether to replace an existing file; if False, an existing file is an error.
        progress: Callback called with the number of rows a model has predicted so far and the total.

    Returns:
        The path of the file.

    Raises:
        ReportError: If the file cannot be written.
        ArgumentError: If an argument is invalid, if rows and labels do not match, or if the models have different
            classes.

    See Also:
        squad.Predictor.certify: Certify a model before reporting on it.

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
    check_report_path(path, overwrite)
    check_path("source", source, "Pass the name of the test set.")
    check_models(predictors)
    labels = label_list(labels)
    check_groups(by, len(labels))
    text = render_page(compute_report(predictors, x, labels, source, by, progress, title, intended_use))
    try:
        return write_text(Path(path), text)
    except OSError as cause:
        raise ReportError(f"{path} cannot be written: {cause.strerror or cause}. Choose another file.") from cause


def check_report_path(path: str | Path, overwrite: bool = True) -> None:
    """Check that a report may be written to ``path``, before any computation.

    Args:
        path: File to write.
        overwrite: Whether an existing file may be replaced.

    Raises:
        ReportError: If ``path`` does not end in .html, is a folder, cannot be read, or exists and must not be replaced.
        ArgumentError: If ``path`` is neither a string nor a path.

    Examples:
        >>> check_report_path("report.html")
        >>> check_report_path("report.pdf")
        Traceback (most recent call last):
        ...
        squad.report.html.ReportError: A report must be a file that ends in .html, got report.pdf.
    """
    check_path("path", path, "Name a file that ends in .html.")
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ReportError(f"A report must be a file that ends in .html, got {path}.")
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as cause:  # ValueError: a null byte
        reason = getattr(cause, "strerror", None) or cause
        raise ReportError(f"{str(path)[:80]!r} cannot be written: {reason}. Choose another file.") from cause
    if stat.S_ISDIR(mode):
        raise ReportError(f"{path} is a folder. Choose a file in it, such as {path / 'report.html'}.")
    if not overwrite:
        raise ReportError(f"{path} already exists. Choose another file, or pass overwrite=True.")


def render_page(report: ReportData) -> str:
    """Return the complete HTML file as text."""
    return Template(_read("page.html")).substitute(
        title=join(f"Report on {report.title}: {report.source}"),
        kind="single" if len(report.models) == 1 else "several",
        css=_read("page.css"),
        body=body(report),
        data=json_for_script(_page_data(report)),
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
    return {
        "risks": [percent(position.risk) for position in models[0].slider.positions],
        "models": [_model_data(model, *curve_axes(models)) for model in models],
    }


def _model_data(model: ModelReport, x: Axis, y: Axis) -> dict[str, Any]:
    points = [selected_point(position, model) for position in model.slider.positions]
    curve = model.curve
    return {
        "name": model.name,
        "used": model.used,
        "positions": position_texts(model),
        "points": [point and [round(x.place(point[0]), 5), round(y.place(point[1]), 5)] for point in points],
        "coverage": curve.coverage,
        "readings": [
            f"coverage {percent(coverage)}, selective risk {percent(risk)}, accepted "
            + ("at any confidence" if threshold is None else f"above a confidence of {percent_rounded_up(threshold)}")
            for coverage, risk, threshold in zip(curve.coverage, curve.risk, curve.threshold, strict=True)
        ],
        "frontier": [[point.accepted, point.wrong, threshold_text(point)] for point in model.frontier],
        "policies": [[accepted, wrong] for _, accepted, wrong in cost_policies(model)],
    }
