"""``squad info``: what is in a saved model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from squad.cli.accuracy_text import accuracy_text
from squad.cli.terminal import facts, table, tell, tell_paragraphs

__all__ = ["info"]

#: So many attempts are listed, with so many letters of their risks.
LISTED, SHORT = 20, 40


def info(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a saved model.", show_default=False)],
    settings: Annotated[
        bool, typer.Option("--settings", help="Print its settings as TOML, for squad fit --config.")
    ] = False,
) -> None:
    """Tell what a saved model is, and how it was trained.

    \b
    Examples:
      squad info model
      squad info model --settings > settings.toml
      squad fit train.csv --config settings.toml --out the-same
    """
    from squad.predictor import load

    predictor = load(model)
    if settings:
        typer.echo(_toml(predictor), nl=False)
        return
    record = predictor.record
    network, training = predictor.config.to_dict(), record.get("training", {})
    rows = record.get("rows", {})
    shown: list[tuple[str, str]] = [
        ("network", f"{predictor.config.name}: {_settings(network)}"),
        ("inputs", _inputs(predictor)),
        *_columns(predictor),
        ("classes", _listed([str(name) for name in predictor.classes])),
        ("weights", f"{_weights(predictor):,} in {predictor.members} member{'s' if predictor.members > 1 else ''}"),
        ("answers", f"{predictor.num_samples} {predictor.sampling} samples a member"),
        ("recalibration", str(predictor.recalibration) if predictor.recalibration else "none"),
        ("novelty check", _novelty(predictor)),
        ("attempts to certify", _attempts(predictor)),
        ("remembers", _seen_rows(predictor)),
        *([] if predictor.certificate else [("certificate", "none")]),
    ]
    if record:
        shown += [
            ("trained on", str(record.get("source", "unknown"))),
            ("rows", f"{rows.get('training', 0):,} to train on, {rows.get('validation', 0):,} to validate on"),
            ("training", _settings(training)),
            *(
                (f"member {place}", _member(result, rows.get("validation", 0)))
                for place, result in enumerate(record.get("members", []))
            ),
            ("time", f"{record.get('seconds', 0):.0f} s on {record.get('device', 'cpu')}"),
            *(("note", note) for note in record.get("notes", [])),
        ]
    facts(str(model), shown)
    if predictor.attempts:
        table(
            f"Attempts to certify {model}", ("", "date", "cases", "risk", "method", "delta used", ""), _tried(predictor)
        )
    if predictor.certificate:
        tell("certificate")
        tell_paragraphs(predictor.certificate)


def _columns(predictor: Any) -> list[tuple[str, str]]:
    """The columns that are no inputs: what is predicted, and which rows belong together."""
    target = getattr(predictor.transform, "target", None) or predictor.record.get("settings", {}).get("target")
    group = predictor.record.get("group") or predictor.record.get("settings", {}).get("group")
    return [
        *([("target column", str(target))] if target else []),
        *([("group column", f"{group} (rows of one group always land in the same split)")] if group else []),
    ]


def _novelty(predictor: Any) -> str:
    """Which rows are referred as unlike the training rows."""
    transform = predictor.transform
    columns = getattr(transform, "columns", None)
    limited = (
        len(getattr(transform, "ranges", ()))
        if columns is None
        else sum(getattr(column, "range", None) is not None for column in columns)
    )
    parts = [f"ranges of {limited:,} inputs"] if limited else []
    parts += ["the distance of a row from the training rows"] if predictor.row_distance is not None else []
    return f"by {' and '.join(parts)}" if parts else "none: rows unlike the training rows are not referred"


def _attempts(predictor: Any) -> str:
    """How many there were, how they ended, and what the next one may use of delta."""
    from squad.selective.attempts import share

    attempts = predictor.attempts
    if not attempts:
        return "none"
    good = sum(bool(one.get("certified")) for one in attempts)
    largest = max(one["delta"] for one in attempts)
    return (
        f"{len(attempts):,}, {good:,} certified; the next one at {100 * share(len(attempts) + 1):.3g} % of delta (a"
        f" delta of {largest:g} at least)"
    )


def _tried(predictor: Any) -> list[tuple[str, ...]]:
    """A line for each attempt; of very many the last ones."""
    from squad.selective.risk_text import risks_text

    lines: list[tuple[str, ...]] = []
    for one in predictor.attempts[-LISTED:]:
        risks = "; ".join(risks_text(risk) for risk in one.get("risks", ()))
        lines.append(
            (
                str(one["attempt"]),
                str(one.get("date", ""))[:10],
                f"{one.get('m', 0):,}",
                risks if len(risks) <= SHORT else f"{risks[:SHORT]}...",
                str(one.get("method", "")),
                f"{one.get('spent', 0.0):.3g}",
                "certified" if one.get("certified") else "failed",
            )
        )
    return lines


def _seen_rows(predictor: Any) -> str:
    """What the folder holds of its rows."""
    kept = []
    if predictor.seen_rows is not None:
        kept.append(f"hashes of {len(predictor.seen_rows.rows):,} rows and {len(predictor.seen_rows.groups):,} groups")
    if predictor.calibration is not None:
        kept.append(f"{len(predictor.calibration):,} calibration scores")
    if predictor.validation_scores is not None:
        kept.append(f"{len(predictor.validation_scores):,} validation scores")
    return ", ".join(kept) or "nothing of its rows"


def _toml(predictor: Any) -> str:
    from squad.settings import to_toml

    record = predictor.record
    given = record.get("settings", {})
    # Members that diverged were left out of the network; the same run has them again.
    network = {**predictor.config.to_dict(), **given.get("network", {})}
    return to_toml(
        {
            "model": predictor.config.name,
            "members": len(record.get("members", ())) or predictor.members,
            "seed": record.get("seed", 0),
            "validation": record.get("validation", 0.1),
            "split_per_member": record.get("split_per_member", False),
            **{name: given[name] for name in ("target", "group", "drop") if name in given},
            "network": network,
            "training": record.get("training", {}),
            "prediction": {"sampling": predictor.sampling, "num_samples": predictor.num_samples},
        }
    )


def _weights(predictor: Any) -> int:
    return sum(parameter.numel() for parameter in predictor.network.parameters())


def _settings(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_plain(value)}" for name, value in settings.items())


def _plain(value: Any) -> str:
    return "-".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _inputs(predictor: Any) -> str:
    shape = getattr(predictor.transform, "shape", None)
    if shape is not None:
        return " x ".join(map(str, shape))
    return _listed([_column(column) for column in predictor.transform.columns])


def _column(column: Any) -> str:
    count = len(getattr(column, "values", ()))
    return f"{column.name} ({f'{count} categories' if count else 'number'})"


def _listed(names: list[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f", ... ({len(names)} in all)" if len(names) > most else "")


def _member(result: dict[str, Any], rows: int) -> str:
    if result["best_epoch"] is None:
        return f"seed {result['seed']}: diverged in epoch {result['epochs']}, left out"
    return (
        f"seed {result['seed']}: validation accuracy {accuracy_text(result['best_accuracy'], rows, 2)}, "
        f"in epoch {result['best_epoch']} of {result['epochs']}, {result['ended']}"
    )
