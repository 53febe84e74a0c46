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


LAYER = "import squad; squad.SquadLinear"
COMMANDS = "import squad.cli.commands"
LAZY = (
    "import squad; assert 'SquadClassifier' in dir(squad); assert 'sklearn' not in sys.modules; squad.SquadClassifier"
)
METRICS = "import squad; squad.metrics.aurc"


@functools.cache
def modules_beyond_torch() -> dict[str, set[str]]:
    """Modules that each statement imports if torch, which takes a second, is already imported: in forks of a process.

    What torch itself loads is not ours to avoid.
    """
    code = """if True:
        import json, os, sys, torch
        before = set(sys.modules)
        for statement in json.loads(sys.argv[1]):
            if not (child := os.fork()):
                exec(statement)
                print(json.dumps([statement, sorted(set(sys.modules) - before)]), flush=True)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0, statement
    """
    statements = json.dumps([LAYER, COMMANDS, LAZY, METRICS])
    out = subprocess.run([sys.executable, "-c", code, statements], capture_output=True, text=True, check=True)
    return {statement: set(found) for statement, found in map(json.loads, out.stdout.splitlines())}


def test_import_is_light() -> None:
    assert not {"torch", "numpy", *HEAVY} & modules_after("import squad")
    assert "squad.layers" in modules_beyond_torch()[LAYER]
    assert not set(HEAVY) & modules_beyond_torch()[LAYER]


def test_the_command_listens_before_it_imports() -> None:
    """Ctrl-C before that would print a traceback."""
    assert not {"torch", "numpy", "typer", "rich", "importlib.metadata", *HEAVY} & modules_after("import squad.cli")


def test_the_command_is_light_too() -> None:
    assert not set(HEAVY) & modules_beyond_torch()[COMMANDS]


def test_names_that_are_imported_when_asked_for() -> None:
    assert "squad.estimator" in modules_beyond_torch()[LAZY]
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
    subpackages = {path.stem for path in Path(squad.__file__).parent.iterdir() if not path.name.startswith("_")}
    assert {"metrics", "selective", "cli"} <= subpackages
    assert not subpackages & set(squad.__all__)


def test_every_subpackage_is_imported_when_it_is_first_used() -> None:
    """In a new process: here other tests have imported them."""
    names = [
        "analysis",
        "core",
        "data",
        "errors",
        "layers",
        "metrics",
        "models",
        "ops",
        "records",
        "report",
        "search",
        "selective",
        "train",
    ]
    uses = ", ".join(f"squad.{name}" for name in names)
    assert {f"squad.{name}" for name in names} <= modules_after(f"import squad; {uses}")
    assert set(names) <= set(dir(squad))
    assert "squad.metrics" not in modules_after("import squad")
    assert "squad.metrics" in modules_beyond_torch()[METRICS]


def test_threads_may_use_names_for_the_first_time_together() -> None:
    code = (
        "import squad, threading\n"
        "errors = []\n"
        "def use(name):\n"
        "    try: getattr(squad, name)\n"
        "    except BaseException as error: errors.append(error)\n"
        "threads = [threading.Thread(target=use, args=(name,)) for name in ('load', 'metrics', 'report', 'certify')]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
        "assert not errors, errors\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
