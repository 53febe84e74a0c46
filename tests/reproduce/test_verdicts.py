"""Aims and claims: a verdict follows from the records, and turns when they turn."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import ttest_rel

from squad.records import Record
from squad.reproduce import sentences, verdicts
from squad.reproduce.sources import Sources

PAPER = Path(__file__).parents[2] / "experiments" / "paper"
Change = Callable[[dict[str, Any]], None]


def changed(tmp_path: Path, changes: dict[str, Change]) -> Sources:
    """The repository's records, with some of their results changed."""
    results = tmp_path / "results"
    shutil.copytree(PAPER / "results", results)
    for name, change in changes.items():
        record = Record.load(results / f"{name}.json")
        change(record.results)
        replace(record, results=record.results).save(results / f"{name}.json")
    return Sources(PAPER, results)


def row(text: str, begin: str) -> list[str]:
    """The row of a table that begins so."""
    (found,) = (line for line in text.splitlines() if line.startswith(f"| {begin}"))
    return [cell.strip() for cell in found.strip("|").split("|")]


def better(by: float, *measures: str) -> Change:
    """Every network of every way."""

    def change(results: dict[str, Any]) -> None:
        for way in results["ways"]:
            for one in way["each"]:
                for name in measures:
                    one[name] += by

    return change


@pytest.mark.parametrize(
    ("by", "verdict"), [(0.1, "more than that: significant"), (0.0, "**no**, Maxout is ahead"), (0.018, "open")]
)
def test_beside_maxout(tmp_path: Path, by: float, verdict: str) -> None:
    sources = changed(tmp_path, {"table1/squad": better(by, "coverage@0.01", "coverage@0.02")})
    found = row(sentences.claims(sources), "SQUAD has a slight")
    assert found[2] == verdict
    one, other = sources.variant("table1/squad", "relaxed 32"), sources.variant("table1/maxout-dropout")
    assert one is not None
    assert other is not None
    pair = [one.values("coverage@0.02"), other.values("coverage@0.02")]
    low, high = ttest_rel(*pair).confidence_interval(0.95)
    assert f"({100 * low:+.1f} to {100 * high:+.1f})" in found[1]
    words = {0.1: "is ahead of", 0.0: "is behind", 0.018: "is neither ahead of nor behind, by both figures,"}
    word = words[by]
    told = verdicts.summary(sources)
    assert f"it {word} Maxout MC dropout" in told[: told.index("On notMNIST")]
    assert f"{100 * sum(pair[0]) / len(pair[0]):.1f} at 2 % (the paper's: 69.5)" in told


def test_an_aim_that_is_missed_is_said(tmp_path: Path) -> None:
    sources = changed(tmp_path, {"table1/squad": better(-0.1, "accuracy"), "table1/dlgm": better(0.5, "coverage@0.01")})
    text = verdicts.aims(sources)
    assert all(line.endswith("**no** |") for line in text.splitlines() if "Fashion-MNIST, accuracy" in line)
    assert row(text, "Plain MLP ahead of DLGM on Fashion-MNIST, coverage at 1 %")[2] == "**no**"
    assert row(text, "Plain MLP ahead of DLGM on Fashion-MNIST, coverage at 2 %")[2] == "yes"


def test_what_is_not_there_is_not_judged(tmp_path: Path) -> None:
    sources = Sources(PAPER, tmp_path)
    for text in (verdicts.aims(sources), sentences.claims(sources)):
        for line in text.splitlines()[2:]:
            *_, measured, verdict = (cell.strip() for cell in line.strip("|").split("|"))
            assert (measured, verdict) == ("not run yet", "")
    assert verdicts.summary(sources).count("nothing can be said yet") == 3


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ([-1.0, 0.0, 3.0, 1.0], "yes"),  # behind a peak it falls by half of its range
        ([-1.0, 0.0, 3.0, 2.9], "**no**"),
        ([1.0, -3.0, 0.0, 2.0], "yes"),  # or before a trough
    ],
)
def test_a_peak_is_seen(tmp_path: Path, means: list[float], verdict: str) -> None:
    def shaped(results: dict[str, Any]) -> None:
        for unit in results["probes"]["activation"]["others"]:
            unit["mean"] = means

    found = row(sentences.claims(changed(tmp_path, {"figures/activation": shaped})), "Learned activation functions")
    assert found[2] == verdict


def test_some_peaks_are_counted(tmp_path: Path) -> None:
    def shaped(results: dict[str, Any]) -> None:
        for place, unit in enumerate(results["probes"]["activation"]["others"]):
            unit["mean"] = [0.0, 3.0, 1.5] if place < 7 else [0.0, 1.0, 2.0]

    found = row(sentences.claims(changed(tmp_path, {"figures/activation": shaped})), "Learned activation functions")
    assert found[2] == "some: 7 of 32"
    assert "and by 50.0 % at the most; the median falls by 0.0 %" in found[1]


