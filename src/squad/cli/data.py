"""``squad data`` and ``squad split``: data sets by name, and files split into parts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from squad.cli.help_layout import STYLE, Command
from squad.cli.help_layout import Group as CommandGroup
from squad.cli.options import DataDir, Decimal, Encoding, Group, Overwrite, Target
from squad.cli.terminal import download_bar, print_message, print_result, table

__all__ = ["app", "split"]

app = typer.Typer(cls=CommandGroup, **STYLE)

#: Parts in the order of --fractions, and the optional fourth part.
PARTS, EXTRA = ("train", "calibration", "test"), "recalibration"


@app.callback(invoke_without_command=True)
def options(context: typer.Context) -> None:
    """List and download image data sets."""
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
        folder = find(name, data_dir) if dataset.files else None
        where = "in scikit-learn" if not dataset.files else str(folder) if folder else "not here yet"
        rows.append((name, dataset.title, dataset.licence, where))
    table("squad data fetch NAME downloads one:", ("name", "content", "licence", "where"), rows, words=4)


@app.command(cls=Command)
def fetch(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of a data set (squad data list).", show_default=False)
    ],
    data_dir: DataDir = None,
) -> None:
    """Download a data set from its publisher, unless it is there already.

    It is saved in --data-dir, in the folder that SQUAD_DATA names, or in your cache.

    \b
    Examples:
      squad data fetch fashion-mnist
    """
    from squad.data.registry import dataset, locate_or_fetch

    if not dataset(name).files:
        print_result(f"{name} comes with scikit-learn: there is nothing to fetch.")
        return
    with download_bar() as progress:
        folder = locate_or_fetch(name, data_dir, progress)
    print_result(f"{name}: {folder}")


def split(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A CSV, TSV, Parquet or NPZ file.", show_default=False)],
    target: Target = None,
    group: Group = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for the parts.  [default: the folder of DATA]")
    ] = None,
    fractions: Annotated[
        str, typer.Option(metavar="SHARES", help="Proportions of train, calibration and test.")
    ] = "0.6,0.2,0.2",
    recalibration: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Proportion of a fourth part for squad recalibrate, such as .1; the others share the rest.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the split.")] = 0,
    overwrite: Overwrite = False,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Split a file into training, calibration and test files.

    The split is stratified by class, and the same on every machine. Rows used for recalibration cannot be used
    for certification: --recalibration writes a fourth file for squad recalibrate.

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
    from squad.data.column_names import format_names
    from squad.data.splits import split_rows
    from squad.data.tables import STDIN_NAMES, Table, groups, labels, read
    from squad.errors import DataError

    proportions = _fractions(fractions, recalibration)
    check_count("--seed", seed, 0)
    # If there is no such file, `read` raises an error that says so.
    exists = data in STDIN_NAMES or Path(data).is_file() or Path(data).is_fifo() or is_named(data)
    paths = _paths(data, out, overwrite, tuple(proportions)) if exists else {}
    found = read(data, target=target, encoding=encoding, decimal=decimal)
    if not isinstance(found, Table):
        if group is not None:
            raise DataError(f"{data} has no columns, so --group {group} is impossible. Omit it, or pass a table.")
    elif target is None:
        raise DataError(
            f"Name the label column of {data} with --target; its columns are {format_names(found.columns)}."
        )
    elif group == target:
        raise DataError(f"{target!r} is the target and cannot be the group as well. Choose another column for --group.")
    row_groups = groups(found, group) if group is not None and isinstance(found, Table) else None
    parts = split_rows(labels(found, target), proportions, seed, row_groups)
    for name, rows in parts.parts.items():
        if not len(rows):
            raise DataError(
                f"{data} has too few rows per class: the part {name} would be empty. Use more rows, or other"
                " --fractions."
            )
    _write(found, parts.parts, paths)
    for note in parts.notes:
        print_message(note)
    for name, path in paths.items():
        print_result(f"{path}: {len(parts.parts[name]):,} rows")


def _fractions(text: str, extra: float | None = None) -> dict[str, float]:
    """Return the proportion of each part, by name.

    Args:
        text: Value of --fractions.
        extra: Value of --recalibration.
    """
    from squad.errors import ArgumentError

    try:
        proportions = [float(proportion) for proportion in text.split(",")]
    except ValueError:
        proportions = []
    if (
        len(proportions) != 3
        or not all(0 < proportion < 1 for proportion in proportions)
        or abs(sum(proportions) - 1) > 1e-9
    ):
        raise ArgumentError.of(
            "--fractions", repr(text), "three positive numbers that add up to 1, such as 0.6,0.2,0.2"
        )
    if extra is None:
        return dict(zip(PARTS, proportions, strict=True))
    if not 0 < extra < 1:
        raise ArgumentError.of("--recalibration", extra, "between 0 and 1, such as .1")
    return {
        **{name: proportion * (1 - extra) for name, proportion in zip(PARTS, proportions, strict=True)},
        EXTRA: extra,
    }


def _paths(data: str, out: Path | None, overwrite: bool, parts: Sequence[str]) -> dict[str, Path]:
    """Return the file of each part, after a check that it can be written.

    Args:
        data: DATA as given on the command line.
        out: Folder for the parts; None: the folder of DATA.
        overwrite: Whether existing files may be replaced.
        parts: Names of the parts.
    """
    from squad.cli.inputs import is_named
    from squad.data.tables import STDIN_NAMES
    from squad.errors import DataError
    from squad.output_paths import check_writable

    source = Path(data)
    if is_named(data):
        raise DataError(f"{data} is a data set, which has parts already ({data}:train). Pass a file of your own.")
    suffix = "".join(source.suffixes[-2:]) if source.suffix.lower() == ".gz" else source.suffix
    piped = data in STDIN_NAMES or source.is_fifo()
    if piped and out is None:
        raise DataError(f"{data} is not in a folder. Name a folder for the parts with --out.")
    suffix = suffix or ".csv"
    folder = source.parent if out is None else out
    paths = {name: folder / f"{name}{suffix}" for name in parts}
    existing = [path for path in paths.values() if path.exists()]
    for path in existing:
        if path.is_dir():
            raise DataError(f"{path} is a folder, but a part needs this name. Name another folder with --out.")
        if not piped and path.samefile(source):
            raise DataError(f"{data} would be replaced by one of its own parts. Name another folder with --out.")
    if existing and not overwrite:
        names = ", ".join(map(str, existing))
        raise DataError(f"{names} would be replaced. Pass --overwrite, or name another folder with --out.")
    check_writable(paths["train"])
    return paths


def _write(data: Any, parts: dict[str, Any], paths: dict[str, Path]) -> None:
    """Write all parts, or none if one of them cannot be written."""
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
