"""The distribution, against torch's Categorical, numpy in float64, and properties of distributions."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor
from torch.distributions import Categorical

from squad import Quantized
from squad.errors import SquadError

shapes = st.lists(st.integers(1, 4), max_size=3).map(tuple)


@st.composite
def distributions(draw: st.DrawFn, *, coincide: bool = True, masked: bool = True) -> Quantized:
    """Any batch shape, any of the three shapes of values, in any order, possibly with ties and bins without mass."""
    batch = draw(shapes)
    bins = draw(st.integers(2, 9))
    g = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    logits = draw(st.sampled_from([0.1, 1.0, 10.0])) * torch.randn(*batch, bins, generator=g, dtype=torch.float64)
    if masked and draw(st.booleans()):
        logits[..., draw(st.integers(0, bins - 1))] = -float("inf")
    kinds: list[tuple[int, ...]] = [(bins,), (*batch, bins), (*(1,) * len(batch), bins)]
    if len(batch) > 1:
        kinds.append((batch[-1], bins))
    values = torch.randn(draw(st.sampled_from(kinds)), generator=g, dtype=torch.float64)
    if coincide and draw(st.booleans()):
        values = values.mul(2).round().div(2)
    return Quantized(logits, values)


def cells(q: Quantized) -> list[tuple[tuple[int, ...], np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Index, probabilities and values of every scalar distribution, in numpy."""
    values = q.values.expand_as(q.logits).numpy()
    logits = q.logits.numpy()
    out = []
    for index in np.ndindex(*q.batch_shape):
        e = np.exp(logits[index] - logits[index].max())
        out.append((index, e / e.sum(), values[index]))
    return out


@given(distributions())
def test_moments_and_entropy(q: Quantized) -> None:
    torch.testing.assert_close(
        q.entropy(), Categorical(logits=q.logits.clamp_min(-1e6)).entropy(), atol=1e-9, rtol=1e-9
    )
    assert q.mean.shape == q.variance.shape == q.mode.shape == q.entropy().shape == q.batch_shape
    for index, p, v in cells(q):
        assert q.mean[index].item() == pytest.approx(p @ v, abs=1e-12)
        assert q.variance[index].item() == pytest.approx(p @ (v - p @ v) ** 2, abs=1e-12)
        np.testing.assert_allclose(q.probs[index], p, atol=1e-12)


@given(distributions())
def test_mass_of_equal_values_is_added(q: Quantized) -> None:
    """log_prob, mode and cdf refer to z, not to the bin index."""
    for index, p, v in cells(q):
        one = Quantized(torch.from_numpy(np.log(p + 1e-300)), torch.from_numpy(v.copy()))
        mass = {value: p[v == value].sum() for value in v}
        for value, m in mass.items():
            z = torch.tensor(value)
            assert one.log_prob(z).exp().item() == pytest.approx(m, abs=1e-12)
            assert one.cdf(z).item() == pytest.approx(p[v <= value].sum(), abs=1e-12)
        best = max(mass.values())
        assert mass[q.mode[index].item()] == pytest.approx(best, abs=1e-12)


