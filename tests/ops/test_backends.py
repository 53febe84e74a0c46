"""Every backend that needs no GPU, by its contract."""

from tests.contracts.backends import BackendContract


class TestReference(BackendContract):
    name = "reference"


class TestEager(BackendContract):
    name = "eager"
