"""The figures: what they show equals the records."""

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.colors import to_hex
from PIL import Image
from scipy.stats import linregress
from scipy.stats import t as student

from experiments.paper.drawings import canvas, claims_figures, coverage, curves, diagrams, latents, paper_figures
from experiments.paper.drawings.captions import TEXTS
from experiments.paper.drawings.diagrams import DIAGRAMS
from experiments.paper.drawings.paper_figures import FIGURES, write
from experiments.paper.jobs.measure import COVERAGES, RISKS
from experiments.paper.jobs.plan_files import read_plan
from experiments.paper.sources import Sources
from squad.analysis.drawing import RED
from squad.errors import SquadError
from squad.records import Record
from squad.search.search_record import read
from tests.slow.test_paper_diagrams import draw, outside, overlaps

PAPER = Path(__file__).parents[2] / "experiments" / "paper"
KINDS = [
    (spacing, prior, learned)
    for spacing in ("linear", "gaussian")
    for prior in ("uniform", "gaussian")
    for learned in ("fixed", "per_layer", "per_neuron")
]
#: Figures that are laid out in experiments.paper itself.
OWN = ("overview", "coverage-table1", "risk-coverage", "samples", "depth", "bins", "ablation", "cost")
#: Labels of the marks of our results in the figure of table 1.
MARKS = ("each", "mean", "ensemble")
BINS = (3, 5, 7, 9, 11, 15, 21, 31, 45, 63)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """The repository's records, with made-up coverages in the ablation."""
    results = tmp_path_factory.mktemp("results")
    shutil.copytree(PAPER / "results", results, dirs_exist_ok=True)
    like = Record.load(results / "figures" / "bins" / "15.json")
    random = np.random.default_rng(0)
    for kind in KINDS:
        each = [
            {**one, "coverage@0.01": random.uniform(0.5, 0.6), "coverage@0.02": random.uniform(0.6, 0.7)}
            for one in like.results["ways"][0]["each"]
        ]
        way = {**like.results["ways"][0], "each": each}
        name = f"figures/ablation/{'-'.join(kind)}"
        results_of = {**like.results, "ways": [way]}
        replace(like, name=name, settings=job_settings(name), results=results_of).save(results / f"{name}.json")
    return Sources(PAPER, results)


def job_settings(name: str, quick: bool = False) -> dict[str, Any]:
    """Return the settings that the record of a job must have."""
    plan = read_plan(PAPER / f"{name.partition('/')[0]}.toml", quick=quick)
    (row,) = (row for row in plan.rows if row.name == name)
    return plan.job(row).to_dict()


@pytest.fixture(scope="module")
def drawn(sources: Sources) -> dict[str, Any]:
    """All figures."""
    return {name: make(sources) for name, make in FIGURES.items()}


def content(name: str) -> Any:
    """Return the results of one of the repository's records, read as JSON."""
    return json.loads((PAPER / "results" / f"{name}.json").read_text())["results"]


def each(name: str, measure: str, way: int = 0) -> list[float]:
    return [one[measure] for one in content(name)["ways"][way]["each"]]


def line(axes: Any, label: str) -> tuple[Any, Any]:
    """Return the x and y values of the only line with a label."""
    (found,) = (line for line in axes.lines if line.get_label() == label)
    return found.get_xdata(), found.get_ydata()


def bands(axes: Any) -> list[dict[float, tuple[float, float]]]:
    """Return the lower and upper edges of the bands by x, in drawing order."""
    found = []
    for collection in axes.collections:
        assert isinstance(collection, PolyCollection)
        edges: dict[float, list[float]] = {}
        for x, y in np.asarray(collection.get_paths()[0].vertices, dtype=np.float64):
            edges.setdefault(float(x), []).append(float(y))
        found.append({x: (min(ys), max(ys)) for x, ys in edges.items()})
    return found


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 90 % interval of the mean, by scipy."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    low, high = student.interval(0.9, len(values) - 1, loc=float(np.mean(values)), scale=error)
    return float(low), float(high)


