"""docs/performance.md says what the records say, and a claim is met only if its record says so."""

import dataclasses
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from docs import performance
from docs.performance.advice import advice_lines
from docs.performance.claims import CLAIMS, claims_table
from docs.performance.pictures import plot_samples
from docs.performance.records import COMMANDS, MissingRecordError, exactly, only, read, where
from squad.errors import SquadError
from squad.records import Record

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "performance.md"
MACHINE = {"cpu": "a CPU", "threads": 2, "gpu": "a GPU"}


@pytest.mark.parametrize("name", list(performance.PARTS))
def test_the_page_is_that_of_the_records(name: str) -> None:
    block = f"<!-- {name}: begin -->\n{performance.PARTS[name]()}\n<!-- {name}: end -->"
    assert block in PAGE.read_text(encoding="utf-8"), "run `make docs`"


def test_pictures_of_the_page_are_there_and_are_drawn_by_the_package() -> None:
    shown = re.findall(r"\]\(images/([\w-]+)\.png\)", PAGE.read_text(encoding="utf-8"))
    assert shown
    assert set(shown) <= set(performance.PICTURES)
    for name in shown:
        assert (ROOT / "docs" / "images" / f"{name}.png").read_bytes().startswith(b"\x89PNG"), name


def step(tmp_path: Path, one: float, ten: float) -> str:
    """The lines of claims if a step of one and of ten members took so long."""
    seconds = {
        members: {"seconds": {"median": t, "q25": 0.9 * t, "q75": 1.2 * t}} for members, t in (("1", one), ("10", ten))
    }
    Record("benchmark", "step_gpu", {"device": "cpu"}, {"members": seconds}).save(tmp_path / "step_gpu.json")
    return claims_table(tmp_path)


def line(page: str, start: str) -> list[str]:
    found = [one for one in page.splitlines() if one.startswith(f"| {start}")]
    assert len(found) == 1
    return [cell.strip() for cell in found[0].strip("|").split("|")]


def test_whether_a_claim_is_met_follows_from_its_record(tmp_path: Path) -> None:
    quick = step(tmp_path, 100e-6, 140e-6)
    _, reached, quartiles, _, date, met, link = line(quick, "Training step of ten members")
    assert (reached, quartiles, met) == ("140 µs", "126 to 168", "yes")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    assert link == "[step_gpu.py](../benchmarks/step_gpu.py)"
    # 1.4 times; at worst the slow quartile of ten against the quick one of one, 168 / 90.
    assert line(quick, "Ten members against one")[1:3] == ["1.4 times", "1.05 to 1.87"]
    slow = step(tmp_path, 100e-6, 151e-6)
    assert line(slow, "Training step of ten members")[5] == "**no**"
    assert line(slow, "Ten members against one")[5] == "**no**"


def test_at_least_is_not_at_most() -> None:
    claim = next(claim for claim in CLAIMS if not claim.at_most)
    assert claim.met(exactly(claim.limit + 1))
    assert not claim.met(exactly(claim.limit - 1))
    assert not dataclasses.replace(claim, at_most=True).met(exactly(claim.limit + 1))


def test_what_was_not_measured_is_neither_met_nor_left_out(tmp_path: Path) -> None:
    page = claims_table(tmp_path)
    assert page.startswith(f"0 of {len(CLAIMS)} met, {len(CLAIMS)} not measured yet.")
    assert page.count("**not measured**") == len(CLAIMS)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_a_missing_record_names_its_command(name: str, tmp_path: Path) -> None:
    command, script = COMMANDS[name]
    with pytest.raises(MissingRecordError, match=rf"{name}\.json.*Run `{command}` \(benchmarks/{script}\)"):
        read(name, tmp_path)


def test_an_entry_must_be_the_only_one() -> None:
    entries = [{"K": 1, "seconds": {"median": 1.0}}, {"K": 2, "seconds": {"median": 2.0}}]
    assert only(entries, K=2) == {"median": 2.0}
    for asked in ({"K": 3}, {}):
        with pytest.raises(SquadError, match="one entry"):
            only(entries, **asked)


def test_the_advice_is_the_quickest_of_those_that_rank_as_well(tmp_path: Path) -> None:
    def way(sampling: str, samples: int, aurc: float, seconds: float) -> dict[str, object]:
        return {
            "sampling": sampling,
            "samples": samples,
            "each": {"aurc": {"mean": aurc, "std": 0.002}},
            "seconds": {"median": seconds},
        }

    times = {"cpu": (1.0, 3.0, 2.0), "cuda": (1.0, 3.0, 5.0)}
    for device, (a, b, c) in times.items():
        ways = [way("mean", 1, 0.020, a), way("relaxed", 32, 0.0165, b), way("stratified", 8, 0.0175, c)]
        Record("benchmark", "x", {}, {"ways": ways}).save(tmp_path / f"fashion_mnist-{device}.json")
    cpu, gpu = advice_lines(tmp_path).splitlines()
    assert "two CPU cores take `stratified` with T = 8" in cpu
    assert "takes 1.5 times as long" in cpu
    # There the best is the quickest of the good ones, and the mean, quicker still, ranks worse.
    assert "a GPU take `relaxed` with T = 32" in gpu


@pytest.mark.parametrize(
    ("settings", "drawn"),
    [
        ({"device": "cuda", "floor": "graph"}, True),
        ({"device": "cuda", "floor": "calls"}, False),
        ({"device": "cuda"}, False),
        ({"device": "cpu"}, True),
    ],
)
def test_a_gpus_floor_is_drawn_only_if_launches_do_not_bind_it(settings: dict[str, str], drawn: bool) -> None:
    def took(seconds: float) -> dict[str, float]:
        return {"median": seconds, "q25": seconds, "q75": seconds}

    results = {
        str(members): {
            "seconds": {
                **{f"{way} {t}": took(t) for way in ("stratified", "relaxed", "hard") for t in (1, 32)},
                **{f"floor of relaxed {t}": took(t / (2 * members)) for t in (1, 32)},
            }
        }
        for members in (1, 10)
    }
    record = Record("benchmark", "x", {**settings, "rows": 5}, results, machine=MACHINE)
    figure, axis = plt.subplots()
    plot_samples(axis, record, 10)
    lines = {str(line.get_label()): line for line in axis.get_lines()}
    plt.close(figure)
    assert ("floor of relaxed samples, in torch" in lines) == drawn
    if drawn:
        # In milliseconds, of as many networks as the rest.
        np.testing.assert_allclose(
            np.asarray(lines["floor of relaxed samples, in torch"].get_xydata()), [[1, 50], [32, 1600]]
        )


def test_a_device_is_the_one_that_was_used_not_the_one_that_was_there() -> None:
    cpu, gpu = (Record("benchmark", "x", {"device": device}, {}, machine=MACHINE) for device in ("cpu", "cuda"))
    assert where(cpu) == "a CPU, 2 threads"
    assert where(gpu) == "a GPU"
