"""What is particular to the eager backend: it works through large inputs block by block."""

import pytest
import torch

from squad.core.noise import make_key
from squad.ops import eager, sample_with_kl
from tests.contracts.backends import Problem, problem


def in_blocks(monkeypatch: pytest.MonkeyPatch, block: int) -> list[int]:
    """Makes blocks small; the list that comes back grows by one for each."""
    made: list[int] = []
    whole = eager._whole
    monkeypatch.setattr(eager, "BLOCK", block)
    monkeypatch.setattr(eager, "_whole", lambda *inputs: (made.append(1), whole(*inputs))[1])  # type: ignore[func-returns-value]
    return made


@pytest.mark.parametrize(("lead", "members"), [((23,), False), ((3, 23), True), ((3, 2, 23), True), ((4, 23), False)])
@pytest.mark.parametrize("explicit", ["key", "a table", "one a row"])
@pytest.mark.parametrize("block", [1, 100, 350])
def test_blocks_change_nothing(
    monkeypatch: pytest.MonkeyPatch, lead: tuple[int, ...], members: bool, explicit: str, block: int
) -> None:
    p: Problem = problem(lead, 5, 7, members=members, per_neuron=True)
    if explicit != "key":
        p.noise = torch.randn(*(lead if explicit == "one a row" else ()), 5, 7)
    whole = p.run(eager.sample_with_kl, torch.float64)
    made = in_blocks(monkeypatch, block)
    for a, b in zip(whole, p.run(eager.sample_with_kl, torch.float64), strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-12)
    assert len(made) > 1


@pytest.mark.parametrize("lead", [(1,), ()])
def test_what_cannot_be_cut_is_not(monkeypatch: pytest.MonkeyPatch, lead: tuple[int, ...]) -> None:
    made = in_blocks(monkeypatch, 1)
    problem(lead, 5, 7).run(eager.sample_with_kl, torch.float32)
    assert len(made) == 1


def test_members_without_rows_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """The axis that is cut is then that of the members, and their temperatures are cut with it."""
    seeds, logits = torch.arange(40), torch.randn(40, 5, 7)
    values, prior = torch.linspace(-1, 1, 5).unsqueeze(-1), torch.zeros(5, 1).log_softmax(0)
    temperature = torch.linspace(0.3, 2, 40)
    whole = sample_with_kl(logits, values, prior, temperature, seed=seeds)
    monkeypatch.setattr(eager, "BLOCK", 100)
    torch.testing.assert_close(sample_with_kl(logits, values, prior, temperature, seed=seeds), whole)


def test_values_of_each_row_go_with_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    p = Problem(torch.randn(20, 5, 7), torch.randn(20, 5, 7), torch.randn(20, 5, 1), 0.5, make_key(1))
    whole = p.run(eager.sample_with_kl, torch.float64)
    monkeypatch.setattr(eager, "BLOCK", 60)
    for a, b in zip(whole, p.run(eager.sample_with_kl, torch.float64), strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-12)