@given(distributions(), st.integers(0, 1000))
def test_icdf_inverts_cdf(q: Quantized, seed: int) -> None:
    u = torch.rand(5, *q.batch_shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    z = q.icdf(u)
    assert z.shape == u.shape
    assert (q.cdf(z) >= u - 1e-12).all()
    below = z - 1e-9
    assert (q.cdf(below) < u + 1e-12).all()


@given(distributions())
def test_icdf_at_the_ends_is_on_the_support(q: Quantized) -> None:
    low, high = q.icdf(torch.zeros(q.batch_shape)), q.icdf(torch.ones(q.batch_shape))
    for index, p, v in cells(q):
        assert low[index] == v[p > 0].min()
        # Masses below float64's resolution of 1 may end the range a bin early.
        assert v[p > 1e-15].max() <= high[index] <= v[p > 0].max()


@given(distributions(), shapes)
def test_expand(q: Quantized, more: tuple[int, ...]) -> None:
    big = q.expand((*more, *q.batch_shape))
    assert big.batch_shape == (*more, *q.batch_shape)
    for name in ("mean", "variance", "mode", "probs"):
        got, want = getattr(big, name), getattr(q, name)
        assert torch.equal(got, want.expand(got.shape))
    z = q.icdf(torch.rand(big.batch_shape, dtype=torch.float64))
    torch.testing.assert_close(big.log_prob(z), q.log_prob(z))
    assert big.sample((2,)).shape == (2, *big.batch_shape)
    assert big.expand(big.batch_shape).batch_shape == big.batch_shape


def test_expand_of_a_single_neuron() -> None:
    q = Quantized(torch.randn(1, 3), torch.randn(1, 3)).expand((5,))
    assert q.sample((4,)).shape == (4, 5)


def test_expand_by_minus_one() -> None:
    assert Quantized(torch.zeros(3, 4), torch.arange(4.0)).expand((2, -1)).batch_shape == (2, 3)


def test_expand_to_a_smaller_shape_raises() -> None:
    with pytest.raises(RuntimeError):
        Quantized(torch.zeros(3, 4), torch.arange(4.0)).expand((2,))


@given(distributions(), shapes)
def test_samples_have_their_shape_and_lie_on_the_values(q: Quantized, shape: tuple[int, ...]) -> None:
    z = q.sample(shape)
    assert z.shape == (*shape, *q.batch_shape)
    assert z.dtype == q.logits.dtype
    assert q.support.check(z).all()
    assert q.log_prob(z).isfinite().all()  # a bin without mass is never drawn


def test_sampling_frequencies() -> None:
    logits = torch.tensor([[0.0, 1.0, -1.0, 0.5], [2.0, 0.0, 0.0, -3.0]])
    q = Quantized(logits, torch.tensor([3.0, -1.0, 0.5, 2.0]))
    n = 40_000
    z = q.sample((n,))
    for k in range(2):
        counts = [int((z[:, k] == v).sum()) for v in q.values]
        assert stats.chisquare(counts, n * logits[k].double().softmax(0).numpy()).pvalue > 1e-3


@pytest.mark.parametrize("order", ["bins last", "a view of bins first"])
def test_memory_order_changes_nothing(order: str) -> None:
    logits = torch.randn(6, 5, 4)
    view = logits.mT.contiguous().mT if order.startswith("a view") else logits
    q, want = Quantized(view, torch.arange(4.0)), Categorical(logits=logits)
    torch.testing.assert_close(q.probs, want.probs)
    torch.testing.assert_close(q.entropy(), want.entropy())


def relaxed_distance(q: Quantized, temperature: float, n: int = 20_000) -> float:
    """Largest distance between the empirical distribution of relaxed samples and that of z."""
    z = q.relaxed((n,), temperature=temperature)
    grid = (q.values[1:] + q.values[:-1]) / 2
    return max(abs(float((z <= g).float().mean()) - float(q.cdf(g))) for g in grid)


def test_relaxed_samples_converge_to_the_categorical_law() -> None:
    q = Quantized(torch.tensor([0.3, -1.0, 1.0, 0.0, 0.5]), torch.linspace(-2, 2, 5))
    distances = [relaxed_distance(q, t) for t in (2.0, 0.5, 0.1, 0.01)]
    assert distances == sorted(distances, reverse=True)
    assert distances[0] > 0.1
    assert distances[-1] < 1.63 / 20_000**0.5  # Kolmogorov-Smirnov at 1 %


def test_relaxed_samples_are_differentiable() -> None:
    logits = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    values = torch.randn(4, dtype=torch.float64, requires_grad=True)

    def draw(a: Tensor, v: Tensor) -> Tensor:
        torch.manual_seed(5)
        return Quantized(a, v).relaxed((2,), temperature=0.7)

    assert draw(logits, values).shape == (2, 3)
    assert torch.autograd.gradcheck(draw, (logits, values))
    assert not torch.equal(Quantized(logits, values).relaxed(), Quantized(logits, values).relaxed())


@pytest.mark.parametrize("name", ["mean", "variance", "entropy", "log_prob", "cdf"])
def test_gradients_agree_with_finite_differences(name: str) -> None:
    logits = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    values = torch.tensor([0.0, 2.0, 0.0, 1.0], dtype=torch.float64)

    def function(a: Tensor) -> Tensor:
        q = Quantized(a, values)
        if name in ("log_prob", "cdf"):
            result: Tensor = getattr(q, name)(torch.zeros(2, 3, dtype=torch.float64))
            return result
        got = getattr(q, name)
        moment: Tensor = got() if callable(got) else got
        return moment

    assert torch.autograd.gradcheck(function, (logits,))


@pytest.mark.parametrize("name", ["mean", "variance"])
def test_moments_have_a_gradient_for_values(name: str) -> None:
    logits = torch.randn(2, 3, 4, dtype=torch.float64)
    values = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)

    def moment(v: Tensor) -> Tensor:
        result: Tensor = getattr(Quantized(logits, v), name)
        return result

    assert torch.autograd.gradcheck(moment, (values,))


