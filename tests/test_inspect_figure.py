"""The figure of ``squad inspect`` in the documentation is drawn by the command, for the unit that the guide names."""

from pathlib import Path

from docs.sections.inspect_figure import LAYER, UNIT, draw_inspect
from squad.data.images import load_images
from squad.fitting import FitSettings, fit_predictor
from squad.train import TrainConfig

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_the_figure_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    digits = load_images("digits")
    names = [digits.classes[y] for y in digits.y_train[:200]]
    fitted = fit_predictor(digits.x_train[:200], names, FitSettings(training=TrainConfig(max_epochs=1)))
    here = Path.cwd()
    draw_inspect(fitted, tmp_path / "unit.png")
    assert (tmp_path / "unit.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["unit.png"]
    assert Path.cwd() == here


def test_the_committed_figure_is_small_and_of_the_unit_in_the_guide() -> None:
    assert (DOCS / "images" / "inspect.png").stat().st_size < 150_000
    assert f"squad inspect model --layer {LAYER} --unit {UNIT}" in (DOCS / "guides/inspect.md").read_text(
        encoding="utf-8"
    )
