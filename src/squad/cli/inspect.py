"""``squad inspect``: what the latent variables of a model do."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from squad.cli.answer_files import check_new
from squad.cli.options import DataDir, Decimal, Device, Encoding, Overwrite, SavedModel
from squad.cli.terminal import facts, say, table, tell

if TYPE_CHECKING:
    from squad.analysis import Activation, Found, Posteriors
    from squad.cli.inputs import Format

__all__ = ["inspect"]

#: Units in the table: it fits on a screen.
SHOWN = 20
#: What figures can be written as.
KINDS = (".png", ".pdf", ".svg")


def inspect(
    model: SavedModel,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="Rows to look at, without labels: a file or a data set. By default what the model was trained on.",
            show_default=False,
        ),
    ] = None,
    layer: Annotated[int, typer.Option(metavar="L", help="Which latent layer, counted from 1.")] = 1,
    unit: Annotated[
        int | None, typer.Option(metavar="K", help="Which unit, counted from 1; without it all are listed.")
    ] = None,
    member: Annotated[
        int | None, typer.Option(metavar="M", help="Of an ensemble, as squad info counts them: from 0.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The picture: PNG, PDF or SVG; named after layer and unit."),
    ] = None,
    rows: Annotated[int, typer.Option(metavar="N", help="Look at so many rows, at the most.")] = 2000,
    device: Device = "auto",
    data_dir: DataDir = None,
    overwrite: Overwrite = False,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Look into a model: what its latent variables do.

    Without --unit it lists the units of a layer, those first that tell most about the input. With it, it draws the
    unit: distributions it predicts, its activation function, and the weights behind its values.

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
    where = choose_device(device)
    predictor = load(model, where)
    units = _units(predictor, model)
    check_count("--layer", layer, 1, len(units))
    index, name = _member(predictor, member)
    if unit is None:
        if out is not None:
            raise typer.BadParameter("--out is the place of a picture, and needs --unit")
    else:
        check_count("--unit", unit, 1, units[layer - 1])
        out = _place(out, layer, unit, member)
        check_new(out, overwrite)
        check_writable(out)
    looked = _looked_at(predictor, model, data, rows, data_dir, Format(encoding, decimal))

    from squad.analysis import posteriors

    found = posteriors(predictor.network, looked.x, layer, index)
    one = "" if unit is None else f", unit {unit}"
    about = f"{model}: layer {layer} of {len(units)}{one}{name}, on {len(looked.x):,} rows of {looked.source}"
    if unit is None or out is None:
        _list(found, about)
    else:
        _show(predictor, found, looked, unit, index, about, out)


@dataclass(frozen=True)
class _Looked:
    """The rows that are looked at.

    Attributes:
        x: (N, in), encoded, a tensor.
        places: (N,), where each stands in DATA, from 0.
        source: what they are called.
        pictures: of all rows of DATA; None if they are no images.
    """

    x: Any
    places: Any
    source: str
    pictures: Any = None


def _units(predictor: Any, model: Path) -> tuple[int, ...]:
    """How many units each latent layer has."""
    from squad.analysis import latent_layers
    from squad.errors import ArgumentError

    if not predictor.network.has_temperature:
        raise ArgumentError.of(
            "MODEL",
            f"{model}, whose network is {predictor.config.name}",
            "one with quantized latents: squad, squad-factorized",
        )
    return latent_layers(predictor.network)


def _member(predictor: Any, asked: int | None) -> tuple[int, str]:
    """Where the member stands in the network, and what it is called, if there are several."""
    from squad.errors import ArgumentError

    trained = predictor.record.get("members", [])
    names = [place for place, result in enumerate(trained) if result.get("best_epoch") is not None]
    if len(names) != predictor.members:  # unknown, or not those of one run
        names = list(range(predictor.members))
    asked = names[0] if asked is None else asked
    if asked not in names:
        raise ArgumentError.of("--member", asked, f"one that the model has: {', '.join(map(str, names))}")
    return names.index(asked), f", member {asked}" if predictor.members > 1 else ""


def _place(out: Path | None, layer: int, unit: int, member: int | None) -> Path:
    from squad.output_paths import OutputError

    of = "" if member is None else f"-member{member}"
    out = Path(f"inspect-layer{layer}-unit{unit}{of}.png") if out is None else out
    if out.suffix.lower() not in KINDS or out.is_dir():
        raise OutputError(f"--out must be a file that ends in {', '.join(KINDS[:-1])} or {KINDS[-1]}, got {out}.")
    return out


def _looked_at(
    predictor: Any, model: Path, data: str | None, most: int, data_dir: Path | None, format: "Format"
) -> _Looked:
    """The rows of DATA that can be used, ``most`` of them at the most, drawn by a fixed seed."""
    import numpy as np
    import torch

    from squad.cli.inputs import read_rows
    from squad.cli.labelled_rows import check_kind
    from squad.errors import DataError
    from squad.predictor.row_pass import encode

    named = _trained_on(predictor) if data is None else data
    if named is None:
        say("No DATA, and what it was trained on is not here: it is shown standard-normal noise, not rows.")
        noise = np.random.default_rng(0).standard_normal((most, predictor.network.in_features))
        return _Looked(torch.from_numpy(noise), np.arange(most), "standard-normal noise")
    read = read_rows(named, "test", target=None, need_labels=False, strict=False, data_dir=data_dir, format=format)
    if data is None:
        say(f"No DATA: it is shown rows of {read.source}.")
    check_kind(predictor, read.x, model, named)
    encoded = encode(predictor, read.x)
    usable = np.delete(np.arange(len(encoded.x)), list(encoded.problems))
    if not len(usable):
        first = next(iter(encoded.problems.values()), "it has none")
        raise DataError(f"{named} has no row that can be used; the first: {first}.")
    if len(usable) > most:
        usable = np.sort(np.random.default_rng(0).choice(usable, most, replace=False))
    shape = getattr(predictor.transform, "shape", ())
    pictures = read.x if len(shape) in (2, 3) else None
    return _Looked(torch.from_numpy(encoded.x[usable]), usable, read.source, pictures)


def _trained_on(predictor: Any) -> str | None:
    """DATA that the model was trained on, if it can be had again."""
    from squad.data.registry import DATASETS

    source = str(predictor.record.get("source", ""))
    name = source.partition(" (")[0]
    if source and Path(source).is_file():
        return source
    return name if name in DATASETS else None


def _list(found: "Posteriors", about: str) -> None:
    """The units, those first that tell most."""
    import numpy as np

    from squad.analysis import count_modes, information

    bits, modes = information(found.probs), count_modes(found.probs)
    order = np.argsort(-bits, kind="stable")
    table(
        about,
        ("unit", "information", "modes, mean", "two or more", "values"),
        [
            (
                str(unit + 1),
                f"{bits[unit]:.2f} bits",
                f"{modes[:, unit].mean():.2f}",
                f"{100 * (modes[:, unit] > 1).mean():.0f} %",
                _range(found.values[unit]),
            )
            for unit in order[:SHOWN].tolist()
        ],
    )
    left = len(order) - SHOWN
    more = f"{left} more unit{'s' if left > 1 else ''} tell{'' if left > 1 else 's'} less. " if left > 0 else ""
    say(f"{more}--unit {order[0] + 1} draws the first.")


def _show(predictor: Any, found: "Posteriors", looked: _Looked, unit: int, member: int, about: str, out: Path) -> None:
    """One unit, as a picture and in a few lines."""
    from squad.analysis import activation, bin_weights, cases, stereotypes
    from squad.analysis.latent_figures import draw_unit
    from squad.files import replacing

    network = predictor.network
    line = activation(network, looked.x, found.layer, unit, member)
    bins = found.probs.shape[-1]
    typical = cases(found, unit, stereotypes(bins)) if bins > 2 else ()  # of two bins there are no shapes
    chosen = [replace(one, row=int(looked.places[one.row])) for one in typical]
    pictures = None if looked.pictures is None or not chosen else looked.pictures[[one.row for one in chosen]]
    shape, names = _inputs(predictor, found.layer)
    figure = draw_unit(
        line,
        bin_weights(network, found.layer, unit, member),
        chosen,
        shape=shape,
        names=names,
        pictures=pictures,
        title=about,
    )
    with replacing(out) as file:
        figure.savefig(file, format=out.suffix[1:].lower())
    facts(about, _facts(found, unit, line, chosen))
    tell(out)


def _inputs(predictor: Any, layer: int) -> tuple[Any, Any]:
    """Shape of the layer's input if it is an image, and names of its numbers if it is none."""
    from squad.analysis import feature_names

    if layer > 1:
        size = predictor.config.hidden[layer - 2]
        return None, [f"unit {place} of layer {layer - 1}" for place in range(1, size + 1)]
    shape = getattr(predictor.transform, "shape", ())
    return (shape, None) if len(shape) in (2, 3) else (None, feature_names(predictor.transform))


