"""Private names of other libraries: each is listed here with its reason, its library is bounded in pyproject.toml."""

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "squad"

#: What is used, and why nothing public does it.
ALLOWED = {
    # search: one proposal of TPE for many trials at a time; the tables of a study, for compare-and-swap and retries
    "optuna.samplers._tpe.parzen_estimator._ParzenEstimator",
    "optuna.storages._rdb.models.BaseModel",
    "optuna.storages._rdb.models.NOT_FOUND_MSG",
    "optuna.storages._rdb.models.TrialHeartbeatModel",
    # cli/interrupts.py: public, by its documentation; ends a process in the middle of an import
    "os._exit",
    # train/step.py: cuBLAS keeps its workspaces inside a captured graph's memory
    "torch._C",
    "torch._C._cuda_clearCublasWorkspaces",
    # core/distribution.py: what torch documents for subclasses of Distribution
    "torch.distributions.Distribution._validate_args",
}
#: Attributes of objects, and the library that they belong to.
ALLOWED_ATTRIBUTES = {
    "_asdict": "python",  # of a named tuple: public, by its documentation
    "_replace": "python",
    "_extended_shape": "torch",  # for subclasses of Distribution
    "_get_checked_instance": "torch",
    "_parameters": "torch",  # of a module: tensors are exchanged without the checks of register_parameter
    "_buffers": "torch",
    "_modules": "torch",
    "_backward_hooks": "torch",  # whether a module has hooks: then manual_backward.py leaves it to autograd
    "_backward_pre_hooks": "torch",
    "_forward_hooks": "torch",
    "_forward_pre_hooks": "torch",
    "_version": "torch",  # counts the changes in place of a tensor: whether weights are still those that were hashed
    "_search_space": "optuna",  # of TPE's estimator
    "_parzen_estimator_cls": "optuna",
    "_study_id": "optuna",  # what the storage is asked by
    "_trial_id": "optuna",
    "_validate": "optuna",  # of a trial that is restored from a record
    "_backend": "optuna",  # search/optuna_private.py: the storage behind the cached one
    "_stop_flag": "optuna",  # whether a callback has called study.stop()
    "_thread_local": "optuna",
    "_get_stale_trial_ids": "optuna",  # of the storage: workers that died
}
#: Libraries of the names above, and the version from which on they may have changed.
BOUNDS = {"optuna": "<6", "torch": "<3"}
#: Python's own, whose documented names may begin with an underscore.
PYTHON = {"os"}


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def dotted(node: ast.AST, imported: dict[str, str]) -> str | None:
    """``torch._C.x`` as text, if it begins with something imported."""
    if isinstance(node, ast.Name):
        return imported.get(node.id)
    if isinstance(node, ast.Attribute):
        before = dotted(node.value, imported)
        return None if before is None else f"{before}.{node.attr}"
    return None


def imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Names that imports bind, and what they stand for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (first, first)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def own(trees: list[ast.Module]) -> set[str]:
    """Private names that the library's own classes define."""
    found = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    found.add(inner.name)
                targets = inner.targets if isinstance(inner, ast.Assign) else [getattr(inner, "target", None)]
                found |= {target.id for target in targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            found |= {node.attr} if node.value.id in ("self", "cls") else set()
    return found


def used(tree: ast.Module, ours: set[str]) -> set[str]:
    """Private names of others: by import, by attribute of something imported, or by attribute of anything."""
    imported = dict(imports(tree))
    found = {full for full in imported.values() if any(map(private, full.split(".")))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):  # of a module under a private one, even if only the first name is bound
            found |= {alias.name for alias in node.names if any(map(private, alias.name.split(".")))}
        if isinstance(node, ast.Attribute) and private(node.attr):
            full = dotted(node, imported)
            if full is not None:
                found.add(full)
            elif node.attr not in ours:
                found.add(f".{node.attr}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "setattr"):
            name = node.args[1] if len(node.args) > 1 else None
            text = name.value if isinstance(name, ast.Constant) else None
            if isinstance(text, str) and private(text) and text not in ours:
                found.add(f".{text}")
    return {name for name in found if not name.startswith("squad.")}


def test_every_private_name_is_listed() -> None:
    files = sorted(SOURCE.rglob("*.py"))
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    ours = own(trees)
    allowed = ALLOWED | {f".{name}" for name in ALLOWED_ATTRIBUTES}
    new = {str(file.relative_to(ROOT)): used(tree, ours) - allowed for file, tree in zip(files, trees, strict=True)}
    new = {file: names for file, names in new.items() if names}
    assert not new, "take a public name, or list it above with its reason and bound its library in pyproject.toml"


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_private_names_still_exist(name: str) -> None:
    """A new version of a library that removes one of them fails here, not in a user's process."""
    if name == "torch._C._cuda_clearCublasWorkspaces" and not torch.backends.cuda.is_built():
        pytest.skip("this build of torch has no CUDA")
    found: Any = importlib.import_module(name.partition(".")[0])
    path = name.partition(".")[0]
    for part in name.split(".")[1:]:
        path += f".{part}"
        if not hasattr(found, part):
            importlib.import_module(path)
        found = getattr(found, part)


def test_libraries_of_private_names_are_bounded() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    libraries = {name.partition(".")[0] for name in ALLOWED} | set(ALLOWED_ATTRIBUTES.values())
    assert libraries - {"python"} - PYTHON <= set(BOUNDS)
    for name, bound in BOUNDS.items():
        found = [one for one in wanted if re.match(rf"{name}\b", one)]
        assert found
        assert all(bound in one for one in found), found


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import torch\ntorch._C.x()", "torch._C"),
        ("import torch._dynamo", "torch._dynamo"),
        ("import torch._dynamo as d", "torch._dynamo"),
        ("from triton._internal import x", "triton._internal.x"),
        ("from sklearn.utils import _tags", "sklearn.utils._tags"),
        ("from torch import nn\nnn.functional._scale", "torch.nn.functional._scale"),
        ("import numpy as np\nnp._core", "numpy._core"),
        ("def f(x):\n    return x._version", "._version"),
        ("def f(x):\n    return getattr(x, '_version')", "._version"),
    ],
)
def test_a_planted_one_is_found(code: str, name: str) -> None:
    assert name in used(ast.parse(code), set())


def test_public_ones_are_not() -> None:
    code = (
        "import torch\nclass A:\n    _own = 1\n    def f(self):\n        return self._own, torch.__version__, torch.nn"
    )
    tree = ast.parse(code)
    assert not used(tree, own([tree]))
