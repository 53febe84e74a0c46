"""What a report says, as plain data: gathered once from the models and the rows of the test, then only laid out."""

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
from squad.data.leakage import leaked
from squad.data.seen_rows import row_hashes
from squad.data.tables import Table
from squad.errors import ArgumentError
from squad.metrics import coverage_at_risk
from squad.models import Sampler
from squad.predictor import Predictor
from squad.predictor.answer import ACCEPTED
from squad.predictor.class_labels import class_positions
from squad.predictor.harms import known_harm
from squad.predictor.row_pass import ARRAY, encode
from squad.report.case_selection import pick_cases
from squad.report.provenance import flat, model_facts, test_facts
from squad.report.report_data import Content, Curve, Model, Promise, RuleRow, Spread
from squad.report.risk_coverage import expected_risk, ranks, steps, thinned
from squad.report.slider import BandSettings, accepts, make_slider, risks, smallest
from squad.report.summaries import by_class, by_harm, confidence_groups, reliability_groups
from squad.selective import Certificate
from squad.selective.attempts import share
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

__all__ = ["gather"]

#: Points of a curve, and of the band around it, at the most.
POINTS, SPREAD_POINTS = 400, 240
#: So many reasons why rows could not be read are told.
REASONS = 5
#: TEST has more mistakes than the certificate allows if chance alone would give so many in fewer than 1 % of tests.
SURPRISE = 0.01
#: Without a certificate the slider goes to this risk.
R_MAX = 0.1
#: Shares of wrong answers that the largest coverage is told for.
RISKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
#: Rows that members answer at once.
CHUNK = 8192


