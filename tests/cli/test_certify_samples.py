"""squad certify with miss rates, costs, weights and strata, and how evaluate reports them."""

import json
import re
from pathlib import Path

import pandas as pd

import squad
from squad.cli.certify_settings import named_numbers
from tests.cli.conftest import Run

CERTIFY = ("certify", "model", "calibration.csv", "--delta", ".1", "--out", "safe")


def certificate_of(folder: Path) -> squad.Certificate:
    found = squad.load(folder).certificate
    assert found is not None
    return found


def test_miss_rates_are_certified_chosen_and_evaluated(run: Run, model: Path, here: Path) -> None:
    found = run(*CERTIFY, "--risk", ".2,miss rate=.4", "--risk", ".3")
    assert found.code == 0, found.err
    targets = certificate_of(here / "safe").targets
    assert targets == [{"wrong": 0.2, "miss rate ill": 0.4, "miss rate well": 0.4}, {"wrong": 0.3}]
    assert run("predict", "safe", "new.csv", "--risk", ".2,miss rate=.4").code == 0
    evaluated = json.loads(run("evaluate", "safe", "test.csv", "--json").out)
    strict, lax = evaluated["accepted"].values()
    assert "harms" not in lax
    ill, well = strict["harms"]["miss rate ill"], strict["harms"]["miss rate well"]
    assert ill["n"] + well["n"] == strict["n"]
    assert ill["errors"] + well["errors"] == strict["errors"]
    lines = [line for line in run("evaluate", "safe", "test.csv").out.splitlines() if "miss rate ill" in line]
    assert len(lines) == 1
    assert "target 1 of 2" in run("evaluate", "safe", "test.csv").out


def test_costs_come_from_a_file(run: Run, model: Path, here: Path) -> None:
    (here / "costs.csv").write_text("true,predicted,cost\nill,well,1\nwell,ill,.2\n")
    found = run(*CERTIFY, "--risk", "cost=.2", "--costs", "costs.csv")
    assert found.code == 0, found.err
    assert certificate_of(here / "safe").details["costs"] == [[0.0, 1.0], [0.2, 0.0]]
    (here / "costs.csv").write_text("true,predicted,cost\nill,well,1\n,,.2\n")
    assert run(*CERTIFY, "--risk", "cost=.2", "--costs", "costs.csv", "--overwrite").code == 0
    assert certificate_of(here / "safe").details["costs"] == [[0.0, 1.0], [0.2, 0.0]]
    for text, match in (
        ("true,predicted,cost\nill,well,1\n", "('well', 'ill')"),
        ("true,predicted,cost\nill,,1\n", "both classes"),
        ("true,predicted,cost\nill,well,1\nill,well,1\n", "once"),
        ("true,predicted,cost\nill,well,dear\n", "dear"),
        ("true,predicted\nill,well\n", "cost"),
    ):
        (here / "costs.csv").write_text(text)
        assert match in run(*CERTIFY, "--risk", "cost=.2", "--costs", "costs.csv", "--overwrite").refusal


def test_weights_are_a_column_that_is_not_a_feature(run: Run, model: Path, here: Path) -> None:
    table = pd.read_csv(here / "calibration.csv")
    table["w"] = [1, 2, 4] * (len(table) // 3)
    table.to_csv(here / "weighted.csv", index=False)
    weighted = ("certify", "model", "weighted.csv", "--risk", ".3", "--delta", ".1", "--out", "safe", "--weights")
    found = run(*weighted, "w", "--max-weight", "4")
    assert found.code == 0, found.err
    drawn = certificate_of(here / "safe").details["resampling"]
    assert f"{drawn['drawn']:,} of {drawn['cases']:,} rows were drawn by their weights" in found.err
    assert (drawn["max_weight"], drawn["max_weight_given"]) == (4.0, True)
    assert 0.45 < drawn["drawn"] / drawn["cases"] < 0.72
    assert len(squad.load(here / "safe").calibration or ()) == drawn["drawn"]
    assert "'weight'" in run(*weighted, "weight", "--overwrite").refusal  # a feature of the model
    assert "'sex'" in run(*weighted, "sex", "--overwrite").refusal
    assert re.search(r"max_weight.*\b4.*\b3", run(*weighted, "w", "--max-weight", "3", "--overwrite").refusal)


def test_strata_and_population(run: Run, model: Path, here: Path) -> None:
    found = run(*CERTIFY, "--risk", ".3", "--strata", "sex", "--population", "f=.8,m=.2")
    assert found.code == 0, found.err
    female, male = certificate_of(here / "safe").details["resampling"]["strata"]
    assert female["drawn"] > 2 * male["drawn"]
    again = (*CERTIFY, "--risk", ".3", "--overwrite", "--strata", "sex")
    assert "population" in run(*again).refusal
    assert "0.9" in run(*again, "--population", "f=.8,m=.1").refusal
    assert "'m'" in run(*again, "--population", "f=1").refusal
    assert "--population" in run(*again, "--population", "f").refusal


def test_names_with_commas_and_equals_signs() -> None:
    assert named_numbers("--population", "a,b=.5,c=d=.5", "") == {"a,b": 0.5, "c=d": 0.5}


def test_scores_with_weights_costs_and_empty_cells(run: Run, here: Path) -> None:
    table = pd.read_csv(here / "scores.csv")
    table["w"] = 1 + (table.site == "N")
    table["miss"] = table.harm.where(table.site == "N")
    table["price"] = 0.5 * table.harm
    table.to_csv(here / "scores.csv", index=False)
    scores = ("certify", "--scores", "scores.csv", "--json", "--risk")
    made = squad.Certificate.from_json(json.loads(run(*scores, ".1,miss=.2,price=.1", "--weights", "w").out))
    assert made.m == made.details["resampling"]["drawn"] < 1200
    assert list(made.rules[0].counted) == ["miss"]
    assert made.rules[0].costs == ("price",)
    strata = run(*scores, ".1", "--strata", "site", "--population", "N=.3,S=.7")
    assert json.loads(strata.out)["details"]["resampling"]["by"] == "strata"
    table.loc[3, "price"] = 2
    table.to_csv(here / "scores.csv", index=False)
    assert "price" in run(*scores, "price=.1").refusal
