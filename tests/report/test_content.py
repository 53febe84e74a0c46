"""What a report says, against counting; and every kind of model, row and certificate."""

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
from squad.report.content import gather
from squad.report.report_data import Model
from squad.selective import band_of
from squad.selective.attempts import share
from tests.report.builders import CLASSES, ROWS, certified, features, frame, images, labels_for, model


def content_of(predictor: Predictor, x: Any, labels: Any, **settings: Any) -> Model:
    return gather({"it": predictor}, x, labels, **settings).models[0]


def same_kind(value: Any) -> None:
    """Plain data: what JSON has, and no NaN."""
    json.dumps(asdict(value), allow_nan=False)


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("name", CONFIGS)
def test_every_network_and_kind_of_rows(name: str, kind: str) -> None:
    predictor = model(name, kind)
    x = ROWS[kind](60, seed=3)
    labels = labels_for(predictor, x)
    found = content_of(predictor, x, labels)
    answer = predictor.answer(x)
    same_kind(found)
    assert (found.rows, found.used, found.unreadable, found.unlabelled) == (60, 60, 0, 0)
    assert found.wrong == (answer.label != labels).sum()
    assert found.promise is None
    assert found.accepted is None
    assert found.has_latents == name.startswith("squad")
    assert found.spread is not None
    assert found.curve.coverage[-1] == 1
    assert found.curve.risk[-1] == pytest.approx(found.wrong / 60, abs=1e-6)
    case = found.cases[found.referred[0]]
    assert case.confidence == answer.confidence.min()
    assert (case.picture is not None) == (kind == "images")
    assert [name for name, _ in case.row][:1] == {"images": [], "features": ["feature 1"], "table": ["age"]}[kind]


def test_the_slider_is_tested_at_the_share_of_the_attempt() -> None:
    once = certified(model())
    twice = certified(once)
    assert twice.certificate is not None
    assert twice.calibration is not None
    assert twice.certificate.attempt == 2
    x = images(100, seed=4)
    slider = content_of(twice, x, labels_for(twice, x)).slider
    assert slider.delta == twice.certificate.delta
    right = ~twice.calibration.harms["wrong"]
    band = band_of(twice.calibration.confidence, right, twice.certificate.delta * share(2), slider.r_max)
    for choice in slider.choices:
        place = band.at(choice.risk)
        assert (choice.coverage or 0.0) == (0.0 if place is None else band.n[place] / band.m)


def test_counts_under_a_certificate() -> None:
    predictor = certified(model())
    x = images(300, seed=4)
    labels = labels_for(predictor, x, seed=5)
    found = content_of(predictor, x, labels)
    same_kind(found)
    answer = predictor.answer(x)
    accepted, wrong = answer.decision == "accepted", answer.label != labels
    assert 0 < accepted.sum() < 300
    assert found.accepted == accepted.sum()
    assert found.accepted_wrong == (accepted & wrong).sum()
    promise, certificate = found.promise, predictor.certificate
    assert promise is not None
    assert certificate is not None
    assert f"{promise.title}: {promise.accepted}." == certificate.headline
    for text in (promise.guarantee, *promise.assumptions):
        assert text in str(certificate)
    assert promise.certified
    assert promise.points == [(certificate.coverage, 0.1)]
    assert promise.rules[0].threshold == certificate.threshold
    assert not promise.broken
    assert found.slider.promised
    assert found.slider.delta == 0.05
    assert [found.cases[place].accepted for place in found.referred] == [False] * len(found.referred)
    confidences = [found.cases[place].confidence for place in found.mistakes]
    assert confidences == sorted(confidences, reverse=True)
    assert len(found.mistakes) == min(24, wrong.sum())
    assert confidences[0] == answer.confidence[wrong].max()
    for row in found.by_class:
        own, said = labels == row.name, answer.label == row.name
        assert (row.n, row.missed) == ((own & accepted).sum(), (own & wrong & accepted).sum())
        assert (row.said, row.false) == ((said & accepted).sum(), (said & wrong & accepted).sum())
        assert row.referred == (own & ~accepted).sum()
    assert sum(group.n for group in found.confidences) == 300
    assert sum(group.wrong for group in found.confidences) == wrong.sum()
    assert sum(group.count for group in found.reliability) == 300


def test_the_slider_starts_at_the_certificates_risk() -> None:
    predictor = certified(model(), risk=0.083)
    x = images(100, seed=4)
    found = gather({"it": predictor}, x, labels_for(predictor, x))
    assert found.models[0].slider.choices[found.start].risk == 0.083
    found = gather({"plain": model()}, x, labels_for(predictor, x))
    assert found.models[0].slider.choices[found.start].risk == 0.01


