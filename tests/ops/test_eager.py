"""Properties specific to the eager backend: large inputs are split into blocks, small ones use few operations."""

import warnings

import pytest
import torch

from squad.core import noise
from squad.core.noise import Key, bits, draw_seed, make_key
from squad.ops import eager, sample_with_kl
from tests.contracts.backends import Problem, problem


def in_blocks(monkeypatch: pytest.MonkeyPatch, block: int) -> list[int]:
    """Set the block size; the list returned grows by one entry per block."""
    blocks: list[int] = []
    compute = eager._compute
    monkeypatch.setattr(eager, "BLOCK_SIZE", block)
    monkeypatch.setattr(eager, "_compute", lambda *inputs: (blocks.append(1), compute(*inputs))[1])  # type: ignore[func-returns-value]
    return blocks


@pytest.mark.parametrize(("lead", "members"), [((23,), False), ((3, 23), True), ((3, 2, 23), True), ((4, 23), False)])
@pytest.mark.parametrize("explicit", ["key", "shared noise", "noise per row"])
@pytest.mark.parametrize("block", [1, 350])
def test_blocks_change_nothing(
    monkeypatch: pytest.MonkeyPatch, lead: tuple[int, ...], members: bool, explicit: str, block: int
) -> None:
    p: Problem = problem(lead, 5, 7, members=members, per_neuron=True)
    if explicit != "key":
        p.noise = torch.randn(*(lead if explicit == "noise per row" else ()), 5, 7)
    whole = p.run(eager.sample_with_kl, torch.float64)
    made = in_blocks(monkeypatch, block)
    for a, b in zip(whole, p.run(eager.sample_with_kl, torch.float64), strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-12)
    assert len(made) > 1


@pytest.mark.parametrize("lead", [(1,), ()])
def test_single_rows_are_not_split(monkeypatch: pytest.MonkeyPatch, lead: tuple[int, ...]) -> None:
    made = in_blocks(monkeypatch, 1)
    problem(lead, 5, 7).run(eager.sample_with_kl, torch.float32)
    assert len(made) == 1


