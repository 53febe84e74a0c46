"""What `import squad` costs others: no heavy package, and only the names that are promised."""

import json
import subprocess
import sys

import squad

HEAVY = ["scipy.stats", "sklearn", "triton", "matplotlib", "pandas", "optuna"]


def modules_after(statement: str) -> set[str]:
    code = f"{statement}; import sys, json; print(json.dumps(sorted(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(out.stdout))


def test_import_is_light() -> None:
    loaded = modules_after("import squad")
    assert "torch" in loaded
    # What torch itself loads is not ours to avoid.
    assert not (set(HEAVY) & loaded) - modules_after("import torch")


def test_the_command_is_light_too() -> None:
    assert not set(HEAVY) & modules_after("import squad.cli") - modules_after("import torch")


def test_public_names() -> None:
    assert sorted(squad.__all__) == squad.__all__
    for name in squad.__all__:
        thing = getattr(squad, name)
        assert thing.__doc__, name
        assert thing.__module__.startswith("squad."), name


def test_no_public_name_hides_a_subpackage() -> None:
    assert not {"core", "ops", "layers", "cli", "errors", "records"} & set(squad.__all__)
