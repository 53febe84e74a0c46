"""The parts of a report: plain data, which JSON can hold."""

from dataclasses import dataclass

from squad.metrics.calibration import Bin
from squad.report.case_selection import Case
from squad.report.slider import Slider
from squad.report.summaries import ClassRow, Group, HarmRow

__all__ = ["Content", "Curve", "Model", "Promise", "RuleRow", "Spread"]


@dataclass(frozen=True)
class Curve:
    """Observed on the test: the share of cases accepted, the share of wrong ones among them, and at which threshold."""

    coverage: list[float]
    risk: list[float]
    threshold: list[float | None]


@dataclass(frozen=True)
class Spread:
    """Between which risks 90 % of the members lie, each asked alone, by coverage."""

    coverage: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class RuleRow:
    """A rule of a certificate.

    Attributes:
        risks, group, n, m, errors, needed, hopeless: as in the certificate.
        accepts: "above" a threshold, "all" or "none".
        threshold: what the confidence must be above; None where everything or nothing is accepted.
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
class Promise:
    """A certificate; its words are those of :mod:`squad.selective.certificate_text`, as a terminal shows them.

    Attributes:
        title, accepted: the headline, and what follows it: which calibration cases are accepted.
        targets: what each target bounds, where that is too much for a cell of the table.
        table: headings and cells of the rules, or harms, where there are several; else None.
        guarantee: what holds for accepted cases, as a clause.
        assumptions: what must be true for it.
        failure: why nothing could be certified, of a single rule; else empty.
        certified: whether anything can be accepted.
        method: how it was tested, and as which attempt.
        delta, m, by: as in the certificate.
        rules: its rules.
        points: (coverage, risk of wrong answers) of each target that is certified, for the curve.
        broken: whether the test had so many more mistakes than allowed that chance does not explain it.
        facts: its options and details.
    """

    title: str
    accepted: str
    targets: list[str]
    table: tuple[list[str], list[list[str]]] | None
    guarantee: str
    assumptions: list[str]
    failure: str
    certified: bool
    method: str
    delta: float
    m: int
    by: str | None
    rules: list[RuleRow]
    points: list[tuple[float, float]]
    broken: bool
    facts: list[tuple[str, str]]


@dataclass(frozen=True)
class Model:
    """All about one model on the test.

    Attributes:
        name: what the report calls it.
        about: what it is, in one line.
        classes: their names.
        members: how many networks answer together.
        has_latents: whether its cases show latents.
        rows: of the test, in all.
        used: rows with an answer and a label; all figures are about these.
        unreadable: rows that could not be read; reasons: of the first, with where they stand.
        unlabelled: rows without a label.
        wrong: of ``used``, how many answers are wrong, if all are accepted.
        accepted, accepted_wrong: by the certificate; None without one.
        same: whether the test is the calibration set itself.
        seen: how many rows of the test the model was made from, where that is more than chance explains; else 0.
        checked: whether that could be checked: only with a model that keeps hashes of its rows.
        target: the risks by which cases are accepted here, of a certificate with several; else none.
        promise: its certificate, if it has one.
        slider, curve, spread, reliability, confidences: for the pictures; the spread only of several members.
        coverages: observed, the largest share answered at each share of wrong answers, as pairs (risk, coverage).
        harms, by_class: for the tables of mistakes.
        among_accepted: whether these count accepted cases; all cases if none is accepted.
        mistakes, referred: which of ``cases`` are shown as such.
        facts: how it was made.
    """

    name: str
    about: str
    classes: list[str]
    members: int
    has_latents: bool
    rows: int
    used: int
    unreadable: int
    reasons: list[str]
    unlabelled: int
    wrong: int
    accepted: int | None
    accepted_wrong: int | None
    same: bool
    seen: int
    checked: bool
    target: dict[str, float]
    promise: Promise | None
    slider: Slider
    curve: Curve
    spread: Spread | None
    coverages: list[tuple[float, float]]
    reliability: list[Bin]
    confidences: list[Group]
    harms: list[HarmRow]
    by_class: list[ClassRow]
    among_accepted: bool
    mistakes: list[int]
    referred: list[int]
    cases: list[Case]
    facts: list[tuple[str, str]]


@dataclass(frozen=True)
class Content:
    """A whole report.

    Attributes:
        source: what the test is called.
        date: UTC, ISO 8601.
        models: in the order they were given.
        start: the slider's first position, by index.
        facts: about the test and the software.
    """

    source: str
    date: str
    models: list[Model]
    start: int
    facts: list[tuple[str, str]]