def test_bands_are_t_intervals_of_the_mean() -> None:
    values = np.random.default_rng(1).normal(size=(7, 3))
    found = canvas.band(values)
    assert found.mean == pytest.approx(values.mean(axis=0))
    for place in range(3):
        assert (found.low[place], found.high[place]) == pytest.approx(interval(list(values[:, place])))
    alone = canvas.band(values[:1])
    assert alone.low.tolist() == alone.mean.tolist() == alone.high.tolist() == values[0].tolist()


@pytest.mark.parametrize("positions", [[0.5, 0.5, 0.5], [0.9, 0.1, 0.12], [0.2, 0.26, 0.29, 0.9], []])
def test_labels_are_spread_out_in_order(positions: list[float]) -> None:
    moved = canvas.spread_out(positions, 0.07)
    order = np.argsort(positions, kind="stable")
    assert (np.diff(np.array(moved)[order]) >= 0.07 - 1e-5).all() if positions else moved == []
    assert np.mean(moved or [0]) == pytest.approx(np.mean(positions or [0]), abs=1e-5)
    assert [one for one in positions if one == 0.9] == [one for one in moved if one == 0.9]


@pytest.mark.parametrize("name", OWN)
def test_texts_do_not_overlap(drawn: dict[str, Any], name: str) -> None:
    draw(drawn[name])
    assert overlaps(drawn[name]) == []
    assert outside(drawn[name]) == []


def test_risk_coverage_curves_are_means_over_the_networks(drawn: dict[str, Any]) -> None:
    single, ensemble = drawn["risk-coverage"].axes
    labels = {"mlp": "Plain MLP", "maxout-dropout": "Maxout MC dropout", "dlgm": "DLGM", "squad": "SQUAD"}
    at = int(np.flatnonzero(np.isclose(COVERAGES, 0.1))[0])
    for place, (name, label) in enumerate(labels.items()):
        recorded = content(f"table2/{name}")["ways"][0]
        assert recorded["sampling"] in ("mean", "sample", "relaxed")
        rows = 100 * np.array(recorded["curves"])[:, at:]
        x, y = line(single, label)
        assert x == pytest.approx(100 * COVERAGES[at:])
        assert y == pytest.approx(rows[:10].mean(axis=0))
        assert line(ensemble, label)[1] == pytest.approx(rows[10])
        # At full coverage no risk is 0, so the band is complete; elsewhere it is cut off below the axis.
        assert bands(single)[place][100.0] == pytest.approx(interval(rows[:10, -1].tolist()))
        assert min(low for low, _ in bands(single)[place].values()) >= curves.MIN_RISK / 2
    assert (single.get_xscale(), single.get_yscale()) == ("log", "log")


def test_the_figure_of_samples_shows_every_mode(drawn: dict[str, Any]) -> None:
    panels = drawn["samples"].axes
    for (row, sampling), (label, _) in curves.SAMPLING_LINES.items():
        modes = [mode for mode in content(f"figures/{row}")["ways"] if mode["sampling"] == sampling]
        for axes, (measure, scale) in zip(panels, {"coverage@0.02": 100, "nll": 1, "aurc": 1000}.items(), strict=True):
            x, y = line(axes, label)
            assert list(x) == [1, 2, 4, 8, 16, 32, 64] == [mode["samples"] for mode in modes]
            values = [[scale * one[measure] for one in mode["each"]] for mode in modes]
            assert y == pytest.approx([np.mean(one) for one in values])
            edges = bands(axes)[list(curves.SAMPLING_LINES).index((row, sampling))]
            assert edges[8.0] == pytest.approx(interval(values[3]))


