"""squad certify and report, and predict with a certified model."""

import json
import os
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

import squad
from squad.cli.certify_settings import target_of
from squad.output_paths import exclusive_output
from tests.cli.conftest import Run, listing

CERTIFY = ("certify", "model", "calibration.csv", "--risk", ".2", "--delta", ".05")


def without_attempts(folder: Path) -> dict[str, object]:
    """Return the content of a model's folder, apart from the attempts to certify it."""
    found: dict[str, object] = dict(listing(folder))
    config = json.loads((folder / "config.json").read_text())
    config["record"].pop("attempts", None)
    del config["checksum"]
    return {**found, str(folder / "config.json"): config}


class TestCertify:
    def test_predict_then_decides(self, run: Run, model: Path, here: Path) -> None:
        found = run(*CERTIFY)
        assert found.code == 0, found.err
        assert found.out.startswith("Certified at risk 20 %, confidence level 95 %")
        assert 3 <= found.out.count("\n - ") <= 4
        assert "saved in model" in found.err
        certificate = squad.load(model).certificate
        assert certificate is not None
        assert str(certificate) == found.out.strip()
        done = run("predict", "model", "test.csv", "--require-certificate", "--out", "answers.csv")
        assert done.code == 0
        assert "certified at risk 20 %, confidence level 95 %" in done.err
        shown = " ".join(run("info", "model").out.split())
        assert " ".join(str(certificate).split()) in shown
        answers = pd.read_csv(here / "answers.csv")
        assert ((answers.decision == "accepted") == (answers.confidence > certificate.threshold)).all()
        assert set(answers.decision) <= {"accepted", "referred"}

    @pytest.mark.parametrize("more", [(), ("--pilot", "recalibration.csv")])
    @pytest.mark.parametrize("method", ["preset", "pareto"])
    def test_a_pilot_chooses_thresholds(self, run: Run, model: Path, method: str, more: tuple[str, ...]) -> None:
        found = run("certify", "model", "calibration.csv", "--risk", ".3", "--delta", ".05", "--method", method, *more)
        assert found.code == 0, found.err
        certificate = squad.load(model).certificate
        assert certificate is not None
        assert certificate.method == method
        rows = 200 if more else 31
        assert len(certificate.options["thresholds"]) == min(rows, 100)

    def test_a_pilot_of_scores(self, run: Run, here: Path) -> None:
        lines = (here / "scores.csv").read_text().splitlines()
        (here / "pilot.csv").write_text("\n".join([lines[0], *lines[-400:]]))
        (here / "rest.csv").write_text("\n".join(lines[:-400]))
        options = ("certify", "--scores", "rest.csv", "--risk", ".1,harm=.1", "--method", "pareto")
        assert "pilot" in run(*options).refusal
        found = run(*options, "--pilot", "pilot.csv", "--json")
        assert found.code == 0, found.err
        assert json.loads(found.out)["method"] == "pareto"

    def test_json_and_another_folder(self, run: Run, model: Path, here: Path) -> None:
        before = without_attempts(model)
        found = run(*CERTIFY, "--json", "--out", "safe", "--no-scores")
        data = json.loads(found.out)
        assert data["certified"] is True
        assert data["details"]["calibration"]["source"] == "calibration.csv"
        assert without_attempts(model) == before
        assert squad.Certificate.from_json(data) == squad.load(here / "safe").certificate
        assert not (here / "safe" / "calibration.safetensors").exists()
        assert "has no certificate" in run("predict", "model", "new.csv", "--require-certificate").refusal

    def test_nothing_can_be_certified(self, run: Run, model: Path, here: Path) -> None:
        before = without_attempts(model)
        table = pd.read_csv(here / "calibration.csv")
        table["y"] = table["y"].sample(frac=1, random_state=0).to_numpy()
        table.to_csv(here / "shuffled.csv", index=False)
        found = run("certify", "model", "shuffled.csv", "--risk", ".1")
        assert found.code == 3
        assert found.out.startswith("Not certified at risk 1")
        assert "no certificate was saved" in found.err
        assert without_attempts(model) == before

    def test_too_few_rows_are_not_wrong_input(self, run: Run, model: Path, here: Path) -> None:
        """Exit code 3, as documented, and the smallest number of rows: 469 at 1 % and 99.1 %."""
        before = listing(here)
        found = run("certify", "model", "test.csv", "--risk", ".01")
        assert found.code == 3
        assert found.out.startswith("Not certified at risk 1")
        assert re.search(r"\b60 .*\b469\b", found.out)
        assert "recorded" not in found.err
        assert listing(here) == before

    def test_too_few_scores(self, run: Run, here: Path) -> None:
        lines = (here / "scores.csv").read_text().splitlines()
        (here / "few.csv").write_text("\n".join(lines[:41]) + "\n")
        found = run("certify", "--scores", "few.csv", "--risk", ".01")
        assert found.code == 3
        assert re.search(r"\b40 .*\b459\b", found.out)
        enough = run("certify", "--scores", "scores.csv", "--risk", ".01")
        assert enough.code == 3
        assert "459" not in enough.out

    def test_a_certificate_that_accepts_nothing_does_not_count(self, run: Run, model: Path, here: Path) -> None:
        table = pd.read_csv(here / "calibration.csv", dtype=str)
        shuffled = table["y"].sample(frac=1, random_state=0).to_numpy()
        squad.load(model).certify(table, shuffled, 0.1).save(here / "nothing")
        assert "has no certificate" in run("predict", "nothing", "new.csv", "--require-certificate").refusal
        assert "0 accepted" not in run("predict", "nothing", "new.csv").err
        assert "20 referred" in run("predict", "nothing", "new.csv").err

    def test_a_certificate_is_replaced_only_with_overwrite(self, run: Run, model: Path) -> None:
        assert run(*CERTIFY).code == 0
        assert "model has a certificate already" in run(*CERTIFY).refusal
        assert run(*CERTIFY, "--overwrite").code == 0
        assert re.search(r"model .*--overwrite", run(*CERTIFY, "--out", "model").refusal)

    def test_a_doubled_file_is_warned_about_in_one_line(self, run: Run, here: Path) -> None:
        squad.load(here / "model").save(here / "another")  # otherwise the second would be another attempt
        header, *lines = (here / "calibration.csv").read_text().splitlines()
        (here / "twice.csv").write_text("\n".join([header, *lines, *lines]) + "\n")
        once, twice = (
            run("certify", of, name, "--risk", "0.4", "--delta", "0.1", "--out", name[:-4])
            for of, name in (("model", "calibration.csv"), ("another", "twice.csv"))
        )
        assert (once.code, twice.code) == (0, 0)
        (line,) = [line for line in twice.err.splitlines() if "copies" in line]
        assert "900 of 1,800 rows" in line
        assert "copies" not in once.err
        of = [json.loads((here / name / "config.json").read_text())["certificate"] for name in ("calibration", "twice")]
        assert of[0]["rules"] == of[1]["rules"]

    def test_targets_harms_and_groups(self, run: Run, model: Path) -> None:
        risks = ("--risk", ".2,missed ill=.15", "--risk", ".3")
        found = run("certify", "model", "calibration.csv", *risks, "--delta", ".1", "--by", "sex")
        assert found.code == 0, found.err
        certificate = squad.load(model).certificate
        assert certificate is not None
        assert [(rule.group, dict(rule.risks)) for rule in certificate.rules] == [
            ("f", {"wrong": 0.2, "missed ill": 0.15}),
            ("m", {"wrong": 0.2, "missed ill": 0.15}),
            ("f", {"wrong": 0.3}),
            ("m", {"wrong": 0.3}),
        ]
        assert "Choose one with --risk" in run("predict", "model", "new.csv").refusal
        loaded = squad.load(model)
        for text, risk in ((".3", 0.3), (".2,missed ill=.15", {"wrong": 0.2, "missed ill": 0.15})):
            done = run("predict", "model", "test.csv", "--risk", text, "--out", "answers.csv", "--overwrite")
            assert done.code == 0
            assert (
                "certified at risk " + ("30 %," if risk == 0.3 else "20 % (wrong) and 15 % (missed ill),") in done.err
            )
            expected = loaded.answer(pd.read_csv("test.csv", dtype=str), risk=risk).decision
            assert (pd.read_csv("answers.csv").decision == expected).all()
        assert "0.001" in run("predict", "model", "new.csv", "--risk", ".2,missed ill=.001").refusal
        assert "0.25" in run("predict", "model", "new.csv", "--risk", ".25").refusal
        assert "accepted at" in run("evaluate", "model", "test.csv").out

    def test_other_sampling_modes_are_refused_by_predict_but_not_by_evaluate(self, run: Run, model: Path) -> None:
        assert run(*CERTIFY).code == 0
        refusal = run("predict", "model", "new.csv", "--num-samples", "3").refusal
        assert re.search("8 stratified.*3 stratified", refusal)
        assert run("predict", "model", "new.csv", "--num-samples", "8").code == 0
        assert run("evaluate", "model", "test.csv", "--num-samples", "3").code == 0

    def test_training_rows(self, run: Run, model: Path) -> None:
        assert re.search(r"\b310 of .*\b310 rows", run("certify", "model", "train.csv", "--risk", ".2").refusal)

    def test_training_groups(self, run: Run, here: Path) -> None:
        fit = ("fit", "train.csv", "--target", "y", "--group", "patient_id", "--max-epochs", "2", "--quiet")
        assert run(*fit, "--out", "grouped").code == 0
        # Both tables use the same patient ids.
        refusal = run("certify", "grouped", "calibration.csv", "--risk", ".4").refusal
        assert re.search(r"\b104 of .*\b300\b", refusal)
        table = pd.read_csv(here / "calibration.csv", dtype=str)
        table.patient_id = "q" + table.patient_id
        table.to_csv(here / "others.csv", index=False)
        found = run("certify", "grouped", "others.csv", "--risk", ".45", "--delta", ".3")
        assert "300 calibration cases" in found.out
        assert "300 groups" in found.out
        assert "300 of 900 rows are used" in found.err
        found = run("certify", "grouped", "others.csv", "--risk", ".45", "--delta", ".3", "--all-rows", "--overwrite")
        assert "900 rows came from 300 groups" in found.out
        table.drop(columns="patient_id").to_csv(here / "nameless.csv", index=False)
        found = run("certify", "grouped", "nameless.csv", "--risk", ".45", "--delta", ".3", "--overwrite")
        assert "has no column 'patient_id'" in found.err
        assert "their groups were not given" in found.out

    def test_the_two_halves_of_a_data_set(self, run: Run) -> None:
        assert run("fit", "digits", "--max-epochs", "15", "--quiet", "--out", "digits-model").code == 0
        found = run("certify", "digits-model", "digits:calibration", "--risk", ".1")
        assert found.code == 0, found.err
        assert "300 calibration cases" in found.out
        assert run("evaluate", "digits-model", "digits:test").code == 0
        found = run("certify", "digits-model", "digits:train", "--risk", ".1", "--overwrite")
        assert found.code == 2
        assert re.search("1,198 of .*1,198 rows", found.err)
        assert (
            "digits:calibration" in run("certify", "digits-model", "digits:tset", "--risk", ".1", "--overwrite").refusal
        )

    @pytest.mark.parametrize(
        ("arguments", "match"),
        [
            (("model", "calibration.csv"), "--risk"),
            (("model", "calibration.csv", "--risk", "x"), r"--risk.*'x'"),
            (("model", "calibration.csv", "--risk", ".1,.2"), r"--risk.*'wrong'.*'\.1,\.2'"),
            (("model", "calibration.csv", "--risk", "2"), r"risk.*\b2\.0\b"),
            (("model", "calibration.csv", "--risk", ".1", "--delta", "0"), "delta.*0"),
            (("model", "calibration.csv", "--risk", ".1", "--method", "magic"), "method.*'magic'"),
            (("model", "calibration.csv", "--risk", ".1", "--method", "grid"), "thresholds.*grid|grid.*thresholds"),
            (("model", "calibration.csv", "--risk", ".1", "--thresholds", "a"), "--thresholds.*'a'"),
            (("model", "calibration.csv", "--risk", "missed lost=.1"), r"'missed lost'.*\(ill, well\)"),
            (("model", "calibration.csv", "--risk", ".1", "--by", "city"), "'city'"),
            (("model", "calibration.csv", "--risk", ".1", "--by", "y"), "by='y'"),
            (("model", "calibration.csv", "--risk", "1e-300"), "risk.*1e-300"),
            (("model", "calibration.csv", "--risk", ".2", "--method", "band"), r"r_max.*0\.1"),
            (("--scores", "scores.csv", "--risk", ".1", "--no-scores"), "--no-scores.*--scores"),
            (("model", "new.csv", "--risk", ".1"), "'y'"),
            (("model", "--risk", ".1"), "MODEL and DATA"),
            (("nowhere", "calibration.csv", "--risk", ".1"), "nowhere.*does not exist"),
            (("model", "--scores", "scores.csv", "--risk", ".1"), "MODEL model.*--scores"),
        ],
    )
    def test_wrong_input(self, run: Run, here: Path, arguments: tuple[str, ...], match: str) -> None:
        before = listing(here)
        assert re.search(match, run("certify", *arguments).refusal)
        assert listing(here) == before

    def test_options_of_methods(self, run: Run, model: Path) -> None:
        for options in (
            ("--method", "grid", "--thresholds", ".8,.6"),
            ("--method", "band", "--risk", ".3", "--r-max", ".4"),
            ("--method", "bonferroni", "--ranks", "5"),
        ):
            found = run("certify", "model", "calibration.csv", "--risk", ".2", *options, "--json", "--overwrite")
            assert found.code == 0, found.err
            data = json.loads(found.out)
            assert data["method"] == options[1]
        assert data["options"] == {"ranks": 5}

    def test_concurrent_commands_are_refused(self, run: Run, model: Path) -> None:
        with exclusive_output(model):
            assert "Another process" in run(*CERTIFY).refusal
            assert "Another process" in run("strip", "model").refusal
            assert "Another process" in run("recalibrate", "model", "recalibration.csv").refusal


