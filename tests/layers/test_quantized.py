"""Properties specific to layers of quantized latents: their sizes, options and temperature."""

import copy
import threading
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import squad
from squad.errors import SquadError
from squad.layers.quantized import SquadLayer


def count(layer: nn.Module) -> int:
    return sum(p.numel() for p in layer.parameters())


@pytest.mark.parametrize("members", [1, 4])
@pytest.mark.parametrize(("learn", "extra"), [("fixed", 0), ("per_layer", 15), ("per_neuron", 15 * 32)])
def test_parameter_count_of_squad(members: int, learn: Any, extra: int) -> None:
    layer = squad.SquadLinear(784, 32, bins=15, learn_values=learn, members=members)
    assert count(layer) == members * (784 * 15 * 32 + 15 * 32 + extra)


@pytest.mark.parametrize(("shared", "groups"), [(False, 256), (True, 1)])
def test_parameter_count_of_factorized(shared: bool, groups: int) -> None:
    """|X| K B + K B + K B C + K C, the paper's shapes; K is 1 in the first two with a shared W'."""
    x, k, b, c = 3072, 256, 4, 37
    layer = squad.FactorizedSquadLinear(x, k, bins=c, rank=b, shared=shared, learn_values="fixed")
    assert count(layer) == x * groups * b + groups * b + k * b * c + k * c
    assert layer.weight1.shape == (x, groups, b)
    assert layer.weight2.shape == (k, b, c)


def test_the_papers_svhn_network_has_the_papers_size() -> None:
    net = nn.Sequential(
        squad.FactorizedSquadLinear(3072, 256, bins=37, rank=4),
        squad.FactorizedSquadLinear(256, 256, bins=37, rank=4),
        squad.Linear(256, 10),
    )
    assert count(net) == pytest.approx(3.5e6, rel=0.01)  # "3.4 million weights" in the paper


def test_init_scale_sets_the_variance_of_weights() -> None:
    for scale in (0.05, 2.0, 3.214):
        weight = squad.SquadLinear(400, 20, bins=15, init_scale=scale).weight
        assert weight.std().item() == pytest.approx((scale / 400) ** 0.5, rel=0.02)
    members = squad.SquadLinear(400, 20, bins=15, init_scale=[0.1, 1.0, 5.0], members=3).weight
    for weights, scale in zip(members.detach(), (0.1, 1.0, 5.0), strict=True):
        assert weights.std().item() == pytest.approx((scale / 400) ** 0.5, rel=0.02)
    factorized = squad.FactorizedSquadLinear(400, 200, bins=37, rank=4, init_scale=0.3)
    assert factorized.weight1.std().item() == pytest.approx((2 / 400) ** 0.5, rel=0.02)
    assert factorized.weight2.std().item() == pytest.approx((0.3 / 4) ** 0.5, rel=0.02)


def test_squad_is_the_papers_equation() -> None:
    layer = squad.SquadLinear(6, 4, bins=5)
    x = torch.randn(3, 6)
    p = layer.posterior(x).probs
    weight, bias = layer.weight.view(6, 5, 4), layer.bias.view(5, 4)
    for k in range(4):
        torch.testing.assert_close(p[:, k], (x @ weight[:, :, k] + bias[:, k]).softmax(-1))


@pytest.mark.parametrize("shared", [False, True])
def test_factorized_is_the_papers_equation(shared: bool) -> None:
    layer = squad.FactorizedSquadLinear(6, 4, bins=5, rank=2, shared=shared)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    x = torch.randn(3, 6)
    p = layer.posterior(x).probs
    for k in range(4):
        inner = x @ layer.weight1[:, 0 if shared else k] + layer.bias1[0 if shared else k]
        torch.testing.assert_close(p[:, k], (inner @ layer.weight2[k] + layer.bias2[k]).softmax(-1))


def test_outputs_stay_within_the_values() -> None:
    """The range of a layer does not depend on its input: the paper's self-normalization."""
    for layer in (
        squad.SquadLinear(6, 4, bins=5, limit=2.0),
        squad.FactorizedSquadLinear(6, 4, bins=5, limit=2.0),
    ):
        for scale in (1.0, 1e3):
            for training in (True, False):
                assert layer.train(training)(scale * torch.randn(50, 6)).abs().max() <= 2.0 + 1e-6