@pytest.mark.parametrize("layer", [1, 2])
def test_the_title_of_the_stereotypes_has_the_fraction_of_multimodal_distributions(
    drawn: dict[str, Any], layer: int
) -> None:
    modes = content("figures/latents")["probes"]["stereotypes"][layer - 1]["modes"]
    fraction = f"{100 * (1 - modes[0]):.0f} %"
    title = drawn[f"stereotypes-layer{layer}"].get_suptitle()
    assert title.startswith(f"Layer {layer}: {fraction} of the 320,000 predicted distributions ")


def test_the_activation_of_every_unit_is_shown(drawn: dict[str, Any]) -> None:
    found = content("figures/activation")["probes"]["activation"]
    large, _, *rest = drawn["activation"].subfigs[0].axes
    assert any(line.get_ydata().tolist() == found["unit"]["mean"] for axes in (large, *rest) for line in axes.lines)
    small = drawn["activation"].subfigs[1].axes
    assert len(small) == len(found["others"]) == 32
    for place, (axes, other) in enumerate(zip(small, found["others"], strict=True)):
        mean = axes.lines[-1]
        assert mean.get_xdata().tolist() == other["position"]
        assert mean.get_ydata().tolist() == other["mean"]
        assert (to_hex(mean.get_color()) == RED) == (place + 1 == found["unit"]["unit"])
        assert axes.texts[0].get_text() == str(place + 1)


def test_the_examples_of_the_weights_have_their_classes(drawn: dict[str, Any]) -> None:
    found = content("figures/latents")["probes"]["weights"]
    weights, cases = drawn["weights"].subfigs
    assert [axes.get_xlabel() for axes in cases.axes[:5]] == found["classes"]
    for axes, picture in zip(cases.axes[:5], found["pictures"], strict=True):
        assert axes.images[0].get_array().data == pytest.approx(np.array(picture) / np.max(found["pictures"]))
    own = np.array(found["weights"]["weights"])
    own -= own.mean(axis=0)
    assert weights.axes[3].images[0].get_array().data == pytest.approx(own[3].reshape(28, 28))


def test_the_pairwise_figure_shows_only_trials_with_the_best_bins_and_prior(drawn: dict[str, Any]) -> None:
    trials = json.loads((PAPER / "search" / latents.STUDY / "trials.json").read_text())["results"]["trials"]
    measured = [trial for trial in trials if trial["state"] == "complete" and trial["ended"] != "diverged"]
    best = max(measured, key=lambda trial: (trial["value"], -trial["details"]["aurc"]))
    names = ("network.spacing", "network.learn_values", "network.prior")
    kept = [trial for trial in measured if all(trial["settings"][name] == best["settings"][name] for name in names)]
    assert 1 < len(kept) < len(measured)
    search = latents.with_best_bins(read(PAPER / "search" / latents.STUDY))
    assert [trial.number for trial in search.measured] == [trial["number"] for trial in kept]

    panels = [axes for axes in drawn["pairwise"].axes if any(map(_is_points, axes.collections))]
    assert all(sum(len(c.get_offsets()) for c in filter(_is_points, axes.collections)) == len(kept) for axes in panels)
    shown = {axes.get_xlabel() for axes in panels} - {""}
    assert not shown & {"spacing", "learn_values", "prior"}
    assert ("limit" in shown) == (best["settings"]["network.spacing"] == "linear")
    note = " ".join(" ".join(text.get_text().split()) for text in drawn["pairwise"].texts)
    assert f"{len(kept)} of {len(measured)} trials" in note
    assert all(f"{name.partition('.')[2]} = {best['settings'][name]}" in note for name in names)


def _is_points(collection: Any) -> bool:
    return isinstance(collection, PathCollection)


def test_the_limit_of_linear_spacing_is_kept() -> None:
    search = read(PAPER / "search" / latents.STUDY)
    linear = [trial for trial in search.trials if trial.settings.get("network.spacing") == "linear"]
    kept = latents.with_best_bins(replace(search, trials=tuple(linear)))
    assert len(kept.trials) < len(linear)
    assert len({trial.settings["network.prior"] for trial in kept.trials}) == 1
    assert "choices" not in str(kept.space.to_dict())
    assert kept.record.settings["space"]["network"]["limit"] == search.record.settings["space"]["network"]["limit"]