def test_the_slider_starts_where_it_has_something_to_show() -> None:
    """A certificate can promise a risk that the band, which holds everywhere at once, cannot."""
    predictor = certified(model("squad"), risk=0.03, delta=0.2)
    content = gather({"it": predictor}, images(50), labels_for(predictor, images(50)))
    (one,) = content.models
    assert one.promise is not None
    assert one.promise.points
    accepts = [choice.accepts for choice in one.slider.choices]
    assert one.slider.choices[content.start].risk > 0.03
    assert accepts[content.start] != "none"
    assert accepts[content.start - 1] == "none"


def test_without_scores_only_observed_figures() -> None:
    predictor = certified(model()).without_scores()
    x = images(100, seed=4)
    found = content_of(predictor, x, labels_for(predictor, x))
    assert found.promise is not None
    assert not found.slider.promised


def test_a_certificate_that_certifies_nothing() -> None:
    predictor = model()
    x = images(400, seed=7)
    guesses = np.array(CLASSES)[np.random.default_rng(0).integers(3, size=400)]
    none = predictor.certify(x, guesses, risk=0.05, delta=0.05)
    found = content_of(none, x, labels_for(predictor, x))
    same_kind(found)
    assert found.promise is not None
    assert not found.promise.certified
    assert found.promise.points == []
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
    found = content_of(harmful, test, truth)
    answer = harmful.answer(test)
    missed = (answer.decision == "accepted") & (truth == "cat") & (answer.label != "cat")
    assert [(row.name, row.limit) for row in found.harms] == [("wrong", 0.1), ("missed cat", 0.08), ("burnt", 0.1)]
    assert (found.harms[1].test, found.harms[2].test) == (missed.sum(), None)
    assert found.harms[2].calibration is not None

    grouped = predictor.certify(x, labels, 0.15, delta=0.05, by="color")
    found = content_of(grouped, test, truth)
    same_kind(found)
    assert found.promise is not None
    assert [rule.group for rule in found.promise.rules] == ["blue", "green", "red"]
    assert len(found.promise.points) == 1
    assert found.accepted == (grouped.answer(test).decision == "accepted").sum()

    several = predictor.certify(x, labels, [0.1, 0.2], delta=0.05)
    found = content_of(several, test, truth)
    assert found.target == {"wrong": 0.1}
    assert found.promise is not None
    assert len(found.promise.points) == 2
    assert found.accepted == (several.answer(test, risk=0.1).decision == "accepted").sum()

    other = predictor.certify(x, labels, {"missed cat": 0.08}, delta=0.05)
    found = content_of(other, test, truth)
    assert found.promise is not None
    assert found.promise.certified
    assert found.promise.points == []
    assert [row.name for row in found.harms] == ["wrong", "missed cat"]

    given = predictor.certify(x, labels, 0.15, delta=0.05, by=x["color"].to_numpy())
    found = content_of(given, test, truth, by=test["color"].to_numpy())
    assert found.accepted == (grouped.answer(test).decision == "accepted").sum()


def test_a_group_without_a_rule_is_referred_not_unreadable() -> None:
    predictor = model(kind="table")
    x = frame(600, seed=7)
    kept = (x["color"] != "red").to_numpy()
    made = predictor.certify(x[kept], labels_for(predictor, x, seed=8)[kept], 0.2, delta=0.05, by="color")
    found = content_of(made, x, labels_for(predictor, x))
    assert found.unreadable == 0
    assert found.used == 600


def test_rows_that_cannot_be_read_are_left_out_and_counted() -> None:
    predictor = certified(model(kind="table"), "table")
    x = frame(50, seed=3).astype(object)
    x.loc[4, "age"] = "old"
    x.loc[7, "color"] = "mauve"
    labels = labels_for(predictor, x)
    labels[4], labels[9], labels[10] = "", None, float("nan")
    found = content_of(predictor, x, labels)
    same_kind(found)
    assert (found.rows, found.unreadable, found.unlabelled, found.used) == (50, 2, 2, 46)
    assert found.reasons == [
        "row 5: column 'age' must be a number, got 'old'",
        "row 8: column 'color' is 'mauve', which was not seen in training",
    ]
    rows = images(20).astype(float)
    rows[3] = np.nan
    found = content_of(model(), rows, ["cat"] * 20)
    assert (found.unreadable, found.used) == (1, 19)
    assert found.reasons[0].startswith("row 4: ")


