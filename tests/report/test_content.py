"""Contents of a report compared with direct counting, for every kind of model, row and certificate."""

import hashlib
import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from squad.data.seen_rows import SeenRows
from squad.errors import ArgumentError, DataError
from squad.layers import unstack
from squad.models import CONFIGS
from squad.predictor import Predictor
from squad.predictor.row_pass import encode
from squad.report.content import compute_report
from squad.report.report_data import ModelReport
from squad.selective import band_of
from squad.selective.attempts import delta_share
from tests.report.builders import CLASSES, ROWS, certified, features, frame, images, labels_for, model


def report_on(predictor: Predictor, x: Any, labels: Any, **settings: Any) -> ModelReport:
    return compute_report({"it": predictor}, x, labels, **settings).models[0]


def assert_plain(value: Any) -> None:
    """Assert that JSON can represent it, without NaN."""
    json.dumps(asdict(value), allow_nan=False)


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("name", CONFIGS)
def test_every_network_and_kind_of_rows(name: str, kind: str) -> None:
    predictor = model(name, kind)
    x = ROWS[kind](60, seed=3)
    labels = labels_for(predictor, x)
    found = report_on(predictor, x, labels)
    answer = predictor.answer(x)
    assert_plain(found)
    assert (found.rows, found.used, found.unreadable, found.unlabelled) == (60, 60, 0, 0)
    assert found.wrong == (answer.label != labels).sum()
    assert found.guarantee is None
    assert found.accepted is None
    assert found.has_latents == name.startswith("squad")
    assert found.spread is not None
    assert found.curve.coverage[-1] == 1
    assert found.curve.risk[-1] == pytest.approx(found.wrong / 60, abs=1e-6)
    case = found.cases[found.referred[0]]
    assert case.confidence == answer.confidence.min()
    assert (case.picture is not None) == (kind == "images")
    names = {"images": set(), "features": {f"feature {k}" for k in range(1, 7)}, "table": {"age", "color", "dose"}}
    assert {value.name for value in case.values} == names[kind]
    assert found.confusions.accepted is None
    assert np.trace(found.confusions.every) == 60 - found.wrong


def test_the_slider_spends_the_attempts_part_of_delta() -> None:
    once = certified(model())
    twice = certified(once)
    assert twice.certificate is not None
    assert twice.calibration is not None
    assert twice.certificate.attempt == 2
    x = images(100, seed=4)
    slider = report_on(twice, x, labels_for(twice, x)).slider
    assert slider.delta == twice.certificate.delta
    right = ~twice.calibration.harms["wrong"]
    band = band_of(twice.calibration.confidence, right, twice.certificate.delta * delta_share(2), slider.r_max)
    for position in slider.positions:
        index = band.at(position.risk)
        assert (position.coverage or 0.0) == (0.0 if index is None else band.n[index] / band.m)


def test_counts_under_a_certificate() -> None:
    predictor = certified(model())
    x = images(300, seed=4)
    labels = labels_for(predictor, x, seed=5)
    found = report_on(predictor, x, labels)
    assert_plain(found)
    answer = predictor.answer(x)
    accepted, wrong = answer.decision == "accepted", answer.label != labels
    assert 0 < accepted.sum() < 300
    assert found.accepted == accepted.sum()
    assert found.accepted_wrong == (accepted & wrong).sum()
    guarantee, certificate = found.guarantee, predictor.certificate
    assert guarantee is not None
    assert certificate is not None
    assert f"{guarantee.title}: {guarantee.accepted}." == certificate.headline
    for text in (guarantee.statement, *guarantee.assumptions):
        assert text in str(certificate)
    assert guarantee.certified
    assert guarantee.points == [(certificate.coverage, 0.1)]
    assert guarantee.rules[0].threshold == certificate.threshold
    assert not guarantee.violated
    assert found.slider.guaranteed
    assert found.slider.delta == 0.05
    assert [found.cases[index].accepted for index in found.referred] == [False] * len(found.referred)
    confidences = [found.cases[index].confidence for index in found.mistakes]
    assert confidences == sorted(confidences, reverse=True)
    assert len(found.mistakes) == min(24, wrong.sum())
    assert confidences[0] == answer.confidence[wrong].max()
    for row in found.by_class:
        own, predicted = labels == row.name, answer.label == row.name
        assert (row.n, row.missed) == ((own & accepted).sum(), (own & wrong & accepted).sum())
        assert (row.predicted, row.false) == ((predicted & accepted).sum(), (predicted & wrong & accepted).sum())
        assert row.referred == (own & ~accepted).sum()
    for name, matrix, within in [
        ("every", found.confusions.every, np.ones(300, dtype=bool)),
        ("accepted", found.confusions.accepted, accepted),
        ("referred", found.confusions.referred, ~accepted),
    ]:
        for i, truth in enumerate(CLASSES):
            for j, label in enumerate(CLASSES):
                number = (within & (labels == truth) & (answer.label == label)).sum()
                assert np.asarray(matrix)[i, j] == number, name
    assert found.weakest is not None
    own = next(row for row in found.by_class if row.name == found.weakest.name)
    assert (found.weakest.n, found.weakest.missed) == (own.n, own.missed)
    assert (found.frontier[-1].accepted, found.frontier[-1].wrong) == (300, wrong.sum())
    assert sum(group.n for group in found.confidences) == 300
    assert sum(group.wrong for group in found.confidences) == wrong.sum()
    assert sum(group.count for group in found.reliability) == 300