def test_depth_shows_every_layer_and_depth(drawn: dict[str, Any]) -> None:
    spread, accuracy, coverage = drawn["depth"].axes
    deep = "x".join(["32"] * 8)
    for order, (grid, label) in enumerate({"depth-squad": "SQUAD", "depth-mlp": "Plain MLP"}.items()):
        for place, (when, word) in enumerate({"before": "untrained", "after": "trained"}.items()):
            layers = content(f"figures/{grid}/{deep}")["probes"]["spread"][when]
            x, y = line(spread, f"{label}, {word}")
            assert list(x) == [1, 2, 3, 4, 5, 6, 7, 8]
            assert y == pytest.approx([np.mean(layer["std"]) for layer in layers[:-1]])
            assert bands(spread)[2 * order + place][8.0] == pytest.approx(interval(layers[7]["std"]))
        for axes, measure in ((accuracy, "accuracy"), (coverage, "coverage@0.02")):
            x, y = line(axes, label)
            values = [[100 * v for v in each(f"figures/{grid}/{'x'.join(['32'] * d)}", measure)] for d in range(1, 9)]
            assert list(x) == list(range(1, 9))
            assert y == pytest.approx([np.mean(one) for one in values])
            assert bands(axes)[order][3.0] == pytest.approx(interval(values[2]))


def test_bins_show_information_below_its_bound_and_coverage(drawn: dict[str, Any]) -> None:
    bits, coverage = drawn["bins"].axes
    probes = [content(f"figures/bins/{count}")["probes"]["information"] for count in BINS]
    x, bound = line(bits, "bound: log₂ C")
    assert list(x) == list(BINS)
    assert bound == pytest.approx(np.log2(BINS))
    for layer in (1, 2):
        mean = line(bits, f"layer {layer}, mean")[1]
        largest = line(bits, f"layer {layer}, largest")[1]
        assert mean == pytest.approx([np.mean(one[layer - 1]["mean"]) for one in probes])
        assert largest == pytest.approx([np.mean(one[layer - 1]["largest"]) for one in probes])
        assert (mean < largest).all()
        assert (largest < bound).all()
    for place, risk in enumerate((0.02, 0.01)):
        values = [[100 * value for value in each(f"figures/bins/{count}", f"coverage@{risk}")] for count in BINS]
        assert line(coverage, f"at {100 * risk:g} % risk")[1] == pytest.approx([np.mean(one) for one in values])
        assert bands(coverage)[place][15.0] == pytest.approx(interval(values[5]))


def test_the_ablation_shows_every_combination(sources: Sources, drawn: dict[str, Any], tmp_path: Path) -> None:
    panels = drawn["ablation"].axes
    names = [label.get_text() for label in panels[0].get_yticklabels()]
    assert len(names) == 16
    for axes, (measure, scale) in zip(
        panels, {"coverage@0.01": 100, "coverage@0.02": 100, "nll": 1}.items(), strict=True
    ):
        means = {line.get_ydata()[0]: line.get_xdata()[0] for line in axes.lines if line.get_label() == "mean"}
        assert len(means) == 12
        for spacing, prior, learned in KINDS:
            heading = f"{spacing} spacing, {prior} prior".replace("gaussian", "Gaussian")
            place = names.index(claims_figures.BIN_VALUE_LABELS[learned], names.index(heading))
            record = sources.record(f"figures/ablation/{spacing}-{prior}-{learned}")
            assert record is not None
            assert means[place] == pytest.approx(
                scale * np.mean([one[measure] for one in record.results["ways"][0]["each"]])
            )
    shutil.copytree(sources.results / "figures" / "ablation", tmp_path / "figures" / "ablation")
    assert claims_figures.ablation(Sources(PAPER, tmp_path)) is not None
    (tmp_path / "figures" / "ablation" / "linear-gaussian-fixed.json").unlink()
    assert claims_figures.ablation(Sources(PAPER, tmp_path)) is None


