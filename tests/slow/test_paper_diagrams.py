"""The diagrams: they are readable, and what they show is computed by the library."""

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image
from scipy.integrate import quad

from experiments.paper.drawings import sampling_graph
from experiments.paper.drawings.captions import TEXTS
from experiments.paper.drawings.diagrams import DIAGRAMS
from experiments.paper.drawings.sketch import ACCENT
from squad.core.bins import gaussian_bins, gaussian_log_weights, linear_bins, uniform_log_weights
from squad.errors import SquadError
from squad.layers import SquadLinear

#: Pixels, at 100 per inch, by which text boxes are shrunk on each side, because letters do not fill them.
MARGIN = 1.0
NAMES = list(DIAGRAMS)
DOTS = r"$\cdots$"


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    """All diagrams, rendered, because positions are only known then."""
    found = {name: make() for name, make in DIAGRAMS.items()}
    for figure in found.values():
        draw(figure)
    return found


def draw(figure: Any) -> None:
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()


def written(figure: Any) -> list[Text]:
    """Return all visible texts."""
    found = list(figure.texts)
    for axes in figure.axes:
        found += axes.texts
        found += [axes.title, axes._left_title, axes._right_title]
        if axes.get_legend() is not None:
            found += axes.get_legend().get_texts()
        if axes.axison:
            for axis in (axes.xaxis, axes.yaxis):
                low, high = sorted(axis.get_view_interval())
                ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
                found += [axis.label, *(label for tick in ticks for label in (tick.label1, tick.label2))]
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def boxes(figure: Any) -> list[tuple[str, Bbox]]:
    """Return all texts with their boxes in pixels."""
    renderer = figure.canvas.get_renderer()
    return [(text.get_text(), text.get_window_extent(renderer).padded(-MARGIN)) for text in written(figure)]


def overlaps(figure: Any) -> list[tuple[str, str]]:
    """Return pairs of texts that overlap."""
    return [(one, other) for (one, a), (other, b) in itertools.combinations(boxes(figure), 2) if a.overlaps(b)]


