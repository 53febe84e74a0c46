"""docs/images/hero.png: what abstaining does, on the test digits of ``squad demo``."""

from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from squad.cli.inputs import halves, named_labels
from squad.data.images import ImageSet
from squad.predictor import Predictor

__all__ = ["Outcome", "draw_hero", "outcome"]

#: Size of the picture in pixels.
WIDTH, HEIGHT = 1600, 600
#: Digits per column of a block; width and height of a cell, and the side of the digit in it, 4 pixels per pixel.
ROWS, ACROSS, DOWN, SIDE = 12, 33, 35, 32
#: Left end of the first block, the gap before the second, and their top.
LEFT, GAP, TOP = 44, 56, 488
#: Left end of the panel of error rates, the baseline of its bars, and the height of the taller one.
RATES, BASE, TALLEST = 1212, 132, 290
#: Colours: of text, of the two decisions, of errors, and of the bar without abstaining.
TEXT, ACCEPTED, REFERRED, WRONG, ALL = "#1f2328", "#1b6ca8", "#8a5a00", "#d1242f", "#8c959f"
#: Sizes of text in points at 100 dpi; the smaller one is 9 pixels high where the picture is 390 pixels wide.
LARGE, SMALL = 30, 26


class Outcome(NamedTuple):
    """Digits of a test set by decision, each block in order of falling confidence.

    Attributes:
        accepted: Rows of the accepted digits.
        referred: Rows of the others.
        wrong: Whether the prediction is wrong, for every row.
    """

    accepted: np.ndarray[Any, np.dtype[np.intp]]
    referred: np.ndarray[Any, np.dtype[np.intp]]
    wrong: np.ndarray[Any, np.dtype[np.bool_]]

    @property
    def error_rate(self) -> float:
        """Error rate if every prediction is used."""
        return float(self.wrong.mean())

    @property
    def selective_risk(self) -> float:
        """Error rate among accepted digits; 0 if there are none."""
        return float(self.wrong[self.accepted].sum() / max(1, len(self.accepted)))

    @property
    def coverage(self) -> float:
        """Fraction of digits that are accepted."""
        return len(self.accepted) / len(self.wrong)


def outcome(confidence: Any, accepted: Any, wrong: Any) -> Outcome:
    """Sort digits by confidence, and divide them into accepted and referred ones.

    Args:
        confidence: Confidence per digit.
        accepted: Whether each digit is accepted.
        wrong: Whether each prediction is wrong.

    Returns:
        The two blocks.

    Examples:
        >>> blocks = outcome([0.9, 0.2, 0.99], [True, False, True], [False, True, False])
        >>> blocks.accepted.tolist(), blocks.referred.tolist()
        ([2, 0], [1])
    """
    order = np.argsort(-np.asarray(confidence), kind="stable")
    taken = np.asarray(accepted, dtype=bool)[order]
    return Outcome(order[taken], order[~taken], np.asarray(wrong, dtype=bool))


