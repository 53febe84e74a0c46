"""squad inspect on a named data set, and the examples in its help."""

from pathlib import Path

from squad.cli import main
from tests.cli.conftest import Run
from tests.cli.test_help import examples


def test_a_named_data_set(run: Run, here: Path) -> None:
    assert run("fit", "digits", "--max-epochs", "1", "--quiet", "--out", "digits-model").code == 0
    done = run("inspect", "digits-model")
    assert "rows of digits (test set)" in done.out
    assert run("inspect", "digits-model", "--unit", "12", "--rows", "90", "--layer", "2").code == 0
    assert (here / "inspect-layer2-unit12.png").exists()
    # Every example runs.
    for line in examples(run("inspect", "--help").out):
        assert main(line.split()[1:]) == 0
