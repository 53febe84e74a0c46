"""Read plans from TOML files; every error names the file.

data = "fashion-mnist"            # for all rows
members = 10                      # networks per row, each with its own seed and split
[search]                          # hyperparameter search for rows that name a study
[quick]                           # overrides of --quick
[row.mlp]                         # a row: label, model, ways (prediction modes), tables network and training
[grid.bins]                       # one row per combination of the settings in its table "over"
"""

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from experiments.paper.jobs import probes
from experiments.paper.jobs.crops import CROPS
from experiments.paper.jobs.plan import SETTINGS_TABLES, Plan, PlanError, PredictionMode, Row, Study
from squad.core.checks import check_choice, check_count, check_keys
from squad.data.registry import DATASETS
from squad.errors import ArgumentError
from squad.models import CONFIGS

__all__ = ["read_plan"]

#: Entries allowed for all rows of a file; a row, a grid and ``quick`` may override them.
COMMON = ("data", "members", "validation", "halves", "train_rows", "test_rows", "crop", "probes", "network", "training")
#: Entries allowed in a row or a grid.
OWN = ("label", "model", "search", "first", "ways", "paper", "paper_ensemble", "paper_ways", "group", *COMMON)


def read_plan(path: Path, *, quick: bool = False) -> Plan:
    """Read a plan file.

    Args:
        path: The TOML file.
        quick: Whether to apply the overrides of --quick.

    Raises:
        PlanError: If the file cannot be read or is invalid; the message names the file.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as cause:
        raise PlanError(
            f"{path} cannot be read: {cause.strerror}. Run the command in a clone of the repository, or pass the "
            "folder of the experiments with --folder."
        ) from cause
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as cause:
        raise PlanError(f"{path} is not TOML: {cause}.") from cause
    try:
        return _plan(path, tables, quick)
    except ArgumentError as cause:
        raise PlanError(f"{path}: {cause}") from cause


def _plan(path: Path, tables: Mapping[str, Any], quick: bool) -> Plan:
    check_keys("a plan", tables, ["title", "search", "quick", "row", "grid", *COMMON])
    search, small = _table("search", tables), _table("quick", tables)
    check_keys("quick", small, ["leave_out", *COMMON])
    check_keys("search", search, ["objective", "trials", "validation", "more", "spaces", "prune"])
    left_out = _texts("quick", "leave_out", small)
    small.pop("leave_out", None)
    contents = list(_contents(tables))
    names = [name for name, _ in contents]
    if len(set(names)) < len(names):
        shown = ", ".join(f"{path.stem}/{name}" for name in names)
        raise ArgumentError(f"Names of rows must be unique, got {shown}. Rename a row or a grid.")
    for out in left_out:
        if not any(_within(name, out) for name in names):
            raise ArgumentError.of("leave_out", repr(out), f"names of rows or grids ({', '.join(names)})")
    common = {name: tables[name] for name in COMMON if name in tables}
    rows = [
        _row(path.stem, name, common, content, small if quick else {}, search)
        for name, content in contents
        if not quick or not any(_within(name, out) for out in left_out)
    ]
    return Plan(path.stem, str(tables.get("title", path.stem)), path.parent, tuple(rows), quick)


def _within(name: str, out: str) -> bool:
    """Whether ``out`` is the name of the row or of its grid."""
    return name == out or name.startswith(f"{out}/")


def _table(name: str, tables: Mapping[str, Any]) -> dict[str, Any]:
    value = tables.get(name, {})
    if not isinstance(value, dict):
        raise ArgumentError.of(name, repr(value), "a table")
    return dict(value)


def _contents(tables: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names and contents of the rows, and of the points of the grids."""
    rows, grids = _table("row", tables), _table("grid", tables)
    for name in rows:
        content = _table(name, rows)
        check_keys(f"the row {name}", content, OWN)
        yield name, content
    for name in grids:
        content = _table(name, grids)
        check_keys(f"the grid {name}", content, ["over", *OWN])
        over = _table("over", content)
        content.pop("over", None)
        if not over or not all(isinstance(values, list) and values for values in over.values()):
            raise ArgumentError.of("over", repr(over), "a table of settings, each with a list of values")
        for values in itertools.product(*over.values()):
            point = {**content, **{table: _table(table, content) for table in SETTINGS_TABLES if table in content}}
            for setting, value in zip(over, values, strict=True):
                table, _, key = setting.partition(".")
                if table not in SETTINGS_TABLES or not key:
                    raise ArgumentError.of("over", repr(setting), "a setting such as network.bins")
                point[table] = {**point.get(table, {}), key: value}
            words = [_word(value) for value in values]
            point["label"] = f"{content.get('label', name)}: {', '.join(words)}"
            yield f"{name}/{'-'.join(words)}", point


