"""Results of one model on the test rows, as plain data for the report."""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squad.data.cells import cell_text
from squad.data.chance_repeats import NOTHING_KNOWN
from squad.data.leakage import find_leaked_rows
from squad.data.seen_rows import row_hashes
from squad.errors import ArgumentError
from squad.metrics import coverage_at_risk
from squad.models import Sampler
from squad.predictor import Predictor
from squad.predictor.answer import ACCEPTED
from squad.predictor.harms import known_harm
from squad.predictor.input_rows import class_positions, input_rows
from squad.predictor.row_pass import ARRAY, encode
from squad.report.calibration_overlap import calibration_overlap
from squad.report.case_selection import row_name, select_cases
from squad.report.cost_frontier import cost_frontier
from squad.report.provenance import flatten, model_facts
from squad.report.report_data import Curve, Guarantee, MemberSpread, ModelReport, RuleRow
from squad.report.risk_coverage import curve_ranks, expected_risk, rank_cases, thin
from squad.report.slider import BandSettings, Slider, accepted_range, make_slider, slider_range
from squad.report.summaries import ClassRow, by_class, by_harm, confidence_bins, count_confusions, reliability_bins
from squad.report.weakest_class import NONE_ACCEPTED, WeakestClass, find_weakest_class, suggest_limit
from squad.selective import Certificate, Scores
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
from squad.selective.risk_text import MISS_RATE
from squad.selective.scored_cases import WRONG

__all__ = ["Evaluation"]

#: From this number of members on, the band leaves out the highest and lowest 5 %; 5 % of fewer is less than one.
MIN_MEMBERS_CENTRAL = 20
#: Maximum number of points of a risk–coverage curve, and of the band of the members around it.
CURVE_POINTS, SPREAD_POINTS = 400, 240
#: Maximum number of unreadable rows whose reason is shown.
MAX_REASONS = 5
#: The guarantee counts as violated if it would give that many errors in fewer than 1 % of test sets.
SURPRISE_LEVEL = 0.01
#: Largest risk that the slider's guarantee covers, unless the certificate says otherwise; also the slider's only risk
#: if none can be guaranteed.
DEFAULT_R_MAX = 0.1
#: Selective risks in the table of observed coverages.
TABLE_RISKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
#: Number of rows that the members predict at once.
CHUNK_ROWS = 8192


