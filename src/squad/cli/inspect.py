"""``squad inspect``: analysis of a model's latent variables."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from squad.cli.answer_files import check_not_existing
from squad.cli.options import DataDir, Decimal, Device, Encoding, Overwrite, SavedModel
from squad.cli.terminal import facts, print_message, print_result, table

if TYPE_CHECKING:
    from squad.analysis import Activation, Found, Posteriors
    from squad.cli.inputs import Format

__all__ = ["inspect"]

#: Maximum number of units in the table, so that it fits on a screen.
MAX_UNITS_SHOWN = 20
#: Supported file formats of figures.
FIGURE_SUFFIXES = (".png", ".pdf", ".svg")


def inspect(
    model: SavedModel,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="Unlabelled rows: a file or a data set.  [default: the data the model was trained on]",
            show_default=False,
        ),
    ] = None,
    layer: Annotated[int, typer.Option(metavar="L", help="Latent layer, counted from 1.")] = 1,
    unit: Annotated[
        int | None, typer.Option(metavar="K", help="Unit to draw, counted from 1.  [default: list all units]")
    ] = None,
    member: Annotated[
        int | None,
        typer.Option(metavar="M", help="Ensemble member, counted from 0 as in squad info.  [default: the first]"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Figure to write: PNG, PDF or SVG.  [default: named by layer and unit]"),
    ] = None,
    rows: Annotated[int, typer.Option(metavar="N", help="Maximum number of rows.")] = 2000,
    device: Device = "auto",
    data_dir: DataDir = None,
    overwrite: Overwrite = False,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Analyse the latent variables of a model.

    Without --unit, list the units of a layer, most informative first. With --unit, draw one unit: examples of the
    distributions it predicts, its activation function, and the weights behind each of its bin values.

    \b
    Examples:
      squad inspect model
      squad inspect model test.csv --layer 2
      squad inspect digits-model digits --layer 1 --unit 12
    """
    from squad.cli.inputs import Format
    from squad.core.checks import check_count
    from squad.output_paths import check_writable
    from squad.predictor import choose_device, load

    check_count("--rows", rows, 1)
    predictor = load(model, choose_device(device))
    layer_sizes = _layer_sizes(predictor, model)
    check_count("--layer", layer, 1, len(layer_sizes))
    member_index, member_name = _find_member(predictor, member)
    if unit is None:
        if out is not None:
            raise typer.BadParameter("--out names the figure of a unit, so it needs --unit")
    else:
        check_count("--unit", unit, 1, layer_sizes[layer - 1])
        out = _figure_path(out, layer, unit, member)
        check_not_existing(out, overwrite)
        check_writable(out)
    sample = _read_sample(predictor, model, data, rows, data_dir, Format(encoding, decimal))

    from squad.analysis import posteriors

    found = posteriors(predictor.network, sample.x, layer, member_index)
    unit_name = "" if unit is None else f", unit {unit}"
    title = (
        f"{model}: layer {layer} of {len(layer_sizes)}{unit_name}{member_name},"
        f" on {len(sample.x):,} rows of {sample.source}"
    )
    if unit is None or out is None:
        _list_units(found, title)
    else:
        _draw_unit(predictor, found, sample, unit, member_index, title, out)


@dataclass(frozen=True)
class _Sample:
    """Rows on which the model is analysed.

    Attributes:
        x: (N, in), encoded rows, a tensor.
        rows: (N,), index of each row in DATA, from 0.
        source: Name of the data.
        pictures: Images of all rows of DATA; None if they are not images.
    """

    x: Any
    rows: Any
    source: str
    pictures: Any = None


def _layer_sizes(predictor: Any, model: Path) -> tuple[int, ...]:
    """Return the number of units of each latent layer."""
    from squad.analysis import latent_layers
    from squad.errors import ArgumentError

    if not predictor.network.has_temperature:
        raise ArgumentError(
            f"{model} has no quantized latents: its network is {predictor.config.name}. Use a squad or squad-factorized"
            " model."
        )
    return latent_layers(predictor.network)


def _find_member(predictor: Any, member: int | None) -> tuple[int, str]:
    """Return the index of the member in the network, and its name if there are several."""
    from squad.errors import ArgumentError

    results = predictor.record.get("members", [])
    # Members whose training failed are not part of the network, but are counted.
    numbers = [number for number, result in enumerate(results) if result.get("best_epoch") is not None]
    if len(numbers) != predictor.members:  # unknown, or members of several runs
        numbers = list(range(predictor.members))
    member = numbers[0] if member is None else member
    if member not in numbers:
        raise ArgumentError.of("--member", member, f"one of the model's members ({', '.join(map(str, numbers))})")
    return numbers.index(member), f", member {member}" if predictor.members > 1 else ""


def _figure_path(out: Path | None, layer: int, unit: int, member: int | None) -> Path:
    """Return the file to write, by default named by layer, unit and member."""
    from squad.output_paths import OutputError

    suffix = "" if member is None else f"-member{member}"
    out = Path(f"inspect-layer{layer}-unit{unit}{suffix}.png") if out is None else out
    if out.suffix.lower() not in FIGURE_SUFFIXES or out.is_dir():
        allowed = f"{', '.join(FIGURE_SUFFIXES[:-1])} or {FIGURE_SUFFIXES[-1]}"
        raise OutputError(f"--out must be a file that ends in {allowed}, got {out}.")
    return out


