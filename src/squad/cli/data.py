"""``squad data`` and ``squad split``: data sets, and files of one's own in parts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from squad.cli.help_layout import STYLE, Command, Group
from squad.cli.options import Decimal, Encoding
from squad.cli.terminal import download_bar, say, table, tell

__all__ = ["app", "split"]

app = typer.Typer(cls=Group, **STYLE)

DataDir = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where data sets are looked for first.")]

#: In the order of the shares, and the one that is made if it is asked for.
PARTS, EXTRA = ("train", "calibration", "test"), "recalibration"


@app.callback(invoke_without_command=True)
def options(context: typer.Context) -> None:
    """Data sets by name: what there is, and getting it."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list", cls=Command)
def list_(data_dir: DataDir = None) -> None:
    """List the data sets, and where they are on this machine.

    \b
    Examples:
      squad data list
    """
    from squad.data.registry import DATASETS, find

    rows = []
    for name, dataset in DATASETS.items():
        place = find(name, data_dir) if dataset.files else None
        where = "in scikit-learn" if not dataset.files else str(place) if place else "not here yet"
        rows.append((name, dataset.title, dataset.licence, where))
    table("squad data fetch NAME gets one:", ("name", "what it is", "licence", "where"), rows, words=4)


@app.command(cls=Command)
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As in squad data list.", show_default=False)],
    data_dir: DataDir = None,
) -> None:
    """Download a data set from its publisher, unless it is here.

    It goes to --data-dir, to the folder that SQUAD_DATA names, or to your cache.

    \b
    Examples:
      squad data fetch digits
    """
    from squad.data.registry import dataset, locate_or_fetch

    if not dataset(name).files:
        tell(f"{name} comes with scikit-learn: there is nothing to fetch.")
        return
    with download_bar() as progress:
        folder = locate_or_fetch(name, data_dir, progress)
    tell(f"{name}: {folder}")


def split(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A CSV, TSV, Parquet or NPZ file.", show_default=False)],
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="The labels.")] = None,
    group: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Says which rows belong together: no group is in two parts."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to write the parts; beside DATA without it.")
    ] = None,
    fractions: Annotated[str, typer.Option(metavar="SHARES", help="Of train, calibration and test.")] = "0.6,0.2,0.2",
    recalibration: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="Write a fourth part for squad recalibrate, such as .1; the others share the rest."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Another one gives another split.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")] = False,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Write train, calibration and test files.

    Every class has its share in each of them, and they are the same on every machine. Rows that recalibrate a model
    cannot certify it: for squad recalibrate there is a fourth file with --recalibration.

    \b
    Examples:
      squad split data.csv --target y --out parts
      squad split data.csv --target y --group patient_id --out parts-by-patient
      squad split data.csv --target y --recalibration .1 --out four-parts
      squad split data.csv --target y --fractions 0.5,0.25,0.25 --seed 1 \\
          --out parts --overwrite
    """
    from squad.cli.inputs import is_named
    from squad.core.checks import check_count
    from squad.data.column_names import listed
    from squad.data.splits import split_rows
    from squad.data.tables import STDIN, Table, groups, labels, read
    from squad.errors import DataError

    shares = _fractions(fractions, recalibration)
    check_count("--seed", seed, 0)
    # What is no file is told by read, which knows what to say.
    there = data in STDIN or Path(data).is_file() or Path(data).is_fifo() or is_named(data)
    paths = _paths(data, out, overwrite, tuple(shares)) if there else {}
    found = read(data, target=target, encoding=encoding, decimal=decimal)
    if not isinstance(found, Table):
        if group is not None:
            raise DataError(f"{data} has no columns, so no group {group!r}: write a table.")
    elif target is None:
        raise DataError(f"Say with --target which column of {data} holds the labels: {listed(found.columns)}.")
    elif group == target:
        raise DataError(f"The target {target!r} cannot be the group as well: choose another column.")
    own = groups(found, group) if group is not None and isinstance(found, Table) else None
    parts = split_rows(labels(found, target), shares, seed, own)
    for name, rows in parts.parts.items():
        if not len(rows):
            raise DataError(f"{data} has too few rows in its classes: the part {name} would have none.")
    _write(found, parts.parts, paths)
    for note in parts.notes:
        say(note)
    for name, path in paths.items():
        tell(f"{path}: {len(parts.parts[name]):,} rows")


def _fractions(text: str, extra: float | None = None) -> dict[str, float]:
    """The share of each part, by name."""
    from squad.errors import ArgumentError

    try:
        shares = [float(share) for share in text.split(",")]
    except ValueError:
        shares = []
    if len(shares) != 3 or not all(0 < share < 1 for share in shares) or abs(sum(shares) - 1) > 1e-9:
        raise ArgumentError.of("--fractions", repr(text), "three positive numbers that add up to 1, as 0.6,0.2,0.2 do")
    if extra is None:
        return dict(zip(PARTS, shares, strict=True))
    if not 0 < extra < 1:
        raise ArgumentError.of("--recalibration", extra, "a share between 0 and 1, such as .1")
    return {**{name: share * (1 - extra) for name, share in zip(PARTS, shares, strict=True)}, EXTRA: extra}


def _paths(data: str, out: Path | None, overwrite: bool, parts: Sequence[str]) -> dict[str, Path]:
    """Where the parts go, if they may."""
    from squad.cli.inputs import is_named
    from squad.data.tables import STDIN
    from squad.errors import DataError
    from squad.output_paths import check_writable

    source = Path(data)
    if is_named(data):
        raise DataError(f"{data} is a data set, which has its parts already: split takes a file of your own.")
    suffix = "".join(source.suffixes[-2:]) if source.suffix.lower() == ".gz" else source.suffix
    piped = data in STDIN or source.is_fifo()
    if piped and out is None:
        raise DataError(f"{data} is no file that parts could stand beside. Name a folder with --out.")
    suffix = suffix or ".csv"
    folder = source.parent if out is None else out
    paths = {name: folder / f"{name}{suffix}" for name in parts}
    there = [path for path in paths.values() if path.exists()]
    for path in there:
        if path.is_dir():
            raise DataError(f"{path} is a folder, and a part would have its name. Name another folder with --out.")
        if not piped and path.samefile(source):
            raise DataError(f"{data} would be replaced by one of its own parts. Name another folder with --out.")
    if there and not overwrite:
        names = ", ".join(map(str, there))
        raise DataError(f"{names} would be replaced. Say --overwrite, or name another folder with --out.")
    check_writable(paths["train"])
    return paths


def _write(data: Any, parts: dict[str, Any], paths: dict[str, Path]) -> None:
    """All parts, and only then their names: no part is left alone."""
    from squad.data.arrays import Arrays
    from squad.data.tables import Table, write_all

    write_all(
        {
            path: data.frame.iloc[parts[name]]
            if isinstance(data, Table)
            else Arrays(data.x[parts[name]], data.y[parts[name]])
            for name, path in paths.items()
        }
    )