def test_hard_samples_lie_on_the_values() -> None:
    layer = squad.SquadLinear(6, 4, bins=5, learn_values="per_neuron", sampling="hard", members=2).eval()
    with torch.no_grad():
        layer.values.add_(torch.randn_like(layer.values))
    z = layer(torch.randn(2, 30, 6))
    values = layer.values.mT.unsqueeze(1)  # (M, 1, K, C)
    assert (z.unsqueeze(-1) == values).any(-1).all()


def test_hard_samples_have_the_posteriors_frequencies() -> None:
    """Over the sample index, for each latent of one row (chi-square)."""
    layer = squad.SquadLinear(6, 4, bins=5, sampling="hard").eval()
    x = torch.randn(1, 6)
    count = 2000
    samples = []
    for index in range(count):
        with squad.sample_index(index):
            samples.append(layer(x)[0].detach())
    z = torch.stack(samples)
    p = layer.posterior(x).probs[0].detach().double()
    for k in range(4):
        counts = (z[:, k, None] == layer.values).sum(0).numpy()
        likely = p[k].numpy() * count >= 5  # the other bins are pooled, for the chi-square approximation to hold
        observed = np.append(counts[likely], counts[~likely].sum())
        expected = np.append(p[k].numpy()[likely], p[k].numpy()[~likely].sum()) * count
        keep = expected > 0.5
        assert stats.chi2.sf(((observed - expected)[keep] ** 2 / expected[keep]).sum(), keep.sum() - 1) > 1e-3


def test_prior_is_fixed_while_values_are_learned() -> None:
    layer = squad.SquadLinear(6, 4, bins=5, prior="gaussian")
    before = layer.prior.probs.clone()
    with torch.no_grad():
        layer.values.mul_(-2)
    torch.testing.assert_close(layer.prior.probs, before)
    torch.testing.assert_close(layer.prior.values, layer.values)