def gather(
    predictors: Mapping[str, Predictor],
    x: Any,
    labels: Sequence[Any] | NDArray[Any],
    source: str = "the test",
    by: ArrayLike | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Content:
    """Ask every model about every row, and work out what the report shows.

    Args:
        predictors: by the name that the report calls them.
        x: rows, as :meth:`squad.predictor.Predictor.answer` takes them, the same for all models.
        labels: (N,), the right answers; an empty one leaves its row out.
        source: what the rows are called, such as the name of their file.
        by: (N,), the group of each row, for certificates by groups that stand in no column.
        progress: as of :meth:`squad.predictor.Predictor.answer`, for each model.
    """
    if not predictors:
        raise ArgumentError.of("predictors", "none", "a mapping with at least one model")
    rows = _rows(x)
    texts = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if len(texts) != len(rows):
        raise ArgumentError.of("labels", f"{len(texts)} labels for {len(rows)} rows", "one for each row")
    tested = [_Tested(str(name), predictor, rows, texts, by, progress) for name, predictor in predictors.items()]
    at = _positions([one.predictor for one in tested])
    models = [one.model(at) for one in tested]
    promised = [risk for model in models if model.promise for _, risk in model.promise.points]
    asked = [
        rule.risks[WRONG] for model in models if model.promise for rule in model.promise.rules if WRONG in rule.risks
    ]
    wanted = (promised or asked or [0.01])[0]
    start = _first(at, wanted, models)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    called, facts = test_facts(rows, texts, source, date)
    return Content(called, date, models, start, facts)


def _first(at: Sequence[float], wanted: float, models: Sequence[Model]) -> int:
    """The position of the risk wanted, or the next larger one at which all sliders have something to show."""
    nearest = int(np.argmin([abs(math.log(risk / wanted)) for risk in at]))
    for place in range(nearest, len(at)):
        if all(model.slider.choices[place].accepts != "none" for model in models):
            return place
    return nearest


class _Tested:
    """A model's answers to the rows that it can read and that have a label."""

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
        # Before the work, so that an unknown label is told at once.
        truth = np.full(len(labels), -1, dtype=np.int64)
        truth[has_label] = class_positions(
            predictor.classes, [label for label, there in zip(labels, has_label, strict=True) if there]
        )
        self.certificate, self.scores = predictor.certificate, predictor.calibration
        targets = [] if self.certificate is None else self.certificate.targets
        grouped = self.certificate is not None and self.certificate.details.get("by") == ARRAY
        by = by if grouped else None
        #: Of several targets the first decides.
        self.target = dict(targets[0]) if len(targets) > 1 else {}
        self.answer = predictor.answer(rows, by=by, risk=self.target or None, progress=progress)
        # A reason may also say that nothing was certified for a group: such a row was read.
        # Novel rows are never accepted, whatever their confidence: in a curve over confidences they would mislead.
        readable = np.isfinite(self.answer.confidence) & ~self.answer.novel
        self.unreadable = np.flatnonzero(~readable)
        self.unlabelled = int((readable & ~has_label).sum())
        self.used = np.flatnonzero(readable & has_label)
        if not len(self.used):
            hint = f"The first: {self.answer.reason[0]}." if len(self.unreadable) else "Give rows, and their labels."
            raise ArgumentError.of("x", f"{len(labels)} rows", f"rows with labels that {name} can read", hint)
        self.truth = truth[self.used]
        self.probabilities = self.answer.probabilities[self.used]
        self.said = self.probabilities.argmax(1)
        self.wrong = self.said != self.truth
        self.confidence = self.answer.confidence[self.used]
        self.accepted = self.answer.decision[self.used] == ACCEPTED if self.certificate is not None else None
        self.by_target = [self.accepted]
        for target in targets[1:]:
            self.by_target.append(predictor.answer(rows, by=by, risk=target).decision[self.used] == ACCEPTED)

    def model(self, at: Sequence[float]) -> Model:
        """Everything the report says of it."""
        predictor, accepted = self.predictor, self.accepted
        counted = accepted if accepted is not None and accepted.any() else None
        by_target = self.by_target if len(self.by_target) > 1 else [counted]
        mistakes, referred, cases = pick_cases(
            predictor, self.rows, self.answer, self.used, self.truth, self.wrong, accepted
        )
        return Model(
            name=self.name,
            about=_about(predictor),
            classes=[str(name) for name in predictor.classes],
            members=predictor.members,
            has_latents=any(case.latents is not None for case in cases),
            rows=len(self.rows),
            used=len(self.used),
            unreadable=len(self.unreadable),
            reasons=[f"{_where(self.rows, row)}: {self.answer.reason[row]}" for row in self.unreadable[:REASONS]],
            unlabelled=self.unlabelled,
            wrong=int(self.wrong.sum()),
            accepted=None if accepted is None else int(accepted.sum()),
            accepted_wrong=None if accepted is None else int((accepted & self.wrong).sum()),
            same=self._same(),
            seen=self._seen(),
            checked=predictor.seen_rows is not None,
            target=self.target,
            promise=None if self.certificate is None else self._promise(self.certificate),
            slider=make_slider(at, self.confidence, self.wrong, self.scores, _band_settings(predictor)),
            curve=_curve(self.confidence, self.wrong),
            spread=self._spread(),
            coverages=[(risk, coverage_at_risk(self.confidence, ~self.wrong, risk)) for risk in RISKS],
            reliability=reliability_groups(self.confidence, self.wrong),
            confidences=confidence_groups(self.confidence, self.wrong),
            harms=by_harm(self.certificate, self.scores, predictor.classes, self.said, self.truth, by_target),
            by_class=by_class(predictor.classes, self.said, self.truth, counted),
            among_accepted=counted is not None,
            mistakes=mistakes,
            referred=referred,
            cases=cases,
            facts=model_facts(predictor),
        )

    def _promise(self, certificate: Certificate) -> Promise:
        rules = [
            RuleRow(
                {str(name): float(risk) for name, risk in rule.risks.items()},
                None if rule.group is None else str(rule.group),
                *accepts(rule.threshold),
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
            own = certificate.target(target)
            accepted, total = sum(rule.n for rule in own), sum(rule.m for rule in own)
            if accepted and WRONG in target:
                points.append((accepted / total, float(target[WRONG])))
        alone = len(rules) == 1 and not certificate.certified
        return Promise(
            *headline_parts(certificate),
            target_texts(certificate),
            rule_table(certificate),
            guarantee(certificate),
            assumptions(certificate),
            failure(certificate.rules[0], certificate) if alone else "",
            certificate.certified,
            method_text(certificate),
            certificate.delta,
            certificate.m,
            certificate.by,
            rules,
            points,
            self._broken(certificate),
            flat({"options": dict(certificate.options), "details": dict(certificate.details)}),
        )

    @cached_property
    def _encoded(self) -> NDArray[np.float32]:
        return encode(self.predictor, self.rows).x[self.used]

    @cached_property
    def _hashes(self) -> NDArray[np.uint64]:
        return row_hashes(self._encoded)

    def _same(self) -> bool:
        """Whether these are the calibration cases, by the certificate's checksum of them."""
        if self.certificate is None:
            return False
        noted = self.certificate.details.get("calibration", {}).get("sha256")
        return bool(noted == hashlib.sha256(self._hashes.tobytes() + self.truth.tobytes()).hexdigest())

    def _seen(self) -> int:
        seen_rows = self.predictor.seen_rows
        if seen_rows is None:
            return 0
        record = self.predictor.record
        known, digest = record.get("repeats", NOTHING_KNOWN), record.get("rows_sha256")
        return leaked(seen_rows, self._hashes, seen_rows.cells(self._encoded), known, digest).total

    def _broken(self, certificate: Certificate) -> bool:
        """Whether chance does not explain the mistakes among the accepted, if the promise holds."""
        from scipy.special import bdtrc

        target = self.target or certificate.targets[0]
        if self.accepted is None:
            return False
        for name, limit in target.items():
            harm = known_harm(name, self.predictor.classes, self.said, self.truth, certificate.details)
            if harm is None or name in certificate.rules[0].costs:
                continue
            counted = self.accepted & ~np.isnan(harm.astype(np.float64))
            errors = int(harm[counted].sum())
            if errors and bdtrc(errors - 1, int(counted.sum()), limit) < SURPRISE / len(target):
                return True
        return False

    def _spread(self) -> Spread | None:
        """Each member's curve by itself: it answers and is sure or not on its own."""
        predictor = self.predictor
        if predictor.members < 2:
            return None
        sampler = Sampler(predictor.network, predictor.sampling, predictor.num_samples)
        sure = np.empty((predictor.members, len(self.rows)))
        said = np.empty(sure.shape, dtype=np.int64)
        for start in range(0, len(self.rows), CHUNK):
            encoded = predictor.transform.apply(self.rows[start : start + CHUNK])
            drawn = sampler(torch.from_numpy(encoded.x)).probabilities.cpu().numpy()
            sure[:, start : start + CHUNK], said[:, start : start + CHUNK] = drawn.max(-1), drawn.argmax(-1)
        at = ranks(len(self.used), SPREAD_POINTS)
        each = [
            expected_risk(sure[member, self.used], said[member, self.used] != self.truth, at)
            for member in range(predictor.members)
        ]
        low, high = np.quantile(each, (0.05, 0.95), axis=0)
        return Spread(*(_numbers(array) for array in (at / len(self.used), low, high)))


def _rows(x: Any) -> Any:
    """Rows that can be sliced and picked from: a table, or an array."""
    if isinstance(x, Table):
        return x
    if isinstance(x, torch.Tensor):
        return x.detach().cpu().numpy()
    if hasattr(x, "columns") and hasattr(x, "iloc"):  # a data frame, without importing pandas
        return Table.of(x)
    return np.asarray(x)


def _where(rows: Any, row: int) -> str:
    return rows.where(row) if isinstance(rows, Table) else f"row {row + 1}"


def _band_settings(predictor: Predictor) -> BandSettings:
    """Those of the certificate, with its attempt's share of delta."""
    certificate = predictor.certificate
    if certificate is None:
        return BandSettings(0.01, 0.01, R_MAX)
    r_max = certificate.options.get("r_max")
    level = certificate.delta * share(certificate.attempt)
    return BandSettings(certificate.delta, level, float(r_max) if isinstance(r_max, (int, float)) else R_MAX)


def _positions(predictors: Sequence[Predictor]) -> list[float]:
    """The slider's risks, for all models alike."""
    lows, highs, asked = [], [], []
    for predictor in predictors:
        settings = _band_settings(predictor)
        lows.append(smallest(predictor.calibration, settings))
        highs.append(settings.r_max)
        targets = [] if predictor.certificate is None else predictor.certificate.targets
        asked += [target[WRONG] for target in targets if WRONG in target]
    return risks(min(lows), max(highs), asked)


def _curve(confidence: NDArray[np.float64], wrong: NDArray[np.bool_]) -> Curve:
    found = steps(confidence, wrong)
    kept = thinned(found, POINTS)
    thresholds = [value if math.isfinite(value) else None for value in found.threshold[kept].tolist()]
    n = found.n[kept]
    return Curve(_numbers(n / found.m), _numbers(found.errors[WRONG][kept] / n), thresholds)


def _numbers(array: NDArray[Any]) -> list[float]:
    """Six digits: a picture shows no more, and the file stays small."""
    return [float(f"{value:.6g}") for value in array.tolist()]


def _about(predictor: Predictor) -> str:
    sizes = "-".join(map(str, (predictor.network.in_features, *predictor.config.hidden, len(predictor.classes))))
    many = f"{predictor.members} networks that answer together" if predictor.members > 1 else "one network"
    samples = f"{predictor.num_samples} {predictor.sampling} samples" if predictor.num_samples > 1 else "one pass"
    return f"{predictor.config.name} {sizes}: {many}, {samples} an answer"
