"""Write what README.md shows from what the code does: the demo's output, and the picture of a few latents."""

import io
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from rich.console import Console
from torch import nn

import squad
from squad.cli.demo import Digits, build, load, predict, show, train

TITLES = ("nearly sure", "between two values", "between three")
ROOT = Path(__file__).resolve().parents[1]


def demo_output(net: nn.Module, digits: Digits) -> str:
    """What `squad demo` prints after training."""
    console = Console(file=io.StringIO(), width=80, record=True)
    show(predict(net, digits.x_test), digits, console)
    return "\n".join(line.rstrip() for line in console.export_text().splitlines())


def into_readme(text: str) -> None:
    path = ROOT / "README.md"
    block = f"<!-- demo: begin -->\n```text\n{text}\n```\n<!-- demo: end -->"
    page, count = re.subn(r"<!-- demo: begin -->.*<!-- demo: end -->", lambda _: block, path.read_text(), flags=re.S)
    assert count == 1, "README.md has lost its markers"
    path.write_text(page)


def most_modes(q: squad.Quantized) -> list[tuple[int, int]]:
    """(row, latent) of the posteriors to show: for 0, 1 and 2 the one whose modes 2, 3, ... are largest."""
    padded = torch.nn.functional.pad(q.probs, (1, 1))
    peak = (padded[..., 1:-1] > padded[..., :-2]) & (padded[..., 1:-1] > padded[..., 2:])
    heights = torch.where(peak, q.probs, 0).sort(-1, descending=True).values
    found = []
    for modes in (1, 2, 3):
        score = heights[..., modes - 1] - (heights[..., modes] if modes < 3 else 0)
        score = torch.where(score.isfinite() & (heights[..., 0] < 0.75), score, -1)
        found.append(divmod(int(score.argmax()), score.shape[1]))
    return found


@torch.no_grad()
def picture(net: nn.Sequential, digits: Digits) -> None:
    """Three latents of the first layer for three digits: their distributions, relaxed samples, their mean."""
    layer = net[0]
    assert isinstance(layer, squad.SquadLinear)
    q = layer.posterior(digits.x_test)
    figure = plt.figure(figsize=(9.5, 2.7), layout="constrained")
    grid = figure.add_gridspec(1, 6, width_ratios=[0.42, 1] * 3)
    for column, (row, latent) in enumerate(most_modes(q)):
        small = figure.add_subplot(grid[2 * column])
        small.imshow(digits.pictures[row], cmap="gray_r")
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
        axis.set(xlabel=f"value of latent {latent}", yticks=[], xlim=(-3.7, 3.7), title=TITLES[column])
        axis.spines[["top", "right", "left"]].set_visible(False)
        if column == 0:
            axis.legend(frameon=False, fontsize="small", markerscale=8, loc="upper right")
    figure.savefig(ROOT / "docs" / "images" / "latent.png", dpi=150)


def main() -> None:
    digits = load(0)
    net = build(0)
    train(net, digits, 60, Console(quiet=True))
    net.eval()
    into_readme(demo_output(net, digits))
    picture(net, digits)


if __name__ == "__main__":
    main()
