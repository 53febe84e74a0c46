"""Alternative crops: their effect on known images, and their use in runs."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from experiments.paper.jobs import run as running
from experiments.paper.jobs.crops import BORDER, CROPS, recrop
from experiments.paper.jobs.plan import PlanError
from experiments.paper.jobs.run import run_job
from squad.data.images import load_images
from tests.paper.examples import CPU, PLAN_START, plan_of

RNG = np.random.default_rng(3)
GREY = RNG.integers(0, 256, (5, 32, 32), dtype=np.uint8)
ROW = '[row.one]\nmodel = "mlp"\nways = ["mean"]\nnetwork = {hidden = [4]}\ntraining = {max_epochs = 2}\n'


@pytest.mark.parametrize("crop", CROPS)
def test_uniform_images_do_not_change(crop: str) -> None:
    flat = np.broadcast_to(np.array([0, 7, 255], np.uint8)[:, None, None], (3, 32, 32)).copy()
    assert np.array_equal(recrop(flat, crop), flat)


@pytest.mark.parametrize("crop", CROPS)
def test_colour_channels_are_cropped_independently(crop: str) -> None:
    colours = np.stack([GREY, GREY[::-1], 255 - GREY], axis=-1)
    found = recrop(colours, crop)
    assert found.dtype == np.uint8
    for channel in range(3):
        assert np.array_equal(found[..., channel], recrop(np.ascontiguousarray(colours[..., channel]), crop))


@pytest.mark.parametrize("crop", CROPS)
def test_batches_do_not_change_the_result(crop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = recrop(GREY, crop)
    monkeypatch.setattr("experiments.paper.jobs.crops.BATCH_ROWS", 2)
    assert np.array_equal(recrop(GREY, crop), whole)


def test_tighter_enlarges_the_inner_part() -> None:
    """On a linear slope, away from its ends, pixel i shows the value at (i + 1/2) 28 / 32 - 1/2 + 2."""
    slope = np.broadcast_to(np.arange(32, dtype=np.uint8) * 8, (1, 32, 32)).copy()
    outside = slope.copy()
    outside[:, :BORDER], outside[:, -BORDER:], outside[..., :BORDER], outside[..., -BORDER:] = 255, 255, 255, 255
    found = recrop(slope, "tighter")
    assert np.array_equal(found, recrop(outside, "tighter"))
    position = (np.arange(32) + 0.5) * 28 / 32 - 0.5 + BORDER
    assert found[0, 16, 4:-4] == pytest.approx(8 * position[4:-4], abs=1)
    upright = np.ascontiguousarray(slope.swapaxes(1, 2))
    assert np.array_equal(recrop(upright, "tighter"), found.swapaxes(1, 2))


def test_softer_spreads_a_point() -> None:
    point = np.zeros((1, 32, 32), np.uint8)
    point[0, 10, 20] = 160
    point[0, 0, 0] = 160  # at a corner: the border is replicated
    point[0, 25, 25] = 14  # rounded, not truncated
    found = recrop(point, "softer")[0]
    assert found[9:12, 19:22].tolist() == [[10, 20, 10], [20, 40, 20], [10, 20, 10]]
    assert found[:2, :2].tolist() == [[90, 30], [30, 10]]
    assert found[24:27, 24:27].tolist() == [[1, 2, 1], [2, 4, 2], [1, 2, 1]]
    assert np.count_nonzero(found) == 9 + 4 + 9


@pytest.mark.parametrize("crop", CROPS)
def test_a_run_uses_its_crop(tmp_path: Path, crop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results equal those on a data set with cropped images, and differ from those without the crop."""

    def results(text: str) -> object:
        plan = plan_of(tmp_path, PLAN_START + text)
        return run_job(plan.job(plan.rows[0]), CPU).results["ways"]

    cropped, plain = results(f'{ROW}crop = "{crop}"\n'), results(ROW)
    images = load_images("digits")
    cropped_images = dataclasses.replace(
        images, x_train=recrop(images.x_train, crop), x_test=recrop(images.x_test, crop)
    )
    monkeypatch.setattr(running, "_load_images", lambda *_: cropped_images)
    assert cropped == results(ROW) != plain


def test_an_unknown_crop_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"crop .*'tighter', 'softer', got 'wider'"):
        plan_of(tmp_path, f'{PLAN_START}{ROW}crop = "wider"\n')
