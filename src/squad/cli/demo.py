"""``squad demo``: SQUAD and the baselines of its paper on scikit-learn's handwritten digits."""

import os
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from squad.cli import demo_comparison
from squad.cli.options import Overwrite
from squad.cli.terminal import print_message, print_result, table, wrapped

__all__ = ["announce", "certified", "compare", "demo", "show_least_confident", "train", "train_folds"]

#: Networks, in the order of the table.
MODELS: tuple[str, ...] = ("squad", "squad-factorized", "maxout-dropout", "relu-dropout", "dlgm", "mlp")
#: Default folder of the model; the next demo replaces it.
DEFAULT_OUT = Path("demo/model")
#: Selective risk and delta of the certificate.  The number of calibration digits decides: with 300, a risk of 1 %
#: cannot be certified even if no prediction is wrong; 2 % leaves room for an error or two.
RISK, DELTA = 0.02, 0.05
DEVELOPMENT_NOTE = (
    "(The library was developed with these digits, so take this certificate as an example. On your own data, fix the"
    " risk before you look at results, as here, and certify with rows that nobody has used.)"
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

    The demo takes about a minute. The comparison is cross-validated over all 1,797 digits. The demo also certifies
    SQUAD with one half of the test digits, evaluates it on the other half, and writes a report next to the model.

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
    page = out.parent / "report.html"
    check_out(out, page)
    artifact.check_target(out, overwrite)
    check_writable(out)
    if page.is_dir():
        raise OutputError(f"{page} is a folder, where the report would be written. Name another folder with --out.")
    if out != DEFAULT_OUT and page.exists() and not overwrite:
        raise OutputError(
            f"{page} exists, which the report would replace. Name another folder with --out, or pass --overwrite."
        )
    digits = load_images("digits")
    announce(digits)
    sets = demo_comparison.folds(digits)
    predictors = train_folds(sets, max_epochs, seed)
    compare(sets, predictors)
    show_least_confident(digits, predictors[0]["squad"])
    predictor = certified(digits, predictors[0]["squad"])
    predictor.save(out, overwrite)
    write_page(digits, predictor, page, str(out))
    print_result(f"\nThe SQUAD model is in {out}. Try next:\n  squad evaluate {out} digits:test")
    print_result(f"  squad predict {out} digits:test --out answers.csv")
    print_result(f"\nIts report, for your browser: {page}")


def check_out(out: Path, page: Path) -> None:
    """Check that the model's folder leaves a place for the report and does not replace the working directory.

    Args:
        out: Folder of the model.
        page: HTML file of the report.

    Raises:
        OutputError: If ``out`` is the path of the report, the working directory or a folder that contains it.
    """
    from squad.output_paths import OutputError

    # Saving replaces the folder; whoever works in it, such as the user's shell, would be left in a deleted one.
    target, here = (Path(os.path.realpath(path)) for path in (out, "."))
    if target in (here, *here.parents):
        raise OutputError(
            f"{out} is the working directory or contains it, and the model would replace it. Name another folder with"
            " --out."
        )
    if target == Path(os.path.realpath(page)):
        raise OutputError(f"{out} is where the report is written. Name another folder with --out.")


def announce(digits: Any, file: Any = None) -> None:
    """Print, before anything is trained, the data and the guarantee that will be attempted.

    Args:
        digits: The data set.
        file: Stream to print to; None for stdout.
    """
    text = (
        f"Fixed before training: the demo will try to certify SQUAD at risk {100 * RISK:g} % (at most {100 * RISK:g} %"
        f" of the digits it accepts are wrong) with a confidence level of {100 * (1 - DELTA):g} %."
    )
    typer.echo(wrapped(text, 79), file=file)
    print_message(f"{len(digits.x_train):,} training digits, {len(digits.x_test):,} test digits")


def train_folds(sets: list[Any], max_epochs: int, seed: int) -> list[dict[str, Any]]:
    """Train one predictor per fold and network.

    Args:
        sets: The folds.
        max_epochs: Maximum number of epochs.
        seed: Seed of the split, the weights and the noise.

    Returns:
        Per fold, predictors by the name of their network.
    """
    return [
        train(one, max_epochs, seed, f", fold {number} of {len(sets)}" if len(sets) > 1 else "")
        for number, one in enumerate(sets, 1)
    ]


def train(digits: Any, max_epochs: int, seed: int, note: str = "") -> dict[str, Any]:
    """Train one predictor per network.

    Args:
        digits: The data set.
        max_epochs: Maximum number of epochs.
        seed: Seed of the split, the weights and the noise.
        note: Text after the name of the network in the progress display.

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
            progress=make_progress(label=name.ljust(max(map(len, MODELS))) + note),
            record={"source": "digits (training set)", "settings": {}},
        )
        for name in MODELS
    }


def compare(sets: list[Any], predictors: list[dict[str, Any]], file: Any = None) -> None:
    """Print a table of all networks on all digits, and a sentence on what it means.

    Args:
        sets: The folds.
        predictors: Per fold, predictors by the name of their network.
        file: Stream to print to; None for stdout.
    """
    found = demo_comparison.comparisons(*demo_comparison.pooled(sets, predictors))
    rows = [
        (
            one.name,
            f"{100 * one.accuracy:.1f} %",
            f"{one.nll:.3f}",
            f"{100 * one.coverage:.1f} %",
            ""
            if one.difference is None
            else f"{100 * one.difference:+.1f} ({100 * one.low:+.1f} to {100 * one.high:+.1f})",
        )
        for one in found
    ]
    risk = f"{100 * demo_comparison.RISK:g} %"
    count = sum(len(one.x_test) for one in sets)
    title = (
        f"Comparison on all {count:,} digits, each predicted by networks trained on two thirds of them, without it"
        f" (coverage at {risk}: fraction of digits accepted if {risk} of them may be wrong):"
    )
    header = ("", "accuracy", "NLL", f"coverage at {risk}", "minus SQUAD's")
    table(wrapped(title, 79), header, rows, file=file)
    text = (
        f"{demo_comparison.meaning(found)} (In parentheses: approximate {100 * demo_comparison.INTERVAL_LEVEL:g} %"
        " intervals over the choice of digits; another seed changes the numbers as well.)"
    )
    typer.echo(wrapped(text, 79), file=file)


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
    lines += textwrap.wrap(DEVELOPMENT_NOTE, 79)
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
    write_report(
        page,
        {name: predictor},
        digits.x_test[rows],
        labels,
        source="digits (test half of the test set)",
        title="Handwritten digits",
        intended_use="To show what a report contains. Not for reading digits in earnest.",
    )


def _shades(file: Any) -> str:
    """Return five characters from dark to bright that the stream can encode."""
    encoding = getattr(file or sys.stdout, "encoding", None) or "utf-8"
    try:
        SHADES.encode(encoding)
    except UnicodeEncodeError:
        return PLAIN_SHADES
    return SHADES
