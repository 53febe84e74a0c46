"""`import squad` loads no heavy package and exports only the documented names."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

import squad

HEAVY = ["cryptography", "sqlalchemy", "ray", "scipy.stats", "sklearn", "triton", "matplotlib", "pandas", "optuna"]


@functools.cache
def modules_after(statement: str) -> set[str]:
    code = f"{statement}; import sys, json; print(json.dumps(sorted(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(out.stdout))


def test_import_is_light() -> None:
    assert not {"torch", "numpy", *HEAVY} & modules_after("import squad")
    # What torch itself loads is not ours to avoid.
    assert not (set(HEAVY) & modules_after("import squad; squad.SquadLinear")) - modules_after("import torch")


def test_the_command_listens_before_it_imports() -> None:
    """Ctrl-C before that would print a traceback."""
    assert not {"torch", "numpy", "typer", "rich", "importlib.metadata", *HEAVY} & modules_after("import squad.cli")


def test_the_command_is_light_too() -> None:
    assert not set(HEAVY) & modules_after("import squad.cli.commands") - modules_after("import torch")


def test_names_that_are_imported_when_asked_for() -> None:
    lazy = "SquadClassifier"
    code = f"import squad, sys; assert {lazy!r} in dir(squad); assert 'sklearn' not in sys.modules; squad.{lazy}"
    assert "squad.estimator" in modules_after(code)
    assert squad.SquadClassifier.__module__ == "squad.estimator"
    assert set(squad.__all__) <= set(dir(squad))
    everything: dict[str, object] = {}
    exec("from squad import *", everything)
    assert set(squad.__all__) <= set(everything)


def test_a_misspelt_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'squad' has no attribute 'SquadClasifier'") as caught:
        squad.SquadClasifier  # noqa: B018
    # Python's "Did you mean" needs both.
    assert (caught.value.name, caught.value.obj) == ("SquadClasifier", squad)
    with pytest.raises(ImportError, match="cannot import name 'laod'"):
        exec("from squad import laod")


def test_public_names() -> None:
    assert sorted(squad.__all__) == squad.__all__
    for name in squad.__all__:
        thing = getattr(squad, name)
        assert thing.__doc__, name
        assert thing.__module__.startswith("squad."), name


def test_no_public_name_hides_a_subpackage() -> None:
    rooms = {path.stem for path in Path(squad.__file__).parent.iterdir() if not path.name.startswith("_")}
    assert {"metrics", "selective", "cli"} <= rooms
    assert not rooms & set(squad.__all__)


@pytest.mark.parametrize("name", ["analysis", "data", "metrics", "models", "report", "search", "selective", "train"])
def test_subpackages_need_no_import_of_their_own(name: str) -> None:
    assert name in dir(squad)
    assert getattr(squad, name).__name__ == f"squad.{name}"


def test_a_subpackage_is_imported_when_it_is_first_used() -> None:
    assert "squad.metrics" not in modules_after("import squad")
    assert "squad.metrics" in modules_after("import squad; squad.metrics.aurc")