def test_missing_is_a_label_if_there_is_such_a_class() -> None:
    predictor = model("mlp", "features", classes=("NA", "yes"))
    found = content_of(predictor, features(30), ["NA", "yes", ""] * 10)
    assert (found.used, found.unlabelled) == (20, 10)


def test_types_of_rows_and_labels() -> None:
    predictor = model("mlp", "features", classes=(0, 1, 2))
    x = features(30)
    labels = labels_for(predictor, x).astype(int)
    wanted = content_of(predictor, x, labels)
    for other in (content_of(predictor, torch.from_numpy(x), list(labels)), content_of(predictor, x.tolist(), labels)):
        assert other == wanted
    assert wanted.wrong == (predictor.answer(x).label != labels).sum()


def test_what_is_refused() -> None:
    predictor, x = model(), images(10)
    with pytest.raises(ArgumentError, match="labels must be among the classes of training"):
        gather({"it": predictor}, x, ["cow"] * 10)
    with pytest.raises(ArgumentError, match="labels must be one for each row, got 9 labels for 10 rows"):
        gather({"it": predictor}, x, ["cat"] * 9)
    with pytest.raises(ArgumentError, match="predictors must be a mapping with at least one model, got none"):
        gather({}, x, ["cat"] * 10)
    with pytest.raises(ArgumentError, match="rows with labels that it can read, got 10 rows"):
        gather({"it": predictor}, x, [""] * 10)
    with pytest.raises(ArgumentError, match=r"got 2 rows\. The first: "):
        gather({"it": predictor}, np.full((2, 8, 8), np.nan), ["cat"] * 2)
    with pytest.raises(DataError, match="shape"):
        gather({"it": predictor}, features(10), ["cat"] * 10)


def test_more_mistakes_than_promised_is_told() -> None:
    predictor = certified(model())
    x = images(300, seed=4)
    labels = labels_for(predictor, x)
    said = predictor.answer(x).label
    bad = np.where(np.arange(300) % 4 == 0, np.where(said == "cat", "dog", "cat"), labels)
    broken, fine = (content_of(predictor, x, truth).promise for truth in (bad, labels))
    assert broken is not None
    assert broken.broken
    assert fine is not None
    assert not fine.broken


def test_the_calibration_cases_are_recognized() -> None:
    predictor = model()
    x = images(400, seed=7)
    labels = labels_for(predictor, x, seed=8)
    made = predictor.certify(x, labels, 0.1, delta=0.05)
    assert content_of(made, x, labels).same
    assert not content_of(made, x[:-1], labels[:-1]).same


def test_rows_of_training_are_recognized() -> None:
    predictor = model()
    x = images(100, seed=7)
    known = SeenRows.of(encode(predictor, x[:60]).x)
    record = {"repeats": {"chance_repeats": 0, "chance_rows": 100}}
    made = Predictor(predictor.network, predictor.config, predictor.transform, CLASSES, seen_rows=known, record=record)
    assert content_of(made, x, labels_for(predictor, x)).seen == 60
    assert content_of(made, x[60:], labels_for(predictor, x[60:])).seen == 0


def test_the_band_over_members_is_theirs() -> None:
    predictor = model(members=3)
    x = images(80, seed=2)
    labels = labels_for(predictor, x)
    found = content_of(predictor, x, labels).spread
    assert found is not None
    alone = [Predictor(own, predictor.config, predictor.transform, CLASSES) for own in unstack(predictor.network)]
    ends = [(one.answer(x).label != labels).mean() for one in alone]
    assert found.low[-1] == pytest.approx(np.quantile(ends, 0.05), abs=1e-5)
    assert found.high[-1] == pytest.approx(np.quantile(ends, 0.95), abs=1e-5)
    assert content_of(model(members=1), x, labels).spread is None


def test_recalibrated_confidences_are_the_ones_shown() -> None:
    predictor = model()
    other = images(300, seed=11)
    changed = predictor.recalibrate(other, labels_for(predictor, other, seed=12))
    x = images(80, seed=2)
    labels = labels_for(predictor, x)
    found = content_of(certified(changed), x, labels)
    assert found.cases[found.referred[0]].confidence == changed.answer(x).confidence.min()
    assert dict(found.facts)["recalibration.method"] == "temperature"
    assert found.spread == content_of(predictor, x, labels).spread  # the order is the same


