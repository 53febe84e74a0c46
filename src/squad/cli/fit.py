"""``squad fit``: train a model and save it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from squad.cli.accuracy_text import accuracy_text
from squad.cli.options import (
    Data,
    DataDir,
    Decimal,
    Device,
    Drop,
    Encoding,
    Group,
    Hidden,
    MaxEpochs,
    Model,
    Overwrite,
    Seed,
    Target,
)
from squad.cli.terminal import WARNING, StoppedError, print_message, print_result, warn

__all__ = ["fit", "layer_sizes"]


def fit(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the model.")] = Path("model"),
    target: Target = None,
    model: Model = None,
    members: Annotated[
        int | None,
        typer.Option(metavar="M", help="Number of networks in the ensemble, trained together.  [default: 1]"),
    ] = None,
    group: Group = None,
    drop: Drop = None,
    hidden: Hidden = None,
    max_epochs: MaxEpochs = None,
    seed: Seed = None,
    sampling: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="Sampling mode at prediction time: stratified, relaxed, hard, sample or mean.  [default: that of the"
            " network]",
        ),
    ] = None,
    num_samples: Annotated[
        int | None, typer.Option(metavar="N", help="Number of samples per prediction.  [default: that of the network]")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings in TOML; --set and options take precedence.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting, such as training.lr=0.001; repeatable."),
    ] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    overwrite: Overwrite = False,
    checkpoint_seconds: Annotated[
        float,
        typer.Option(metavar="S", help="Minimum time between checkpoints; an interrupted run is saved at once."),
    ] = 30.0,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start from the beginning; do not resume an interrupted run.")
    ] = False,
    no_row_hashes: Annotated[
        bool,
        typer.Option(
            "--no-row-hashes", help="Do not save hashes of the rows; certify then cannot refuse training rows."
        ),
    ] = False,
    no_novelty_check: Annotated[
        bool,
        typer.Option(
            "--no-novelty-check", help="Treat rows unlike the training rows like any other, instead of referring them."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Train a model and save it.

    An interrupted run (Ctrl-C, SIGTERM) is saved after its last complete epoch; the same command resumes it.

    \b
    Examples:
      squad fit train.csv --target y --drop patient_id --out model
      squad fit train.csv --target y --group patient_id --out by-patient
      squad fit train.csv --target y --drop patient_id \\
          --model maxout-dropout --members 5 --max-epochs 20 --out ensemble
      squad fit digits --max-epochs 20 --set network.bins=21 --out digits-model
      squad fit train.csv --config settings.toml --seed 1 --out other
    """
    from squad import artifact
    from squad.cli.inputs import Format, read_rows
    from squad.core.checks import check_number
    from squad.data.tables import Table
    from squad.errors import ArgumentError
    from squad.output_paths import check_writable, exclusive_output
    from squad.predictor import choose_device
    from squad.settings import fit_settings, merged, read_toml

    options: dict[str, Any] = {
        "target": target,
        "group": group,
        "drop": drop or None,
        "model": model,
        "members": members,
        "seed": seed,
        "network.hidden": None if hidden is None else layer_sizes(hidden),
        "training.max_epochs": max_epochs,
        "prediction.sampling": sampling,
        "prediction.num_samples": num_samples,
    }
    check_number("--checkpoint-seconds", checkpoint_seconds, 0.0)
    settings = merged(read_toml(config), set_ or [], options)
    resolved = fit_settings(settings)
    if out.name in ("", ".."):
        out = out.resolve()
    artifact.check_target(out, overwrite)
    check_writable(out)
    where = choose_device(device)
    rows = read_rows(
        data,
        "train",
        target=settings.get("target"),
        group=settings.get("group"),
        data_dir=data_dir,
        format=Format(encoding, decimal),
    )
    assert rows.labels is not None
    if settings.get("drop") and not isinstance(rows.x, Table):
        raise ArgumentError(f"--drop {', '.join(settings['drop'])} needs columns, but {data} has none. Omit it.")
    with exclusive_output(out):
        predictor = _train_and_save(
            rows,
            resolved,
            settings,
            out,
            where,
            restart,
            quiet,
            checkpoint_seconds,
            overwrite,
            keep_row_hashes=not no_row_hashes,
            refer_novel=not no_novelty_check,
        )
    for member, result in enumerate(predictor.record["members"]) if quiet else ():
        if result["ended"] == "diverged":
            warn(f"the loss of member {member} was not finite in epoch {result['epochs']}: try a lower lr.")
    for note in predictor.record["notes"]:
        if not note.startswith(WARNING):  # warnings were printed before training
            print_message(note)
    print_result(f"{out}: {summary(predictor)}")


