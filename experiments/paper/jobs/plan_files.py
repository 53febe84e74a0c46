"""Plans from their TOML files: what is wrong in one is found on reading, and told with its name.

data = "fashion-mnist"            # of all rows
members = 10                      # networks of a row, each with a seed and a split of its own
[search]                          # how settings are found where a row names a study
[quick]                           # what --quick changes
[row.mlp]                         # a row: label, model, ways, and tables network and training
[grid.bins]                       # rows that differ in the settings named in its table "over"
"""

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from experiments.paper.jobs import probes
from experiments.paper.jobs.crops import CROPS
from experiments.paper.jobs.plan import FIT, Plan, PlanError, Row, Study, Way
from squad.core.checks import check_choice, check_count, check_keys
from squad.data.registry import DATASETS
from squad.errors import ArgumentError
from squad.models import CONFIGS

__all__ = ["read_plan"]

#: What a file may say for all of its rows; a row, a grid and ``quick`` may say it too, and come later.
COMMON = ("data", "members", "validation", "halves", "train_rows", "test_rows", "crop", "probes", "network", "training")
#: What only a row or a grid says.
OWN = ("label", "model", "search", "first", "ways", "paper", "paper_ensemble", "paper_ways", "group", *COMMON)


def read_plan(path: Path, *, quick: bool = False) -> Plan:
    """The plan of a file; what is wrong in it is a :class:`PlanError` that names the file."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as cause:
        raise PlanError(
            f"{path} cannot be read: {cause.strerror}. The paper's experiments are files of the repository: run this "
            "in a clone of it, or name their folder with --folder."
        ) from cause
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as cause:
        raise PlanError(f"{path} is not TOML: {cause}.") from cause
    try:
        return _plan(path, tables, quick)
    except ArgumentError as cause:
        raise PlanError(f"{path}: {cause}") from cause


def _plan(path: Path, tables: Mapping[str, Any], quick: bool) -> Plan:
    check_keys("an experiment", tables, ["title", "search", "quick", "row", "grid", *COMMON])
    search, small = _table("search", tables), _table("quick", tables)
    check_keys("quick", small, ["leave_out", *COMMON])
    check_keys("search", search, ["objective", "trials", "validation", "more", "spaces", "prune"])
    left_out = _texts("quick", "leave_out", small)
    small.pop("leave_out", None)
    contents = list(_contents(tables))
    names = [name for name, _ in contents]
    if len(set(names)) < len(names):
        raise ArgumentError.of("row", ", ".join(f"{path.stem}/{name}" for name in names), "of a name of its own each")
    for out in left_out:
        if not any(_within(name, out) for name in names):
            raise ArgumentError.of("leave_out", repr(out), f"of rows or grids: {', '.join(names)}")
    common = {name: tables[name] for name in COMMON if name in tables}
    rows = [
        _row(path.stem, name, common, content, small if quick else {}, search)
        for name, content in contents
        if not quick or not any(_within(name, out) for out in left_out)
    ]
    return Plan(path.stem, str(tables.get("title", path.stem)), path.parent, tuple(rows), quick)


def _within(name: str, out: str) -> bool:
    """Whether a row is the one, or of the grid, that is called so."""
    return name == out or name.startswith(f"{out}/")


def _table(name: str, tables: Mapping[str, Any]) -> dict[str, Any]:
    found = tables.get(name, {})
    if not isinstance(found, dict):
        raise ArgumentError.of(name, repr(found), "a table")
    return dict(found)


def _contents(tables: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows, and the points of grids, by name."""
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
            point = {**content, **{table: _table(table, content) for table in FIT if table in content}}
            for setting, value in zip(over, values, strict=True):
                table, _, key = setting.partition(".")
                if table not in FIT or not key:
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
    """A row of what the file says for all, of it, and for --quick; the last has the last word."""
    content = {**common, **own, **small}
    for key in ("data", "model"):
        if not isinstance(content.get(key), str):
            raise ArgumentError.of(f"{name}.{key}", repr(content.get(key)), "a name")
    label = str(content.get("label", name))
    if "|" in label:
        raise ArgumentError.of(f"{name}.label", repr(label), "without |, which parts the cells of a table")
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
    # Who has said what of the fit is kept apart: a study's word comes between.
    content["file"], content["quick"] = ({key: _table(key, said) for key in FIT} for said in (common, small))
    content |= {key: _table(key, own) for key in FIT}
    return Row(
        f"{plan}/{name}",
        label,
        str(content.get("group", "")),
        _study(content, search) if "search" in content else None,
        content.get("first"),
        tuple(Way.parse(text) for text in _texts(name, "ways", content)),
        _figures(name, content.get("paper")),
        _figures(name, content.get("paper_ensemble")),
        {Way.parse(way): _paper_of_way(name, figures) for way, figures in _table("paper_ways", content).items()},
        content,
    )


def _texts(name: str, key: str, content: Mapping[str, Any]) -> list[str]:
    found = content.get(key, [])
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise ArgumentError.of(f"{name}.{key}", repr(found), "a list of texts")
    return found


def _study(content: Mapping[str, Any], search: Mapping[str, Any]) -> Study:
    """What a row names; it is named after its data, which need not be the row's: notMNIST is not tuned for."""
    name = str(content["search"])
    data, _, model = name.partition("/")
    if model not in CONFIGS:
        raise ArgumentError.of("search", repr(name), f"DATA/MODEL with a model of {', '.join(CONFIGS)}")
    settings: dict[str, Any] = {"validation": search.get("validation", content["validation"])}
    hidden = content["file"]["network"].get("hidden")
    if hidden is not None:  # of all rows: a grid over it has the study of the others
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


def _paper_of_way(name: str, figures: Any) -> tuple[tuple[float, ...], ...]:
    found = _figures(name, figures)
    assert found is not None  # TOML has no null
    return found


def _figures(name: str, figures: Any) -> tuple[tuple[float, ...], ...] | None:
    if figures is None:
        return None
    each = [one if isinstance(one, list) else [one] for one in figures] if isinstance(figures, list) else []
    numbers = all(isinstance(number, (int, float)) for one in each for number in one)
    if len(each) != 5 or not numbers or any(len(one) not in (1, 2) for one in each):
        raise ArgumentError.of(f"{name}.paper", repr(figures), "coverage at three risks, NLL and accuracy")
    return tuple(tuple(map(float, one)) for one in each)