def _facts(found: "Posteriors", unit: int, line: "Activation", chosen: "list[Found]") -> list[tuple[str, str]]:
    from squad.analysis import information, mode_shares

    own = found.probs[:, unit - 1]
    shares = mode_shares(own)
    names = ("one", "two", "three or more")
    told = (*shares[:2], shares[2:].sum())
    modes = ", ".join(f"{name} in {100 * share:.0f} %" for name, share in zip(names, told, strict=False) if share > 0)
    along = (
        "of its own input u, the only number it is given"
        if line.exact
        else f"along a direction that explains {100 * line.explained:.0f} % of how its logits vary"
    )
    shapes = ", ".join(f"{one.stereotype} (row {one.row + 1}, KL {one.kl:.2f})" for one in chosen)
    return [
        ("information", f"{information(own[:, None])[0]:.2f} bits about the input"),
        ("modes", f"{modes} of the rows"),
        ("values", f"{_range(line.values)}, {len(line.values)} bins"),
        ("activation", f"{along}; expected value from {line.mean.min():.2f} to {line.mean.max():.2f}"),
        ("nearest shapes", f"{shapes}; a KL below 0.2 is near, one above 0.7 is not" if shapes else "none"),
    ]


def _range(values: Any) -> str:
    return f"{values[0]:.2f} to {values[-1]:.2f}"