def _read_sample(
    predictor: Any, model: Path, data: str | None, max_rows: int, data_dir: Path | None, format: "Format"
) -> _Sample:
    """Return the readable rows of DATA; if there are more than ``max_rows``, a random subset with a fixed seed."""
    import numpy as np
    import torch

    from squad.cli.inputs import read_rows
    from squad.cli.labelled_rows import check_table_or_array
    from squad.errors import DataError
    from squad.predictor.row_pass import encode

    named = _training_data(predictor) if data is None else data
    if named is None:
        print_message(
            "DATA is missing and the training data was not found: using standard normal noise instead of rows."
        )
        noise = np.random.default_rng(0).standard_normal((max_rows, predictor.network.in_features))
        return _Sample(torch.from_numpy(noise), np.arange(max_rows), "standard normal noise")
    read = read_rows(named, "test", target=None, need_labels=False, strict=False, data_dir=data_dir, format=format)
    if data is None:
        print_message(f"DATA is missing: using rows of {read.source}.")
    check_table_or_array(predictor, read.x, model, named)
    encoded = encode(predictor, read.x)
    usable = np.delete(np.arange(len(encoded.x)), list(encoded.problems))
    if not len(usable):
        reason = next(iter(encoded.problems.values()), "it is empty")
        raise DataError(f"The model can read no row of {named}. Reason for the first: {reason}.")
    if len(usable) > max_rows:
        usable = np.sort(np.random.default_rng(0).choice(usable, max_rows, replace=False))
    shape = getattr(predictor.transform, "shape", ())
    pictures = read.x if len(shape) in (2, 3) else None
    return _Sample(torch.from_numpy(encoded.x[usable]), usable, read.source, pictures)


def _training_data(predictor: Any) -> str | None:
    """Return the file or data set that the model was trained on, if it is available."""
    from squad.data.registry import DATASETS

    source = str(predictor.record.get("source", ""))
    name = source.partition(" (")[0]
    if source and Path(source).is_file():
        return source
    return name if name in DATASETS else None


def _list_units(found: "Posteriors", title: str) -> None:
    """Print a table of the units, most informative first."""
    import numpy as np

    from squad.analysis import count_modes, information

    bits, modes = information(found.probs), count_modes(found.probs)
    order = np.argsort(-bits, kind="stable")
    table(
        title,
        ("unit", "information", "mean modes", "multimodal", "values"),
        [
            (
                str(unit + 1),
                f"{bits[unit]:.2f} bits",
                f"{modes[:, unit].mean():.2f}",
                f"{100 * (modes[:, unit] > 1).mean():.0f} %",
                _range(found.values[unit]),
            )
            for unit in order[:MAX_UNITS_SHOWN].tolist()
        ],
    )
    left = len(order) - MAX_UNITS_SHOWN
    more = f"{left} less informative unit{'s' if left > 1 else ''} not shown. " if left > 0 else ""
    print_message(f"{more}Add --unit {order[0] + 1} to draw the first.")


def _draw_unit(
    predictor: Any, found: "Posteriors", sample: _Sample, unit: int, member: int, title: str, out: Path
) -> None:
    """Draw one unit, and print a summary."""
    from squad.analysis import activation, bin_weights, cases, stereotypes
    from squad.analysis.latent_figures import draw_unit
    from squad.plotting import save_figure

    network = predictor.network
    function = activation(network, sample.x, found.layer, unit, member)
    bins = found.probs.shape[-1]
    typical = cases(found, unit, stereotypes(bins)) if bins > 2 else ()  # two bins have no stereotypes
    examples = [replace(example, row=int(sample.rows[example.row])) for example in typical]
    pictures = None
    if sample.pictures is not None and examples:
        pictures = sample.pictures[[example.row for example in examples]]
    shape, names = _input_shape_and_names(predictor, found.layer)
    figure = draw_unit(
        function,
        bin_weights(network, found.layer, unit, member),
        examples,
        shape=shape,
        names=names,
        pictures=pictures,
        title=title,
    )
    save_figure(figure, out)
    facts(title, _facts(found, unit, function, examples))
    print_result(out)


def _input_shape_and_names(predictor: Any, layer: int) -> tuple[Any, Any]:
    """Return the shape of the layer's input if it is an image, else the names of its features."""
    from squad.analysis import feature_names

    if layer > 1:
        size = predictor.config.hidden[layer - 2]
        return None, [f"unit {unit} of layer {layer - 1}" for unit in range(1, size + 1)]
    shape = getattr(predictor.transform, "shape", ())
    return (shape, None) if len(shape) in (2, 3) else (None, feature_names(predictor.transform))


def _facts(found: "Posteriors", unit: int, function: "Activation", examples: "list[Found]") -> list[tuple[str, str]]:
    from squad.analysis import information, mode_shares

    probs = found.probs[:, unit - 1]
    shares = mode_shares(probs)
    names = ("one", "two", "three or more")
    grouped = (*shares[:2], shares[2:].sum())
    modes = ", ".join(
        f"{name} in {100 * share:.0f} %" for name, share in zip(names, grouped, strict=False) if share > 0
    )
    axis = (
        "exact, as a function of the unit's scalar input u"
        if function.exact
        else f"along a direction that explains {100 * function.explained:.0f} % of the variance of its logits"
    )
    shapes = ", ".join(f"{example.stereotype} (row {example.row + 1}, KL {example.kl:.2f})" for example in examples)
    return [
        ("information", f"{information(probs[:, None])[0]:.2f} bits about the input"),
        ("modes", f"{modes} of the rows"),
        ("values", f"{_range(function.values)}, {len(function.values)} bins"),
        ("activation", f"{axis}; expected value from {function.mean.min():.2f} to {function.mean.max():.2f}"),
        ("nearest shapes", f"{shapes}; near if KL < 0.2, far if KL > 0.7" if shapes else "none"),
    ]


def _range(values: Any) -> str:
    return f"{values[0]:.2f} to {values[-1]:.2f}"