def test_members_without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The axis that is split is then that of the members, and their temperatures are split with it."""
    seeds, logits = torch.arange(40), torch.randn(40, 5, 7)
    values, prior = torch.linspace(-1, 1, 5).unsqueeze(-1), torch.zeros(5, 1).log_softmax(0)
    temperature = torch.linspace(0.3, 2, 40)
    whole = sample_with_kl(logits, values, prior, temperature, seed=seeds)
    monkeypatch.setattr(eager, "BLOCK_SIZE", 100)
    torch.testing.assert_close(sample_with_kl(logits, values, prior, temperature, seed=seeds), whole)


def test_values_per_row_are_split_with_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    p = Problem(torch.randn(20, 5, 7), torch.randn(20, 5, 7), torch.randn(20, 5, 1), 0.5, make_key(1))
    whole = p.run(eager.sample_with_kl, torch.float64)
    monkeypatch.setattr(eager, "BLOCK_SIZE", 60)
    for a, b in zip(whole, p.run(eager.sample_with_kl, torch.float64), strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("members", [None, 1, 3])
@pytest.mark.parametrize("first_row", [0, 5, 2**31])
def test_numpy_and_torch_generate_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, members: int | None, first_row: int
) -> None:
    """numpy generates the noise of small layers, torch that of large ones."""
    shape = () if members is None else (members,)
    key = Key(draw_seed(shape) - 2**61, torch.randint(2**32, shape))
    small = bits(key, 7, 5, 9, first_row=first_row)
    monkeypatch.setattr(noise, "MAX_NUMPY_COUNTERS", 0)
    assert torch.equal(bits(key, 7, 5, 9, first_row=first_row), small)


def test_traced_functions_keep_the_seed_as_an_input() -> None:
    """A trace that has read the seed would always draw the same noise."""
    one, other = make_key(1), make_key(2)

    def draw(seed: torch.Tensor) -> torch.Tensor:
        return bits(Key(seed, one.step), 4, 5, 3)

    make_fx = pytest.importorskip("torch.fx.experimental.proxy_tensor").make_fx
    assert torch.equal(make_fx(draw)(one.seed)(other.seed), draw(other.seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        traced = torch.jit.trace(draw, one.seed)
    assert torch.equal(traced(other.seed), draw(other.seed))


def test_seeds_and_logits_by_vmap() -> None:
    logits, values = torch.randn(3, 4, 5, 7), torch.linspace(-1, 1, 5).unsqueeze(-1)
    prior, seeds = torch.zeros(5, 1).log_softmax(0), torch.tensor([1, 2, 2**40])
    swept = torch.func.vmap(lambda a, s: sample_with_kl(a, values, prior, 0.5, seed=s))(logits, seeds)
    shared = torch.func.vmap(lambda a: sample_with_kl(a, values, prior, 0.5, seed=1))(logits)
    for i, seed in enumerate(seeds.tolist()):
        torch.testing.assert_close(
            [x[i] for x in swept], list(sample_with_kl(logits[i], values, prior, 0.5, seed=seed))
        )
        torch.testing.assert_close([x[i] for x in shared], list(sample_with_kl(logits[i], values, prior, 0.5, seed=1)))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("mapped", ["logits", "values", "log_prior", "temperature", "noise"])
def test_each_input_by_vmap(mapped: str, axis: int) -> None:
    """One input at a time: tensors that are computed in place must not be smaller than the result."""
    p = problem((4,), 5, 7)
    inputs = {
        "logits": p.logits,
        "values": p.values,
        "log_prior": p.log_prior,
        "temperature": torch.tensor(0.5),
        "noise": torch.randn(4, 5, 7),
    }
    each = [inputs[mapped] * scale for scale in (0.5, 1.0, 1.5)]
    along = axis if inputs[mapped].dim() else 0

    def run(one: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return eager.sample_with_kl(**{**inputs, mapped: one})

    def loss(one: torch.Tensor) -> torch.Tensor:
        z, kl = run(one)
        return (z.square() + kl).sum()

    found = torch.func.vmap(run, in_dims=along)(torch.stack(each, along))
    expected = [run(one) for one in each]
    torch.testing.assert_close(found, tuple(torch.stack(parts) for parts in zip(*expected, strict=True)))
    if mapped in ("logits", "values"):  # the inputs with gradients
        grads = torch.func.vmap(torch.func.grad(loss), in_dims=along)(torch.stack(each, along))
        torch.testing.assert_close(grads, torch.stack([torch.func.grad(loss)(one) for one in each]))


def test_nested_vmap_and_jacobian() -> None:
    p = problem((4,), 5, 7)
    noise, temperatures = torch.randn(5, 7), torch.tensor([0.4, 0.9])

    def z(logits: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
        return eager.sample_with_kl(logits, p.values[0], p.log_prior[0], temperature, noise)[0]

    rows = torch.func.vmap(z, in_dims=(0, None))
    both = torch.func.vmap(rows, in_dims=(None, 0))(p.logits, temperatures)
    jacobian = torch.func.vmap(torch.func.jacrev(z), in_dims=(0, None))(p.logits, temperatures[0])
    for i, temperature in enumerate(temperatures):
        for row, logits in enumerate(p.logits):
            torch.testing.assert_close(both[i, row], z(logits, temperature))
    for row, logits in enumerate(p.logits):
        expected = torch.autograd.functional.jacobian(lambda a: z(a, temperatures[0]), logits)
        torch.testing.assert_close(jacobian[row], expected)


def test_gradient_by_torch_func() -> None:
    p = problem((4,), 5, 7)

    def total(logits: torch.Tensor) -> torch.Tensor:
        z, kl = eager.sample_with_kl(logits, p.values, p.log_prior, p.temperature, p.noise)
        return (z.square() + kl).sum()

    logits = p.logits.clone().requires_grad_()
    total(logits).backward()
    torch.testing.assert_close(torch.func.grad(total)(p.logits), logits.grad)
