"""Training on a GPU: it learns, members are what they are alone, and data that does not fit stays outside."""

import pytest
import torch

from squad.models import CONFIGS
from squad.train import TrainConfig, fit
from squad.train.adam import flatten
from tests.needs import need_gpu
from tests.train.problems import blobs, small

SETTINGS = TrainConfig(lr=3e-3, batch_size=24, max_epochs=25, anneal_epochs=5)


@pytest.fixture(autouse=True)
def _gpu() -> None:
    need_gpu()


@pytest.mark.parametrize("name", CONFIGS)
def test_together_as_alone(name: str) -> None:
    data = blobs(240, dtype=torch.float64)
    together = fit(small(name), SETTINGS, data, [7, 8, 9], device="cuda")
    for member, seed in enumerate((7, 8, 9)):
        alone = fit(small(name), SETTINGS, data, [seed], device="cuda")
        torch.testing.assert_close(flatten(together.network)[member], flatten(alone.network)[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", CONFIGS)
def test_as_on_a_cpu(name: str) -> None:
    """The same shuffles, noise and steps: in float64 the weights agree to rounding."""
    data = blobs(240, dtype=torch.float64)
    here, there = (fit(small(name), SETTINGS, data, [7], device=device) for device in ("cpu", "cuda"))
    assert here.members == there.members
    torch.testing.assert_close(flatten(there.network).cpu(), flatten(here.network), rtol=0, atol=1e-8)


def test_data_that_does_not_fit_is_gathered_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    data = blobs(240, dtype=torch.float64)
    expected = fit(small("squad"), SETTINGS, data, [7], device="cuda")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (1000, 1000))
    found = fit(small("squad"), SETTINGS, data, [7], device="cuda")
    assert torch.equal(flatten(found.network), flatten(expected.network))