def test_cost_shows_the_least_squares_line(drawn: dict[str, Any]) -> None:
    time, weights = drawn["cost"].axes
    records = [content(f"figures/bins/{count}") for count in BINS]
    median = [1000 * one["probes"]["epoch"]["median"] for one in records]
    assert time.containers[0].lines[0].get_ydata() == pytest.approx(median)
    fit = linregress(BINS, median)
    x, y = line(time, "_line")
    assert y == pytest.approx(fit.intercept + fit.slope * np.asarray(x))
    assert f"R² = {fit.rvalue**2:.3f}" in time.texts[0].get_text()
    counts = np.array([one["weights"] for one in records])
    assert line(weights, "_counted")[1] == pytest.approx(counts / 1e6)
    slope, rest = np.unique(np.diff(counts) / np.diff(BINS)), counts[0]
    assert len(slope) == 1
    assert weights.texts[0].get_text() == f"{rest - 3 * slope[0]:,.0f} + {slope[0]:,.0f} C weights,  R² = 1"


@pytest.mark.parametrize(("value", "text"), [(0.5, "0.500"), (0.99996, "0.9999"), (1.0, "1")])
def test_only_a_perfect_fit_has_an_r_squared_of_1(value: float, text: str) -> None:
    assert claims_figures.format_r_squared(value) == text


def test_table_1_shows_every_network_and_the_papers_results(drawn: dict[str, Any], sources: Sources) -> None:
    panels = drawn["coverage-table1"].axes
    rows = {one.row.name.partition("/")[2]: one.row for one in sources.row_results("table1")}
    names = [label.get_text() for label in panels[0].get_yticklabels()]
    assert names == ["Plain MLP", "ReLU MC dropout", "Maxout MC dropout", "DLGM", "SQUAD"]
    for column, (axes, risk) in enumerate(zip(panels, RISKS, strict=True)):
        found = {label: [line for line in axes.lines if line.get_label() == label] for label in MARKS}
        published = [bar for bar in axes.containers if bar.get_label() == "paper"]
        for place, name in enumerate(coverage.TABLE1_ROWS):
            values = [100 * value for value in each(f"table1/{name}", f"coverage@{risk}")]
            assert found["each"][place].get_xdata() == pytest.approx(values)
            assert (np.abs(found["each"][place].get_ydata() - place) < 0.5).all()
            assert found["mean"][place].get_xdata() == pytest.approx([np.mean(values)])
            together = content(f"table1/{name}")["ways"][0]["ensemble"][f"coverage@{risk}"]
            assert found["ensemble"][place].get_xdata() == pytest.approx([100 * together])
        papers = [paper for name in coverage.TABLE1_ROWS if (paper := rows[name].paper) is not None]
        assert len(papers) == len(published) == 4
        for bar, paper in zip(published, papers, strict=True):
            mean, spread = paper[column]
            (segment,) = bar.lines[2][0].get_segments()
            assert sorted(segment[:, 0]) == pytest.approx([mean - spread, mean + spread])


def test_the_overview_shows_every_network_and_the_papers_results(drawn: dict[str, Any], sources: Sources) -> None:
    for axes, plan in zip(drawn["overview"].axes, coverage.OVERVIEW_PANELS, strict=True):
        rows = {one.row.name.partition("/")[2]: one.row for one in sources.row_results(plan)}
        shown = [name for name in coverage.OVERVIEW_ROWS if name in rows]
        found = {label: [line for line in axes.lines if line.get_label() == label] for label in MARKS}
        assert [len(lines) for lines in found.values()] == [len(shown)] * 3
        for place, name in enumerate(shown):
            values = [100 * value for value in each(f"{plan}/{name}", "coverage@0.01")]
            assert found["each"][place].get_xdata() == pytest.approx(values)
            assert (np.abs(found["each"][place].get_ydata() - coverage.OVERVIEW_ROWS.index(name)) < 0.5).all()
            together = content(f"{plan}/{name}")["ways"][0]["ensemble"]["coverage@0.01"]
            assert found["ensemble"][place].get_xdata() == pytest.approx([100 * together])
        published = [bar for bar in axes.containers if bar.get_label() == "paper"]
        assert len(published) == sum(rows[name].paper is not None for name in shown)