def test_samples_are_judged_by_pairs(tmp_path: Path) -> None:
    def steady(results: dict[str, Any]) -> None:
        ways = {(way["sampling"], way["samples"]): way for way in results["ways"]}
        ways["hard", 4]["each"] = ways["hard", 32]["each"]

    begin = "SQUAD's results suffer less"
    before = row(sentences.claims(Sources(PAPER, PAPER / "results")), begin)[2]
    assert "Fashion-MNIST, hard: **more** at 1 %, **more** at 2 %" in before
    after = row(sentences.claims(changed(tmp_path, {"figures/samples-squad": steady})), begin)[2]
    assert "Fashion-MNIST, hard: less at 1 %" in after


def test_an_ensemble_that_is_worse_is_named(tmp_path: Path) -> None:
    begin, broken = "Deep ensembles improve", "table1/dlgm-adversarial"

    def better(results: dict[str, Any]) -> None:
        results["ways"][0]["ensemble"]["coverage@0.02"] = 1.0

    found = row(sentences.claims(changed(tmp_path / "all", {broken: better})), begin)
    assert found[2] == "yes, but for coverage at .5 %"

    def worse(results: dict[str, Any]) -> None:
        results["ways"][0]["ensemble"]["nll"] += 1.0

    found = row(sentences.claims(changed(tmp_path / "one", {broken: better, "table1/mlp": worse})), begin)
    assert re.fullmatch(r"\*\*not always\*\*: in (\d+) of (\d+) cells, coverage at .5 % aside", found[2])
    assert "worse in 1 (Plain MLP in table 1, NLL: +0.9" in found[1]


def test_spreads_are_judged_before_and_after_training(tmp_path: Path) -> None:
    deepest = "x".join(["32"] * 8)

    def even(results: dict[str, Any]) -> None:
        for layer in results["probes"]["spread"]["after"][:-1]:
            layer["std"] = [1.0]

    begin = "Self-normalizing"
    before = row(sentences.claims(Sources(PAPER, PAPER / "results")), begin)[2]
    assert before.startswith("SQUAD before training: yes; SQUAD after training: **no**")
    after = row(sentences.claims(changed(tmp_path, {f"figures/depth-squad/{deepest}": even})), begin)[2]
    assert after.startswith("SQUAD before training: yes; SQUAD after training: yes")


def test_bits_that_fall_are_no_control(tmp_path: Path) -> None:
    found = row(sentences.claims(Sources(PAPER, PAPER / "results")), "The number of bins")
    assert found[2] == "first layer: yes; second layer: **no**, bits fall"

    def many(results: dict[str, Any]) -> None:
        results["probes"]["information"][0]["mean"] = [0.1]

    found = row(sentences.claims(changed(tmp_path, {"figures/bins/63": many})), "The number of bins")
    assert found[2].startswith("first layer: **no**, bits rise and fall;")


@pytest.mark.parametrize(
    ("weights", "seconds", "verdict"),
    [
        (4.2, 1.6, "weights: yes; time: less than linear"),
        (2.0, 4.2, "weights: **no**; time: linear"),
        (4.2, 9.0, "weights: yes; time: **more**"),
    ],
)
def test_cost(tmp_path: Path, weights: float, seconds: float, verdict: str) -> None:
    few = Record.load(PAPER / "results" / "figures" / "bins" / "15.json").results

    def dear(results: dict[str, Any]) -> None:
        results["weights"] = round(weights * few["weights"])
        results["probes"]["epoch"]["median"] = seconds * few["probes"]["epoch"]["median"]

    assert row(sentences.claims(changed(tmp_path, {"figures/bins/63": dear})), "Cost and the number")[2] == verdict


def test_variance_that_serves_better_is_said(tmp_path: Path) -> None:
    begin = "Softmax response serves"
    assert row(sentences.claims(Sources(PAPER, PAPER / "results")), begin)[2] == "yes"

    def swapped(results: dict[str, Any]) -> None:
        one, other = results["ways"]
        one["each"], other["each"] = other["each"], one["each"]

    assert row(sentences.claims(changed(tmp_path, {"table1/relu-dropout": swapped})), begin)[2] == "**no**"


@pytest.mark.parametrize(("by", "word"), [(0.0, "ahead of"), (-0.067, "not apart from"), (-0.3, "**behind**")])
def test_beside_others(tmp_path: Path, by: float, word: str) -> None:
    sources = changed(tmp_path, {"table1/squad": better(by, "coverage@0.01", "coverage@0.02")})
    assert row(sentences.claims(sources), "SQUAD is significantly better")[2].startswith(f"{word} Plain MLP, ")
