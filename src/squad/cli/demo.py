"""``squad demo``: SQUAD and what the paper compares it with, on scikit-learn's handwritten digits."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from squad.cli.screen import say, table

__all__ = ["compare", "demo", "least_sure"]

#: In the order of the table.
MODELS = ("squad", "squad-factorized", "maxout-dropout", "relu-dropout", "dlgm", "mlp")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the SQUAD model.")] = Path("demo/model"),
    max_epochs: Annotated[int, typer.Option(min=2, help="Passes over the training rows, at the most.")] = 100,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of the split, the weights and the noise.")] = 0,
) -> None:
    """Train SQUAD and its baselines on handwritten digits, and let it say which ones it is not sure of.

    Takes about a minute.

    Examples:

    \b
    squad demo --max-epochs 5 --out demo/model
    """
    from squad.data.images import load_images

    digits = load_images("digits")
    say(f"{len(digits.x_train):,} digits to learn from, {len(digits.x_test):,} to be tested on")
    predictors = train(digits, max_epochs, seed)
    compare(digits, predictors)
    least_sure(digits, predictors["squad"])
    predictors["squad"].save(out, overwrite=True)
    typer.echo(f"\nThe SQUAD model is in {out}. Try next:\n  squad evaluate {out} digits")
    typer.echo(f"  squad predict {out} digits --out answers.csv")


def train(digits: Any, max_epochs: int, seed: int) -> dict[str, Any]:
    """A predictor of each kind."""
    from squad.cli.inputs import named_labels
    from squad.fitting import FitSettings, fit_predictor
    from squad.models import network_config
    from squad.train import TrainConfig, make_progress

    labels = named_labels(digits.classes, digits.y_train)
    return {
        name: fit_predictor(
            digits.x_train,
            labels,
            FitSettings(network=network_config(name), training=TrainConfig(max_epochs=max_epochs), seed=seed),
            progress=make_progress(label=name.ljust(max(map(len, MODELS)))),
            record={"source": "digits (train part)", "settings": {}},
        )
        for name in MODELS
    }


def compare(digits: Any, predictors: dict[str, Any], file: Any = None) -> None:
    """A table of how well each knows what it knows, on the test part."""
    from squad.cli.predict import measured

    rows = []
    for name, predictor in predictors.items():
        found = measured(predictor.answer(digits.x_test).probabilities, digits.y_test)
        rows.append(
            (
                name,
                f"{100 * found['accuracy']:.1f} %",
                f"{found['nll']:.3f}",
                *(f"{100 * found[f'coverage@{risk}']:.1f} %" for risk in (0.05, 0.01, 0.005)),
            )
        )
    header = ("", "accuracy", "NLL", "coverage at 5 %", "at 1 %", "at 0.5 % risk")
    table("What each would have answered on the test digits, allowed so many errors", header, rows, file=file)


def least_sure(digits: Any, predictor: Any, file: Any = None) -> None:
    """The digit that the network is least sure of, as a picture of blocks."""
    answer = predictor.answer(digits.x_test)
    row = int(np.argmin(answer.confidence))
    first, second = np.argsort(-answer.probabilities[row])[:2]
    lines = ["", "The digit that SQUAD is least sure of:"]
    lines += ["    " + "".join(" ░▒▓█"[min(4, int(v // 3.5))] * 2 for v in line) for line in digits.x_test[row]]
    p = 100 * answer.probabilities[row]
    lines.append(
        f"{digits.classes[first]} with {p[first]:.0f} %, {digits.classes[second]} with {p[second]:.0f} %. "
        f"Its writer meant {digits.classes[digits.y_test[row]]}."
    )
    typer.echo("\n".join(line.rstrip() for line in lines), file=file)
