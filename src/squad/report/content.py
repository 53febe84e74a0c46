"""Computation of a report's contents from models and test rows; the page only lays them out."""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squad.data.cells import cell_text
from squad.data.chance_repeats import NOTHING_KNOWN
from squad.data.leakage import find_leaked_rows
from squad.data.seen_rows import row_hashes
from squad.data.tables import Table
from squad.errors import ArgumentError
from squad.metrics import coverage_at_risk
from squad.models import Sampler
from squad.predictor import Predictor
from squad.predictor.answer import ACCEPTED
from squad.predictor.harms import known_harm
from squad.predictor.input_rows import class_positions
from squad.predictor.row_pass import ARRAY, encode
from squad.report.case_selection import row_name, select_cases
from squad.report.provenance import flatten, model_facts, test_facts
from squad.report.report_data import Curve, Guarantee, MemberSpread, ModelReport, ReportData, RuleRow
from squad.report.risk_coverage import curve_ranks, expected_risk, rank_cases, thin
from squad.report.slider import BandSettings, accepted_range, make_slider, slider_risks, smallest_slider_risk
from squad.report.summaries import by_class, by_harm, confidence_bins, reliability_bins
from squad.selective import Certificate
from squad.selective.attempts import delta_share
from squad.selective.certificate_text import (
    assumptions,
    failure,
    guarantee,
    headline_parts,
    method_text,
    rule_table,
    target_texts,
)
from squad.selective.scored_cases import WRONG

__all__ = ["compute_report"]

#: Maximum number of points of a risk–coverage curve, and of the band of the members around it.
CURVE_POINTS, SPREAD_POINTS = 400, 240
#: Maximum number of unreadable rows whose reason is shown.
MAX_REASONS = 5
#: The guarantee counts as violated if it would give that many errors in fewer than 1 % of test sets.
SURPRISE_LEVEL = 0.01
#: Largest risk of the slider without a certificate.
DEFAULT_R_MAX = 0.1
#: Selective risks in the table of observed coverages.
TABLE_RISKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
#: Initial position of the slider without a certificate.
DEFAULT_RISK = 0.01
#: Number of rows that the members predict at once.
CHUNK_ROWS = 8192


