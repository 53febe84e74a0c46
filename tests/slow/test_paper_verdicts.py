"""Goals and claims: every verdict changes with its records."""

import re
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import ttest_1samp

from experiments.paper.pages import claims_table, network_claims, verdicts
from experiments.paper.sources import Sources
from tests.paper import test_deviations
from tests.paper.test_verdicts import PAPER, Change, Curve, changed_sources, raised, raised_coverage, row


def test_missed_goals_are_marked(tmp_path: Path) -> None:
    sources = changed_sources(
        tmp_path, {"table1/squad": raised(-0.1, "accuracy"), "table1/dlgm": raised(0.5, "coverage@0.01")}
    )
    text = verdicts.goals_table(sources)
    assert all(line.endswith("**no** |") for line in text.splitlines() if "Fashion-MNIST, accuracy" in line)
    assert row(text, "Plain MLP ahead of DLGM on Fashion-MNIST, coverage at 1 %")[2] == "**no**"
    assert row(text, "Plain MLP ahead of DLGM on Fashion-MNIST, coverage at 2 %")[2] == "yes"


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ([-1.0, 0.0, 3.0, 1.0], "yes"),  # after its peak it falls by half of its range
        ([-1.0, 0.0, 3.0, 2.9], "**no**"),
        ([1.0, -3.0, 0.0, 2.0], "yes"),  # or before a trough
    ],
)
def test_peaks_are_found(tmp_path: Path, means: list[float], verdict: str) -> None:
    def shaped(results: dict[str, Any]) -> None:
        for unit in results["probes"]["activation"]["others"]:
            unit["mean"] = means

    found = row(
        claims_table.claims(changed_sources(tmp_path, {"figures/activation": shaped})), "Learned activation functions"
    )
    assert found[2] == verdict


def test_peaks_are_counted(tmp_path: Path) -> None:
    def shaped(results: dict[str, Any]) -> None:
        for place, unit in enumerate(results["probes"]["activation"]["others"]):
            unit["mean"] = [0.0, 3.0, 1.5] if place < 7 else [0.0, 1.0, 2.0]

    found = row(
        claims_table.claims(changed_sources(tmp_path, {"figures/activation": shaped})), "Learned activation functions"
    )
    assert found[2] == "some: 7 of 32"
    assert "and by at most 50.0 %; the median is 0.0 %" in found[1]


def test_the_effect_of_few_samples_is_judged_by_paired_differences(tmp_path: Path) -> None:
    def steady(results: dict[str, Any]) -> None:
        ways = {(way["sampling"], way["samples"]): way for way in results["ways"]}
        ways["hard", 4]["each"] = ways["hard", 32]["each"]

    begin = "SQUAD's results suffer less"
    before = row(claims_table.claims(Sources(PAPER, PAPER / "results")), begin)[2]
    assert "Fashion-MNIST, hard: **more** at 1 %, **more** at 2 %" in before
    after = row(claims_table.claims(changed_sources(tmp_path, {"figures/samples-squad": steady})), begin)[2]
    assert "Fashion-MNIST, hard: less at 1 %" in after


def test_worse_ensembles_are_listed(tmp_path: Path) -> None:
    begin = "Deep ensembles improve"
    found = row(claims_table.claims(Sources(PAPER, PAPER / "results")), begin)
    assert found[2].startswith("yes, except for coverage at .5 %; additional rows: in ")
    assert "(DLGM, adversarial in table 1, coverage at 2 %: -0.2)" in found[1]

    def better(results: dict[str, Any]) -> None:
        results["ways"][0]["ensemble"]["coverage@0.02"] = 1.0

    found = row(claims_table.claims(changed_sources(tmp_path / "all", {"table1/dlgm-adversarial": better})), begin)
    assert found[2] == "yes, except for coverage at .5 %; additional rows: always"

    def worse(results: dict[str, Any]) -> None:
        results["ways"][0]["ensemble"]["nll"] += 1.0

    found = row(claims_table.claims(changed_sources(tmp_path / "one", {"table1/mlp": worse})), begin)
    assert re.match(r"\*\*no\*\*: in (\d+) of (\d+) cells, except for coverage at .5 %; additional rows: in ", found[2])
    assert "worse in 1 (Plain MLP in table 1, NLL: +0.9" in found[1]


def test_the_effect_of_adversarial_training(tmp_path: Path) -> None:
    begin = "(Not in the paper: deep ensembles were proposed"
    assert (
        row(claims_table.claims(Sources(PAPER, PAPER / "results")), begin)[2]
        == "coverage at 1 and 2 %: it does not help"
    )

    def strong(results: dict[str, Any]) -> None:
        results["ways"][0]["ensemble"] |= {"coverage@0.01": 0.9, "coverage@0.02": 0.95}

    found = row(claims_table.claims(changed_sources(tmp_path, {"table1/mlp-adversarial": strong})), begin)
    assert found[2] == "coverage at 1 and 2 %: it helps 1 of 4"
    other = Sources(PAPER, PAPER / "results").variant("table1/mlp")
    assert other is not None
    assert f"Plain MLP: {90 - 100 * other.ensemble['coverage@0.01']:+.1f} at 1 %" in found[1]


