"""torch's precision of matrix products on a GPU: set and restored, by one thread at a time."""

import threading

import pytest
import torch

from squad.ops.matmul_precision import matmul_precision

GPU, CPU = torch.device("cuda"), torch.device("cpu")
matmul = torch.backends.cuda.matmul


@pytest.fixture(autouse=True)
def _restore_setting() -> object:
    before = matmul.allow_tf32
    yield
    matmul.allow_tf32 = before


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("precision", ["tf32", "float32"])
def test_precision_is_set_and_restored(before: bool, precision: str) -> None:
    matmul.allow_tf32 = before
    seen = []

    def fails() -> None:
        with matmul_precision(precision, GPU):
            seen.append(matmul.allow_tf32)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert seen == [precision == "tf32"]
    assert matmul.allow_tf32 == before


def test_nothing_is_read_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squad.ops.matmul_precision._get", lambda: pytest.fail("the setting was read"))
    with matmul_precision("tf32", CPU):
        pass


def test_threads_wait_for_each_other() -> None:
    inside, leave, seen = threading.Event(), threading.Event(), []

    def other() -> None:
        inside.wait()
        with matmul_precision("float32", GPU):
            seen.append(matmul.allow_tf32)

    thread = threading.Thread(target=other)
    thread.start()
    with matmul_precision("tf32", GPU):
        inside.set()
        leave.wait(0.2)
        assert matmul.allow_tf32
        assert not seen
    thread.join()
    assert seen == [False]
    assert not matmul.allow_tf32


def test_newer_setting_of_torch_is_used_if_the_older_one_is_refused() -> None:
    if not hasattr(matmul, "fp32_precision"):
        pytest.skip("this version of torch has no fp32_precision")
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = "tf32"
        with matmul_precision("float32", GPU):
            assert matmul.fp32_precision in ("ieee", "none")
        assert matmul.fp32_precision == "tf32"
    finally:
        matmul.fp32_precision = before