class TestScores:
    def test_scores_of_any_model(self, run: Run, here: Path) -> None:
        found = run("certify", "--scores", "scores.csv", "--risk", ".1", "--out", "certificate.json")
        assert found.code == 0, found.err
        table = pd.read_csv(here / "scores.csv")
        certificate = squad.Certificate.load(here / "certificate.json")
        assert certificate.rules == squad.certify(table.confidence, table.correct, 0.1).rules
        assert str(certificate) == found.out.strip()
        assert "exists" in run("certify", "--scores", "scores.csv", "--risk", ".1", "--out", "certificate.json").refusal

    def test_groups_harms_and_methods(self, run: Run) -> None:
        found = run("certify", "--scores", "scores.csv", "--risk", ".15,harm=.2", "--by", "site", "--json")
        assert [rule["group"] for rule in json.loads(found.out)["rules"]] == ["N", "S"]
        found = run("certify", "--scores", "scores.csv", "--risk", ".1", "--method", "grid", "--thresholds", ".9,.5")
        assert found.code == 0
        assert run("certify", "--scores", "scores.csv", "--risk", ".01").code == 3

    @pytest.mark.parametrize(
        ("text", "match"),
        [
            ("confidence,right\n.5,1\n", "'correct'"),
            ("confidence,correct\n.5,maybe\n", "'correct'.*line 2 .*'maybe'"),
            ("confidence,correct\nhigh,1\n", "'confidence'.*line 2 .*'high'"),
            ("confidence,correct\n,1\n", "'confidence'.*line 2 .*''"),
            ("confidence,correct\n.5\n", r"bad\.csv.*line"),
            ("", r"bad\.csv.*empty"),
        ],
    )
    def test_wrong_tables(self, run: Run, here: Path, text: str, match: str) -> None:
        (here / "bad.csv").write_text(text)
        assert re.search(match, run("certify", "--scores", "bad.csv", "--risk", ".1").refusal)

    def test_wrong_paths(self, run: Run, here: Path) -> None:
        assert "a .json file" in run("certify", "--scores", "scores.csv", "--risk", ".1", "--out", "c.txt").refusal
        assert "does not exist" in run("certify", "--scores", "no.csv", "--risk", ".1").refusal

    def test_nothing_is_written_if_nothing_is_certified(self, run: Run, here: Path) -> None:
        assert run("certify", "--scores", "scores.csv", "--risk", ".01", "--out", "certificate.json").code == 3
        assert not (here / "certificate.json").exists()

    @pytest.mark.parametrize(
        ("text", "risks"),
        [
            (".2", {"wrong": 0.2}),
            ("wrong=.2, missed a = .1", {"wrong": 0.2, "missed a": 0.1}),
            (".2,missed a,b=c=.1", {"wrong": 0.2, "missed a,b=c": 0.1}),
        ],
    )
    def test_names_with_commas_and_equals_signs(self, text: str, risks: dict[str, float]) -> None:
        assert target_of(text) == risks