def test_the_ablation_is_judged_by_paired_differences(tmp_path: Path) -> None:
    """Raising the coverage by 9 points wherever the spacing is Gaussian changes this comparison and no other."""
    begin, measure = "(No claim of the paper, which gives only its best settings", "coverage@0.01"
    before = Sources(PAPER, PAPER / "results")
    grid = before.grid("figures", "ablation")
    assert grid is not None
    names = [one.row.name for one in grid]
    gaussian = {name: raised(0.09, measure) for name in names if "/gaussian-" in name}
    assert len(gaussian) == 6
    after = changed_sources(tmp_path, gaussian)
    texts = [row(claims_table.claims(sources), begin)[1] for sources in (before, after)]
    spacing = [re.search(r"linear spacing coverage at 1 % (\S+) \((\S+) to (\S+)\)", text) for text in texts]
    assert spacing[0] is not None
    assert spacing[1] is not None
    for old, new in zip(spacing[0].groups(), spacing[1].groups(), strict=True):
        assert float(new) == pytest.approx(float(old) + 9, abs=0.11)
    assert texts[0].partition("; ")[2] == texts[1].partition("; ")[2]
    assert "Gaussian minus linear spacing: better at 1 %" in row(claims_table.claims(after), begin)[2]
    # The NLL of values learned per neuron is worse by its own interval, but not by the joint interval of twelve.
    assert re.search(r"per neuron minus fixed values coverage.*NLL \+\S+ \(\+\S+ to \+", texts[0])
    assert "per neuron" not in row(claims_table.claims(before), begin)[2]
    # The same by another computation: over all pairs of cells that differ only in the spacing, seed by seed.
    cells = {one.row.name: {each["seed"]: each[measure] for each in one.networks} for one in grid}
    pairs = [(cells[name], cells[name.replace("/gaussian-", "/linear-")]) for name in gaussian]
    seeds = sorted(pairs[0][0])
    gains = [sum(one[seed] - other[seed] for one, other in pairs) / len(pairs) for seed in seeds]
    low, high = ttest_1samp(gains, 0.0).confidence_interval(0.95)
    assert spacing[0].groups()[1:] == (f"{100 * low:+.1f}", f"{100 * high:+.1f}")


def test_the_spread_is_judged_before_and_after_training(tmp_path: Path) -> None:
    deepest = "x".join(["32"] * 8)

    def even(results: dict[str, Any]) -> None:
        for layer in results["probes"]["spread"]["after"][:-1]:
            layer["std"] = [1.0]

    begin = "Self-normalizing"
    before = row(claims_table.claims(Sources(PAPER, PAPER / "results")), begin)[2]
    assert before.startswith("SQUAD before training: yes; SQUAD after training: **no**")
    after = row(claims_table.claims(changed_sources(tmp_path, {f"figures/depth-squad/{deepest}": even})), begin)[2]
    assert after.startswith("SQUAD before training: yes; SQUAD after training: yes")


def test_falling_information_refutes_the_claim(tmp_path: Path) -> None:
    found = row(claims_table.claims(Sources(PAPER, PAPER / "results")), "The number of bins")
    assert found[2] == "first layer: yes; second layer: **no**, bits fall"

    def many(results: dict[str, Any]) -> None:
        results["probes"]["information"][0]["mean"] = [0.1]

    found = row(claims_table.claims(changed_sources(tmp_path, {"figures/bins/63": many})), "The number of bins")
    assert found[2].startswith("first layer: **no**, bits rise and fall;")


@pytest.mark.parametrize(
    ("weights", "seconds", "verdict"),
    [
        (lambda c: 10 * c, lambda c: 0.01 * c, "weights: yes; time: yes"),
        (lambda c: 10 * c, lambda c: 0.02 + 0.01 * c, "weights: yes; time: yes, plus a constant part"),
        (lambda c: 10 * c, lambda c: 0.001 * c**3, "weights: yes; time: **no**"),
        (lambda c: c**4, lambda c: 0.5 - 0.001 * c, "weights: **no**; time: **no**, plus a constant part"),
    ],
)
def test_cost(tmp_path: Path, weights: Curve, seconds: Curve, verdict: str) -> None:
    def priced(count: int) -> Change:
        def change(results: dict[str, Any]) -> None:
            results["weights"] = weights(count)
            results["probes"]["epoch"]["median"] = seconds(count)

        return change

    changes = {f"figures/bins/{count}": priced(count) for count in network_claims.BINS}
    assert row(claims_table.claims(changed_sources(tmp_path, changes)), "Cost and the number")[2] == verdict