def compute_report(
    predictors: Mapping[str, Predictor],
    x: Any,
    labels: Sequence[Any] | NDArray[Any],
    source: str = "the test set",
    by: ArrayLike | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ReportData:
    """Predict every row with every model, and compute what the report shows.

    Args:
        predictors: Models by the name they have in the report.
        x: Rows as :meth:`squad.predictor.Predictor.answer` takes them, the same for all models.
        labels: (N,), true labels; rows with an empty label are left out.
        source: Name of the test set, such as that of its file.
        by: (N,), group of each row, for certificates whose groups are not a column of the rows.
        progress: Progress callback of :meth:`squad.predictor.Predictor.answer`, called for each model.

    Returns:
        The content of the report.

    Raises:
        ArgumentError: If there is no model, if rows and labels differ in number, or if a model can read no labelled
            row.
    """
    if not predictors:
        raise ArgumentError.of("predictors", "none", "a mapping with at least one model")
    rows = _as_rows(x)
    label_list = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if len(label_list) != len(rows):
        raise ArgumentError(
            f"labels must have one entry per row of x, got {len(label_list)} labels for {len(rows)} rows."
        )
    evaluations = [
        _Evaluation(str(name), predictor, rows, label_list, by, progress) for name, predictor in predictors.items()
    ]
    risks = _slider_risks([evaluation.predictor for evaluation in evaluations])
    models = [evaluation.model_report(risks) for evaluation in evaluations]
    guarantees = [model.guarantee for model in models if model.guarantee]
    certified_risks = [risk for guarantee in guarantees for _, risk in guarantee.points]
    requested_risks = [rule.risks[WRONG] for guarantee in guarantees for rule in guarantee.rules if WRONG in rule.risks]
    start = _initial_position(risks, (certified_risks or requested_risks or [DEFAULT_RISK])[0], models)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    name, facts = test_facts(rows, label_list, source, date)
    return ReportData(name, date, models, start, facts)


def _initial_position(risks: Sequence[float], risk: float, models: Sequence[ModelReport]) -> int:
    """Return the index of the position at ``risk``, or of the next larger one at which every model accepts cases."""
    nearest = int(np.argmin([abs(math.log(other / risk)) for other in risks]))
    for index in range(nearest, len(risks)):
        if all(model.slider.positions[index].accepts != "none" for model in models):
            return index
    return nearest


class _Evaluation:
    """Predictions of a model for the rows that it can read and that have a label."""

    def __init__(
        self,
        name: str,
        predictor: Predictor,
        rows: Any,
        labels: list[Any],
        by: ArrayLike | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.name, self.predictor, self.rows = name, predictor, rows
        known = {str(label) for label in predictor.classes}
        has_label = np.array([str(label) in known or cell_text(label) is not None for label in labels], dtype=bool)
        # Before predicting, so that an unknown label fails early.
        truth = np.full(len(labels), -1, dtype=np.int64)
        truth[has_label] = class_positions(
            predictor.classes, [label for label, has in zip(labels, has_label, strict=True) if has]
        )
        self.certificate, self.scores = predictor.certificate, predictor.calibration
        targets = [] if self.certificate is None else self.certificate.targets
        grouped = self.certificate is not None and self.certificate.details.get("by") == ARRAY
        by = by if grouped else None
        #: Of several targets, the first decides which cases count as accepted.
        self.target = dict(targets[0]) if len(targets) > 1 else {}
        self.answer = predictor.answer(rows, by=by, risk=self.target or None, progress=progress)
        # Not by reason: it is also set for rows of a group for which nothing was certified, which were read.
        # Novel rows are never accepted, whatever their confidence, so they do not belong in a risk–coverage curve.
        readable = np.isfinite(self.answer.confidence) & ~self.answer.novel
        self.unreadable = np.flatnonzero(~readable)
        self.unlabelled = int((readable & ~has_label).sum())
        self.used = np.flatnonzero(readable & has_label)
        if not len(self.used):
            hint = f"Reason for the first: {self.answer.reason[0]}." if len(self.unreadable) else "Pass labelled rows."
            raise ArgumentError(f"None of the {len(labels)} rows of x has a label and can be read by {name}. {hint}")
        self.truth = truth[self.used]
        self.probabilities = self.answer.probabilities[self.used]
        self.predicted = self.probabilities.argmax(1)
        self.wrong = self.predicted != self.truth
        self.confidence = self.answer.confidence[self.used]
        self.accepted = self.answer.decision[self.used] == ACCEPTED if self.certificate is not None else None
        self.by_target = [self.accepted]
        for target in targets[1:]:
            self.by_target.append(predictor.answer(rows, by=by, risk=target).decision[self.used] == ACCEPTED)

    def model_report(self, risks: Sequence[float]) -> ModelReport:
        """Compute everything that the report shows about the model; ``risks`` are the slider's positions."""
        predictor, accepted = self.predictor, self.accepted
        counted = accepted if accepted is not None and accepted.any() else None
        by_target = self.by_target if len(self.by_target) > 1 else [counted]
        mistakes, referred, cases = select_cases(
            predictor, self.rows, self.answer, self.used, self.truth, self.wrong, accepted
        )
        return ModelReport(
            name=self.name,
            about=_about(predictor),
            classes=[str(name) for name in predictor.classes],
            members=predictor.members,
            has_latents=any(case.latents is not None for case in cases),
            rows=len(self.rows),
            used=len(self.used),
            unreadable=len(self.unreadable),
            reasons=[f"{row_name(self.rows, row)}: {self.answer.reason[row]}" for row in self.unreadable[:MAX_REASONS]],
            unlabelled=self.unlabelled,
            wrong=int(self.wrong.sum()),
            accepted=None if accepted is None else int(accepted.sum()),
            accepted_wrong=None if accepted is None else int((accepted & self.wrong).sum()),
            is_calibration_set=self._is_calibration_set(),
            seen=self._count_seen(),
            leakage_checked=predictor.seen_rows is not None,
            target=self.target,
            guarantee=None if self.certificate is None else self._guarantee(self.certificate),
            slider=make_slider(risks, self.confidence, self.wrong, self.scores, _band_settings(predictor)),
            curve=_risk_coverage_curve(self.confidence, self.wrong),
            spread=self._member_spread(),
            coverages=[(risk, coverage_at_risk(self.confidence, ~self.wrong, risk)) for risk in TABLE_RISKS],
            reliability=reliability_bins(self.confidence, self.wrong),
            confidences=confidence_bins(self.confidence, self.wrong),
            harms=by_harm(self.certificate, self.scores, predictor.classes, self.predicted, self.truth, by_target),
            by_class=by_class(predictor.classes, self.predicted, self.truth, counted),
            among_accepted=counted is not None,
            mistakes=mistakes,
            referred=referred,
            cases=cases,
            facts=model_facts(predictor),
        )

    def _guarantee(self, certificate: Certificate) -> Guarantee:
        rules = [
            RuleRow(
                {str(name): float(risk) for name, risk in rule.risks.items()},
                None if rule.group is None else str(rule.group),
                *accepted_range(rule.threshold),
                rule.n,
                rule.m,
                {str(name): float(number) for name, number in rule.errors.items()},
                rule.needed,
                rule.hopeless,
            )
            for rule in certificate.rules
        ]
        points = []
        for target in certificate.targets:
            target_rules = certificate.target(target)
            accepted, total = sum(rule.n for rule in target_rules), sum(rule.m for rule in target_rules)
            if accepted and WRONG in target:
                points.append((accepted / total, float(target[WRONG])))
        single_failure = len(rules) == 1 and not certificate.certified
        return Guarantee(
            *headline_parts(certificate),
            target_texts(certificate),
            rule_table(certificate),
            guarantee(certificate),
            assumptions(certificate),
            failure(certificate.rules[0], certificate) if single_failure else "",
            certificate.certified,
            method_text(certificate),
            certificate.delta,
            certificate.m,
            certificate.by,
            rules,
            points,
            self._violated(certificate),
            flatten({"options": dict(certificate.options), "details": dict(certificate.details)}),
        )

    @cached_property
    def _encoded(self) -> NDArray[np.float32]:
        return encode(self.predictor, self.rows).x[self.used]

    @cached_property
    def _hashes(self) -> NDArray[np.uint64]:
        return row_hashes(self._encoded)

    def _is_calibration_set(self) -> bool:
        """Return whether these are the calibration cases, by the checksum in the certificate."""
        if self.certificate is None:
            return False
        checksum = self.certificate.details.get("calibration", {}).get("sha256")
        return bool(checksum == hashlib.sha256(self._hashes.tobytes() + self.truth.tobytes()).hexdigest())

    def _count_seen(self) -> int:
        """Count the rows that the model was built from, if there are more than chance explains; else return 0."""
        seen_rows = self.predictor.seen_rows
        if seen_rows is None:
            return 0
        record = self.predictor.record
        known, digest = record.get("repeats", NOTHING_KNOWN), record.get("rows_sha256")
        return find_leaked_rows(seen_rows, self._hashes, seen_rows.cells(self._encoded), known, digest).total

    def _violated(self, certificate: Certificate) -> bool:
        """Return whether there are more errors among accepted cases than chance explains if the guarantee holds."""
        from scipy.special import bdtrc

        target = self.target or certificate.targets[0]
        if self.accepted is None:
            return False
        for name, limit in target.items():
            harm = known_harm(name, self.predictor.classes, self.predicted, self.truth, certificate.details)
            if harm is None or name in certificate.rules[0].costs:
                continue
            counted = self.accepted & ~np.isnan(harm.astype(np.float64))
            errors = int(harm[counted].sum())
            if errors and bdtrc(errors - 1, int(counted.sum()), limit) < SURPRISE_LEVEL / len(target):
                return True
        return False

    def _member_spread(self) -> MemberSpread | None:
        """Compute the risk–coverage curves of the members, each with its own predictions and confidences."""
        predictor = self.predictor
        if predictor.members < 2:
            return None
        sampler = Sampler(predictor.network, predictor.sampling, predictor.num_samples)
        confidence = np.empty((predictor.members, len(self.rows)))
        predicted = np.empty(confidence.shape, dtype=np.int64)
        for start in range(0, len(self.rows), CHUNK_ROWS):
            chunk = slice(start, start + CHUNK_ROWS)
            encoded = predictor.transform.apply(self.rows[chunk])
            probabilities = sampler(torch.from_numpy(encoded.x)).probabilities.cpu().numpy()
            confidence[:, chunk], predicted[:, chunk] = probabilities.max(-1), probabilities.argmax(-1)
        ranks = curve_ranks(len(self.used), SPREAD_POINTS)
        member_risks = [
            expected_risk(confidence[member, self.used], predicted[member, self.used] != self.truth, ranks)
            for member in range(predictor.members)
        ]
        low, high = np.quantile(member_risks, (0.05, 0.95), axis=0)
        return MemberSpread(*(_six_digits(array) for array in (ranks / len(self.used), low, high)))


def _as_rows(x: Any) -> Any:
    """Convert to rows that can be sliced and indexed: a table or an array."""
    if isinstance(x, Table):
        return x
    if isinstance(x, torch.Tensor):
        return x.detach().cpu().numpy()
    if hasattr(x, "columns") and hasattr(x, "iloc"):  # a data frame, recognised without importing pandas
        return Table.of(x)
    return np.asarray(x)


def _band_settings(predictor: Predictor) -> BandSettings:
    """Return the settings of the certificate, with its attempt's part of delta."""
    certificate = predictor.certificate
    if certificate is None:
        return BandSettings(0.01, 0.01, DEFAULT_R_MAX)
    r_max = certificate.options.get("r_max")
    level = certificate.delta * delta_share(certificate.attempt)
    return BandSettings(certificate.delta, level, float(r_max) if isinstance(r_max, (int, float)) else DEFAULT_R_MAX)


def _slider_risks(predictors: Sequence[Predictor]) -> list[float]:
    """Return the slider's risks, the same for all models."""
    lows, highs, requested = [], [], []
    for predictor in predictors:
        settings = _band_settings(predictor)
        lows.append(smallest_slider_risk(predictor.calibration, settings))
        highs.append(settings.r_max)
        targets = [] if predictor.certificate is None else predictor.certificate.targets
        requested += [target[WRONG] for target in targets if WRONG in target]
    return slider_risks(min(lows), max(highs), requested)


def _risk_coverage_curve(confidence: NDArray[np.float64], wrong: NDArray[np.bool_]) -> Curve:
    ranked = rank_cases(confidence, wrong)
    drawn = thin(ranked, CURVE_POINTS)
    thresholds = [value if math.isfinite(value) else None for value in ranked.threshold[drawn].tolist()]
    n = ranked.n[drawn]
    return Curve(_six_digits(n / ranked.m), _six_digits(ranked.errors[WRONG][drawn] / n), thresholds)


def _six_digits(array: NDArray[Any]) -> list[float]:
    """Round to six digits: a figure shows no more, and the file stays small."""
    return [float(f"{value:.6g}") for value in array.tolist()]


def _about(predictor: Predictor) -> str:
    """Describe a model in one line."""
    sizes = "-".join(map(str, (predictor.network.in_features, *predictor.config.hidden, len(predictor.classes))))
    networks = f"ensemble of {predictor.members} networks" if predictor.members > 1 else "one network"
    passes = f"{predictor.num_samples} {predictor.sampling} samples" if predictor.num_samples > 1 else "one pass"
    return f"{predictor.config.name} {sizes}: {networks}, {passes} per prediction"
