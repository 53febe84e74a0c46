"""The kernels of factorized layers in Triton's interpreter, on the CPU."""

from tests.contracts.factorized import FactorizedContract


class TestFactorized(FactorizedContract):
    pass