@pytest.mark.parametrize(("by", "verdict"), [((0.0, 0.0), "yes"), ((-0.1, 0.0), "**no**"), ((0.0, -0.08), "**no**")])
def test_maxout_compared_with_relu(tmp_path: Path, by: tuple[float, float], verdict: str) -> None:
    """The claim fails if either coverage is behind or inconclusive."""
    sources = changed_sources(tmp_path, {"table1/maxout-dropout": raised_coverage(*by)})
    assert row(claims_table.claims(sources), "Maxout is a stronger")[2] == verdict


def by_variance(at_one: float, spread: float) -> Change:
    """Set Maxout's coverages by variance on SVHN: those by response, minus ``at_one`` at 1 % and .01 at 2 %."""

    def change(results: dict[str, Any]) -> None:
        response, variance = (way for way in results["ways"] if way["samples"] == 32)
        for place, (one, other) in enumerate(zip(response["each"], variance["each"], strict=True)):
            other["coverage@0.01"] = one["coverage@0.01"] - at_one + (spread if place % 2 else -spread)
            other["coverage@0.02"] = one["coverage@0.02"] - 0.01

    return change


@pytest.mark.parametrize(
    ("at_one", "spread", "verdict"),
    [
        (0.01, 0.001, "yes"),
        (0.001, 0.01, "yes, in 7 of 8 cells; inconclusive: Maxout MC dropout on SVHN at 1 %"),
        (-0.01, 0.001, "**no**, in 7 of 8 cells; **worse**: Maxout MC dropout on SVHN at 1 %"),
    ],
)
def test_response_and_variance(tmp_path: Path, at_one: float, spread: float, verdict: str) -> None:
    sources = changed_sources(tmp_path, {"table3/maxout-dropout": by_variance(at_one, spread)})
    assert row(claims_table.claims(sources), "Softmax response serves")[2] == verdict


@pytest.mark.parametrize(
    ("by", "verdicts"),
    [
        ((0.0, 0.0), ("behind M", "ahead of SQUAD")),
        ((0.1, 0.1), ("ahead of M", "behind SQUAD")),
        ((0.1, 0.0), ("ahead of M at 1 % and behind M at 2 %", "behind SQUAD at 1 % and ahead of SQUAD at 2 %")),
    ],
)
def test_the_factorized_variant_compared_with_the_others(
    tmp_path: Path, by: tuple[float, float], verdicts: tuple[str, str]
) -> None:
    """SQUAD is raised by ``by``; SQUAD-factorized a little, so that it is ahead of Maxout at 1 %."""
    changes = {"table3/squad": raised_coverage(*by), "table3/squad-factorized": raised(0.01, "coverage@0.01")}
    found = row(claims_table.claims(changed_sources(tmp_path, changes)), "On SVHN quantization")[2]
    last = "ahead of M at 1 % and behind M at 2 %"
    names = ("SQUAD", "SQUAD-factorized", "SQUAD-factorized")
    expected = "; ".join(f"{name} is {words}" for name, words in zip(names, (*verdicts, last), strict=True))
    assert found == re.sub(r"\bM\b", "Maxout MC dropout", expected)


@pytest.mark.parametrize(
    ("seconds", "rows", "verdict"),
    [(0.9, 128, "yes"), (1.1, 128, "**no**"), (0.9, 512, "yes, each with the batch size of its search")],
)
def test_the_time_of_an_epoch(tmp_path: Path, seconds: float, rows: int, verdict: str) -> None:
    def timed(median: float, batch_size: int) -> Change:
        def change(results: dict[str, Any]) -> None:
            results["probes"]["epoch"] |= {"median": median, "batch_size": batch_size}

        return change

    changes = {"table3/squad-factorized": timed(seconds, rows), "table3/maxout-dropout": timed(1.0, 128)}
    assert row(claims_table.claims(changed_sources(tmp_path, changes)), "On SVHN an epoch")[2] == verdict


@pytest.mark.parametrize(
    ("by", "word"), [(0.0, "ahead of"), (-0.067, "not significantly different from"), (-0.3, "**behind**")]
)
def test_squad_compared_with_the_mlp(tmp_path: Path, by: float, word: str) -> None:
    sources = changed_sources(tmp_path, {"table1/squad": raised(by, "coverage@0.01", "coverage@0.02")})
    assert row(claims_table.claims(sources), "SQUAD is significantly better")[2].startswith(f"{word} Plain MLP, ")


@pytest.mark.parametrize("accuracies", [(0.80, 0.85, 0.85), (0.85, 0.80, 0.90)])
def test_nothing_is_extrapolated_where_accuracy_does_not_rise(tmp_path: Path, accuracies: tuple[float, ...]) -> None:
    test_deviations.test_nothing_is_extrapolated_where_accuracy_does_not_rise(tmp_path, accuracies)
