"""KL, Jensen-Shannon and mutual information, against independent computations."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from torch import Tensor
from torch.distributions import Categorical, kl_divergence

import squad
from squad import Quantized, js_divergence, mutual_information
from squad.errors import SquadError

shapes = st.lists(st.integers(1, 4), max_size=3).map(tuple)
sizes = st.sampled_from([0.1, 1.0, 10.0, 1e4])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Quantized, Quantized]:
    """Two distributions on the same values, the second with fewer or the same batch axes."""
    batch, bins = draw(shapes), draw(st.integers(2, 9))
    less = batch[draw(st.integers(0, len(batch))) :]
    g = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    values = torch.randn(bins, generator=g, dtype=torch.float64)
    p, q = (
        Quantized(draw(sizes) * torch.randn(*shape, bins, generator=g, dtype=torch.float64), values)
        for shape in (batch, less)
    )
    return p, q


@given(pairs())
def test_kl_agrees_with_categorical(pair: tuple[Quantized, Quantized]) -> None:
    p, q = pair
    for a, b in ((p, q), (q, p)):
        got = kl_divergence(a, b)
        want = kl_divergence(Categorical(logits=a.logits), Categorical(logits=b.logits))
        # torch's result is infinite where a probability of b underflows; computed with logarithms it is finite.
        torch.testing.assert_close(got[want.isfinite()], want[want.isfinite()].clamp_min(0), atol=1e-9, rtol=1e-9)
        log_a, log_b = (x.logits.numpy() - special.logsumexp(x.logits.numpy(), -1, keepdims=True) for x in (a, b))
        np.testing.assert_allclose(got, (np.exp(log_a) * (log_a - log_b)).sum(-1), rtol=1e-9, atol=1e-9)
        assert (got >= 0).all()


@given(pairs())
def test_js_agrees_with_numpy_and_is_bounded(pair: tuple[Quantized, Quantized]) -> None:
    p, q = pair
    a, b = np.broadcast_arrays(p.probs.numpy(), q.probs.numpy())
    m = (a + b) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = [np.where(s > 0, s * np.log(s / m), 0).sum(-1) for s in (a, b)]
    np.testing.assert_allclose(js_divergence(p, q), (terms[0] + terms[1]) / 2, atol=1e-9)
    assert (js_divergence(p, q) <= math.log(2) + 1e-9).all()
    torch.testing.assert_close(js_divergence(p, q), js_divergence(q, p))
    assert (js_divergence(p, p) < 1e-12).all()


@given(st.integers(1, 6), st.integers(1, 4), st.integers(2, 9), sizes, st.integers(0, 2**31), st.booleans())
def test_mutual_information_agrees_with_the_joint_table(
    rows: int, neurons: int, bins: int, size: float, seed: int, per_neuron: bool
) -> None:
    g = torch.Generator().manual_seed(seed)
    values = torch.randn(*([neurons] if per_neuron else []), bins, generator=g, dtype=torch.float64)
    q = Quantized(size * torch.randn(rows, neurons, bins, generator=g, dtype=torch.float64), values)
    got = mutual_information(q)
    assert got.shape == (neurons,)
    for k in range(neurons):
        joint = q.probs[:, k].numpy() / rows  # p(x, z), x uniform over the rows
        outer = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            want = np.where(joint > 0, joint * np.log(joint / outer), 0).sum()
        assert got[k].item() == pytest.approx(want, abs=1e-9)
        assert 0 <= got[k].item() <= math.log(min(rows, bins)) + 1e-9


def test_mutual_information_of_members_and_of_one_latent() -> None:
    members = Quantized(torch.randn(2, 5, 3, 4), torch.arange(4.0))
    got = mutual_information(members)
    assert got.shape == (2, 3)
    torch.testing.assert_close(got[1], mutual_information(Quantized(members.logits[1], members.values)))
    torch.testing.assert_close(mutual_information(members, dim=1), got)
    one = Quantized(members.logits[0, :, 0], members.values)
    torch.testing.assert_close(mutual_information(one), got[0, 0])


def test_mutual_information_needs_a_batch_on_the_same_values() -> None:
    with pytest.raises(SquadError, match=r"dim .*batch shape \(\)"):
        mutual_information(Quantized(torch.zeros(3), torch.arange(3.0)))
    with pytest.raises(SquadError, match=r"dim .*batch shape \(2,\), got 1"):
        mutual_information(Quantized(torch.zeros(2, 3), torch.arange(3.0)), dim=1)
    with pytest.raises(SquadError, match=r"q\.values .*same"):
        mutual_information(Quantized(torch.zeros(2, 3), torch.randn(2, 3)))
    per_neuron = Quantized(torch.zeros(4, 3, 5), torch.randn(3, 5))
    mutual_information(per_neuron)
    with pytest.raises(SquadError, match=r"q\.values .*dim 1"):
        mutual_information(per_neuron, dim=1)
    with pytest.raises(SquadError, match=r"q .*Quantized, got Tensor"):
        mutual_information(torch.zeros(3, 4))  # type: ignore[arg-type]
    with pytest.raises(SquadError, match=r"q .*at least one input"):
        mutual_information(Quantized(torch.zeros(0, 4, 3), torch.arange(3.0)))
    same = torch.arange(3.0).expand(2, 3).clone()
    assert mutual_information(Quantized(torch.zeros(2, 3), same)) == 0


def test_different_values_are_rejected() -> None:
    p = Quantized(torch.zeros(3), torch.arange(3.0))
    for other in (torch.tensor([0.0, 1.0, 2.5]), torch.arange(4.0)):
        q = Quantized(torch.zeros(len(other)), other)
        for divergence in (kl_divergence, js_divergence):
            with pytest.raises(SquadError, match=r"values .*same in both"):
                divergence(p, q)


def test_other_distributions_are_rejected() -> None:
    q = Quantized(torch.zeros(3), torch.arange(3.0))
    with pytest.raises(SquadError, match=r"q .*Quantized, got Categorical"):
        js_divergence(q, Categorical(logits=torch.zeros(3)))  # type: ignore[arg-type]


def test_values_of_different_dtypes_are_rejected() -> None:
    narrow, wide = (
        squad.Quantized.uniform(squad.linear_bins(15, 3.3, dtype=d)) for d in (torch.float32, torch.float64)
    )
    with pytest.raises(SquadError, match=r"values .*dtype"):
        kl_divergence(narrow, wide)


def test_incompatible_batch_shapes_are_rejected() -> None:
    p, q = (Quantized(torch.zeros(n, 3), torch.arange(3.0)) for n in (2, 4))
    with pytest.raises(SquadError, match=r"batch shapes .*\(2,\) and \(4,\)"):
        kl_divergence(p, q)


def test_bins_without_mass() -> None:
    values = torch.arange(3.0)
    inf = float("inf")
    p = Quantized(torch.tensor([0.0, 0.0, -inf]), values)
    q = Quantized(torch.tensor([0.0, 0.0, 0.0]), values)
    assert kl_divergence(p, q).item() == pytest.approx(math.log(1.5))
    assert kl_divergence(q, p) == inf
    assert kl_divergence(p, p) == 0
    assert js_divergence(p, q).isfinite()


@pytest.mark.parametrize("divergence", [kl_divergence, js_divergence, "mutual_information"])
def test_gradients_agree_with_finite_differences_and_skip_empty_bins(divergence: object) -> None:
    values = torch.arange(3.0, dtype=torch.float64)
    other = Quantized(torch.randn(2, 3, dtype=torch.float64), values)

    def function(a: Tensor) -> Tensor:
        q = Quantized(a, values)
        if divergence == "mutual_information":
            return mutual_information(q)
        assert callable(divergence)
        result: Tensor = divergence(q, other)
        return result

    logits = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function, (logits,))
    masked = torch.tensor([[0.0, 1.0, -float("inf")]] * 2, dtype=torch.float64, requires_grad=True)
    function(masked).sum().backward()
    assert masked.grad is not None
    assert masked.grad.isfinite().all()