def _word(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, list) else str(value)


def _row(
    plan: str,
    name: str,
    common: Mapping[str, Any],
    own: Mapping[str, Any],
    small: Mapping[str, Any],
    search: Mapping[str, Any],
) -> Row:
    """Build a row from the file's common entries, its own, and those of --quick; later ones override."""
    content = {**common, **own, **small}
    for key in ("data", "model"):
        if not isinstance(content.get(key), str):
            raise ArgumentError.of(f"{name}.{key}", repr(content.get(key)), "a name")
    label = str(content.get("label", name))
    if "|" in label:
        raise ArgumentError.of(f"{name}.label", repr(label), "without |, which separates the cells of a table")
    check_choice("data", content["data"], tuple(DATASETS))
    content["members"] = check_count("members", content.get("members", 1), 1)
    content["halves"] = check_count("halves", content.get("halves", 0), 0)
    for key in ("train_rows", "test_rows", "first"):
        if key in content:
            content[key] = check_count(key, content[key], 1)
    if "crop" in content:
        check_choice("crop", content["crop"], tuple(CROPS))
    content.setdefault("validation", 0.1)
    for probe in _texts(name, "probes", content):
        check_choice("probes", probe, tuple(probes.PROBES))
    # Settings of the fit are stored by origin: those of a study come between the file's and the row's.
    content["file"], content["quick"] = (
        {key: _table(key, origin) for key in SETTINGS_TABLES} for origin in (common, small)
    )
    content |= {key: _table(key, own) for key in SETTINGS_TABLES}
    return Row(
        f"{plan}/{name}",
        label,
        str(content.get("group", "")),
        _study(content, search) if "search" in content else None,
        content.get("first"),
        tuple(PredictionMode.parse(text) for text in _texts(name, "ways", content)),
        _paper_results(name, content.get("paper")),
        _paper_results(name, content.get("paper_ensemble")),
        {
            PredictionMode.parse(mode): _results_of_mode(name, values)
            for mode, values in _table("paper_ways", content).items()
        },
        content,
    )


def _texts(name: str, key: str, content: Mapping[str, Any]) -> list[str]:
    value = content.get(key, [])
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ArgumentError.of(f"{name}.{key}", repr(value), "a list of strings")
    return value


def _study(content: Mapping[str, Any], search: Mapping[str, Any]) -> Study:
    """Return the study of a row; its data set may differ from the row's (nothing is tuned on notMNIST)."""
    name = str(content["search"])
    data, _, model = name.partition("/")
    if model not in CONFIGS:
        raise ArgumentError.of("search", repr(name), f"DATA/MODEL with a model of {', '.join(CONFIGS)}")
    settings: dict[str, Any] = {"validation": search.get("validation", content["validation"])}
    hidden = content["file"]["network"].get("hidden")
    if hidden is not None:  # the file's, for all rows: a grid over ``hidden`` uses the same study as the others
        settings["network"] = {"hidden": hidden}
    return Study(
        name,
        data,
        model,
        check_count("trials", _table("more", search).get(name, search.get("trials", 100)), 1),
        str(search.get("objective", "coverage@risk=.02")),
        settings,
        _table("spaces", search).get(name),
        bool(search.get("prune")),
    )


def _results_of_mode(name: str, values: Any) -> tuple[tuple[float, ...], ...]:
    results = _paper_results(name, values)
    assert results is not None  # TOML has no null
    return results


def _paper_results(name: str, values: Any) -> tuple[tuple[float, ...], ...] | None:
    if values is None:
        return None
    each = [one if isinstance(one, list) else [one] for one in values] if isinstance(values, list) else []
    numbers = all(isinstance(number, (int, float)) for one in each for number in one)
    if len(each) != 5 or not numbers or any(len(one) not in (1, 2) for one in each):
        raise ArgumentError.of(f"{name}.paper", repr(values), "coverage at three risks, NLL and accuracy")
    return tuple(tuple(map(float, one)) for one in each)