def _train_and_save(
    rows: Any,
    resolved: Any,
    settings: dict[str, Any],
    out: Path,
    where: Any,
    restart: bool,
    quiet: bool,
    checkpoint_seconds: float,
    overwrite: bool,
    keep_row_hashes: bool,
    refer_novel: bool,
) -> Any:
    """Train the model, or resume its training, and save it; the arguments are those of the command, resolved."""
    from squad import artifact
    from squad.fitting import fit_predictor
    from squad.search.deferred_interrupts import uninterrupted
    from squad.train import make_progress
    from squad.train.checkpoint import CheckpointError

    checkpoint = out.parent / f"{out.name}.checkpoint"
    if restart:
        checkpoint.unlink(missing_ok=True)
    title = f"{len(rows):,} rows of {rows.source}; training {resolved.network.name} on {where.type}"
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
            progress=_quiet() if quiet else make_progress(title=title),
            checkpoint=checkpoint,
            checkpoint_seconds=checkpoint_seconds,
            record={"source": rows.source, "settings": settings},
            keep_row_hashes=keep_row_hashes,
            refer_novel=refer_novel,
        )
    except CheckpointError as error:
        raise CheckpointError(f"{error} --restart does that.") from error
    except KeyboardInterrupt:
        saved = f"the same command resumes from {checkpoint}" if checkpoint.exists() else "nothing was saved yet"
        raise StoppedError(f"stopped; {saved}.") from None
    try:
        with uninterrupted():  # takes a moment, after which nothing is lost
            predictor.save(out, overwrite)
            checkpoint.unlink(missing_ok=True)
    except KeyboardInterrupt:
        raise StoppedError(f"stopped; {out} was saved.") from None
    except artifact.ArtifactError as error:
        saved = f" The trained weights are saved in {checkpoint}." if checkpoint.exists() else ""
        raise artifact.ArtifactError(f"{error}{saved}") from error
    return predictor


def _quiet() -> Any:
    """Return a progress display that shows warnings only."""
    from squad.train import SilentProgress

    class Quiet(SilentProgress):
        def message(self, text: str) -> None:
            if text.startswith(WARNING):
                print_message(text)

    return Quiet()


def summary(predictor: Any) -> str:
    """Return one line about a model that was just trained."""
    results = predictor.record["members"]
    best = [result["best_accuracy"] for result in results if result["best_accuracy"] is not None]
    accuracy = f"validation accuracy {accuracy_text(sum(best) / len(best), predictor.record['rows']['validation'])}"
    several = len(results) > 1
    of_all = f" of {len(results)}" if len(best) < len(results) else ""
    return ", ".join(
        [
            f"{predictor.config.name}, {len(best)}{of_all} members" if several else predictor.config.name,
            f"mean {accuracy}" if several else accuracy,
            f"{max(result['epochs'] for result in results)} epochs in {predictor.record['seconds']:.0f} s",
        ]
    )


def layer_sizes(text: str) -> list[int]:
    """Return the sizes of the hidden layers, from the value of --hidden such as "32,32".

    Examples:
        >>> layer_sizes("32,32")
        [32, 32]
    """
    from squad.errors import ArgumentError

    try:
        return [int(size) for size in text.replace("x", ",").split(",")]
    except ValueError:
        raise ArgumentError.of("--hidden", repr(text), "comma-separated sizes such as 32,32") from None
