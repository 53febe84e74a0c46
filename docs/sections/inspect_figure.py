"""docs/images/inspect.png: the figure that ``squad inspect`` draws of one unit of the demo's network."""

import contextlib
import io
import tempfile
from pathlib import Path

from squad.cli.inspect import inspect
from squad.predictor import Predictor

__all__ = ["draw_inspect"]

#: Layer and unit, both counted from 1: those of the example in docs/guides/inspect.md.
LAYER, UNIT = 1, 12


def draw_inspect(predictor: Predictor, path: Path) -> None:
    """Draw one unit on the test digits, as the command does.

    Args:
        predictor: A predictor of the demo, trained on the digits.
        path: PNG file to write.
    """
    target = path.resolve()
    # The title of the figure begins with the name of the model's folder, so it is called as in the guide.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        predictor.save("model")
        with contextlib.redirect_stdout(io.StringIO()):
            inspect(Path("model"), "digits", layer=LAYER, unit=UNIT, out=target, device="cpu", overwrite=True)
