"""Settings of a fit, from a TOML file, ``--set`` and options; later ones override earlier ones."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from squad.core.checks import check_keys
from squad.errors import ArgumentError, SquadError
from squad.fitting import FitSettings
from squad.models import network_config
from squad.train import TrainConfig

__all__ = ["assigned", "checked", "fit_settings", "merged", "read_toml", "to_toml"]

#: Settings at the top level of the file, and their types.
TOP: dict[str, type | tuple[type, ...]] = {
    "model": str,
    "members": int,
    "seed": int,
    "validation": (int, float),
    "split_per_member": bool,
    "target": str,
    "group": str,
    "drop": list,
}
TABLES = ("network", "training", "prediction")


class SettingsError(SquadError):
    """A settings file cannot be used."""


def read_toml(path: Path | None) -> dict[str, Any]:
    """Read and check the settings of a TOML file.

    Args:
        path: The file; None for no settings.

    Returns:
        The settings, as nested dictionaries.

    Raises:
        SettingsError: If the file cannot be read, is not TOML, or has an unknown setting.
    """
    if path is None:
        return {}
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as cause:
        raise SettingsError(f"{path} cannot be read: {cause.strerror}.") from cause
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as cause:
        raise SettingsError(f"{path} is not TOML: {cause}.") from cause
    try:
        return checked(found)
    except ArgumentError as cause:
        raise SettingsError(f"{path}: {cause}") from cause


def checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Check names and types at the top level; tables are checked by the classes they configure.

    Args:
        settings: Settings of a fit, as nested mappings.

    Returns:
        A shallow copy of the settings.

    Raises:
        ArgumentError: If a name is unknown, or a value has the wrong type.
    """
    check_keys("a fit", settings, [*TOP, *TABLES])
    for name, value in settings.items():
        kind = TOP.get(name, dict)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            wanted = {
                str: "text",
                int: "a whole number",
                bool: "true or false",
                list: "a list of columns",
                dict: "a table",
            }
            raise ArgumentError.of(
                name, repr(value), wanted.get(kind, "a number") if isinstance(kind, type) else "a number"
            )
    if not all(isinstance(name, str) for name in settings.get("drop", ())):
        raise ArgumentError.of("drop", repr(settings["drop"]), "a list of columns")
    return dict(settings)


def merged(base: Mapping[str, Any], assignments: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a file, overridden by ``--set name=value`` and by options.

    Args:
        base: Settings of the file.
        assignments: Texts such as "training.lr=0.001"; values as in TOML, and a bare word is text.
        options: Dotted name -> value; None if the option was not given.

    Returns:
        The merged settings, checked by :func:`checked`.

    Examples:
        >>> merged({"members": 2}, ["training.lr=0.001"], {"members": 5, "seed": None})
        {'members': 5, 'training': {'lr': 0.001}}
    """
    result = _copy(base)
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ArgumentError.of("--set", repr(text), "NAME=VALUE, such as training.lr=0.001")
        _assign(result, name.strip(), _value(value.strip()))
    for name, value in options.items():
        if value is not None:
            _assign(result, name, value)
    return checked(result)


def assigned(base: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with some values replaced, given by their dotted names.

    Args:
        base: Settings, as nested mappings.
        values: New values by dotted name, such as "training.lr".

    Returns:
        A changed copy, checked by :func:`checked`.

    Examples:
        >>> assigned({"seed": 1}, {"training.max_epochs": 20})
        {'seed': 1, 'training': {'max_epochs': 20}}
    """
    result = _copy(base)
    for name, value in values.items():
        _assign(result, name, value)
    return checked(result)


def _copy(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Copy settings with their tables."""
    return {name: dict(value) if isinstance(value, dict) else value for name, value in settings.items()}


def _assign(settings: dict[str, Any], name: str, value: Any) -> None:
    """Set a value by its dotted name."""
    table, dot, key = name.rpartition(".")
    if not dot:
        settings[key] = value
    elif table in TABLES:
        if not isinstance(settings.setdefault(table, {}), dict):
            raise ArgumentError.of(table, repr(settings[table]), "a table")
        settings[table][key] = value
    else:
        check_keys("a fit", [table], [*TOP, *TABLES])
        raise ArgumentError.of("--set", repr(name), f"TABLE.NAME with a table of {', '.join(TABLES)}")


def _value(text: str) -> Any:
    """Parse a TOML value; what does not parse is text."""
    try:
        found = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return found["value"] if len(found) == 1 else text


def fit_settings(settings: Mapping[str, Any]) -> FitSettings:
    """Return the settings as the object that :func:`squad.fitting.fit_predictor` takes.

    Args:
        settings: Settings of a fit, as nested mappings.

    Returns:
        The settings, with defaults for those that are missing.

    Raises:
        ArgumentError: For an unknown setting or an invalid value.

    Examples:
        >>> fit_settings({"model": "mlp", "members": 3}).network.name
        'mlp'
    """
    prediction = settings.get("prediction", {})
    check_keys("prediction", prediction, ["sampling", "num_samples"])
    plain = {name: settings[name] for name in ("members", "seed", "validation", "split_per_member") if name in settings}
    return FitSettings(
        network=network_config(settings.get("model", "squad"), _tuples(settings.get("network", {}))),
        training=TrainConfig.of(_tuples(settings.get("training", {}))),
        **plain,
        **prediction,
    )


def _tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


def to_toml(settings: Mapping[str, Any]) -> str:
    """Return the settings as TOML that :func:`read_toml` reads; None is left out, since TOML has no null.

    Examples:
        >>> print(to_toml({"model": "mlp", "training": {"lr": 0.01}}), end="")
        model = "mlp"
        <BLANKLINE>
        [training]
        lr = 0.01
    """
    plain = [f"{name} = {_toml(value)}" for name, value in settings.items() if name not in TABLES and value is not None]
    parts = ["\n".join(plain)]
    for table in TABLES:
        rows = [f"{name} = {_toml(value)}" for name, value in settings.get(table, {}).items() if value is not None]
        if rows:
            parts.append("\n".join([f"[{table}]", *rows]))
    return "\n\n".join(parts) + "\n"


def _toml(value: Any) -> str:
    """Return a value as TOML, lists on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
    return repr(value)
