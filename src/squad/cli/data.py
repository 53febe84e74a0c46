"""``squad data`` and ``squad split``: data sets, and files of one's own in three parts."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from squad.cli.screen import download_bar, say, table

__all__ = ["app", "split"]

app = typer.Typer(help="Data sets by name: what there is, and getting it.", no_args_is_help=True)

DataDir = Annotated[Path | None, typer.Option(help="Folder in which data sets are looked for first.")]


@app.command("list")
def list_(data_dir: DataDir = None) -> None:
    """List the data sets, and where they are on this machine.

    Examples:

    \b
    squad data list
    """
    from squad.data.registry import DATASETS, find

    rows = []
    for name, dataset in DATASETS.items():
        place = find(name, data_dir) if dataset.files else None
        where = (
            "comes with scikit-learn" if not dataset.files else str(place) if place else "not here: squad data fetch"
        )
        rows.append((name, dataset.title, dataset.licence, where))
    table("Data sets", ("name", "what it is", "licence", "where"), rows)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A name from squad data list.")],
    data_dir: DataDir = None,
) -> None:
    """Download a data set from its publisher, unless it is here.

    It goes to --data-dir, to the folder that SQUAD_DATA names, or to your cache.

    Examples:

    \b
    squad data fetch digits
    """
    from squad.data.registry import dataset, locate_or_fetch

    if not dataset(name).files:
        typer.echo(f"{name} comes with scikit-learn: there is nothing to fetch.")
        return
    with download_bar() as progress:
        folder = locate_or_fetch(name, data_dir, progress)
    typer.echo(f"{name}: {folder}")


def split(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A CSV, Parquet or NPZ file.")],
    target: Annotated[str | None, typer.Option(help="Column of the labels.")] = None,
    group: Annotated[
        str | None, typer.Option(help="Column that says which rows belong together: no group is in two parts.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the parts; that of DATA without it.")] = None,
    fractions: Annotated[str, typer.Option(help="Shares of train, calibration and test.")] = "0.6,0.2,0.2",
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives another split.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")] = False,
) -> None:
    """Write train, calibration and test files, stratified by the labels, the same on every machine.

    Examples:

    \b
    squad split data.csv --target y
    squad split data.csv --target y --group patient_id --out by-patient
    squad split data.csv --target y --fractions 0.5,0.25,0.25 --seed 1 --overwrite
    """
    from squad.data.problems import DataError
    from squad.data.splits import split_rows
    from squad.data.tables import Table, groups, labels, read

    source = Path(data)
    if not source.exists():
        raise DataError(f"{data} does not exist: split takes a file of your own.")
    found = read(data, target=target)
    if group is not None and not isinstance(found, Table):
        raise DataError(f"{data} has no columns, so no group {group!r}: write a table.")
    own = groups(found, group) if group is not None and isinstance(found, Table) else None
    parts = split_rows(labels(found, target), _fractions(fractions), seed, own)
    suffix = "".join(source.suffixes[-2:]) if source.suffix == ".gz" else source.suffix
    folder = out or source.parent
    paths = {name: folder / f"{name}{suffix}" for name in parts.parts}
    taken = [str(path) for path in paths.values() if path.exists()]
    if taken and not overwrite:
        raise DataError(f"{', '.join(taken)} would be replaced. Say --overwrite, or name another folder with --out.")
    if any(path.exists() and path.samefile(source) for path in paths.values()):
        raise DataError(f"{data} would be replaced by one of its own parts. Name another folder with --out.")
    _write(found, parts.parts, paths)
    for note in parts.notes:
        say(note)
    for name, path in paths.items():
        typer.echo(f"{path}: {len(parts.parts[name]):,} rows")


def _fractions(text: str) -> dict[str, float]:
    from squad.errors import ArgumentError

    try:
        shares = [float(share) for share in text.split(",")]
    except ValueError:
        shares = []
    if len(shares) != 3:
        raise ArgumentError.of("--fractions", repr(text), "three numbers that add up to 1, such as 0.6,0.2,0.2")
    return dict(zip(("train", "calibration", "test"), shares, strict=True))


def _write(data: Any, parts: dict[str, Any], paths: dict[str, Path]) -> None:
    """All parts, and only then their names: no part is left alone."""
    from squad.data.arrays import Arrays, write_npz
    from squad.data.tables import Table, write

    scratch = {name: path.with_name(f".partial-{path.name}") for name, path in paths.items()}
    try:
        for name, rows in parts.items():
            if isinstance(data, Table):
                write(data.frame.iloc[rows], scratch[name])
            else:
                write_npz(Arrays(data.x[rows], data.y[rows]), scratch[name])
        for name, path in paths.items():
            os.replace(scratch[name], path)
    finally:
        for path in scratch.values():
            path.unlink(missing_ok=True)
