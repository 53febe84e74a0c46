"""Every layer and variant under torch.compile."""

from tests.contracts.compiling import CompilingContract
from tests.layers import test_contracts as layers


class TestCompiling(CompilingContract):
    kinds = (
        layers.TestLinear,
        layers.TestMaxout,
        layers.TestDropout,
        layers.TestGaussian,
        layers.TestSquad,
        layers.TestSquadPerNeuron,
        layers.TestSquadFixed,
        layers.TestFactorized,
        layers.TestFactorizedShared,
        layers.TestSquadOnTheReference,
    )


def test_all_layers_are_tested() -> None:
    names = {kind.__name__ for kind in TestCompiling.kinds}
    assert names == {name for name in vars(layers) if name.startswith("Test")}