def test_dots_of_single_networks_are_joined(drawn: dict[str, Any]) -> None:
    """A dot far from its mean is on a thin line that leads to it."""
    accuracy = drawn["depth"].axes[1]
    values = [100 * value for value in each("figures/depth-squad/" + "x".join(["32"] * 8), "accuracy")]
    joined = [sorted(line.get_ydata()) for line in accuracy.lines if list(line.get_xdata()) == [8, 8]]
    assert [min(values), max(values)] in [pytest.approx(one) for one in joined]


def test_without_records_there_are_no_figures(tmp_path: Path) -> None:
    for plan in PAPER.glob("*.toml"):
        shutil.copy(plan, tmp_path)
    empty = Sources(tmp_path, tmp_path / "results")
    assert {name: draw(empty) for name, draw in FIGURES.items()} == dict.fromkeys(FIGURES)


def test_there_is_no_band_with_one_network(tmp_path: Path) -> None:
    few = [3, 7, 15, 31, 63]
    for count in few:
        record = Record.load(PAPER / "results" / "figures" / "bins" / f"{count}.json")
        way = {**record.results["ways"][0], "each": record.results["ways"][0]["each"][:1]}
        layers = [
            {name: values[:1] for name, values in layer.items()} for layer in record.results["probes"]["information"]
        ]
        probes = {**record.results["probes"], "information": layers}
        results = {**record.results, "ways": [way], "probes": probes}
        settings = job_settings(f"figures/bins/{count}", quick=True)
        replace(record, settings=settings, results=results).save(tmp_path / "figures" / "bins" / f"{count}.json")
    figure: Any = claims_figures.bins(Sources(PAPER, tmp_path, quick=True))
    assert list(line(figure.axes[1], "at 2 % risk")[0]) == few
    assert all(low == high for low, high in bands(figure.axes[1])[0].values())
    assert "lines: one network" in figure.get_supxlabel()


def test_writing_is_deterministic_and_removes_old_figures(
    sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = ("samples", "bins", "cost")
    monkeypatch.setattr(paper_figures, "FIGURES", {**{name: FIGURES[name] for name in some}, "weights": lambda _: None})
    monkeypatch.setattr(diagrams, "DIAGRAMS", {"diagram-priors": DIAGRAMS["diagram-priors"]})
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "weights.png").write_text("an old one")
    first = write(sources, tmp_path / "once" / "below")
    lines: list[str] = []
    second = write(sources, tmp_path / "again", log=lines.append)
    (line,) = lines
    assert "weights.png was removed" in line
    assert [path.name for path in first] == ["diagram-priors.png", "samples.png", "bins.png", "cost.png"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert sorted((tmp_path / "again").iterdir()) == sorted(second)
    with Image.open(first[1]) as picture:
        assert picture.width == 11 * 160
        assert "Software" not in picture.info


def test_every_figure_has_a_caption() -> None:
    assert set(TEXTS) == {*FIGURES, *DIAGRAMS}
    for _, caption in TEXTS.values():
        assert len(caption) > 60
        assert caption.endswith(".")
        assert not set("[]\n") & set(caption)  # it is embedded in Markdown


def test_a_missing_matplotlib_is_reported(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for name in FIGURES:
        with pytest.raises(SquadError, match=r"pip install 'squad-torch\["):
            FIGURES[name](sources)
