"""docs/start/demo.md and docs/images/latent.png: the comparison of ``squad demo``, and latents of its network."""

import io
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

import squad
from squad.cli import demo
from squad.data.array_transform import ArrayTransform
from squad.data.images import ImageSet
from squad.predictor import Predictor

__all__ = ["demo_output", "draw_latents"]

#: Titles of the three panels.
TITLES = ("nearly sure", "between two values", "between three")


def demo_output(sets: list[ImageSet], predictors: list[dict[str, Predictor]]) -> str:
    """Return the comparison that ``squad demo`` prints after training, as a code block."""
    stream = io.StringIO()
    demo.compare(sets, predictors, stream)
    return "```text\n" + "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n```"


def _most_modes(q: squad.Quantized) -> list[tuple[int, int]]:
    """Return (row, latent) of three posteriors with clearly one, two and three modes."""
    padded = torch.nn.functional.pad(q.probs, (1, 1))
    peak = (padded[..., 1:-1] > padded[..., :-2]) & (padded[..., 1:-1] > padded[..., 2:])
    heights = torch.where(peak, q.probs, 0).sort(-1, descending=True).values
    positions = []
    for modes in (1, 2, 3):
        score = heights[..., modes - 1] - (heights[..., modes] if modes < 3 else 0)
        score = torch.where(score.isfinite() & (heights[..., 0] < 0.75), score, -1)
        positions.append(divmod(int(score.argmax()), score.shape[1]))
    return positions


@torch.no_grad()
def draw_latents(digits: ImageSet, predictor: Predictor, path: Path) -> None:
    """Draw three latents of the first layer for three digits: their distributions, relaxed samples and means."""
    layer = next(iter(squad.unstack(predictor.network)[0].stages)).layer
    assert isinstance(layer, squad.SquadLinear)
    assert isinstance(predictor.transform, ArrayTransform)
    q = layer.posterior(torch.from_numpy(predictor.transform.apply(digits.x_test).x))
    figure = plt.figure(figsize=(9.5, 2.7), layout="constrained")
    grid = figure.add_gridspec(1, 6, width_ratios=[0.42, 1] * 3)
    for column, (row, latent) in enumerate(_most_modes(q)):
        small = figure.add_subplot(grid[2 * column])
        small.imshow(digits.x_test[row], cmap="gray_r")
        small.set_axis_off()
        one = squad.Quantized(q.logits[row, latent], q.values)
        top = float(one.probs.max())
        torch.manual_seed(column)
        samples = one.relaxed((1000,), temperature=0.5)
        axis = figure.add_subplot(grid[2 * column + 1])
        axis.bar(one.values, one.probs, 0.13, color="#1b6ca8", label="probability")
        height = -top * (0.08 + 0.1 * torch.rand(1000))
        axis.plot(samples, height, ".", color="#c0562f", markersize=1, label="1,000 samples")
        axis.axvline(float(one.mean), color="#444444", linewidth=1, linestyle=":", label="mean")
        axis.set(xlabel=f"value of latent {latent}", yticks=[], xlim=(-3.9, 3.9), title=TITLES[column])
        axis.spines[["top", "right", "left"]].set_visible(False)
        if column == 0:
            axis.legend(frameon=False, fontsize="small", markerscale=8, loc="upper right")
    figure.savefig(path, dpi=150)