def crossings(figure: Any) -> list[str]:
    """Return texts that a line or an arrow crosses, except for the dots of omitted layers."""
    lines, arrows = [], []
    for axes in figure.axes:
        lines += [line.get_transform().transform_path(line.get_path()) for line in axes.lines]
        for fan in axes.collections:
            if isinstance(fan, LineCollection):
                lines += [fan.get_transform().transform_path(path) for path in fan.get_paths()]
        # Arrows are vertical or horizontal, so that they fill their boxes.
        arrows += [patch.get_window_extent() for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    return [
        text
        for text, box in boxes(figure)
        if any(arrow.overlaps(box) for arrow in arrows)
        or (text != DOTS and any(line.intersects_bbox(box, filled=False) for line in lines))
    ]


def outside(figure: Any) -> list[str]:
    """Return texts that are cut off by the edge of the figure."""
    return [text for text, box in boxes(figure) if Bbox.union([box, figure.bbox]).bounds != figure.bbox.bounds]


def heights(figure: Any, name: str) -> list[float]:
    """Return the heights of the bars in the axes with a name."""
    (axes,) = (axes for axes in figure.axes if axes.get_label() == name)
    return [bar.get_height() for bar in axes.containers[0]]


def test_the_checks_find_defects() -> None:
    figure: Any = Figure()
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.text(0.5, 0.5, "one")
    axes.text(0.52, 0.51, "two")
    axes.text(0.97, 0.1, "too long for here")
    axes.plot([0, 1], [0.12, 0.12])
    axes.add_patch(FancyArrowPatch((0.2, 0.82), (0.8, 0.82)))
    axes.text(0.5, 0.8, "three")
    draw(figure)
    assert overlaps(figure) == [("one", "two")]
    assert crossings(figure) == ["too long for here", "three"]
    assert outside(figure) == ["too long for here"]


@pytest.mark.parametrize("name", NAMES)
def test_diagrams_are_saved_as_png(figures: dict[str, Any], tmp_path: Path, name: str) -> None:
    figures[name].savefig(tmp_path / "drawn.png", dpi=100)  # a warning would be an error
    with Image.open(tmp_path / "drawn.png") as picture:
        pixels = np.asarray(picture.convert("L"))
        assert 850 <= picture.width <= 1150
    assert (pixels[[0, 0, -1, -1], [0, -1, 0, -1]] == 255).all()
    assert pixels.min() < 50
    assert len(TEXTS[name].caption) > 80


@pytest.mark.parametrize("name", NAMES)
def test_texts_are_readable(figures: dict[str, Any], name: str) -> None:
    figure = figures[name]
    assert overlaps(figure) == []
    assert crossings(figure) == []
    assert outside(figure) == []
    assert min(float(text.get_fontsize()) for text in written(figure)) >= 9


def test_every_latent_has_a_distribution_and_one_sampled_value(figures: dict[str, Any]) -> None:
    figure = figures["diagram-latent-layers"]
    latents = [axes for axes in figure.axes if axes.get_label().startswith("latent")]
    assert len(latents) == 12
    for axes in latents:
        bars = list(axes.containers[0])
        assert sum(bar.get_height() for bar in bars) == pytest.approx(1, abs=1e-6)
        (drawn,) = (bar for bar in bars if to_hex(bar.get_facecolor()) == ACCENT)
        assert drawn.get_height() > 0


def log_density(z: float) -> float:
    """Return the log density of the target in the figures, by numpy."""
    weights, means, deviations = np.array([0.55, 0.31, 0.14]), np.array([-1.55, 1.45, 2.5]), np.array([0.5, 0.45, 0.42])
    logs = np.log(weights / (deviations * np.sqrt(2 * np.pi))) - ((z - means) / deviations) ** 2 / 2
    return float(np.logaddexp.reduce(logs))


def density(z: float) -> float:
    return float(np.exp(log_density(z)))


def gaussian_kl(mean: float, deviation: float) -> float:
    def term(z: float) -> float:
        log_q = -(((z - mean) / deviation) ** 2) / 2 - np.log(deviation * np.sqrt(2 * np.pi))
        return float(np.exp(log_q) * (log_q - log_density(z)))

    return float(quad(term, mean - 8 * deviation, mean + 8 * deviation, limit=200)[0])


def test_the_closest_gaussian_has_the_smallest_kl(figures: dict[str, Any]) -> None:
    left, right, *_ = figures["diagram-approximation"].axes
    target = left.lines[0]
    assert target.get_ydata()[::50] == pytest.approx([density(z) for z in target.get_xdata()[::50]])
    (path,) = (line for line in right.lines if line.get_label() == "descent")
    mean, deviation = path.get_xydata()[-1]
    reached = gaussian_kl(mean, deviation)
    assert f"closest: {reached:.2f}" in [text.get_text() for text in right.texts]
    for other in itertools.product(np.linspace(-2.5, 2.5, 9), np.linspace(0.3, 2.1, 5)):
        assert gaussian_kl(*other) > reached
    for step in ((0.03, 0), (-0.03, 0), (0, 0.03), (0, -0.03)):
        assert gaussian_kl(mean + step[0], deviation + step[1]) > reached


def test_the_bars_are_the_mass_of_the_density(figures: dict[str, Any]) -> None:
    (axes,) = figures["diagram-quantized-domain"].axes
    bars = list(axes.containers[0])
    values = linear_bins(11, dtype=torch.float64).tolist()
    assert [bar.get_x() + bar.get_width() / 2 for bar in bars] == pytest.approx(values, abs=1e-9)
    mass = np.array([quad(density, v - 0.35, v + 0.35)[0] for v in values])
    assert [bar.get_height() for bar in bars] == pytest.approx(mass / mass.sum(), rel=1e-6)
    curve = max(axes.lines, key=lambda line: line.get_linewidth())
    assert curve.get_ydata()[::60] == pytest.approx([0.7 * density(z) for z in curve.get_xdata()[::60]])


def test_the_sample_equals_that_of_a_layer(figures: dict[str, Any]) -> None:
    figure = figures["diagram-sampling"]
    logits, gumbels, relaxed, values, probs, prior = (
        torch.tensor(heights(figure, name)) for name in ("logits", "noise", "relaxed", "values", "probs", "prior")
    )
    layer = SquadLinear(1, 1, bins=11, prior="gaussian")
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.copy_(logits)
        z, kl = layer.sample_with_kl(torch.zeros(1, 1), temperature=sampling_graph.TAU, noise=gumbels.view(11, 1))
    shown = [text.get_text() for text in written(figure)]
    assert f"$={z.item():.2f}$" in shown
    assert rf"$\mathrm{{KL}}={kl.item():.2f}$" in shown
    assert relaxed.tolist() == pytest.approx(((logits + gumbels) / sampling_graph.TAU).softmax(-1).tolist(), abs=1e-5)
    assert probs.tolist() == pytest.approx(logits.softmax(-1).tolist(), abs=1e-6)
    assert values.tolist() == pytest.approx(linear_bins(11).tolist())
    assert prior.tolist() == pytest.approx(gaussian_log_weights(linear_bins(11)).exp().tolist(), abs=1e-6)


def test_numbers_of_weights(figures: dict[str, Any]) -> None:
    inputs, latents, bins, rank = 3072, 256, 37, 4
    inner, outer = (inputs + 1) * rank, latents * (rank + 1) * bins
    expected = [(inputs + 1) * latents * bins, latents * inner + outer, inner + outer]
    figure = figures["diagram-sampling"]
    (axes,) = (axes for axes in figure.axes if axes.get_label() == "weights")
    assert [bar.get_width() for bar in axes.containers[0]] == expected
    assert [text.get_text() for text in axes.texts][1::2] == [f"{count:,}" for count in expected]
    assert any("3072" in text.get_text() and "B=4" in text.get_text() for text in written(figure))


def test_priors_match_the_settings_in_their_titles(figures: dict[str, Any]) -> None:
    even, uniform = linear_bins(11), uniform_log_weights(11)
    expected = {
        'spacing="linear", prior="uniform"': (even, uniform),
        'spacing="linear", prior="gaussian"': (even, gaussian_log_weights(even)),
        'spacing="gaussian", prior="uniform"': (gaussian_bins(11), uniform),
    }
    panels = figures["diagram-priors"].axes
    for axes, (settings, (values, weights)) in zip(panels, expected.items(), strict=True):
        assert [text.get_text() for text in axes.texts] == [settings]
        bars = list(axes.containers[0])
        assert [bar.get_x() + bar.get_width() / 2 for bar in bars] == pytest.approx(values.tolist(), abs=1e-6)
        assert [bar.get_height() for bar in bars] == pytest.approx(weights.exp().tolist(), abs=1e-6)


def test_torchs_generator_is_not_changed() -> None:
    before = torch.random.get_rng_state()
    DIAGRAMS["diagram-latent-layers"]()
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_missing_matplotlib_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SquadError, match=r"pip install 'squad-torch\[plots\]'"):
        DIAGRAMS["diagram-priors"]()