class Evaluation:
    """Predictions of a model for the rows that it can read and that have a label."""

    def __init__(
        self,
        name: str,
        predictor: Predictor,
        x: Any,
        labels: list[Any],
        by: ArrayLike | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.name, self.predictor = name, predictor
        rows = self.rows = _rows_of(predictor, x)
        if len(labels) != len(rows):
            raise ArgumentError(
                f"labels must have one entry per row of x, got {len(labels)} labels for {len(rows)} rows. Pass the"
                " label of every row; empty ones are left out."
            )
        self.guaranteed, self.band = False, _band_settings(predictor)
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
        self.usable = readable & has_label
        self.all_truth, self.by_group = truth, by

    def hint(self) -> str:
        """Return what to do if no row is usable."""
        return f"Reason for the first: {self.answer.reason[0]}." if len(self.unreadable) else "Pass labelled rows."

    def keep(self, usable: NDArray[np.bool_], guaranteed: bool, delta: float, r_max: float) -> None:
        """Evaluate the model on these rows.

        Args:
            usable: (N,), rows that have a label and that all models can read.
            guaranteed: Whether the slider shows guarantees, which needs calibration scores of all models.
            delta: Probability with which the slider's guarantees may fail, the same for all models.
            r_max: Largest risk that they cover, the same for all models.
        """
        self.guaranteed = guaranteed
        self.band = BandSettings(delta, delta * self.band.level / self.band.delta, r_max)
        self.excluded = int((self.usable & ~usable).sum())
        self.used = np.flatnonzero(usable)
        self.truth = self.all_truth[self.used]
        self.probabilities = self.answer.probabilities[self.used]
        self.predicted = self.probabilities.argmax(1)
        self.wrong = self.predicted != self.truth
        self.confidence = self.answer.confidence[self.used]
        self.accepted = self.answer.decision[self.used] == ACCEPTED if self.certificate is not None else None
        self.by_target = [self.accepted]
        targets = [] if self.certificate is None else self.certificate.targets
        for target in targets[1:]:
            decision = self.predictor.answer(self.rows, by=self.by_group, risk=target).decision
            self.by_target.append(decision[self.used] == ACCEPTED)

    def error_rate(self, usable: NDArray[np.bool_]) -> float:
        """Return the error rate on these rows."""
        return float((self.answer.probabilities[usable].argmax(1) != self.all_truth[usable]).mean())

    @property
    def target_risks(self) -> list[float]:
        """Selective risks that the certificate was made for, whether or not they could be certified."""
        targets = [] if self.certificate is None else self.certificate.targets
        return [target[WRONG] for target in targets if WRONG in target]

    @property
    def accepts_some(self) -> bool:
        """Whether there is a certificate, and it accepts some of the rows."""
        return self.accepted is not None and bool(self.accepted.any())

    def slider(self, risks: Sequence[float]) -> Slider:
        """Compute the slider at these risks."""
        return make_slider(risks, self.confidence, self.wrong, self.slider_scores, self.band)

    def model_report(self, risks: Sequence[float], among_accepted: bool, models: int = 1) -> ModelReport:
        """Compute everything that the report shows about the model.

        Args:
            risks: The slider's positions.
            among_accepted: Whether errors of classes are counted among accepted cases, which all models need to have.
            models: Number of models in the report.
        """
        predictor, accepted = self.predictor, self.accepted
        # A certificate is about the cases that its own model accepts, whatever the others do.
        own = accepted if self.accepts_some else None
        by_target = self.by_target if len(self.by_target) > 1 else [own]
        mistakes, referred, cases = select_cases(
            predictor, self.rows, self.answer, self.used, self.truth, self.wrong, accepted, models
        )
        own_classes, classes = (
            by_class(predictor.classes, self.predicted, self.truth, counted)
            for counted in (own, accepted if among_accepted else None)
        )
        return ModelReport(
            name=self.name,
            about=_about(predictor),
            classes=[str(name) for name in predictor.classes],
            members=predictor.members,
            training_rows=sum(predictor.record.get("rows", {}).values()) or None,
            has_latents=any(case.latents is not None for case in cases),
            rows=len(self.rows),
            used=len(self.used),
            unreadable=len(self.unreadable),
            reasons=[f"{row_name(self.rows, row)}: {self.answer.reason[row]}" for row in self.unreadable[:MAX_REASONS]],
            unlabelled=self.unlabelled,
            excluded=self.excluded,
            wrong=int(self.wrong.sum()),
            accepted=None if accepted is None else int(accepted.sum()),
            accepted_wrong=None if accepted is None else int((accepted & self.wrong).sum()),
            is_calibration_set=self._is_calibration_set(),
            calibration_overlap=self._calibration_overlap(),
            seen=self._count_seen(),
            leakage_checked=predictor.seen_rows is not None,
            target=self.target,
            guarantee=None if self.certificate is None else self._guarantee(self.certificate),
            attempts=predictor.attempts,
            has_scores=self.has_scores,
            slider=self.slider(risks),
            curve=_risk_coverage_curve(self.confidence, self.wrong),
            frontier=cost_frontier(rank_cases(self.confidence, self.wrong)),
            spread=self._member_spread(),
            coverages=[(risk, coverage_at_risk(self.confidence, ~self.wrong, risk)) for risk in TABLE_RISKS],
            reliability=reliability_bins(self.confidence, self.wrong),
            confidences=confidence_bins(self.confidence, self.wrong),
            harms=by_harm(self.certificate, self.scores, predictor.classes, self.predicted, self.truth, by_target),
            by_class=classes,
            among_accepted=among_accepted,
            accepts_some=self.accepts_some,
            weakest=self._weakest_class(own_classes, own),
            confusions=count_confusions(len(predictor.classes), self.predicted, self.truth, accepted),
            mistakes=mistakes,
            referred=referred,
            cases=cases,
            facts=model_facts(predictor),
        )

    @property
    def has_scores(self) -> bool:
        """Whether the model stores its calibration scores."""
        return self.scores is not None and len(self.scores) > 0

    @property
    def slider_scores(self) -> Scores | None:
        """Calibration scores that the slider's guarantees come from; None if it has none."""
        return self.scores if self.guaranteed else None

    def slider_range(self) -> tuple[float, float] | None:
        """Return the range of risks worth choosing from for this model."""
        return slider_range(self.confidence, self.wrong, self.slider_scores, self.band)

    def _weakest_class(self, classes: Sequence[ClassRow], counted: NDArray[np.bool_] | None) -> WeakestClass | None:
        """Return the weakest class among the counted cases, and how its miss rate could be bounded."""
        certificate, error_rate = self.certificate, float(self.wrong.mean())
        target = {} if certificate is None else self.target or dict(certificate.targets[0])
        # What could not be certified bounds nothing.
        if certificate is None or not any(rule.certified for rule in certificate.target(target)):
            return find_weakest_class(classes, {}, error_rate)
        if counted is None:  # the risks are those of accepted cases, and these counts of all
            found = find_weakest_class(classes, {}, error_rate)
            if found is None:
                return None
            return replace(found, limit=target.get(f"{MISS_RATE} {found.name}"), suggestion=NONE_ACCEPTED)
        found = find_weakest_class(classes, target, error_rate)
        if found is None or found.limit is not None:
            return found
        costs = certificate.rules[0].costs
        known = {
            name: known_harm(name, self.predictor.classes, self.predicted, self.truth, certificate.details)
            for name in (*target, f"{MISS_RATE} {found.name}")
            if name not in costs
        }
        suggestion = suggest_limit(
            found,
            self.confidence,
            counted,
            {name: harm for name, harm in known.items() if harm is not None},
            target,
            certificate,
            len(self.predictor.attempts) + 1,
        )
        return replace(found, suggestion=suggestion)

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

    def _calibration_overlap(self) -> int:
        scores = self.predictor.calibration
        if self.certificate is None or scores is None or self._is_calibration_set():
            return 0
        return calibration_overlap(self.confidence, np.asarray(scores.confidence, dtype=np.float64))

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
        central = 1.0 if predictor.members < MIN_MEMBERS_CENTRAL else 0.9
        low, high = np.quantile(member_risks, ((1 - central) / 2, (1 + central) / 2), axis=0)
        return MemberSpread(central, *(_six_digits(array) for array in (ranks / len(self.used), low, high)))


def _rows_of(predictor: Predictor, x: Any) -> Any:
    """Return rows as the model takes them, a table or an array, which can be sliced and indexed."""
    rows = input_rows(predictor.transform, x)
    return rows.detach().cpu().numpy() if isinstance(rows, torch.Tensor) else rows


def _band_settings(predictor: Predictor) -> BandSettings:
    """Return the settings of the certificate, with its attempt's part of delta."""
    certificate = predictor.certificate
    if certificate is None:
        return BandSettings(0.01, 0.01, DEFAULT_R_MAX)
    r_max = certificate.options.get("r_max")
    level = certificate.delta * delta_share(certificate.attempt)
    return BandSettings(certificate.delta, level, float(r_max) if isinstance(r_max, (int, float)) else DEFAULT_R_MAX)


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
