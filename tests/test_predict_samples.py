"""The floor of a prediction: it computes what its docstring says, and its time is that of one call."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks import predict_samples

#: Logits per row and sample of a layer.
LOGITS = predict_samples.BINS * predict_samples.HIDDEN
CPU = predict_samples.FLOOR_NUMBERS["cpu"][0]


class Work(TorchDispatchMode):
    """Counts multiplications in matrix products, exponentials and calls, and the size of the largest result."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.products: dict[torch.dtype, int] = {torch.float32: 0, torch.float64: 0}
        self.exponentials = self.calls = self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out: Tensor = func(*args, **(kwargs or {}))
        self.calls += 1
        self.largest = max(self.largest, out.numel())
        if func is torch.ops.aten.bmm.out:
            self.products[out.dtype] += out.numel() * args[0].shape[-1]
        elif func is torch.ops.aten.exp_.default:
            self.exponentials += out.numel()
        else:
            raise AssertionError(f"a floor consists of matrix products and exponentials only, not {func}")
        return out


def test_a_floor_is_the_matrix_products_and_one_exponential_per_bin() -> None:
    rows, samples = predict_samples.ROWS["cpu"], 32
    call = predict_samples.floor(1, samples, torch.float64, "cpu", CPU)
    work = Work()
    with work:
        call()
    assert work.products[torch.float64] == rows * predict_samples.FEATURES * LOGITS
    assert work.products[torch.float32] == samples * rows * predict_samples.HIDDEN * (LOGITS + predict_samples.CLASSES)
    assert work.exponentials == samples * rows * LOGITS
    assert work.largest <= CPU


@pytest.mark.parametrize(("numbers", "parts"), [(1 << 16, 11), (1 << 28, 1)])
def test_as_on_a_gpu_few_calls_cover_all_rows(numbers: int, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    members, rows, samples = 3, 100, 5
    monkeypatch.setitem(predict_samples.ROWS, "cpu", rows)
    monkeypatch.setitem(predict_samples.FLOOR_ROWS, "cpu", rows)
    call = predict_samples.floor(members, samples, torch.float32, "cpu", numbers)
    work = Work()
    with work:
        call()
    assert work.calls == 1 + 3 * parts
    # All parts have the same size, so there may be up to one row too many per part.
    exponentials = members * samples * rows * LOGITS
    assert exponentials <= work.exponentials <= exponentials + members * parts * LOGITS
    assert work.largest <= max(numbers + members * LOGITS, members * rows * LOGITS)


def test_on_a_gpu_a_floor_is_a_graph_of_calls_and_its_time_is_that_of_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    repeats: list[int] = []

    def graphed(function: Callable[[], None], times: int) -> Callable[[], None]:
        repeats.append(times)
        return function

    monkeypatch.setattr(predict_samples, "graphed", graphed)
    monkeypatch.setattr(predict_samples, "floor", lambda *_: lambda: None)
    names = list(predict_samples.floors(10, "cuda"))
    assert len(repeats) == len(names)
    (times,) = set(repeats)
    spreads = {name: {"median": 20.0 + index, "q25": 10.0, "q75": 30.0} for index, name in enumerate(names)}
    found = predict_samples.floor_seconds(dict(reversed(spreads.items())), "cuda")
    assert len(names) == len(predict_samples.FLOOR_NUMBERS["cuda"]) * len(found)
    of_relaxed = {f"floor of relaxed {t}" for t in predict_samples.SAMPLES}
    assert set(found) == of_relaxed | {"floor of stratified 1", "floor of stratified 32"}
    # The faster of two sizes, whichever comes first.
    assert found["floor of relaxed 1"] == {"median": 20 / times, "q25": 10 / times, "q75": 30 / times}
    assert predict_samples.floor_seconds(spreads, "cuda") == found


def test_on_a_cpu_a_floor_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict_samples, "floor", lambda *_: lambda: None)
    names = predict_samples.floors(1, "cpu")
    spread = {"median": 2.0, "q25": 1.0, "q75": 3.0}
    found = predict_samples.floor_seconds(dict.fromkeys(names, spread), "cpu")
    assert len(found) == len(predict_samples.SAMPLES) + 2
    assert all(one == spread for one in found.values())
