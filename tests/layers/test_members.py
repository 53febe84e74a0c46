"""stack and unstack on whole networks."""

import pytest
import torch
from torch import nn

import squad
from squad.errors import SquadError


def network(**options: object) -> nn.Sequential:
    return nn.Sequential(
        squad.Dropout(6, 0.2),
        squad.SquadLinear(6, 4, bins=5, **options),  # type: ignore[arg-type]
        nn.Sequential(nn.Identity(), squad.GaussianLinear(4, 3)),
        squad.Linear(3, 2),
    )


def test_networks_stack_and_unstack() -> None:
    alone = [network().eval() for _ in range(3)]
    together = squad.stack(alone)
    x = torch.randn(5, 6)
    y = together(x.unsqueeze(0))
    assert y.shape == (3, 5, 2)
    for i, (net, part) in enumerate(zip(alone, squad.unstack(together), strict=True)):
        torch.testing.assert_close(y[i], net(x))
        assert torch.equal(part(x), net(x))


def test_stacking_copies() -> None:
    alone = [network() for _ in range(2)]
    together = squad.stack(alone)
    before = {k: v.clone() for k, v in together.state_dict().items()}
    with torch.no_grad():
        for p in alone[0].parameters():
            p.zero_()
    for name, tensor in together.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_frozen_parameters_stay_frozen() -> None:
    layers = [squad.Linear(3, 2) for _ in range(2)]
    for layer in layers:
        layer.weight.requires_grad_(False)
    stacked = squad.stack(layers)
    assert not stacked.weight.requires_grad
    assert stacked.bias is not None
    assert stacked.bias.requires_grad


def test_a_layer_used_twice_stays_shared() -> None:
    def tied() -> nn.Sequential:
        layer = squad.Linear(3, 3)
        return nn.Sequential(layer, nn.ReLU(), layer)

    stacked = squad.stack([tied(), tied()])
    assert stacked[0] is stacked[2]
    assert len(list(stacked.parameters())) == 2


def test_a_layer_used_twice_in_only_one_module() -> None:
    layer = squad.Linear(3, 3)
    nets = [nn.Sequential(layer, layer), nn.Sequential(squad.Linear(3, 3), squad.Linear(3, 3))]
    x = torch.randn(5, 3)
    y = squad.stack(nets)(x.unsqueeze(0))
    for i, net in enumerate(nets):
        torch.testing.assert_close(y[i], net(x))


def test_shared_parameters_stay_shared() -> None:
    def tied() -> nn.Sequential:
        net = nn.Sequential(squad.Linear(3, 3), squad.Linear(3, 3))
        net[1].weight = net[0].weight
        return net

    stacked = squad.stack([tied(), tied()])
    assert stacked[0].weight is stacked[1].weight
    part = squad.unstack(stacked)[0]
    assert part[0].weight is part[1].weight


class Listed(nn.Module):
    """A network that keeps a separate list of its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.a: squad.Linear | None = squad.Linear(3, 3)
        self.path = [self.a]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.path:
            assert layer is not None
            x = layer(x)
        return x


def test_other_references_point_to_the_new_layers() -> None:
    nets = [Listed(), Listed()]
    stacked = squad.stack(nets)
    assert stacked.path[0] is stacked.a
    x = torch.randn(4, 3)
    y = stacked(x.unsqueeze(0))
    for i, net in enumerate(nets):
        torch.testing.assert_close(y[i], net(x))


def test_members_may_differ_in_their_data() -> None:
    """Values, prior, temperature and dropout rate may differ between members."""
    layers = [squad.SquadLinear(6, 4, bins=5, spacing=s) for s in ("linear", "gaussian")]
    squad.set_temperature(layers[1], 0.9)
    stacked = squad.stack(layers)
    torch.testing.assert_close(stacked.temperature, torch.tensor([0.5, 0.9]))
    torch.testing.assert_close(stacked.values[1], squad.gaussian_bins(5))


def test_incompatible_modules_are_rejected() -> None:
    for wrong, got in (([], "empty"), (squad.Linear(3, 2), "one Linear"), ([1, 2], "int, int")):
        with pytest.raises(SquadError, match=f"modules .*sequence of modules, got .*{got}"):
            squad.stack(wrong)  # type: ignore[arg-type,type-var]
    with_bias, without = squad.Linear(3, 2), squad.Linear(3, 2, bias=False)
    for pair in ([without, with_bias], [with_bias, without]):
        with pytest.raises(SquadError, match=r"bias of module .*same .* none"):
            squad.stack(pair)
    with pytest.raises(SquadError, match=r"weight of module .*same .*torch\.float32 on cpu and torch\.float64 on cpu"):
        squad.stack([squad.Linear(3, 2), squad.Linear(3, 2, dtype=torch.float64)])
    with pytest.raises(SquadError, match=r"module\.0 .*same structure .*p=0\.1.*p=0\.9"):
        squad.stack([nn.Sequential(nn.Dropout(0.1)), nn.Sequential(nn.Dropout(0.9))])
    for order in (slice(None), slice(None, None, -1)):
        nets = [Listed(), Listed()]
        nets[1].a = None
        with pytest.raises(SquadError, match=r"module .*same structure .*Listed\(\) and Listed\(\) with a"):
            squad.stack(nets[order])
    with pytest.raises(SquadError, match=r"training of module .*same .* got True and False"):
        squad.stack([squad.Linear(3, 2), squad.Linear(3, 2).eval()])
    with pytest.raises(SquadError, match=r"weight of module .*same .* frozen"):
        squad.stack([squad.Linear(3, 2), squad.Linear(3, 2).requires_grad_(False)])
    with pytest.raises(SquadError, match=r"index .*integer.*got 1\.0"):
        squad.Linear(3, 2, members=2).member(1.0)  # type: ignore[arg-type]
    with pytest.raises(SquadError, match=r"in_features of module .*same .* got 3 and 4"):
        squad.stack([squad.Linear(3, 2), squad.Linear(4, 2)])
    other = network()
    other[1] = squad.SquadLinear(6, 4, bins=7)
    with pytest.raises(SquadError, match=r"bins of module\.1 .*same"):
        squad.stack([network(), other])
    with pytest.raises(SquadError, match="GaussianLinear, SquadLinear"):
        squad.stack([squad.SquadLinear(3, 2), squad.GaussianLinear(3, 2)])
    with pytest.raises(SquadError, match=r"module\.0 .*layer of squad.*squad\.Linear"):
        squad.stack([nn.Sequential(nn.Linear(3, 2))] * 2)
    with pytest.raises(SquadError, match=r"members=2.*unstack"):
        squad.stack([squad.Linear(3, 2, members=2)] * 2)
    with pytest.raises(SquadError, match=r"module .*same structure"):
        squad.stack([nn.Sequential(squad.Linear(3, 2)), nn.Sequential(squad.Linear(3, 2), nn.ReLU())])
    with pytest.raises(SquadError, match="no layer of this library"):
        squad.unstack(nn.ReLU())
    with pytest.raises(SquadError, match="members: None"):
        squad.unstack(squad.Linear(3, 2))
    with pytest.raises(SquadError, match="members: 2, 3"):
        squad.unstack(nn.Sequential(squad.Linear(3, 2, members=2), squad.Linear(2, 2, members=3)))