def test_the_slider_starts_at_the_certificates_risk() -> None:
    predictor = certified(model(), risk=0.083)
    x = images(100, seed=4)
    found = compute_report({"it": predictor}, x, labels_for(predictor, x))
    assert found.models[0].slider.positions[found.start].risk == 0.083
    slider = found.models[0].slider
    assert slider.positions[0].accepts != "none"
    # Without a certificate: the smallest risk worth choosing, if it is above 1 %.
    found = compute_report({"plain": model()}, x, labels_for(predictor, x))
    assert found.models[0].slider.positions[found.start].risk == max(0.01, found.models[0].slider.positions[0].risk)


def test_the_slider_covers_what_the_certificate_was_made_for() -> None:
    """Whether or not it could be certified; and twice the error rate on the test set."""
    x = images(300, seed=4)
    predictor = certified(model(), risk=0.35)
    labels = labels_for(predictor, x)
    assert compute_report({"it": predictor}, x, labels).models[0].slider.r_max == 0.35
    failed = certified(model(), risk=[0.0001, {"wrong": 0.4, "miss rate emu": 0.001}])
    assert compute_report({"it": failed}, x, labels).models[0].slider.r_max == 0.4
    wrong = np.where(np.arange(300) % 3, predictor.answer(x).label, "emu")
    (found,) = compute_report({"it": predictor}, x, wrong).models
    assert found.slider.r_max == pytest.approx(2 * found.wrong / 300, rel=0.06)
    assert found.slider.r_max > 0.35


def test_the_slider_starts_where_it_has_something_to_show() -> None:
    """A certificate can guarantee a risk that the band, which holds for all risks simultaneously, cannot."""
    predictor = certified(model("squad"), risk=0.03, delta=0.2)
    content = compute_report({"it": predictor}, images(50), labels_for(predictor, images(50)))
    (one,) = content.models
    assert one.guarantee is not None
    assert one.guarantee.points
    accepts = [position.accepts for position in one.slider.positions]
    assert one.slider.positions[content.start].risk > 0.03
    assert accepts[content.start] != "none"
    assert (one.slider.positions[0].risk, accepts[0]) == (0.03, "none")  # the certificate's
    assert accepts.count("none") == 1


def test_without_scores_the_slider_has_no_guarantee() -> None:
    predictor = certified(model()).without_scores()
    x = images(100, seed=4)
    found = report_on(predictor, x, labels_for(predictor, x))
    assert found.guarantee is not None
    assert not found.slider.guaranteed


def test_a_certificate_that_certifies_nothing() -> None:
    predictor = model()
    x = images(400, seed=7)
    guesses = np.array(CLASSES)[np.random.default_rng(0).integers(3, size=400)]
    none = predictor.certify(x, guesses, risk=0.05, delta=0.05)
    found = report_on(none, x, labels_for(predictor, x))
    assert_plain(found)
    assert found.guarantee is not None
    assert not found.guarantee.certified
    assert found.guarantee.points == []
    assert (found.accepted, found.accepted_wrong) == (0, 0)
    assert not found.among_accepted
    assert sum(row.n for row in found.by_class) == 400