def draw_hero(digits: ImageSet, predictor_certified: Predictor, path: Path) -> None:
    """Draw accepted and referred test digits, and the error rate with and without abstaining.

    The digits are those of the half of the test set that was not used to certify.

    Args:
        digits: The data set.
        predictor_certified: The certified predictor of the demo.
        path: PNG file to write.
    """
    rows = halves(digits.y_test)["test"]
    x = digits.x_test[rows]
    answer = predictor_certified.answer(x)
    wrong = answer.label != named_labels(digits.classes, digits.y_test[rows])
    blocks = outcome(answer.confidence, answer.accepted, wrong)
    figure = plt.figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100)
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
    axis.set_axis_off()
    # The page shows outside the rounded corners; the card itself is light on every page.
    card = FancyBboxPatch((3, 3), WIDTH - 6, HEIGHT - 6, boxstyle="round,pad=0,rounding_size=24")
    card.set(facecolor="#ffffff", edgecolor="#d0d7de", linewidth=2)
    axis.add_patch(card)
    heading = f"Accepts {len(blocks.accepted)} of {len(wrong)}"
    end = _block(axis, x, blocks.accepted, blocks.wrong, LEFT, heading, ACCEPTED)
    start = end + GAP
    heading = f"Abstains on {len(blocks.referred)}"
    last = _block(axis, x, blocks.referred, blocks.wrong, start, heading, REFERRED)
    axis.plot([end + GAP / 2] * 2, [TOP - ROWS * DOWN, HEIGHT - 32], color="#afb8c1", linewidth=3, linestyle="--")
    text: dict[str, Any] = {"fontsize": SMALL, "color": TEXT, "va": "center"}
    axis.text(end, 512, f"coverage {100 * blocks.coverage:.0f} %", ha="right", **text)
    axis.text(LEFT, 40, "sure", ha="left", **text)
    axis.text(last, 40, "unsure", ha="right", **text)
    arrow = {"arrowstyle": "-|>", "color": ALL, "linewidth": 3, "mutation_scale": 30}
    axis.annotate("", (last - 140, 38), (LEFT + 95, 38), arrowprops=arrow)
    _bars(axis, blocks)
    figure.savefig(path, transparent=True)
    plt.close(figure)


def _block(axis: Axes, x: Any, rows: Any, wrong: Any, left: float, heading: str, color: str) -> float:
    """Draw digits column by column under a heading and the number of errors.

    Returns:
        Right end of the block.
    """
    columns = -(-len(rows) // ROWS)
    for place, row in enumerate(rows):
        column, line = divmod(place, ROWS)
        x0, y0 = left + column * ACROSS, TOP - (line + 1) * DOWN
        inner = (x0, x0 + SIDE, y0 + 2, y0 + 2 + SIDE)
        axis.imshow(x[row], cmap="gray_r", extent=inner, aspect="auto", interpolation="nearest", zorder=2)
        if wrong[row]:
            frame = Rectangle((x0 - 1, y0), SIDE + 2, DOWN, fill=False, edgecolor=WRONG, linewidth=4.5, zorder=3)
            axis.add_patch(frame)
    axis.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))  # imshow sets them to its extent
    axis.text(left, 556, heading, fontsize=LARGE, fontweight="bold", color=color, va="center")
    axis.text(left, 512, f"{wrong[rows].sum()} wrong", fontsize=SMALL, color=WRONG, va="center")
    return left + columns * ACROSS


def _bars(axis: Axes, blocks: Outcome) -> None:
    """Draw the error rate of all digits and that of accepted ones as bars, in a panel of their own."""
    panel = FancyBboxPatch((RATES, 12), WIDTH - 12 - RATES, HEIGHT - 24, boxstyle="round,pad=0,rounding_size=18")
    panel.set(facecolor="#f1f4f8", edgecolor="none")
    axis.add_patch(panel)
    center = (RATES + WIDTH - 12) / 2
    axis.text(center, 556, "Error rate", fontsize=LARGE, fontweight="bold", color=TEXT, ha="center", va="center")
    rates = (blocks.error_rate, blocks.selective_risk)
    labels = (("all", len(blocks.wrong)), ("accepted", len(blocks.accepted)))
    for middle, rate, label, color in zip((center - 83, center + 83), rates, labels, (ALL, ACCEPTED), strict=True):
        height = TALLEST * rate / max(*rates, 1 / len(blocks.wrong))  # without errors, both bars are flat
        axis.add_patch(Rectangle((middle - 60, BASE), 120, height, facecolor=color, edgecolor="none"))
        text: dict[str, Any] = {"ha": "center", "color": TEXT}
        axis.text(middle, BASE + height + 14, f"{100 * rate:.1f} %", fontsize=LARGE, fontweight="bold", **text)
        for line, part in enumerate(label):
            axis.text(middle, BASE - 40 - 44 * line, str(part), fontsize=SMALL, **text)
    axis.plot([center - 155, center + 155], [BASE, BASE], color=TEXT, linewidth=2)
