"""squad inspect: analysis of a model's latent variables."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from squad import load
from squad.analysis import count_modes, information, posteriors
from squad.data.tables import read
from squad.predictor.row_pass import encode
from tests.cli.conftest import QUICK, Run, listing
from tests.report.builders import images, model


def test_the_units_are_listed(run: Run, here: Path) -> None:
    done = run("inspect", "model", "test.csv", "--layer", "2")
    assert done.code == 0
    assert "model: layer 2 of 2, on 60 rows of test.csv" in done.out
    predictor = load(here / "model")
    encoded = encode(predictor, read(here / "test.csv")).x
    found = posteriors(predictor.network, torch.from_numpy(encoded), 2)
    bits, modes = information(found.probs), count_modes(found.probs)
    cells = [
        [cell.strip() for cell in re.split("[│|]", line)[1:-1]]
        for line in done.out.splitlines()
        if re.match(r"[│|] \d", line)
    ]
    order = np.argsort(-bits, kind="stable")
    assert [int(row[0]) for row in cells] == (order[:20] + 1).tolist()
    for row in cells:
        unit = int(row[0]) - 1
        assert row[1] == f"{bits[unit]:.2f} bits"
        assert row[2] == f"{modes[:, unit].mean():.2f}"
        assert row[3] == f"{100 * (modes[:, unit] > 1).mean():.0f} %"
        assert row[4] == f"{found.values[unit, 0]:.2f} to {found.values[unit, -1]:.2f}"
    assert re.fullmatch(f"12 .*not shown.*--unit {order[0] + 1} .*\n", done.err)
    assert max(map(len, done.out.splitlines())) <= 80


def test_a_unit_is_drawn_and_summarized(run: Run, here: Path) -> None:
    done = run("inspect", "model", "test.csv", "--unit", "3", "--rows", "7")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("model: layer 1 of 2, unit 3, on 7 rows of test.csv\n")
    assert done.out.endswith("inspect-layer1-unit3.png\n")
    for word in ("information", "modes", "values", "activation", "nearest shapes", "bits about the input"):
        assert word in done.out
    with Image.open(here / "inspect-layer1-unit3.png") as picture:
        assert picture.size[0] == 1200
    # Row numbers refer to the file, even if only some of its rows are used.
    named = {int(row) for row in re.findall(r"\(row\s+(\d+)", done.out)}
    picked = np.sort(np.random.default_rng(0).choice(np.arange(60), 7, replace=False)) + 1
    assert named
    assert named <= set(picked.tolist())


def test_without_data_it_uses_the_training_data(run: Run, here: Path) -> None:
    assert run("fit", "train.csv", *QUICK, "--out", "near").code == 0
    done = run("inspect", "near")
    assert "on 310 rows of train.csv" in done.out
    assert re.match("DATA.* rows of train.csv", done.err)
    assert "on 100 rows of train.csv" in run("inspect", "near", "--rows", "100").out
    # If the file is missing, it uses noise and says so.
    (here / "train.csv").unlink()
    noise = run("inspect", "near", "--rows", "50")
    assert "on 50 rows of standard normal noise" in noise.out
    assert re.match("DATA.* noise", noise.err)
    assert run("inspect", "near", "--rows", "50").out == noise.out


def test_help_fits_into_80_columns(run: Run) -> None:
    shown = run("inspect", "--help")
    assert shown.out.startswith("Usage: squad inspect MODEL [DATA] [OPTIONS]\n")
    assert max(map(len, shown.out.splitlines())) <= 80
    assert "counted from 1" in shown.out
    assert "\n  inspect " in run("--help").out


@pytest.fixture
def pictured(here: Path) -> Path:
    """An ensemble for images with a member whose training failed, and some images."""
    predictor = model("squad-factorized", "images", members=2, rank=1)
    predictor.record["members"] = [{"best_epoch": 3}, {"best_epoch": None}, {"best_epoch": 2}]
    predictor.save(here / "ensemble")
    np.savez(here / "images.npz", x=images(30))
    return here


def test_members_are_counted_as_in_squad_info(run: Run, pictured: Path) -> None:
    first, last = (run("inspect", "ensemble", "images.npz", "--member", member) for member in "02")
    assert "layer 1 of 2, member 0, on 30 rows" in first.out
    assert "layer 1 of 2, member 2, on 30 rows" in last.out
    assert first.out.splitlines()[3:] != last.out.splitlines()[3:]
    default = run("inspect", "ensemble", "images.npz")
    assert default == first
    failed = run("inspect", "ensemble", "images.npz", "--member", "1").refusal
    assert re.search(r"--member .*\(0, 2\), got 1\.", failed)
    done = run("inspect", "ensemble", "images.npz", "--unit", "1", "--member", "2")
    assert "scalar input u" in done.out
    assert (pictured / "inspect-layer1-unit1-member2.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model", "--layer", "3"], r"--layer .*1.*2.*got 3\."),
        (["model", "--layer", "0"], r"--layer .*1.*2.*got 0\."),
        (["model", "--unit", "33"], r"--unit .*1.*32.*got 33\."),
        (["model", "--member", "1"], r"--member .*\(0\), got 1\."),
        (["model", "--rows", "0"], r"--rows .*1.*got 0\."),
        (["model", "--unit", "1", "--out", "a.gif"], r"--out .*\.png, \.pdf or \.svg, got a\.gif\."),
        (["model", "--unit", "1", "--out", "test.csv/a.png"], r"test\.csv"),
        (["model", "--out", "a.png"], "needs --unit"),
        (["model", "no.csv"], r"no\.csv"),
        (["model", "fashion"], "Did you mean fashion-mnist"),
        (["model", "images.npz"], r"trained on .*table"),
        (["ensemble", "test.csv"], r"trained on .*array"),
        (["plain"], "plain .*quantized latents.*mlp"),
    ],
)
def test_errors(run: Run, pictured: Path, arguments: list[str], message: str) -> None:
    model("mlp", "features").save(pictured / "plain")
    before = listing(pictured)
    assert re.search(message, run("inspect", *arguments).refusal)
    assert listing(pictured) == before


def test_unreadable_rows_are_left_out(run: Run, here: Path) -> None:
    lines = (here / "new.csv").read_text().splitlines()
    lines[3] = "p,50.0,,f"
    (here / "new.csv").write_text("\n".join(lines) + "\n")
    assert "on 19 rows of new.csv" in run("inspect", "model", "new.csv").out
    (here / "bad.csv").write_text("\n".join([lines[0], lines[3]]) + "\n")
    assert re.search(r"no row of bad\.csv.*weight", run("inspect", "model", "bad.csv").refusal)


def test_two_bins_have_no_stereotypes(run: Run, pictured: Path) -> None:
    model("squad", "images", bins=2).save(pictured / "binary")
    done = run("inspect", "binary", "images.npz", "--unit", "1", "--out", "deep/er/a.svg")
    assert done.code == 0
    assert (pictured / "deep/er/a.svg").read_text().lstrip().startswith("<?xml")
    assert re.search(r"nearest shapes +none", done.out)