class TestReport:
    def test_a_page(self, run: Run, model: Path, here: Path) -> None:
        assert run(*CERTIFY).code == 0
        found = run("report", "model", "test.csv", "--out", "report.html")
        assert found.code == 0, found.err
        assert found.out == "report.html\n"
        page = (here / "report.html").read_text(encoding="utf-8")
        assert page.lower().startswith("<!doctype html>")
        assert "observed" in page

    def test_folders_are_not_disclosed(self, run: Run, model: Path, here: Path) -> None:
        for ward in ("7", "8"):
            shutil.copytree(here / "model", here / f"ward-{ward}" / "model")
        found = run("report", str(here / "ward-7" / "model"), "test.csv", "--out", "one.html")
        assert found.code == 0, found.err
        found = run("report", "ward-7/model", str(here / "ward-8" / "model"), "test.csv", "--out", "both.html")
        assert found.code == 0, found.err
        one, both = ((here / name).read_text(encoding="utf-8") for name in ("one.html", "both.html"))
        assert "<title>Report on model" in one
        assert "ward-7/model" in both
        assert "ward-8/model" in both
        for page in (one, both):
            assert str(here) not in page
        assert "ward-7" not in one

    @pytest.mark.parametrize(
        ("arguments", "match"),
        [
            (("model", "test.csv", "--out", "page.txt"), r"\.html.*page\.txt"),
            (("model", "./model", "test.csv"), r"once.*model, \./model"),
            (("model", "model", "test.csv"), "once.*model, model|model, model.*once"),
            (("model", "new.csv"), "'y'"),
            (("model", "digits:test"), "model was trained on a table"),
            (("model", "test.csv", "--target", "sex"), r"labels.*\(ill, well\).*got f, m"),
        ],
    )
    def test_wrong_input(self, run: Run, here: Path, arguments: tuple[str, ...], match: str) -> None:
        before = listing(here)
        assert re.search(match, run("report", *arguments).refusal)
        assert listing(here) == before


