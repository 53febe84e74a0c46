"""The backend "compile": which shapes are compiled, and what happens if compilation fails.

The correctness of compiled code is tested in tests/slow, because each shape takes seconds.
"""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from squad.core.noise import Key
from squad.ops import compiled, eager
from tests.contracts.backends import Problem, problem


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> compiled._State:
    """A state without compiled shapes and warnings."""
    state = compiled._State()
    monkeypatch.setattr(compiled, "_state", state)
    return state


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the functions that would have been compiled; none is, which would take seconds."""
    names: list[str] = []

    def record(function: Callable[..., Any]) -> Callable[..., Any]:
        names.append(function.__name__)
        return function

    monkeypatch.setattr(compiled, "_torch_compile", record)
    return names


@pytest.mark.parametrize(("lead", "members"), [((1,), False), ((13,), False), ((3, 1), True), ((3, 13), True)])
@pytest.mark.parametrize("explicit", ["key", "shared noise", "noise per row"])
def test_padding_rows_changes_nothing(made: list[str], lead: tuple[int, ...], members: bool, explicit: str) -> None:
    """Neither results nor gradients, although the gradient of the values is a sum over all rows."""
    full = problem((*lead[:-1], 20), 5, 7, members=members, per_neuron=True)
    rest = problem(lead, 5, 7, members=members, per_neuron=True)
    if explicit != "key":
        for p, rows in ((full, 20), (rest, lead[-1])):
            p.noise = torch.randn(*((*lead[:-1], rows) if explicit == "noise per row" else ()), 5, 7)
    full.run(compiled.sample_with_kl, torch.float32)
    before = len(made)
    got, want = rest.run(compiled.sample_with_kl, torch.float32), rest.run(eager.sample_with_kl, torch.float32)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
    # Noise of a single row could be meant for all rows, and is compiled separately.
    assert (len(made) > before) == (explicit == "noise per row" and lead[-1] == 1)


def test_rows_in_several_axes(made: list[str]) -> None:
    for rows in (9, 4):
        p = problem((2, 3, rows), 5, 7, members=True)
        got, want = p.run(compiled.sample_with_kl, torch.float32), p.run(eager.sample_with_kl, torch.float32)
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
    assert len(made) == 2


def test_members_without_rows_are_padded_like_rows(made: list[str]) -> None:
    """Including their temperatures, which are padded with a number other than 0."""
    values, prior = torch.linspace(-1, 1, 5).view(1, 5, 1), torch.zeros(1, 5, 1).log_softmax(-2)
    for count in (6, 4):
        p = Problem(
            torch.randn(count, 5, 7), values, prior, torch.rand(count, 1, 1) + 0.5,
            Key(torch.arange(count), torch.zeros(count, dtype=torch.int64)),
        )  # fmt: skip
        got, want = p.run(compiled.sample_with_kl, torch.float32), p.run(eager.sample_with_kl, torch.float32)
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
    assert len(made) == 2


def test_repeated_smaller_batch_is_compiled(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MAX_PADDED_IN_A_ROW", 3)
    sizes = [20, 13, 20, 13, 13, 13, 20]
    counts = []
    for rows in [*sizes, 13, 13, 13, 13]:
        problem((rows,), 5, 7).run(compiled.sample_with_kl, torch.float32)
        counts.append(len(made) // 2)
    assert counts == [1] * 10 + [2]


def test_number_of_compiled_shapes_is_limited(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MAX_SHAPES", 2)
    for bins in (3, 4):
        problem((4,), bins, 7).run(compiled.sample_with_kl, torch.float32)
    p = problem((4,), 5, 7)
    with pytest.warns(RuntimeWarning, match=r'2 compiled shapes.*"eager"'):
        got = p.run(compiled.sample_with_kl, torch.float32)
    torch.testing.assert_close(got, p.run(eager.sample_with_kl, torch.float32), atol=0, rtol=0)
    problem((4,), 3, 7).run(compiled.sample_with_kl, torch.float32)  # no second warning, which would be an error
    assert len(made) == 4


def wrong(function: Callable[..., Any]) -> Callable[..., Any]:
    """A compiler whose results are wrong."""

    def off(*inputs: Tensor) -> tuple[Tensor, ...]:
        first, *rest = function(*inputs)
        return first + 0.1, *rest

    return off


def missing(function: Callable[..., Any]) -> Callable[..., Any]:
    def fails(*_: Tensor) -> None:
        raise RuntimeError("no C++ compiler\nand further details")

    return fails


@pytest.mark.parametrize(
    ("compiler", "message"),
    [
        (missing, r"torch\.compile failed \(RuntimeError: no C\+\+ compiler\);.*\"eager\""),
        (wrong, "ArithmeticError.*differ.*eager"),
    ],
)
def test_failure_warns_once(
    monkeypatch: pytest.MonkeyPatch, compiler: Callable[..., Any], message: str, fresh: compiled._State
) -> None:
    tried: list[str] = []

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        tried.append(function.__name__)
        result: Callable[..., Any] = compiler(function)
        return result

    monkeypatch.setattr(compiled, "_torch_compile", counted)
    p = problem((4,), 5, 7)
    want = p.run(eager.sample_with_kl, torch.float32)
    with pytest.warns(RuntimeWarning, match=message) as caught:
        got = p.run(compiled.sample_with_kl, torch.float32)
    assert len(caught) == 1
    torch.testing.assert_close(got, want, atol=0, rtol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for other in (p, problem((6,), 3, 7)):
            other.run(compiled.sample_with_kl, torch.float32)
    assert len(tried) == 2  # forward and backward, once


def test_unsupported_calls_fall_back_to_eager(made: list[str]) -> None:
    p = problem((4,), 5, 7)
    p.run(compiled.sample_with_kl, torch.float64)
    problem((), 5, 7).run(compiled.sample_with_kl, torch.float32)
    problem((0,), 5, 7).run(compiled.sample_with_kl, torch.float32)
    noise = torch.randn(5, 7)
    temperatures = torch.tensor([0.5, 0.9])
    torch.func.vmap(lambda t: compiled.sample_with_kl(p.logits, p.values, p.log_prior, t, noise)[0])(temperatures)
    torch.func.grad(lambda a: compiled.sample_with_kl(a, p.values, p.log_prior, 0.5, p.noise)[0].sum())(p.logits)
    assert not made
    p.run(compiled.sample_with_kl, torch.float32)
    assert made == ["_forward_from_bits", "_backward"]


def test_second_derivatives(made: list[str]) -> None:
    """By eager's formulas, even where a compiled kernel could compute both gradients."""
    found = []
    for backend in (compiled.sample_with_kl, eager.sample_with_kl):
        p = problem((3, 4), 5, 3, members=True)
        inputs = (p.logits.requires_grad_(), p.values.requires_grad_())
        z, kl = backend(*inputs, p.log_prior, p.temperature, p.noise)
        grads = torch.autograd.grad((z.square() + kl).sum(), inputs, create_graph=True)
        total = sum((grad.square().sum() for grad in grads), torch.zeros(()))
        found.append(torch.autograd.grad(total, inputs))
    torch.testing.assert_close(*found, atol=1e-4, rtol=1e-4)
    assert made
