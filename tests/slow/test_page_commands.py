"""The commands in README.md and docs/, from top to bottom of each page.

They are run as written, except that a search has fewer trials, and that what an earlier example of the page made is
replaced."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from squad.cli import main

ROOT = Path(__file__).parents[2]
#: What installs the project; `.ci/run` does it for real.
INSTALLING = {"pip", "make"}
#: Options that need a server or a cluster; tests/slow/test_search_cluster.py runs them.
ELSEWHERE = {"--storage", "--ray"}
#: Files of a user.
FILES = {"patients.csv", "data.csv", "new.csv", "other.csv", "digits.npz"}
#: A search of fewer trials is the same command.
TRIALS = "3"


class Step(NamedTuple):
    """A command of a page, and the lines that the page shows below it."""

    words: list[str]
    shown: list[str]


def blocks(text: str) -> Iterator[list[str]]:
    """Yield the lines of every block of commands in a page."""
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield re.sub(r"\\\n\s*", " ", block).splitlines()


def steps(page: Path) -> list[Step]:
    """Return the commands of a page, without their prompts and comments."""
    found: list[Step] = []
    for lines in blocks(page.read_text(encoding="utf-8")):
        assert lines[0].startswith("$ "), (page, lines)
        for line in lines:
            if line.startswith("$ "):
                found.append(Step(shlex.split(line[2:], comments=True), []))
            else:
                found[-1].shown.append(line)
    return found


PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "auto_" not in str(page.parent) and any(blocks(page.read_text(encoding="utf-8")))
]


def write_patients(path: Path, columns: list[str], rows: int, seed: int) -> None:
    """Write these columns of a table of patients, two rows each, whose age and weight tell the outcome."""
    random = np.random.default_rng(seed)
    age, weight = random.normal(50, 10, 3 * rows), random.normal(70, 10, 3 * rows)
    clear = np.flatnonzero(np.abs(age + weight - 120) > 4)[:rows]
    outcome = np.where(age + weight > 120, "malignant", "benign")[clear]
    table = pd.DataFrame({"patient_id": [f"p{row // 2}" for row in range(rows)], "age": age[clear].round(2)})
    table = table.assign(weight=weight[clear].round(2), sex=random.choice(["f", "m"], rows), outcome=outcome, y=outcome)
    table[columns].to_csv(path, index=False)


def run(step: Step) -> None:
    """Run a command; `cat` writes the file that the page shows."""
    program, *words = step.words
    if program == "cat":
        Path(words[0]).write_text("\n".join(step.shown) + "\n", encoding="utf-8")
        return
    assert program == "squad", step
    if "--trials" in words:
        words[words.index("--trials") + 1] = TRIALS
    if Path("model").exists() and words[0] in {"fit", "certify"}:
        words.append("--overwrite")  # pages show alternatives; without it, the command says to add it
    assert main(words) == 0, step


def is_run(step: Step) -> bool:
    """Return whether a command is run here."""
    return step.words[0] not in INSTALLING and not ELSEWHERE & set(step.words)


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a user, and what the quickstart makes of them: splits, a certified model, answers and a report."""
    folder = tmp_path_factory.mktemp("quickstart")
    features = ["age", "weight", "sex"]
    write_patients(folder / "patients.csv", ["patient_id", *features, "outcome"], 4000, 1)
    write_patients(folder / "data.csv", [*features, "y"], 6000, 2)
    write_patients(folder / "new.csv", ["patient_id", *features], 50, 3)
    write_patients(folder / "other.csv", [*features, "y"], 600, 4)
    digits = load_digits()
    np.savez(folder / "digits.npz", x=digits.images, y=digits.target)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for step in filter(is_run, steps(ROOT / "docs" / "start" / "quickstart.md")):
            run(step)
        fit = ["fit", "train.csv", "--target", "outcome", "--group", "patient_id", "--model", "mlp"]
        assert main([*fit, "--out", "other-model", "--quiet"]) == 0
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_of_a_page_run(
    page: Path, quickstart: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A page begins with the user's files, or, if it does not split them, with the model of the quickstart."""
    todo = list(filter(is_run, steps(page)))
    made = {"train.csv", "calibration.csv", "test.csv", "model", "other-model"}
    if any(step.words[1] == "split" for step in todo):
        made = set()
    for path in quickstart.iterdir():
        if path.name in made | FILES:
            (shutil.copytree if path.is_dir() else shutil.copy)(path, tmp_path / path.name)
    monkeypatch.chdir(tmp_path)
    for step in todo:
        run(step)
        capfd.readouterr()


def test_pages_have_commands() -> None:
    """A page whose blocks are no longer found would pass in silence."""
    found = {page.relative_to(ROOT).as_posix(): len(list(filter(is_run, steps(page)))) for page in PAGES}
    assert found["README.md"] == 7
    assert found["docs/start/quickstart.md"] == 5
    assert sum(found.values()) > 35
