"""The fused kernels in Triton's interpreter, on the CPU: the same source that a GPU runs."""

from tests.contracts.backends import BackendContract


class TestTriton(BackendContract):
    name = "triton"
    double = False