def test_gradients_are_finite_for_masked_bins_and_other_values() -> None:
    logits = torch.tensor([0.0, -float("inf"), 1.0], requires_grad=True)
    q = Quantized(logits, torch.tensor([0.0, 1.0, 2.0]), validate_args=False)
    total = q.entropy() + q.mean + q.variance + q.log_prob(torch.tensor(2.0)) + q.relaxed()
    for value in (0.5, 1.0):  # between the bins, and at a bin without mass
        assert q.log_prob(torch.tensor(value)) == -float("inf")
        total = total + torch.where(torch.tensor(False), q.log_prob(torch.tensor(value)), 0)
    total.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert logits.grad[1] == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_dtypes_are_computed_in_float32_or_better(dtype: torch.dtype) -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4], [0.5, 0.25, -1.0]], dtype=dtype)
    q = Quantized(logits, torch.tensor([-1.0, 0.0, 1.0], dtype=dtype))
    wide = torch.promote_types(dtype, torch.float32)
    for result in (
        q.mean,
        q.variance,
        q.mode,
        q.entropy(),
        q.sample(),
        q.relaxed(),
        q.cdf(q.mode),
        q.icdf(q.cdf(q.mode)),
    ):
        assert result.dtype == wide
        assert result.isfinite().all()
    assert q.entropy()[1].item() == pytest.approx(np.log(3), abs=1e-6)


def test_lazy_probabilities_keep_their_gradient() -> None:
    logits = torch.zeros(3, requires_grad=True)
    q = Quantized(logits, torch.arange(3.0))
    with torch.no_grad():
        assert q.probs.sum() == pytest.approx(1)
    assert q.mean.requires_grad


