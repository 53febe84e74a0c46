"""docs/reference/settings.md: all settings with their defaults, from the classes and their docstrings."""

import dataclasses
import inspect
import json
import re

from squad.models import CONFIGS, NetworkConfig
from squad.train import TrainConfig

__all__ = ["all_settings"]


def _descriptions(config: type) -> dict[str, str]:
    """Return the description of each setting, from the docstrings of a class of settings and its bases."""
    texts: dict[str, str] = {}
    for part in reversed(config.__mro__):
        doc = inspect.cleandoc(part.__dict__.get("__doc__") or "")
        for name, text in re.findall(r"^ {4}(\w[\w, ]*): (.*(?:\n {8}.*)*)", doc.partition("Attributes:")[2], re.M):
            for one in name.split(", "):
                texts[one] = " ".join(text.split()).replace("None: ", "Left out: ")
    return texts


def _settings_table(config: type, skip: tuple[str, ...] = ()) -> str:
    """Return a table of settings with their defaults."""
    texts = _descriptions(config)
    lines = ["| setting | default | |", "| --- | --- | --- |"]
    for field in dataclasses.fields(config):
        if field.name not in skip:
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            shown = "" if default is None else json.dumps(default)
            lines.append(f"| `{field.name}` | {shown and f'`{shown}`'} | {texts[field.name]} |")
    return "\n".join(lines)


def all_settings() -> str:
    """Return the sections of docs/reference/settings.md: training, all networks, and each network."""
    shared = tuple(field.name for field in dataclasses.fields(NetworkConfig))
    parts = ["### `[training]`", _settings_table(TrainConfig), "### `[network]`, all", _settings_table(NetworkConfig)]
    for name, config in CONFIGS.items():
        own = [field for field in dataclasses.fields(config) if field.name not in shared]
        changed = [
            f"`{field.name}` is `{json.dumps(field.default)}`"
            for field, base in zip(dataclasses.fields(config), dataclasses.fields(NetworkConfig), strict=False)
            if field.default != base.default
        ]
        samplings = ", ".join(f"`{sampling}`" for sampling in config.samplings)
        parts.append(f"### `[network]`, `{name}`")
        if own:
            parts.append(_settings_table(config, shared))
        many = f", {config.num_samples} times unless told otherwise" if config.num_samples > 1 else ""
        note = f"Sampled by {samplings}{' (the first is the default)' if ',' in samplings else ''}{many}."
        parts.append((f"By default {', '.join(changed)}. " if changed else "") + note)
    return "\n\n".join(parts)
