"""Every layer, in its variants, under torch.compile."""

import pytest

from tests.contracts.compiling import check_kl_collected, check_one_graph
from tests.contracts.layers import MEMBERS, LayerContract
from tests.layers import test_contracts as layers

KINDS = [
    layers.TestLinear,
    layers.TestMaxout,
    layers.TestDropout,
    layers.TestGaussian,
    layers.TestSquad,
    layers.TestSquadHard,
    layers.TestSquadPerNeuron,
    layers.TestSquadFixed,
    layers.TestFactorized,
    layers.TestFactorizedShared,
    layers.TestSquadOnTheReference,
]


def test_none_is_missing() -> None:
    assert {kind.__name__ for kind in KINDS} == {name for name in vars(layers) if name.startswith("Test")}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("training", "members"), [(True, MEMBERS), (False, None)])
def test_compiles_to_one_graph(kind: type[LayerContract], training: bool, members: int | None) -> None:
    check_one_graph(kind, training, members)


@pytest.mark.parametrize("kind", KINDS)
def test_compiles_with_its_kl_collected(kind: type[LayerContract]) -> None:
    check_kl_collected(kind)