@pytest.mark.parametrize(
    ("logits", "values"),
    [
        ((5,), (4,)),
        ((3, 5), (2, 5)),
        ((2, 3, 5), (2, 5)),
        ((2, 3, 5), (1, 5)),  # not a silent broadcast over neurons
        ((2, 3, 5), (1, 3, 1)),
        ((2, 3, 5), (3, 3, 5)),
        ((2, 3, 5), (1, 2, 3, 5)),
        ((1, 5), (7, 5)),  # values never enlarge the batch
        ((5,), ()),
        ((), (5,)),
        ((3, 1), (1,)),
    ],
)
def test_incompatible_shapes_are_rejected(logits: tuple[int, ...], values: tuple[int, ...]) -> None:
    with pytest.raises(SquadError, match=r"(logits|values) must be of shape .*got shape") as caught:
        Quantized(torch.zeros(logits), torch.zeros(values))
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("logits", "values", "message"),
    [
        ([0.0, float("nan")], [0.0, 1.0], "logits .*finite.*got nan"),
        ([0.0, float("inf")], [0.0, 1.0], "logits .*finite.*got inf"),
        ([-float("inf")] * 2, [0.0, 1.0], "logits .*at least one bin"),
        ([0.0, 0.0], [0.0, float("nan")], "values .*finite, got nan"),
        ([0.0, 0.0], [0.0, -float("inf")], "values .*finite, got -inf"),
        ([0, 0], [0.0, 1.0], r"logits .*floating-point.*got torch\.int64"),
    ],
)
def test_invalid_contents_are_rejected(logits: list[float], values: list[float], message: str) -> None:
    with pytest.raises(SquadError, match=message):
        Quantized(torch.tensor(logits), torch.tensor(values))


def test_validation_can_be_disabled() -> None:
    q = Quantized(torch.tensor([0.0, float("nan")]), torch.tensor([0.0, 1.0]), validate_args=False)
    assert q.probs.isnan().all()
    assert q.log_prob(torch.tensor(0.5)) == -float("inf")  # off the bins, which validation would reject


def test_invalid_values_and_shapes_are_rejected() -> None:
    q = Quantized(torch.zeros(2, 3), torch.tensor([-1.0, 0.0, 1.0]))
    with pytest.raises(SquadError, match=r"value .*bin values, got 0\.25.*validate_args=False"):
        q.log_prob(torch.tensor([0.0, 0.25]))
    with pytest.raises(SquadError, match=r"value .*shape.*\(2,\), got shape \(3,\)"):
        q.log_prob(torch.zeros(3))
    with pytest.raises(SquadError, match=r"value .*\[0, 1\], got 1\.5"):
        q.icdf(torch.tensor(1.5))
    with pytest.raises(SquadError, match=r"temperature .*positive.*got 0\.0"):
        q.relaxed(temperature=0.0)
    with pytest.raises(SquadError, match=r"temperature .*\(2,\), got shape \(3,\)"):
        q.relaxed(temperature=torch.tensor([0.5, 0.6, 0.7]))  # one per bin would be a silent broadcast
    assert q.relaxed((5,), temperature=torch.tensor([0.5, 0.6])).shape == (5, 2)
    for draw in (q.sample, q.relaxed):
        with pytest.raises(SquadError, match=r"sample_shape .*got 5"):
            draw(5)  # type: ignore[arg-type]
    assert q.cdf(torch.tensor(float("nan"))).isnan().all()
    loose = Quantized(q.logits, q.values, validate_args=False)
    assert loose.log_prob(torch.tensor([0.0, 0.25]))[1] == -float("inf")


def test_priors() -> None:
    values = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0]])
    torch.testing.assert_close(Quantized.uniform(values).probs, torch.full((2, 3), 1 / 3))
    edge = stats.norm.cdf(-1.0)
    np.testing.assert_allclose(Quantized.gaussian(values).probs[1], [edge, 1 - 2 * edge, edge], rtol=1e-5)
    with pytest.raises(SquadError, match=r"values .*increasing"):
        Quantized.gaussian(values.flip(-1))
    for make in (Quantized.uniform, Quantized.gaussian):
        for wrong in ([0.0, 1.0], torch.arange(3)):
            with pytest.raises(SquadError, match=r"values .*floating-point"):
                make(wrong)  # type: ignore[arg-type]


def test_it_is_a_torch_distribution() -> None:
    q = Quantized(torch.zeros(2, 3), torch.arange(3.0))
    assert q.batch_shape == (2,)
    assert q.event_shape == ()
    assert q.stddev.shape == (2,)
    assert "Quantized" in repr(q)
    independent = torch.distributions.Independent(q, 1)
    assert independent.log_prob(q.sample()).shape == ()