def test_sizes_are_bounded() -> None:
    predictor = model("squad-factorized", "features", members=2, classes=tuple(range(50)), hidden=(40,))
    predictor = predictor.with_sampling("mean")
    x = features(2000, seed=1)
    labels = labels_for(predictor, x, most=0.9)
    found = content_of(predictor, x, labels)
    assert len(found.curve.coverage) <= 400
    assert found.spread is not None
    assert len(found.spread.coverage) <= 400
    assert (len(found.mistakes), len(found.referred)) == (24, 24)
    assert len(found.cases) <= 48
    assert len(found.by_class) == 30
    assert len(json.dumps(asdict(found))) < 1_000_000


def test_facts_tell_one_test_from_another(tmp_path: Any) -> None:
    predictor, x = model("mlp", "table"), frame(20)
    labels = labels_for(predictor, x)
    path = tmp_path / "test.csv"
    path.write_text("a,b\n1,2\n")

    def digest(rows: pd.DataFrame, truth: Any, source: str = "rows") -> tuple[str, str]:
        return next(fact for fact in gather({"it": predictor}, rows, truth, source).facts if "SHA" in fact[0])

    other = labels.copy()
    other[0] = next(name for name in CLASSES if name != labels[0])
    assert digest(x, labels) == digest(x.copy(), labels)
    assert digest(x, labels) != digest(x, other)
    assert digest(x, labels) != digest(x.assign(age=x["age"] + 1), labels)
    wanted = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest(x, labels, str(path)) == ("SHA-256 of the test's file", wanted)
    told = gather({"it": predictor}, x, labels, str(path))
    assert (told.source, str(tmp_path) in str(told.facts)) == ("test.csv", False)
    facts = dict(gather({"it": predictor}, x, labels).models[0].facts)
    assert facts["source"] == "made up"
    assert facts["network.hidden"] == "6, 5"
    assert len(facts["SHA-256 of its weights and settings"]) == 64


def test_every_target_counts_the_cases_that_it_accepts() -> None:
    predictor = model(kind="table")
    x, test = frame(1500, seed=7), frame(300, seed=9)
    labels, truth = labels_for(predictor, x, seed=8), labels_for(predictor, test, seed=10)
    several = predictor.certify(x, labels, [0.2, {"wrong": 0.1, "missed cat": 0.1}], delta=0.05)
    found = content_of(several, test, truth)
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


def test_harms_of_some_cases_and_costs_are_counted_on_the_test() -> None:
    predictor = model(kind="table")
    x, test = frame(1500, seed=7), frame(300, seed=9)
    labels, truth = labels_for(predictor, x, seed=8), labels_for(predictor, test, seed=10)
    risk = {"miss rate cat": 0.3, "cost": 0.1}
    safe = predictor.certify(x, labels, risk, 0.05, costs={("cat", "dog"): 1.0, None: 0.25})
    assert safe.certificate is not None
    assert safe.certificate.certified
    rule = safe.certificate.rules[0]
    found = {row.name: row for row in content_of(safe, test, truth).harms}
    answer = safe.answer(test)
    good = answer.decision == "accepted"
    cats = good & (truth == "cat")
    row = found["miss rate cat"]
    assert (row.calibration, row.calibration_n) == (rule.errors["miss rate cat"], rule.counted["miss rate cat"][0])
    assert (row.test, row.test_n) == ((answer.label[cats] != "cat").sum(), cats.sum())
    assert 0 < cats.sum() < good.sum()
    wrong = good & (answer.label != truth)
    dear = wrong & (truth == "cat") & (answer.label == "dog")
    assert found["cost"].test == pytest.approx(0.25 * wrong.sum() + 0.75 * dear.sum())
    assert (found["cost"].test_n, found["cost"].calibration_n) == (good.sum(), rule.n)
    # If all cases are cats, far more of them are missed than chance explains.
    assert not content_of(safe, test, truth).promise.broken  # type: ignore[union-attr]
    missed = np.full(len(truth), "cat")
    assert content_of(safe, test, missed).promise.broken  # type: ignore[union-attr]


def test_whether_the_test_is_new_cannot_be_checked_without_hashes() -> None:
    predictor = model()
    x = images(50)
    assert not content_of(predictor, x, labels_for(predictor, x)).checked
    known = SeenRows(np.array([1], dtype=np.uint64), np.array([], dtype=np.uint64))
    made = Predictor(predictor.network, predictor.config, predictor.transform, CLASSES, seen_rows=known)
    assert content_of(made, x, labels_for(predictor, x)).checked
