"""Rules of the house that no linter knows (``make check``): names of files, private imports, writing files, words.

Each rule says where it is broken and what to do; the exit code is 1 if one is.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: Module names that occur in several subpackages because they mean the same there.
SAME_MEANING = {
    "certify": "the command of a function",
    "checks": "checks of arguments",
    "config": "settings of a subpackage",
    "dropout": "the layer and its operation",
    "plan": "the command of a function",
    "progress": "progress of a run and of a search",
    "report": "the command of a subpackage",
    "search": "the command of a subpackage",
}

#: Calls that write or rename files: only squad/files does that, so that every file is written atomically.
WRITERS = {"os.replace", "os.rename", "shutil.move", "tempfile.NamedTemporaryFile", "tempfile.mkstemp"}
WRITING_METHODS = {"write_text", "write_bytes", "savefig"}
#: Modules outside squad/files that write through it.
ALLOWED_WRITERS = {"plotting.py"}

#: Tests that name such expressions on purpose.
TESTS_OF_WORDS = {"test_house_rules.py", "test_certificate_text.py"}

#: Expressions that readers did not understand, and what to write instead (CONTRIBUTING.md, "Style").
WORDS = {
    r"\bpromis(?:e|es|ed|ing)\b": "guarantee",
    r"\bstrangers?\b": "out-of-distribution inputs",
    r"\bcases from elsewhere\b": "out-of-distribution inputs",
    r"\bway of sampling\b": "sampling mode",
    r"\bAUROC of errors\b": "misclassification detection AUROC",
    r"\bnot worth going on with\b": "pruned",
    r"\bone (?:number )?a (?:row|member|layer|neuron)\b": "one per row, per member, per layer, per neuron",
    r"\bis kept a thread\b": "stored per thread",
    r"\blooks? at (?:the )?validation rows\b": "validation pass",
    r"\bcurve of risk over coverage\b": "risk-coverage curve",
    r"\band no(?:thing)? more\b": "at most",
    r"; got\b": ", got",
}


def package(root: Path) -> Path:
    """Return the folder of the package."""
    return root / "src" / "squad"


def modules(root: Path) -> Iterator[tuple[Path, ast.Module]]:
    """Yield every module of the package with its syntax tree."""
    for path in sorted(package(root).rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def file_names(root: Path) -> Iterator[str]:
    """One file name, one meaning."""
    modules_of = defaultdict(list)
    for path in sorted(package(root).rglob("*.py")):
        if not path.stem.startswith("__"):
            modules_of[path.stem].append(path.relative_to(package(root)).as_posix())
    for name, paths in modules_of.items():
        if len(paths) > 1 and name not in SAME_MEANING:
            found = ", ".join(paths)
            yield f"{found}: one file name in several subpackages. Rename them, or list the name in SAME_MEANING."


def private_imports(root: Path) -> Iterator[str]:
    """No module imports a private name of another one."""
    for path, tree in modules(root):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("squad"):
                for alias in node.names:
                    if alias.name.startswith("_") and not alias.name.startswith("__"):
                        place = where(root, path, node)
                        yield f"{place}: {alias.name} is private to {node.module}. Make it public there, or move it."


def second_writers(root: Path) -> Iterator[str]:
    """Only squad/files writes or renames files."""
    for path, tree in modules(root):
        if path.is_relative_to(package(root) / "files") or path.name in ALLOWED_WRITERS:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (name := written_by(node)):
                yield f"{where(root, path, node)}: {name} writes a file. Use squad.files, which writes atomically."


def written_by(call: ast.Call) -> str | None:
    """Return what a call writes a file with, or None."""
    name = ast.unparse(call.func)
    if name in WRITERS or ("." in name and name.rpartition(".")[2] in WRITING_METHODS):
        return name
    if name == "open" or name.endswith(".open"):
        first = 1 if name in ("open", "gzip.open", "os.open", "io.open") else 0  # of Path.open the mode comes first
        modes = [*call.args[first : first + 1], *(word.value for word in call.keywords if word.arg == "mode")]
        texts = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
        if any(re.fullmatch(r"[rbt+]*[wax][bt+]*", text) for text in texts):
            return name
    return None


def words(root: Path) -> Iterator[str]:
    """The field's words in everything that a person reads."""
    files = [root / "README.md", root / "CONTRIBUTING.md"]
    for folder in ("src", "docs", "experiments", "benchmarks", "tests"):
        for kind in ("*.py", "*.md", "*.js"):
            files += sorted((root / folder).rglob(kind))
    for path in files:
        if path.name in TESTS_OF_WORDS:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for pattern, better in WORDS.items():
                if found := re.search(pattern, line, re.IGNORECASE):
                    yield f"{path.relative_to(root)}:{number}: {found[0]!r}. Write: {better}."


def where(root: Path, path: Path, node: ast.stmt | ast.expr) -> str:
    """Return the place of a node, as editors open it."""
    return f"{path.relative_to(root).as_posix()}:{node.lineno}"


RULES = (file_names, private_imports, second_writers, words)


def main() -> int:
    """Check all rules, and print what is broken."""
    broken = [line for rule in RULES for line in rule(ROOT)]
    print("\n".join(broken) or "The rules of the house hold.")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