def test_harms_groups_and_several_targets() -> None:
    predictor = model(kind="table")
    x = frame(900, seed=7)
    labels = labels_for(predictor, x, seed=8)
    own = np.random.default_rng(0).random(900) < 0.01
    test = frame(200, seed=9)
    truth = labels_for(predictor, test, seed=10)
    harmful = predictor.certify(
        x, labels, {"wrong": 0.1, "missed cat": 0.08, "burnt": 0.1}, delta=0.05, harms={"burnt": own}
    )
    found = report_on(harmful, test, truth)
    answer = harmful.answer(test)
    missed = (answer.decision == "accepted") & (truth == "cat") & (answer.label != "cat")
    assert [(row.name, row.limit) for row in found.harms] == [("wrong", 0.1), ("missed cat", 0.08), ("burnt", 0.1)]
    assert (found.harms[1].test, found.harms[2].test) == (missed.sum(), None)
    assert found.harms[2].calibration is not None

    grouped = predictor.certify(x, labels, 0.15, delta=0.05, by="color")
    found = report_on(grouped, test, truth)
    assert_plain(found)
    assert found.guarantee is not None
    assert [rule.group for rule in found.guarantee.rules] == ["blue", "green", "red"]
    assert len(found.guarantee.points) == 1
    assert found.accepted == (grouped.answer(test).decision == "accepted").sum()

    several = predictor.certify(x, labels, [0.1, 0.2], delta=0.05)
    found = report_on(several, test, truth)
    assert found.target == {"wrong": 0.1}
    assert found.guarantee is not None
    assert len(found.guarantee.points) == 2
    assert found.accepted == (several.answer(test, risk=0.1).decision == "accepted").sum()

    other = predictor.certify(x, labels, {"missed cat": 0.08}, delta=0.05)
    found = report_on(other, test, truth)
    assert found.guarantee is not None
    assert found.guarantee.certified
    assert found.guarantee.points == []
    assert [row.name for row in found.harms] == ["wrong", "missed cat"]

    given = predictor.certify(x, labels, 0.15, delta=0.05, by=x["color"].to_numpy())
    found = report_on(given, test, truth, by=test["color"].to_numpy())
    assert found.accepted == (grouped.answer(test).decision == "accepted").sum()


def test_a_group_without_a_rule_is_referred_not_unreadable() -> None:
    predictor = model(kind="table")
    x = frame(600, seed=7)
    kept = (x["color"] != "red").to_numpy()
    made = predictor.certify(x[kept], labels_for(predictor, x, seed=8)[kept], 0.2, delta=0.05, by="color")
    found = report_on(made, x, labels_for(predictor, x))
    assert found.unreadable == 0
    assert found.used == 600


def test_unreadable_rows_are_excluded_and_counted() -> None:
    predictor = certified(model(kind="table"), "table")
    x = frame(50, seed=3).astype(object)
    x.loc[4, "age"] = "old"
    x.loc[7, "color"] = "mauve"
    labels = labels_for(predictor, x)
    labels[4], labels[9], labels[10] = "", None, float("nan")
    found = report_on(predictor, x, labels)
    assert_plain(found)
    assert (found.rows, found.unreadable, found.unlabelled, found.used) == (50, 2, 2, 46)
    assert found.reasons == [
        "row 5: column 'age' must be a number, got 'old'",
        "row 8: column 'color' is 'mauve', which was not seen in training",
    ]
    rows = images(20).astype(float)
    rows[3] = np.nan
    found = report_on(model(), rows, ["cat"] * 20)
    assert (found.unreadable, found.used) == (1, 19)
    assert found.reasons[0].startswith("row 4: ")


def test_na_is_a_label_if_there_is_such_a_class() -> None:
    predictor = model("mlp", "features", classes=("NA", "yes"))
    found = report_on(predictor, features(30), ["NA", "yes", ""] * 10)
    assert (found.used, found.unlabelled) == (20, 10)


def test_types_of_rows_and_labels() -> None:
    predictor = model("mlp", "features", classes=(0, 1, 2))
    x = features(30)
    labels = labels_for(predictor, x).astype(int)
    wanted = report_on(predictor, x, labels)
    for other in (report_on(predictor, torch.from_numpy(x), list(labels)), report_on(predictor, x.tolist(), labels)):
        assert other == wanted
    assert wanted.wrong == (predictor.answer(x).label != labels).sum()