class TestAttempts:
    """Each attempt uses the next part of delta: across processes and folders."""

    @pytest.fixture(autouse=True)
    def few(self, here: Path) -> None:
        """Write 40 rows with wrong labels: enough for an attempt, which fails."""
        table = pd.read_csv(here / "calibration.csv", dtype=str).iloc[:40]
        table.assign(y=table["y"].map({"ill": "well", "well": "ill"})).to_csv(here / "few.csv", index=False)

    def failed(self, run: Run) -> None:
        found = run("certify", "model", "few.csv", "--risk", ".2", "--delta", ".05")
        assert found.code == 3
        assert "Attempt 1 is recorded in model" in found.err
        assert "5 % of delta" in found.err

    def test_more_rows_after_a_failure(self, run: Run, model: Path, here: Path) -> None:
        self.failed(run)
        found = run(*CERTIFY)
        assert found.code == 0, found.err
        assert re.search("attempt 2 .*5 % of delta", found.out)
        again = squad.load(model)
        assert again.certificate is not None
        assert again.certificate.attempt == 2
        assert again.certificate.rules[0].level == 0.05 * (1 - 0.9) / 2
        assert [(one["attempt"], one["certified"]) for one in again.attempts] == [(1, False), (2, True)]
        for arguments in (
            ("predict", "model", "new.csv", "--require-certificate"),
            ("report", "model", "test.csv", "--out", "report.html"),
            ("verify", "model"),
            ("strip", "model", "--scores", "--out", "bare"),
            ("info", "bare"),
        ):
            assert run(*arguments).code == 0, arguments
        bare = squad.load(here / "bare")
        assert [one["attempt"] for one in bare.attempts] == [1, 2]
        assert bare.calibration is None

    def test_attempts_saved_elsewhere_count(self, run: Run, model: Path, here: Path) -> None:
        for number in (1, 2, 3):
            found = run(*CERTIFY, "--out", f"safe{number}")
            assert found.code == 0, found.err
            assert f"attempt {number} " in found.out
            assert len(squad.load(here / f"safe{number}").attempts) == len(squad.load(model).attempts) == number
        assert squad.load(model).certificate is None

    def test_a_failure_keeps_the_earlier_certificate(self, run: Run, model: Path) -> None:
        assert run(*CERTIFY).code == 0
        before = squad.load(model).certificate
        assert run("certify", "model", "few.csv", "--risk", ".2", "--delta", ".05", "--overwrite").code == 3
        assert squad.load(model).certificate == before
        assert len(squad.load(model).attempts) == 2
        again = run("certify", "model", "few.csv", "--risk", ".2", "--delta", ".05", "--overwrite")
        assert "earlier certificate is kept" in again.err

    def test_a_model_that_cannot_be_written(
        self, run: Run, model: Path, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        access = os.access
        protected = os.path.realpath(model)
        monkeypatch.setattr(
            os,
            "access",
            lambda path, mode, **more: (
                not (mode & os.W_OK and os.path.realpath(path) == protected) and access(path, mode, **more)
            ),
        )
        before = listing(model)
        found = run(*CERTIFY, "--out", "safe")
        assert found.code == 0, found.err
        assert "attempt 1 to certify it is not recorded" in found.err
        assert listing(model) == before
        assert len(squad.load(here / "safe").attempts) == 1
        failed = run("certify", "model", "few.csv", "--risk", ".2", "--delta", ".05", "--out", "other")
        assert failed.code == 3
        assert "attempt 1 to certify it is not recorded" in failed.err
        assert "is recorded" not in failed.err
        assert listing(model) == before

    def test_attempts_of_the_folder_that_is_replaced(self, run: Run, model: Path, here: Path) -> None:
        assert run(*CERTIFY, "--out", "safe").code == 0
        assert (
            run("certify", "safe", *CERTIFY[2:], "--overwrite").code == 0
        )  # attempt 2, which is not recorded in model
        assert len(squad.load(model).attempts) == 1
        found = run(*CERTIFY, "--out", "safe", "--overwrite")
        assert "attempt 3 " in found.out
        assert [len(squad.load(here / name).attempts) for name in ("model", "safe")] == [3, 3]

    def test_info_lists_them(self, run: Run, model: Path) -> None:
        def shown_attempts() -> str:
            (line,) = [line for line in run("info", "model").out.splitlines() if line.startswith("attempts to certify")]
            return " ".join(line.split())

        assert shown_attempts() == "attempts to certify none"
        self.failed(run)
        assert re.search(r"\b1 recorded, 0 certified.*\b5 % of delta", shown_attempts())
        assert run(*CERTIFY).code == 0
        assert re.search(r"\b2 recorded, 1 certified.*\b2\.5 % of delta", shown_attempts())
        shown = run("info", "model").out
        assert [shown.count(word) for word in ("failed", "0.045", "0.0025")] == [1, 1, 1]

    def test_too_few_rows_of_a_class_do_not_count(self, run: Run, model: Path, here: Path) -> None:
        table = pd.read_csv(here / "calibration.csv", dtype=str)
        ill = table["y"] == "ill"
        pd.concat([table[~ill], table[ill][:5]]).to_csv(here / "well.csv", index=False)
        found = run("certify", "model", "well.csv", "--risk", ".3,miss rate=.2", "--delta", ".05")
        assert found.code == 3
        assert re.search(r"'miss rate ill' .*\b5\b", found.out)
        assert squad.load(model).attempts == []

    def test_a_smaller_delta(self, run: Run, model: Path) -> None:
        assert run(*CERTIFY).code == 0
        assert re.search(r"delta.*0\.05.*0\.01", run(*CERTIFY[:-1], ".01", "--overwrite").refusal)
        assert len(squad.load(model).attempts) == 1

    def test_of_scores(self, run: Run) -> None:
        found = run("certify", "--scores", "scores.csv", "--risk", ".1", "--attempt", "2", "--json")
        assert json.loads(found.out)["attempt"] == 2
        assert "--attempt 2" in run(*CERTIFY, "--attempt", "2").refusal
