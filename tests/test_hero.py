"""The hero image shows the blocks and the rates of the decisions it is drawn from."""

from pathlib import Path

import numpy as np
import pytest

from docs.sections.hero import HEIGHT, WIDTH, draw_hero, outcome
from squad.cli.inputs import halves, named_labels
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


class Halfway:
    """Accepts the first half of the rows (or none of them), and predicts the given labels."""

    def __init__(self, label: np.ndarray, none: bool = False) -> None:
        self.label, self.confidence = label, np.linspace(1, 0, len(label))
        self.accepted = np.zeros(len(label), dtype=bool) if none else self.confidence > 0.5

    def answer(self, x: np.ndarray) -> "Halfway":
        assert len(x) == len(self.label)
        return self


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts of the picture; they are not drawn."""
    from matplotlib.axes import Axes

    found: list[str] = []
    monkeypatch.setattr(Axes, "text", lambda self, x, y, s, **look: found.append(s))
    return found


def test_the_picture_states_the_numbers_of_the_model(tmp_path: Path, texts: list[str]) -> None:
    digits = load_images("digits")
    truth = digits.y_test[halves(digits.y_test)["test"]]
    draw_hero(digits, Halfway(np.full(len(truth), "0")), tmp_path / "hero.png")  # type: ignore[arg-type]
    wrong = truth != 0
    half = len(wrong) // 2
    assert f"Accepts {half} of {len(wrong)}" in texts
    assert f"Abstains on {len(wrong) - half}" in texts
    assert {f"{wrong[:half].sum()} wrong", f"{wrong[half:].sum()} wrong"} <= set(texts)
    assert {f"{100 * wrong.mean():.1f} %", f"{100 * wrong[:half].mean():.1f} %"} <= set(texts)
    assert f"coverage {100 * half / len(wrong):.0f} %" in texts
    assert size(tmp_path / "hero.png") == (WIDTH, HEIGHT)


@pytest.mark.parametrize("none", [False, True])
@pytest.mark.filterwarnings("error")
def test_a_model_without_errors_or_without_accepted_digits(tmp_path: Path, texts: list[str], none: bool) -> None:
    digits = load_images("digits")
    labels = named_labels(digits.classes, digits.y_test[halves(digits.y_test)["test"]])
    draw_hero(digits, Halfway(labels, none), tmp_path / "hero.png")  # type: ignore[arg-type]
    assert texts.count("0.0 %") == texts.count("0 wrong") == 2


def test_the_committed_picture_is_small_and_of_as_many_digits_as_its_description_says() -> None:
    assert size(IMAGE) == (WIDTH, HEIGHT)
    assert IMAGE.stat().st_size < 200_000
    count = len(halves(load_images("digits").y_test)["test"])
    assert f"On {count} handwritten digits" in (IMAGE.parents[1] / "index.md").read_text(encoding="utf-8")