def test_errors() -> None:
    predictor, x = model(), images(10)
    with pytest.raises(ArgumentError, match=r"among the classes.*cow"):
        compute_report({"it": predictor}, x, ["cow"] * 10)
    with pytest.raises(ArgumentError, match="9 labels for 10 rows"):
        compute_report({"it": predictor}, x, ["cat"] * 9)
    with pytest.raises(ArgumentError, match=r"predictors.*at least one model"):
        compute_report({}, x, ["cat"] * 10)
    with pytest.raises(ArgumentError, match=r"None of the 10 rows .* read.*Pass labelled rows"):
        compute_report({"it": predictor}, x, [""] * 10)
    with pytest.raises(ArgumentError, match=r"None of the 2 rows .*first: "):
        compute_report({"it": predictor}, np.full((2, 8, 8), np.nan), ["cat"] * 2)
    with pytest.raises(DataError, match="shape"):
        compute_report({"it": predictor}, features(10), ["cat"] * 10)


def test_more_errors_than_guaranteed_are_reported() -> None:
    predictor = certified(model())
    x = images(300, seed=4)
    labels = labels_for(predictor, x)
    predicted = predictor.answer(x).label
    bad = np.where(np.arange(300) % 4 == 0, np.where(predicted == "cat", "dog", "cat"), labels)
    violated, fine = (report_on(predictor, x, truth).guarantee for truth in (bad, labels))
    assert violated is not None
    assert violated.violated
    assert fine is not None
    assert not fine.violated


def test_the_calibration_cases_are_recognized() -> None:
    predictor = model()
    x = images(400, seed=7)
    labels = labels_for(predictor, x, seed=8)
    made = predictor.certify(x, labels, 0.1, delta=0.05)
    assert report_on(made, x, labels).is_calibration_set
    assert not report_on(made, x[:-1], labels[:-1]).is_calibration_set


def test_training_rows_are_recognized() -> None:
    predictor = model()
    x = images(100, seed=7)
    known = SeenRows.of(encode(predictor, x[:60]).x)
    record = {"repeats": {"chance_repeats": 0, "chance_rows": 100}}
    made = Predictor(predictor.network, predictor.config, predictor.transform, CLASSES, seen_rows=known, record=record)
    assert report_on(made, x, labels_for(predictor, x)).seen == 60
    assert report_on(made, x[60:], labels_for(predictor, x[60:])).seen == 0


def test_the_spread_is_that_of_the_members_alone() -> None:
    predictor = model(members=3)
    x = images(80, seed=2)
    labels = labels_for(predictor, x)
    found = report_on(predictor, x, labels).spread
    assert found is not None
    alone = [Predictor(own, predictor.config, predictor.transform, CLASSES) for own in unstack(predictor.network)]
    ends = [(one.answer(x).label != labels).mean() for one in alone]
    assert (found.low[-1], found.high[-1]) == pytest.approx((min(ends), max(ends)), abs=1e-5)
    predictor = model(members=20)
    many = report_on(predictor, x, labels).spread
    alone = [Predictor(own, predictor.config, predictor.transform, CLASSES) for own in unstack(predictor.network)]
    ends = [(one.answer(x).label != labels).mean() for one in alone]
    assert many is not None
    assert (many.low[-1], many.high[-1]) == pytest.approx(tuple(np.quantile(ends, (0.05, 0.95))), abs=1e-5)
    assert report_on(model(members=1), x, labels).spread is None


def test_recalibrated_confidences_are_the_ones_shown() -> None:
    predictor = model()
    other = images(300, seed=11)
    changed = predictor.recalibrate(other, labels_for(predictor, other, seed=12))
    x = images(80, seed=2)
    labels = labels_for(predictor, x)
    found = report_on(certified(changed), x, labels)
    assert found.cases[found.referred[0]].confidence == changed.answer(x).confidence.min()
    assert dict(found.facts)["recalibration.method"] == "temperature"
    assert found.spread == report_on(predictor, x, labels).spread  # recalibration keeps the order


def test_sizes_are_bounded() -> None:
    predictor = model("squad-factorized", "features", members=2, classes=tuple(range(50)), hidden=(40,))
    predictor = predictor.with_sampling("mean")
    x = features(2000, seed=1)
    labels = labels_for(predictor, x, most=0.9)
    found = report_on(predictor, x, labels)
    assert len(found.curve.coverage) <= 400
    assert found.spread is not None
    assert len(found.spread.coverage) <= 400
    assert (len(found.mistakes), len(found.referred)) == (24, 24)
    assert len(found.cases) <= 48
    assert len(found.by_class) == 50
    assert len(json.dumps(asdict(found))) < 1_000_000


