"""``squad demo``: SQUAD and the baselines of its paper on scikit-learn's handwritten digits."""

import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from squad.cli.options import Overwrite
from squad.cli.terminal import print_message, print_result, table, wrapped

__all__ = ["certified", "compare", "demo", "show_least_confident", "train"]

#: Networks, in the order of the table.
MODELS: tuple[str, ...] = ("squad", "squad-factorized", "maxout-dropout", "relu-dropout", "dlgm", "mlp")
#: Default folder of the model; the next demo replaces it.
DEFAULT_OUT = Path("demo/model")
#: Selective risk and delta of the certificate.  Chosen after 5 % and 3 % had been tried on the same digits, at which
#: nearly all of them are accepted; see RISK_NOTE.
RISK, DELTA = 0.02, 0.05
RISK_NOTE = (
    "(For this demonstration, 2 % was chosen after trying 5 % and 3 % on the same digits, so the guarantee is only an"
    " example: on your own data, choose the risk before you look at the results.)"
)
#: Characters from dark to bright, and those for terminals that lack them.
SHADES, PLAIN_SHADES = " ░▒▓█", " .:*#"


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the SQUAD model.")] = DEFAULT_OUT,
    max_epochs: Annotated[int, typer.Option(metavar="N", help="Maximum number of epochs.")] = 100,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the split, the weights and the noise.")] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Train SQUAD and its baselines on digits, and compare them.

    The demo takes about a minute. It also certifies SQUAD with one half of the test digits, evaluates it on the other
    half, and writes a report next to the model.

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
    overwrite = overwrite or out == DEFAULT_OUT
    artifact.check_target(out, overwrite)
    check_writable(out)
    page = out.parent / "report.html"
    if page.is_dir() or (out != DEFAULT_OUT and page.exists() and not overwrite):
        raise OutputError(
            f"{page} exists, which the report would replace. Name another folder with --out, or pass --overwrite."
        )
    digits = load_images("digits")
    print_message(f"{len(digits.x_train):,} training digits, {len(digits.x_test):,} test digits")
    predictors = train(digits, max_epochs, seed)
    compare(digits, predictors)
    show_least_confident(digits, predictors["squad"])
    predictor = certified(digits, predictors["squad"])
    predictor.save(out, overwrite)
    write_page(digits, predictor, page, str(out))
    print_result(f"\nThe SQUAD model is in {out}. Try next:\n  squad evaluate {out} digits:test")
    print_result(f"  squad predict {out} digits:test --out answers.csv")
    print_result(f"\nIts report, for your browser: {page}")


def train(digits: Any, max_epochs: int, seed: int) -> dict[str, Any]:
    """Train one predictor per network.

    Args:
        digits: The data set.
        max_epochs: Maximum number of epochs.
        seed: Seed of the split, the weights and the noise.

    Returns:
        Predictors by the name of their network, in the order of ``MODELS``.
    """
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
            record={"source": "digits (training set)", "settings": {}},
        )
        for name in MODELS
    }


def compare(digits: Any, predictors: dict[str, Any], file: Any = None) -> None:
    """Print accuracy, NLL and coverage of each predictor on the test digits as a table.

    Args:
        digits: The data set.
        predictors: Predictors by the name of their network.
        file: Stream to print to; None for stdout.
    """
    from squad.cli.evaluate import evaluation_metrics

    rows = []
    for name, predictor in predictors.items():
        metrics = evaluation_metrics(predictor.answer(digits.x_test).probabilities, digits.y_test)
        rows.append(
            (
                name,
                f"{100 * metrics['accuracy']:.1f} %",
                f"{metrics['nll']:.3f}",
                *(f"{100 * metrics[f'coverage@{risk}']:.1f} %" for risk in (0.05, 0.01, 0.005)),
            )
        )
    header = ("", "accuracy", "NLL", "coverage at 5 %", "at 1 %", "at 0.5 %")
    title = "Test results (coverage: fraction of digits accepted at that selective risk):"
    table(title, header, rows, file=file)


def show_least_confident(digits: Any, predictor: Any, file: Any = None) -> None:
    """Print the digit with the lowest confidence, drawn with block characters.

    Args:
        digits: The data set.
        predictor: A trained predictor.
        file: Stream to print to; None for stdout.
    """
    import numpy as np

    answer = predictor.answer(digits.x_test)
    row = int(np.argmin(answer.confidence))
    first, second = np.argsort(-answer.probabilities[row])[:2]
    lines = ["", "The digit with SQUAD's lowest confidence:"]
    shades = _shades(file)
    lines += ["    " + "".join(shades[min(4, int(v // 3.5))] * 2 for v in line) for line in digits.x_test[row]]
    p = 100 * answer.probabilities[row]
    lines.append(
        f"Predicted {digits.classes[first]} ({p[first]:.0f} %), then {digits.classes[second]} ({p[second]:.0f} %); "
        f"the true label is {digits.classes[digits.y_test[row]]}."
    )
    typer.echo("\n".join(line.rstrip() for line in lines), file=file)


def certified(digits: Any, predictor: Any, file: Any = None) -> Any:
    """Certify the predictor with one half of the test digits, and print how it does on the other half.

    Args:
        digits: The data set.
        predictor: A trained predictor.
        file: Stream to print to; None for stdout.

    Returns:
        The certified predictor.
    """
    from squad.cli.inputs import halves, named_labels

    parts = halves(digits.y_test)
    rows = parts["calibration"]
    labels = named_labels(digits.classes, digits.y_test[rows])
    result = predictor.certify(
        digits.x_test[rows], labels, RISK, DELTA, source="digits (calibration half of the test set)"
    )
    rows = parts["test"]
    answer = result.answer(digits.x_test[rows])
    accepted = answer.accepted
    wrong = answer.label[accepted] != named_labels(digits.classes, digits.y_test[rows])[accepted]
    lines = ["", f"Certified with {len(parts['calibration'])} of the test digits:"]
    lines.append(wrapped(str(result.certificate), 79))
    lines.append(
        f"Of the {len(rows)} others it accepts {accepted.sum()}, {wrong.sum()} of them wrong, and refers"
        f" {len(rows) - accepted.sum()} to a reviewer."
    )
    lines += textwrap.wrap(RISK_NOTE, 79)
    typer.echo("\n".join(lines), file=file)
    return result


def write_page(digits: Any, predictor: Any, page: Path, name: str) -> None:
    """Write the report on the half of the test digits that was not used to certify.

    Args:
        digits: The data set.
        predictor: The certified predictor.
        page: HTML file to write.
        name: Name of the model in the report.
    """
    from squad.cli.inputs import halves, named_labels
    from squad.report import write_report

    rows = halves(digits.y_test)["test"]
    labels = named_labels(digits.classes, digits.y_test[rows])
    write_report(page, {name: predictor}, digits.x_test[rows], labels, source="digits (test half of the test set)")


def _shades(file: Any) -> str:
    """Return five characters from dark to bright that the stream can encode."""
    encoding = getattr(file or sys.stdout, "encoding", None) or "utf-8"
    try:
        SHADES.encode(encoding)
    except UnicodeEncodeError:
        return PLAIN_SHADES
    return SHADES