def test_options_of_spacing_and_prior() -> None:
    own = [-2.0, -0.5, 0.0, 1.0]
    layer = squad.SquadLinear(3, 2, bins=4, spacing=own, prior="gaussian")
    np.testing.assert_allclose(layer.values.detach(), own)
    cuts = np.array([-np.inf, -1.25, -0.25, 0.5, np.inf])
    np.testing.assert_allclose(layer.prior.probs.detach(), np.diff(stats.norm.cdf(cuts)), rtol=1e-5)
    weighted = squad.SquadLinear(3, 2, bins=4, prior=[1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(weighted.prior.probs.detach(), [0.1, 0.2, 0.3, 0.4], rtol=1e-6)
    gaussian = squad.SquadLinear(3, 2, bins=4, spacing="gaussian")
    torch.testing.assert_close(gaussian.values, squad.gaussian_bins(4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bins": 1}, "bins .*2, got 1"),
        ({"bins": 2.5}, r"bins .*2, got 2\.5"),
        ({"spacing": "log"}, "spacing .*'linear', 'gaussian', got 'log'"),
        ({"spacing": [0.0, 1.0]}, r"spacing .*5 values.*got shape \(2,\)"),
        ({"spacing": [0.0, 2.0, 1.0, 3.0, 4.0]}, "spacing .*increasing"),
        ({"spacing": [0.0, 1.0, 2.0, 3.0, float("inf")]}, "spacing .*finite, got inf"),
        ({"limit": -1.0}, r"limit .*positive.*got -1\.0"),
        ({"limit": 1e39}, r"limit .*torch\.float32"),
        ({"limit": 1e30, "prior": "gaussian"}, "values .*close enough to 0"),
        ({"spacing": None}, "spacing .*sequence of numbers, got None"),
        ({"prior": None}, "prior .*5 positive weights.*got None"),
        ({"prior": ["a"] * 5}, "prior .*5 positive weights"),
        ({"prior": "cauchy"}, "prior .*'uniform', 'gaussian', got 'cauchy'"),
        ({"prior": [0.5, 0.5]}, r"prior .*5 positive weights.*got \[0\.5, 0\.5\]"),
        ({"prior": [1.0, 1.0, 0.0, 1.0, 1.0]}, "prior .*5 positive weights"),
        ({"prior": [1.0, 1.0, float("nan"), 1.0, 1.0]}, "prior .*finite, got nan"),
        ({"learn_values": "always"}, "learn_values .*'per_layer', 'per_neuron', 'fixed', got 'always'"),
        ({"init_scale": 0.0}, r"init_scale .*positive.*got 0\.0"),
        ({"init_scale": [1.0, 2.0]}, r"init_scale .*single number, got shape \(2,\).*no members"),
        ({"init_scale": [1.0, 2.0], "members": 3}, r"init_scale .*3 members, got shape \(2,\)"),
        ({"sampling": "best"}, "sampling .*'relaxed', 'hard', 'mean', got 'best'"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    for kind in (squad.SquadLinear, squad.FactorizedSquadLinear):
        with pytest.raises(SquadError, match=message) as caught:
            kind(3, 2, **({"bins": 5} | options))
        assert isinstance(caught.value, ValueError)


def test_invalid_sizes_are_rejected() -> None:
    with pytest.raises(SquadError, match=r"in_features .*1, got 0"):
        squad.SquadLinear(0, 3)
    with pytest.raises(SquadError, match=r"out_features .*1, got 0"):
        squad.SquadLinear(3, 0)
    with pytest.raises(SquadError, match=r"rank .*1, got 0"):
        squad.FactorizedSquadLinear(3, 3, rank=0)


def test_prior_weights_of_any_size_are_normalized() -> None:
    for weight in (1e308, 1e-308):
        layer = squad.SquadLinear(3, 2, bins=4, prior=[weight] * 4)
        torch.testing.assert_close(layer.prior.probs, torch.full((4,), 0.25))


def test_constants_have_the_precision_of_the_layer() -> None:
    layer = squad.SquadLinear(3, 2, bins=15, dtype=torch.float64, prior="gaussian")
    np.testing.assert_allclose(layer.values.detach(), np.linspace(-3.5, 3.5, 15), rtol=1e-15, atol=1e-15)
    assert layer.log_prior.exp().sum().item() == pytest.approx(1, abs=1e-14)
    assert layer.weight.dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_prior_and_temperature_stay_exact_in_half_precision(dtype: torch.dtype) -> None:
    layers = [
        squad.SquadLinear(6, 32, bins=12, prior="gaussian").to(dtype),
        squad.SquadLinear(6, 32, bins=12, dtype=dtype),
    ]
    for layer in layers:
        assert layer.weight.dtype == layer.values.dtype == dtype
        assert layer.log_prior.dtype == layer.temperature.dtype == torch.float32
        assert layer.log_prior.exp().sum().item() == pytest.approx(1, abs=1e-6)
        x = torch.randn(5, 6).to(dtype)
        want = torch.distributions.kl_divergence(layer.posterior(x), layer.prior).sum(-1)
        torch.testing.assert_close(layer.sample_with_kl(x)[1], want, atol=1e-4, rtol=1e-4)
    assert layers[0].double().log_prior.dtype == torch.float64


def test_spacing_is_detached() -> None:
    spacing = torch.linspace(-1, 1, 5, requires_grad=True) * 2
    layer = squad.SquadLinear(3, 2, bins=5, spacing=spacing, learn_values="fixed")
    assert not layer.values.requires_grad
    copy.deepcopy(layer)


def test_factorized_logits_have_the_neurons_innermost() -> None:
    for shared in (False, True):
        for members in (None, 2):
            layer = squad.FactorizedSquadLinear(6, 4, bins=5, shared=shared, members=members)
            assert layer.logits(torch.randn(2, 7, 6)).is_contiguous()


def test_set_temperature_sets_all_layers_and_is_saved() -> None:
    net = nn.Sequential(squad.SquadLinear(6, 4), nn.Sequential(squad.FactorizedSquadLinear(4, 3)))
    squad.set_temperature(net, 0.8)
    temperatures = [layer.temperature.item() for layer in net.modules() if isinstance(layer, SquadLayer)]
    assert temperatures == pytest.approx([0.8, 0.8])
    assert "0.temperature" in net.state_dict()
    many = squad.SquadLinear(6, 4, members=2)
    squad.set_temperature(many, [0.5, 1.0])
    torch.testing.assert_close(many.temperature, torch.tensor([0.5, 1.0]))


@pytest.mark.parametrize("temperature", [0.0, -0.5, float("nan"), float("inf")])
def test_invalid_temperatures_are_rejected(temperature: float) -> None:
    layer = squad.SquadLinear(6, 4)
    with pytest.raises(SquadError, match=f"temperature .*positive.*got {temperature}"):
        squad.set_temperature(layer, temperature)
    with pytest.raises(SquadError, match=f"temperature .*positive.*got {temperature}"):
        layer.sample_with_kl(torch.zeros(2, 6), temperature)
    assert layer.temperature == 0.5


def test_invalid_shapes_of_temperatures_are_rejected() -> None:
    layer = squad.SquadLinear(6, 4)
    with pytest.raises(SquadError, match=r"temperature .*number.*got 'warm'"):
        squad.set_temperature(layer, "warm")  # type: ignore[arg-type]
    with pytest.raises(SquadError, match=r"module .*SQUAD layer, got Linear"):
        squad.set_temperature(nn.Linear(2, 2), 0.5)
    for count in (2, 5):  # neither one per row nor one per bin
        with pytest.raises(SquadError, match=rf"temperature .*single number, got shape \({count},\)"):
            layer.sample_with_kl(torch.zeros(2, 6), torch.full((count,), 0.5))
    with pytest.raises(SquadError, match=r"temperature .*2 members, got shape \(3,\)"):
        squad.set_temperature(squad.SquadLinear(6, 4, members=2), [0.5, 0.6, 0.7])


def test_temperature_matters_in_training_and_in_eval() -> None:
    layer = squad.SquadLinear(6, 4)
    x = torch.randn(5, 6)
    for mode in (True, False):
        layer.train(mode)
        results = []
        for temperature in (0.5, 1.5):
            squad.set_temperature(layer, temperature)
            torch.manual_seed(0)
            results.append(layer(x))
        assert not torch.allclose(*results)


def test_constants_do_not_depend_on_the_default_dtype() -> None:
    torch.set_default_dtype(torch.bfloat16)
    try:
        layer, dropout = squad.SquadLinear(3, 2, bins=12), squad.Dropout(3, 0.1)
    finally:
        torch.set_default_dtype(torch.float32)
    assert layer.weight.dtype == torch.bfloat16
    assert layer.temperature.dtype == layer.log_prior.dtype == torch.float32
    assert dropout.rate.item() == pytest.approx(0.1, abs=1e-8)
    wide = squad.SquadLinear(3, 2, dtype=torch.float64)
    squad.set_temperature(wide, 0.7)
    assert wide.temperature.item() == 0.7


def test_kl_has_the_same_dtype_in_all_sampling_modes() -> None:
    layer = squad.SquadLinear(6, 4).double().half().eval()
    for sampling in layer.samplings:
        layer.sampling = sampling
        with squad.collect_kl() as kls:
            layer(torch.randn(5, 6).half())
        assert kls[0].dtype == torch.float32, sampling


def test_misaligned_prior_of_members_is_rejected() -> None:
    """With T samples between members and rows, and T = M, broadcasting would confuse samples and members."""
    layers = [squad.SquadLinear(4, 3, bins=5), squad.SquadLinear(4, 3, bins=5, prior="gaussian")]
    many = squad.stack(layers)
    x = torch.randn(2, 2, 6, 4)
    with pytest.raises(SquadError, match=r"batch shapes .*rank .*flatten x to \(members, rows, in\)"):
        torch.distributions.kl_divergence(many.posterior(x), many.prior)
    flat = torch.distributions.kl_divergence(many.posterior(x.flatten(1, 2)), many.prior).sum(-1)
    torch.testing.assert_close(flat.view(2, 2, 6), many.sample_with_kl(x)[1])


def test_sample_index_and_collected_kl_are_per_thread() -> None:
    layer = squad.SquadLinear(6, 4).eval()
    x = torch.randn(5, 6)
    with squad.sample_index(7):
        want = layer(x)
    found: list[bool] = []

    def serve() -> None:
        with squad.collect_kl() as kls:
            found.append(torch.equal(layer(x), want))
        found.append(len(kls) == 1)

    with squad.sample_index(7), squad.collect_kl() as kls:
        thread = threading.Thread(target=serve)
        thread.start()
        thread.join()
    assert found == [False, True]
    assert len(kls) == 0


def test_invalid_sample_indices_are_rejected() -> None:
    for wrong in (-1, 2**32, 1.5):
        with pytest.raises(SquadError, match=f"index .*between 0 and 999999, got {wrong}"):
            squad.sample_index(wrong)  # type: ignore[arg-type]


def test_context_is_restored_after_an_error() -> None:
    layer, x = squad.SquadLinear(6, 4).eval(), torch.randn(5, 6)
    want = layer(x)
    with pytest.raises(RuntimeError, match="inside"), squad.collect_kl() as kls, squad.sample_index(3):
        raise RuntimeError("inside")
    assert torch.equal(layer(x), want)
    assert len(kls) == 0