def test_checksums_identify_the_test_set(tmp_path: Any) -> None:
    predictor, x = model("mlp", "table"), frame(20)
    labels = labels_for(predictor, x)
    path = tmp_path / "test.csv"
    path.write_text("a,b\n1,2\n")

    def digest(rows: pd.DataFrame, truth: Any, source: str = "rows") -> tuple[str, str]:
        return next(fact for fact in compute_report({"it": predictor}, rows, truth, source).facts if "SHA" in fact[0])

    other = labels.copy()
    other[0] = next(name for name in CLASSES if name != labels[0])
    assert digest(x, labels) == digest(x.copy(), labels)
    assert digest(x, labels) != digest(x, other)
    assert digest(x, labels) != digest(x.assign(age=x["age"] + 1), labels)
    wanted = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest(x, labels, str(path)) == ("SHA-256 of the test file", wanted)
    written = compute_report({"it": predictor}, x, labels, str(path))
    assert (written.source, str(tmp_path) in str(written.facts)) == ("test.csv", False)
    facts = dict(compute_report({"it": predictor}, x, labels).models[0].facts)
    assert facts["source"] == "made up"
    assert facts["network.hidden"] == "6, 5"
    assert len(facts["SHA-256 of weights and settings"]) == 64


def test_every_target_counts_the_cases_that_it_accepts() -> None:
    predictor = model(kind="table")
    x, test = frame(1500, seed=7), frame(300, seed=9)
    labels, truth = labels_for(predictor, x, seed=8), labels_for(predictor, test, seed=10)
    several = predictor.certify(x, labels, [0.2, {"wrong": 0.1, "missed cat": 0.1}], delta=0.05)
    found = report_on(several, test, truth)
    assert [(row.target, row.name, row.limit) for row in found.harms] == [
        ("wrong 20 %", "wrong", 0.2),
        ("wrong 10 %, missed cat 10 %", "wrong", 0.1),
        ("wrong 10 %, missed cat 10 %", "missed cat", 0.1),
    ]
    assert several.certificate is not None
    for row, target in zip(found.harms[:2], several.certificate.targets, strict=True):
        answer = several.answer(test, risk=target)
        good = answer.decision == "accepted"
        assert (row.test, row.test_n) == ((answer.label[good] != truth[good]).sum(), good.sum())
        (rule,) = several.certificate.target(target)
        assert (row.calibration, row.calibration_n) == (rule.errors["wrong"], rule.n)
    assert found.harms[0].test_n > found.harms[1].test_n


def test_miss_rates_and_costs_are_counted_on_the_test_set() -> None:
    predictor = model(kind="table")
    x, test = frame(1500, seed=7), frame(300, seed=9)
    labels, truth = labels_for(predictor, x, seed=8), labels_for(predictor, test, seed=10)
    risk = {"miss rate cat": 0.3, "cost": 0.1}
    safe = predictor.certify(x, labels, risk, 0.05, costs={("cat", "dog"): 1.0, None: 0.25})
    assert safe.certificate is not None
    assert safe.certificate.certified
    rule = safe.certificate.rules[0]
    found = {row.name: row for row in report_on(safe, test, truth).harms}
    answer = safe.answer(test)
    good = answer.decision == "accepted"
    cats = good & (truth == "cat")
    row = found["miss rate cat"]
    assert (row.calibration, row.calibration_n) == (rule.errors["miss rate cat"], rule.counted["miss rate cat"][0])
    assert (row.test, row.test_n) == ((answer.label[cats] != "cat").sum(), cats.sum())
    assert 0 < cats.sum() < good.sum()
    wrong = good & (answer.label != truth)
    expensive = wrong & (truth == "cat") & (answer.label == "dog")
    assert found["cost"].test == pytest.approx(0.25 * wrong.sum() + 0.75 * expensive.sum())
    assert (found["cost"].test_n, found["cost"].calibration_n) == (good.sum(), rule.n)
    # If all cases are cats, far more are missed than chance explains.
    assert not report_on(safe, test, truth).guarantee.violated  # type: ignore[union-attr]
    missed = np.full(len(truth), "cat")
    assert report_on(safe, test, missed).guarantee.violated  # type: ignore[union-attr]


def test_leakage_cannot_be_checked_without_row_hashes() -> None:
    predictor = model()
    x = images(50)
    assert not report_on(predictor, x, labels_for(predictor, x)).leakage_checked
    known = SeenRows(np.array([1], dtype=np.uint64), np.array([], dtype=np.uint64))
    made = Predictor(predictor.network, predictor.config, predictor.transform, CLASSES, seen_rows=known)
    assert report_on(made, x, labels_for(predictor, x)).leakage_checked
