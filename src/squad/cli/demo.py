"""``squad demo``: SQUAD and what the paper compares it with, on scikit-learn's handwritten digits."""

import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from squad.cli.terminal import say, table, tell, wrapped

__all__ = ["certified", "compare", "demo", "least_sure", "train"]

#: In the order of the table.
MODELS: tuple[str, ...] = ("squad", "squad-factorized", "maxout-dropout", "relu-dropout", "dlgm", "mlp")
#: Where its model goes, which the next demo replaces.
MODEL = Path("demo/model")
#: What it is certified for: so many wrong answers at most among those accepted, and so large a chance to be mistaken.
#: Chosen after 5 % and 3 % had been tried on these very digits, at which nearly all are accepted: see CHOSEN.
RISK, DELTA = 0.02, 0.05
CHOSEN = (
    "(For the demonstration the 2 % were picked after 5 % and 3 % had been tried on these digits, so the guarantee"
    " is only an example: on your own data, name the risk before you look.)"
)
#: Dark to bright, and what a terminal without such letters gets.
SHADES, PLAIN_SHADES = " ░▒▓█", " .:*#"


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to save the SQUAD model.")] = MODEL,
    max_epochs: Annotated[int, typer.Option(metavar="N", help="Passes over the rows, at the most.")] = 100,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the split, the weights and the noise.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model in a --out of your own.")] = False,
) -> None:
    """Train SQUAD and its baselines on digits, and compare them.

    Takes about a minute. Then certifies SQUAD on one half of the test digits, looks at the other half, and writes a
    report on it beside the model.

    \b
    Examples:
      squad demo --max-epochs 5
    """
    from squad import artifact
    from squad.core.checks import check_count
    from squad.data.images import load_images
    from squad.output_paths import OutputError, check_writable

    check_count("--max-epochs", max_epochs, 1)
    check_count("--seed", seed, 0, 2**62)
    overwrite = overwrite or out == MODEL
    artifact.check_target(out, overwrite)
    check_writable(out)
    page = out.parent / "report.html"
    if page.is_dir() or (out != MODEL and page.exists() and not overwrite):
        raise OutputError(f"{page} exists, where the report would go. Name another --out, or say --overwrite.")
    digits = load_images("digits")
    say(f"{len(digits.x_train):,} digits to learn from, {len(digits.x_test):,} to be tested on")
    predictors = train(digits, max_epochs, seed)
    compare(digits, predictors)
    least_sure(digits, predictors["squad"])
    safe = certified(digits, predictors["squad"])
    safe.save(out, overwrite)
    write_page(digits, safe, page, str(out))
    tell(f"\nThe SQUAD model is in {out}. Try next:\n  squad evaluate {out} digits:test")
    tell(f"  squad predict {out} digits:test --out answers.csv")
    tell(f"\nThe report on it, for your browser: {page}")


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
    from squad.cli.predict import evaluation_metrics

    rows = []
    for name, predictor in predictors.items():
        found = evaluation_metrics(predictor.answer(digits.x_test).probabilities, digits.y_test)
        rows.append(
            (
                name,
                f"{100 * found['accuracy']:.1f} %",
                f"{found['nll']:.3f}",
                *(f"{100 * found[f'coverage@{risk}']:.1f} %" for risk in (0.05, 0.01, 0.005)),
            )
        )
    header = ("", "accuracy", "NLL", "coverage at 5 %", "at 1 %", "at 0.5 %")
    title = "On the test digits; coverage is the share it could answer at that risk of error:"
    table(title, header, rows, file=file)


def least_sure(digits: Any, predictor: Any, file: Any = None) -> None:
    """The digit that the network is least sure of, as a picture of blocks."""
    answer = predictor.answer(digits.x_test)
    row = int(np.argmin(answer.confidence))
    first, second = np.argsort(-answer.probabilities[row])[:2]
    lines = ["", "The digit that SQUAD is least sure of:"]
    shades = _shades(file)
    lines += ["    " + "".join(shades[min(4, int(v // 3.5))] * 2 for v in line) for line in digits.x_test[row]]
    p = 100 * answer.probabilities[row]
    lines.append(
        f"{digits.classes[first]} with {p[first]:.0f} %, {digits.classes[second]} with {p[second]:.0f} %. "
        f"Its writer meant {digits.classes[digits.y_test[row]]}."
    )
    typer.echo("\n".join(line.rstrip() for line in lines), file=file)


def certified(digits: Any, predictor: Any, file: Any = None) -> Any:
    """The predictor with a promise, made with one half of the test digits and looked at with the other."""
    from squad.cli.inputs import halves, named_labels

    parts = halves(digits.y_test)
    rows = parts["calibration"]
    labels = named_labels(digits.classes, digits.y_test[rows])
    safe = predictor.certify(
        digits.x_test[rows], labels, RISK, DELTA, source="digits (calibration half of the test part)"
    )
    rows = parts["test"]
    answer = safe.answer(digits.x_test[rows])
    good = answer.decision == "accepted"
    wrong = answer.label[good] != named_labels(digits.classes, digits.y_test[rows])[good]
    lines = ["", f"Certified on {len(parts['calibration'])} of the test digits:"]
    lines.append(wrapped(str(safe.certificate), 79))
    lines.append(
        f"On the {len(rows)} others it answers {good.sum()} and refers {len(rows) - good.sum()}; {wrong.sum()} of its"
        " answers are wrong."
    )
    lines += textwrap.wrap(CHOSEN, 79)
    typer.echo("\n".join(lines), file=file)
    return safe


def write_page(digits: Any, safe: Any, page: Path, name: str) -> None:
    """The report on the half that was not used to certify."""
    from squad.cli.inputs import halves, named_labels
    from squad.report import write_report

    rows = halves(digits.y_test)["test"]
    labels = named_labels(digits.classes, digits.y_test[rows])
    write_report(page, {name: safe}, digits.x_test[rows], labels, source="digits (test half of the test part)")


def _shades(file: Any) -> str:
    encoding = getattr(file or sys.stdout, "encoding", None) or "utf-8"
    try:
        SHADES.encode(encoding)
    except UnicodeEncodeError:
        return PLAIN_SHADES
    return SHADES
