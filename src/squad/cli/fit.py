"""``squad fit``: from data to a saved model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from squad.cli.screen import say

__all__ = ["fit"]


def fit(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A CSV, Parquet or NPZ file, or a data set (squad data list).")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the model.")] = Path("model"),
    target: Annotated[str | None, typer.Option(help="Column of the labels.")] = None,
    model: Annotated[
        str | None,
        typer.Option(help="squad (default), squad-factorized, mlp, maxout-dropout, relu-dropout or dlgm."),
    ] = None,
    members: Annotated[int | None, typer.Option(help="Networks to train at once; they answer together.")] = None,
    group: Annotated[
        str | None, typer.Option(help="Column that says which rows belong together, such as patient_id.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be given several times.")] = None,
    hidden: Annotated[str | None, typer.Option(help="Sizes of the hidden layers, such as 32,32.")] = None,
    max_epochs: Annotated[int | None, typer.Option(help="Passes over the data, at the most.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the split, the weights and the noise.")] = None,
    sampling: Annotated[
        str | None, typer.Option(help="How it will be asked: stratified, relaxed, hard, sample or mean.")
    ] = None,
    num_samples: Annotated[int | None, typer.Option(help="Samples of an answer.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings; options override it.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting, such as training.lr=0.001 or network.bins=21."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    data_dir: Annotated[Path | None, typer.Option(help="Folder in which data sets are looked for first.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin anew, even if an interrupted run could be gone on with.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Train a model and save it.

    An interrupted run goes on where it was when the same command is given again.

    Examples:

    \b
    squad fit train.csv --target y --out model
    squad fit train.csv --target y --model maxout-dropout --members 5 --out ensemble
    squad fit train.csv --target y --group patient_id --drop comment --out by-patient
    squad fit digits --max-epochs 20 --set network.bins=21 --set training.lr=0.002 --out digits-model
    squad fit train.csv --config settings.toml --seed 1 --out other
    """
    from squad import artifact
    from squad.cli.inputs import read_rows
    from squad.cli.settings import fit_settings, merged, read_toml
    from squad.fitting import choose_device, fit_predictor
    from squad.train import SilentProgress, make_progress

    options: dict[str, Any] = {
        "target": target,
        "group": group,
        "drop": drop or None,
        "model": model,
        "members": members,
        "seed": seed,
        "network.hidden": None if hidden is None else _sizes(hidden),
        "training.max_epochs": max_epochs,
        "prediction.sampling": sampling,
        "prediction.num_samples": num_samples,
    }
    settings = merged(read_toml(config), set_ or [], options)
    resolved = fit_settings(settings)
    artifact.check_target(out, overwrite)
    where = choose_device(device)
    rows = read_rows(data, "train", target=settings.get("target"), group=settings.get("group"), data_dir=data_dir)
    assert rows.labels is not None
    checkpoint = out.parent / f"{out.name}.checkpoint"
    if restart:
        checkpoint.unlink(missing_ok=True)
    if not quiet:
        say(f"{len(rows):,} rows of {rows.source}; training {resolved.network.name} on {where.type}")
    try:
        predictor = fit_predictor(
            rows.x,
            rows.labels,
            resolved,
            target=settings.get("target"),
            drop=settings.get("drop", ()),
            group=settings.get("group"),
            groups=rows.groups,
            device=where,
            progress=SilentProgress() if quiet else make_progress(),
            checkpoint=checkpoint,
            record={"source": rows.source, "settings": settings},
        )
    except KeyboardInterrupt:
        if checkpoint.exists():
            say(f"\nThe same command goes on from {checkpoint}.")
        raise
    predictor.save(out, overwrite)
    checkpoint.unlink(missing_ok=True)
    for note in predictor.record["notes"]:
        say(note)
    typer.echo(f"{out}: {summary(predictor)}")


def summary(predictor: Any) -> str:
    """One line about a model that was just trained."""
    results = predictor.record["members"]
    best = [result["best_accuracy"] for result in results if result["best_accuracy"] is not None]
    accuracy = f"validation accuracy {100 * sum(best) / len(best):.1f} %"
    many = f", {len(best)} members" if len(best) > 1 else ""
    epochs = max(result["epochs"] for result in results)
    return (
        f"{predictor.config.name}{many}, {accuracy} (mean of its members)"
        if many
        else f"{predictor.config.name}, {accuracy}"
    ) + f", {epochs} epochs in {predictor.record['seconds']:.0f} s"


def _sizes(text: str) -> list[int]:
    from squad.errors import ArgumentError

    try:
        return [int(size) for size in text.replace("x", ",").split(",")]
    except ValueError:
        raise ArgumentError.of("--hidden", repr(text), "sizes with commas between them, such as 32,32") from None
