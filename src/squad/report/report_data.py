"""Contents of a report as plain data that JSON can represent."""

from dataclasses import dataclass
from typing import Any

from squad.metrics.calibration import Bin
from squad.report.case_selection import Case
from squad.report.comparison import Difference
from squad.report.cost_frontier import CostPoint
from squad.report.slider import Slider
from squad.report.summaries import ClassRow, ConfidenceBin, Confusions, HarmRow
from squad.report.weakest_class import WeakestClass

__all__ = ["Curve", "Guarantee", "MemberSpread", "ModelReport", "ReportData", "RuleRow"]


@dataclass(frozen=True)
class Curve:
    """Risk–coverage curve observed on the test set.

    Attributes:
        coverage: Fraction of the cases accepted.
        risk: Selective risk.
        threshold: Confidence threshold; None where every case is accepted.
    """

    coverage: list[float]
    risk: list[float]
    threshold: list[float | None]


@dataclass(frozen=True)
class MemberSpread:
    """Selective risks of the individual ensemble members, each predicting alone.

    Attributes:
        central: Fraction of the members between ``low`` and ``high``, the highest and the lowest left out; 1 for all.
        coverage: Fraction of the cases accepted.
        low: Lower end of the selective risks.
        high: Upper end.
    """

    central: float
    coverage: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class RuleRow:
    """One rule of a certificate.

    Attributes:
        risks, group, n, m, errors, needed, hopeless: As in :class:`squad.selective.certificate.Rule`.
        accepts: "above" a threshold, "all" or "none".
        threshold: Threshold that a confidence must exceed; None if all or no cases are accepted.
    """

    risks: dict[str, float]
    group: str | None
    accepts: str
    threshold: float | None
    n: int
    m: int
    errors: dict[str, float]
    needed: int | None
    hopeless: bool


@dataclass(frozen=True)
class Guarantee:
    """A certificate; its texts are those of :mod:`squad.selective.certificate_text`, as in a terminal.

    Attributes:
        title: Headline.
        accepted: Continuation of the headline: which calibration cases are accepted.
        targets: What each target bounds, if that is too long for a table cell.
        table: Headings and cells of the rules or harms if there are several; else None.
        statement: What holds for accepted cases, as a clause.
        assumptions: Conditions under which it holds.
        failure: Why nothing could be certified, for a single rule; else empty.
        certified: Whether any case can be accepted.
        method: How it was tested, and in which attempt.
        delta, m, by: As in :class:`squad.selective.Certificate`.
        rules: Its rules.
        points: (coverage, selective risk) of each certified target that bounds the selective risk, for the curve.
        violated: Whether the test set has more errors than the guarantee allows and than chance explains.
        facts: Options and details.
    """

    title: str
    accepted: str
    targets: list[str]
    table: tuple[list[str], list[list[str]]] | None
    statement: str
    assumptions: list[str]
    failure: str
    certified: bool
    method: str
    delta: float
    m: int
    by: str | None
    rules: list[RuleRow]
    points: list[tuple[float, float]]
    violated: bool
    facts: list[tuple[str, str]]


@dataclass(frozen=True)
class ModelReport:
    """Results of one model on the test set.

    Attributes:
        name: Name of the model in the report.
        about: Description in one line.
        classes: Names of the classes.
        members: Number of ensemble members.
        training_rows: Number of rows it was trained and validated on; None if unknown.
        has_latents: Whether its cases have latent variables to show.
        rows: Number of test rows.
        used: Number of rows with a prediction and a label; all results are about these.
        unreadable: Number of rows without a usable prediction.
        reasons: Location and reason of the first of these.
        unlabelled: Number of rows without a label.
        excluded: Number of further rows left out because another model of the report cannot read them.
        wrong: Number of errors among ``used`` if every prediction is accepted.
        accepted: Number of cases accepted by the certificate; None without one.
        accepted_wrong: Number of errors among these; None without a certificate.
        is_calibration_set: Whether the test set is the calibration set itself.
        calibration_overlap: Estimated number of calibration cases among the test cases; 0 if it may be chance, or if
            the test set is the calibration set itself.
        seen: Number of test rows used to build the model, if that is more than chance explains; else 0.
        leakage_checked: Whether that could be checked, which needs a model with row hashes.
        target: Risks of the target by which cases are accepted here, if the certificate has several; else empty.
        guarantee: Its certificate, if any.
        attempts: Records of the attempts to certify it, in order.
        has_scores: Whether the model stores its calibration scores.
        slider: Positions of the risk slider.
        curve: Risk–coverage curve.
        frontier: Thresholds among which the one with the lowest expected cost is found.
        spread: Curves of the individual members; None for a single member.
        coverages: Pairs (risk, largest coverage observed at that selective risk).
        reliability: Bins of the reliability diagram.
        confidences: Bins of the histogram of confidences.
        harms: Rows of the table of harms.
        by_class: Counts per class.
        among_accepted: Whether the counts per class are of accepted cases only; if some model of the report accepts
            none, those of all models count all cases.
        accepts_some: Whether this model accepts cases; then ``harms`` and ``weakest`` count accepted cases only.
        weakest: Class that is missed most often; None if none is missed.
        confusions: Confusion matrices of all, accepted and referred cases.
        mistakes: Indices of the errors to show in ``cases``.
        referred: Indices of the referred cases to show in ``cases``.
        cases: Cases to show.
        facts: How the model was built and trained.
    """

    name: str
    about: str
    classes: list[str]
    members: int
    training_rows: int | None
    has_latents: bool
    rows: int
    used: int
    unreadable: int
    reasons: list[str]
    unlabelled: int
    excluded: int
    wrong: int
    accepted: int | None
    accepted_wrong: int | None
    is_calibration_set: bool
    calibration_overlap: int
    seen: int
    leakage_checked: bool
    target: dict[str, float]
    guarantee: Guarantee | None
    attempts: list[dict[str, Any]]
    has_scores: bool
    slider: Slider
    curve: Curve
    frontier: list[CostPoint]
    spread: MemberSpread | None
    coverages: list[tuple[float, float]]
    reliability: list[Bin]
    confidences: list[ConfidenceBin]
    harms: list[HarmRow]
    by_class: list[ClassRow]
    among_accepted: bool
    accepts_some: bool
    weakest: WeakestClass | None
    confusions: Confusions
    mistakes: list[int]
    referred: list[int]
    cases: list[Case]
    facts: list[tuple[str, str]]


@dataclass(frozen=True)
class ReportData:
    """Contents of a whole report.

    Attributes:
        title: Title of the report.
        intended_use: What the models are meant for; None if that was not stated.
        source: Name of the test set.
        date: Time of creation, UTC, ISO 8601.
        models: Results per model, in the order given.
        start: Index of the slider's initial position.
        comparison: Differences from the first model, if there are several.
        facts: Test set and software versions.
    """

    title: str
    intended_use: str | None
    source: str
    date: str
    models: list[ModelReport]
    start: int
    comparison: list[Difference]
    facts: list[tuple[str, str]]
