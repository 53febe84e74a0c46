"""Computation of a report's contents from models and test rows; the page only lays them out."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from squad.errors import ArgumentError
from squad.predictor import Predictor
from squad.report.comparison import compare_models
from squad.report.evaluation import Evaluation
from squad.report.provenance import test_facts
from squad.report.report_arguments import label_list
from squad.report.report_data import ModelReport, ReportData
from squad.report.slider import distinct_risks, largest_risk, slider_risks
from squad.selective.scored_cases import WRONG

__all__ = ["compute_report"]

#: Initial position of the slider without a certificate.
DEFAULT_RISK = 0.01


def compute_report(
    predictors: Mapping[str, Predictor],
    x: Any,
    labels: Sequence[Any] | NDArray[Any],
    source: str = "the test set",
    by: ArrayLike | None = None,
    progress: Callable[[int, int], None] | None = None,
    title: str | None = None,
    intended_use: str | None = None,
) -> ReportData:
    """Predict every row with every model, and compute what the report shows.

    Args:
        predictors: Models by the name they have in the report.
        x: Rows as :meth:`squad.predictor.Predictor.answer` takes them, the same for all models.
        labels: (N,), true labels; rows with an empty label are left out.
        source: Name of the test set, such as that of its file.
        by: (N,), group of each row, for certificates whose groups are not a column of the rows.
        progress: Progress callback of :meth:`squad.predictor.Predictor.answer`, called for each model.
        title: Title of the report; by default the name of the model.
        intended_use: What the models are meant for, and for whom, in a sentence or two.

    Returns:
        The content of the report.

    Raises:
        ArgumentError: If there is no model, if rows and labels differ in number, if models have different classes, or
            if there is no labelled row that all models can read.
    """
    if not predictors:
        raise ArgumentError.of(
            "predictors", "none", "a mapping with at least one model", 'Pass {"my model": predictor}.'
        )
    _check_same_classes(predictors)
    listed = label_list(labels)
    evaluations = [Evaluation(str(name), predictor, x, listed, by, progress) for name, predictor in predictors.items()]
    rows = evaluations[0].rows
    # Models are compared on the same rows, and with guarantees only if all of them have calibration scores.
    usable = np.logical_and.reduce([evaluation.usable for evaluation in evaluations])
    if not usable.any():
        raise ArgumentError(f"None of the {len(rows)} rows of x has a label and can be read. {evaluations[0].hint()}")
    guaranteed = all(evaluation.has_scores for evaluation in evaluations)
    delta = min(evaluation.band.delta for evaluation in evaluations)
    certified = _certified_risks(evaluations)
    error_rates = [evaluation.error_rate(usable) for evaluation in evaluations]
    least = max(evaluation.band.r_max for evaluation in evaluations)
    r_max = largest_risk(error_rates, [risk for evaluation in evaluations for risk in evaluation.target_risks], least)
    for evaluation in evaluations:
        evaluation.keep(usable, guaranteed, delta, r_max)
    risks = _slider_risks(evaluations, certified)
    among_accepted = all(evaluation.accepts_some for evaluation in evaluations)
    models = [evaluation.model_report(risks, among_accepted, len(evaluations)) for evaluation in evaluations]
    start = _initial_position(risks, (certified or [DEFAULT_RISK])[0], models)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    name, facts = test_facts(rows, listed, source, date)
    comparison = compare_models(
        {evaluation.name: (evaluation.confidence, ~evaluation.wrong) for evaluation in evaluations}
    )
    return ReportData(title or _title(models), intended_use, name, date, models, start, comparison, facts)


def _title(models: Sequence[ModelReport]) -> str:
    return models[0].name if len(models) == 1 else f"{len(models)} models compared"


def _check_same_classes(predictors: Mapping[str, Predictor]) -> None:
    """Raise an ArgumentError unless all models have the same classes: nothing else could be compared."""
    names = {str(name): sorted(map(str, predictor.classes)) for name, predictor in predictors.items()}
    first, *others = names
    for other in others:
        if names[other] != names[first]:
            raise ArgumentError(
                f"{first} and {other} have different classes, so they cannot be compared. Write one report per model."
            )


def _initial_position(risks: Sequence[float], risk: float, models: Sequence[ModelReport]) -> int:
    """Return the index of the last position up to ``risk``, or of the first one at which every model accepts cases."""
    last = max((index for index, other in enumerate(risks) if other <= risk), default=0)
    for index in range(last, len(risks)):
        if all(model.slider.positions[index].accepts != "none" for model in models):
            return index
    return last


def _certified_risks(evaluations: Sequence[Evaluation]) -> list[float]:
    """Return the selective risks of all certificates that accept cases."""
    return [
        target[WRONG]
        for evaluation in evaluations
        if evaluation.certificate is not None
        for target in evaluation.certificate.targets
        if WRONG in target and any(rule.n for rule in evaluation.certificate.target(target))
    ]


def _slider_risks(evaluations: Sequence[Evaluation], certified: Sequence[float]) -> list[float]:
    """Return the slider's risks, the same for all models: those at which some threshold changes."""
    ranges = [found for evaluation in evaluations if (found := evaluation.slider_range()) is not None]
    if not ranges:
        return [evaluations[0].band.r_max]
    low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
    candidates = slider_risks(low, high, certified)
    return distinct_risks([evaluation.slider(candidates) for evaluation in evaluations], certified)
