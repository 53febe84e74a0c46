"""The hero image shows the blocks and the rates of the decisions it is drawn from."""

from pathlib import Path

import numpy as np
import pytest

from docs.sections.hero import HEIGHT, WIDTH, draw_hero, outcome
from squad.cli import demo
from squad.cli.inputs import halves
from squad.data.images import load_images

IMAGE = Path(__file__).resolve().parents[1] / "docs" / "images" / "hero.png"


def size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG file."""
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    return int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")


def test_blocks_are_sorted_by_confidence_and_rates_count_their_own_digits() -> None:
    blocks = outcome([0.5, 0.9, 0.3, 0.8, 0.7], [False, True, False, True, True], [True, False, False, True, False])
    assert blocks.accepted.tolist() == [1, 3, 4]
    assert blocks.referred.tolist() == [0, 2]
    assert blocks.error_rate == pytest.approx(2 / 5)
    assert blocks.selective_risk == pytest.approx(1 / 3)
    assert blocks.coverage == pytest.approx(3 / 5)


def test_the_picture_states_the_numbers_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.axes import Axes

    class Halfway:
        """Accepts the first half of the rows, and always predicts 0."""

        def answer(self, x: np.ndarray) -> "Halfway":
            self.label = np.full(len(x), "0")
            self.confidence = np.linspace(1, 0, len(x))
            self.accepted = self.confidence > 0.5
            return self

    digits = load_images("digits")
    texts: list[str] = []
    monkeypatch.setattr(Axes, "text", lambda self, x, y, s, **look: texts.append(s))
    draw_hero(digits, Halfway(), tmp_path / "hero.png")  # type: ignore[arg-type]
    wrong = digits.y_test[halves(digits.y_test)["test"]] != 0
    half = len(wrong) // 2
    assert f"Accepts {half} of {len(wrong)}" in texts
    assert f"Abstains on {len(wrong) - half}" in texts
    assert {f"{wrong[:half].sum()} wrong", f"{wrong[half:].sum()} wrong"} <= set(texts)
    assert {f"{100 * wrong.mean():.1f} %", f"{100 * wrong[:half].mean():.1f} %"} <= set(texts)
    assert f"coverage {100 * half / len(wrong):.0f} %" in texts
    assert size(tmp_path / "hero.png") == (WIDTH, HEIGHT)


def test_the_committed_picture_is_small_and_certified_at_the_risk_of_the_demo() -> None:
    assert size(IMAGE) == (WIDTH, HEIGHT)
    assert IMAGE.stat().st_size < 200_000
    assert demo.RISK == 0.02, "draw docs/images/hero.png again: run `make docs`"
