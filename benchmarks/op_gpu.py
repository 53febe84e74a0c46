"""Sampling + KL of a layer on a GPU, forward and backward: all backends at one size, the kernels against C and K.

Times are those of CUDA graphs, as in training; "called" is the time of calls from Python, which includes the host.  The
floor is the memory traffic: logits are read forward and backward, and their gradient is written, at the bandwidth of a
copy of that size, measured in the same run.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from benchmarks.harness import Spread, arguments, graphed, in_turns, rows, save
from squad.core.bins import linear_bins, uniform_log_weights
from squad.core.noise import make_key
from squad.ops import sample_factorized, sample_with_kl

N, C, K, RANK = 8192, 37, 256, 4
BINS = (5, 9, 15, 25, 37, 51, 75, 101)
NEURONS = (32, 64, 128, 256, 512, 1024)
REPEATS = 4


def operation(n: int, c: int, k: int, backend: str, dtype: torch.dtype = torch.float32) -> Callable[[], None]:
    """Return a forward and backward pass over n rows."""
    torch.manual_seed(0)
    logits = torch.randn(n, c, k, device="cuda", dtype=dtype, requires_grad=True)
    values = linear_bins(c).cuda().unsqueeze(-1).requires_grad_()
    prior = uniform_log_weights(c).cuda().unsqueeze(-1)
    grads = torch.randn(n, k, device="cuda", dtype=dtype), torch.full((n, k), 1e-3, device="cuda")
    seed, temperature = torch.tensor(1, device="cuda"), torch.tensor(0.5, device="cuda")
    function: Any = sample_with_kl
    if backend == "compile":
        function, backend = torch.compile(sample_with_kl), "reference"

    def run() -> None:
        z, kl = function(logits, values, prior, temperature, seed=seed, step=seed, backend=backend)
        torch.autograd.grad([z, kl], [logits, values], grads)

    return run


def factorized(n: int, c: int, k: int) -> Callable[[], None]:
    """Return the same for a factorized layer, from inner activations in the memory layout of the layer."""
    torch.manual_seed(0)
    inner = torch.randn(1, k, RANK, n, device="cuda").permute(0, 3, 1, 2).requires_grad_()
    inner_bias = torch.zeros(1, k, RANK, device="cuda", requires_grad=True)
    weight = torch.randn(1, k, RANK, c, device="cuda", requires_grad=True)
    bias = torch.zeros(1, k, c, device="cuda", requires_grad=True)
    values = linear_bins(c).cuda().view(1, c, 1).requires_grad_()
    prior = uniform_log_weights(c).cuda().view(1, c, 1)
    grads = torch.randn(1, n, k, device="cuda"), torch.full((1, n, k), 1e-3, device="cuda")
    key = make_key(torch.tensor([1], device="cuda"), torch.tensor(0, device="cuda"))
    temperature = torch.tensor([0.5], device="cuda")

    def run() -> None:
        found = sample_factorized(inner, inner_bias, weight, bias, values, prior, temperature, key)
        torch.autograd.grad(found, [inner, inner_bias, weight, bias, values], grads)

    return run


def measure(calls: Mapping[str, Callable[[], object]], rounds: int = 15) -> dict[str, Spread]:
    """Measure the seconds of each call as part of a graph."""
    seconds = in_turns({name: graphed(call, REPEATS) for name, call in calls.items()}, "cuda", rounds=rounds)
    return {name: {part: value / REPEATS for part, value in found.items()} for name, found in seconds.items()}


def main() -> None:
    options = arguments(__doc__)
    sizes: list[dict[str, Any]] = []

    def add(n: int, c: int, k: int, dtype: str, backend: str, seconds: Spread, **more: float) -> None:
        sizes.append({"N": n, "C": c, "K": k, "dtype": dtype, "backend": backend, "seconds": seconds, **more})

    big = {backend: operation(N, C, K, backend) for backend in ("triton", "eager", "reference", "compile")}
    half, source = operation(N, C, K, "triton", torch.bfloat16), torch.empty(N * C * K, device="cuda")
    target = torch.empty_like(source)
    found = measure({**big, "bfloat16": half, "factorized": factorized(N, C, K), "copy": lambda: target.copy_(source)})
    called = in_turns({**big, "factorized": factorized(N, C, K)}, "cuda", rounds=15)
    floor = (
        1.5 * found["copy"]["median"]
    )  # a copy reads once and writes once; the operation reads twice and writes once
    for backend in (*big, "factorized"):
        add(N, C, K, "float32", backend, found[backend], called=called[backend]["median"])
    add(N, C, K, "bfloat16", "triton", found["bfloat16"])
    byte_seconds = floor / (3 * source.nbytes)
    for n, c, k in [*((N, c, K) for c in BINS if c != C), *((N, C, k) for k in NEURONS if k != K)]:
        own = measure({"triton": operation(n, c, k, "triton"), "factorized": factorized(n, c, k)}, rounds=7)
        for backend, seconds in own.items():
            add(n, c, k, "float32", backend, seconds, floor_seconds=3 * 4 * n * c * k * byte_seconds)
    one = found["triton"]["median"]
    table = [
        [name, f"{1e3 * s['median']:.3f}", f"{1e3 * s['q25']:.3f}", f"{1e3 * s['q75']:.3f}", f"{s['median'] / one:.2f}"]
        for name, s in found.items()
    ]
    rows(f"N = {N}, C = {C}, K = {K}, forward + backward", ["", "ms", "q25", "q75", "relative to kernels"], table)
    print(f"  floor {1e3 * floor:.3f} ms; the kernels take {one / floor:.2f} times that")
    print("  called from Python, ms:", ", ".join(f"{n} {1e3 * s['median']:.2f}" for n, s in called.items()))
    settings = {"device": "cuda", "rank": RANK, "repeats": REPEATS}
    save("op_gpu", options.out, settings, {"sizes": sizes, "floor_seconds": floor}, seed=1)


if __name__ == "__main__":
    main()
