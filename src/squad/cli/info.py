"""``squad info``: the content of a saved model."""

from typing import Annotated, Any

import typer

from squad.cli.accuracy_text import accuracy_text
from squad.cli.options import SavedModel
from squad.cli.terminal import facts, print_result, print_wrapped, table

__all__ = ["info"]

#: Maximum number of attempts listed, and of characters shown of their risks.
MAX_ATTEMPTS, MAX_RISK_LENGTH = 20, 40
#: Maximum number of classes or inputs listed.
MAX_NAMES = 12


def info(
    model: SavedModel,
    settings: Annotated[
        bool, typer.Option("--settings", help="Print the settings of the model as TOML, for squad fit --config.")
    ] = False,
) -> None:
    """Show a saved model: network, training, certificate.

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
        ("network", f"{predictor.config.name}: {_settings_text(network)}"),
        ("inputs", _inputs(predictor)),
        *_columns(predictor),
        ("classes", _listed([str(name) for name in predictor.classes])),
        ("weights", f"{_weights(predictor):,} in {predictor.members} member{'s' if predictor.members > 1 else ''}"),
        ("prediction", f"{predictor.num_samples} {predictor.sampling} samples per member"),
        ("recalibration", str(predictor.recalibration) if predictor.recalibration else "none"),
        ("novelty check", _novelty(predictor)),
        ("attempts to certify", _attempts(predictor)),
        ("stored about rows", _stored(predictor)),
        *([] if predictor.certificate else [("certificate", "none")]),
    ]
    if record:
        shown += [
            ("trained on", str(record.get("source", "unknown"))),
            ("rows", f"{rows.get('training', 0):,} for training, {rows.get('validation', 0):,} for validation"),
            ("training", _settings_text(training)),
            *(
                (f"member {number}", _member(result, rows.get("validation", 0)))
                for number, result in enumerate(record.get("members", []))
            ),
            ("time", f"{record.get('seconds', 0):.0f} s on {record.get('device', 'cpu')}"),
            *(("note", note) for note in record.get("notes", [])),
        ]
    facts(str(model), shown)
    if predictor.attempts:
        table(
            f"Attempts to certify {model}",
            ("", "date", "cases", "risk", "method", "delta used", ""),
            _attempt_rows(predictor),
        )
    if predictor.certificate:
        print_result("certificate")
        print_wrapped(predictor.certificate)


def _columns(predictor: Any) -> list[tuple[str, str]]:
    """Return the columns that are not inputs: target and group."""
    target = getattr(predictor.transform, "target", None) or predictor.record.get("settings", {}).get("target")
    group = predictor.record.get("group") or predictor.record.get("settings", {}).get("group")
    return [
        *([("target column", str(target))] if target else []),
        *([("group column", f"{group} (rows of one group always land in the same split)")] if group else []),
    ]


def _novelty(predictor: Any) -> str:
    """Return by which checks rows unlike the training rows are referred to a reviewer."""
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
    """Return how many attempts there were, how many succeeded, and which part of delta the next one uses."""
    from squad.selective.attempts import delta_share

    attempts = predictor.attempts
    if not attempts:
        return "none"
    certified = sum(bool(one.get("certified")) for one in attempts)
    smallest = max(one["delta"] for one in attempts)
    return (
        f"{len(attempts):,} recorded, {certified:,} certified; the next one uses"
        f" {100 * delta_share(len(attempts) + 1):.3g} % of delta (which must be at least {smallest:g})"
    )


def _attempt_rows(predictor: Any) -> list[tuple[str, ...]]:
    """Return a row of the table per attempt, for the last attempts if there are many."""
    from squad.selective.risk_text import risks_text

    table_rows: list[tuple[str, ...]] = []
    for one in predictor.attempts[-MAX_ATTEMPTS:]:
        risks = "; ".join(risks_text(risk) for risk in one.get("risks", ()))
        table_rows.append(
            (
                str(one["attempt"]),
                str(one.get("date", ""))[:10],
                f"{one.get('m', 0):,}",
                risks if len(risks) <= MAX_RISK_LENGTH else f"{risks[:MAX_RISK_LENGTH]}...",
                str(one.get("method", "")),
                f"{one.get('spent', 0.0):.3g}",
                "certified" if one.get("certified") else "failed",
            )
        )
    return table_rows


def _stored(predictor: Any) -> str:
    """Return what the folder stores about training, calibration and validation rows."""
    stored = []
    if predictor.seen_rows is not None:
        stored.append(
            f"hashes of {len(predictor.seen_rows.rows):,} rows and {len(predictor.seen_rows.groups):,} groups"
        )
    if predictor.calibration is not None:
        stored.append(f"{len(predictor.calibration):,} calibration scores")
    if predictor.validation_scores is not None:
        stored.append(f"{len(predictor.validation_scores):,} validation scores")
    return ", ".join(stored) or "nothing"


def _toml(predictor: Any) -> str:
    """Return the settings of the model as TOML."""
    from squad.settings import to_toml

    record = predictor.record
    given = record.get("settings", {})
    # Members that diverged were left out of the network, but the same run trains them again.
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


def _settings_text(settings: dict[str, Any]) -> str:
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


def _listed(names: list[str]) -> str:
    more = f", ... ({len(names)} in total)" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


def _member(result: dict[str, Any], rows: int) -> str:
    if result["best_epoch"] is None:
        return f"seed {result['seed']}: diverged in epoch {result['epochs']}, left out"
    return (
        f"seed {result['seed']}: validation accuracy {accuracy_text(result['best_accuracy'], rows, 2)}, "
        f"in epoch {result['best_epoch']} of {result['epochs']}, {result['ended']}"
    )
