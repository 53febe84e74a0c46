"""The sampling operation on a CPU, forward and backward, at the size of a training step: speedup over plain code.

The target is a factor of 3.  Plain code is the obvious implementation: logits of shape [N, K, C], noise from torch's
``exponential_``, gradients by autograd.
"""

import os
import tempfile
import time
from collections.abc import Callable

import torch

from benchmarks.harness import arguments, in_turns, rows, save
from squad.core.bins import linear_bins, uniform_log_weights
from squad.ops import BackendName, compiled, sample_with_kl

N, C, K = 244, 15, 32
TEMPERATURE = 0.7  # between the paper's 1.0 and 0.5, so that no power is a special case
#: Target for the speedup of eager.
CLAIM = 3.0
ROUNDS = 200


def plain() -> Callable[[], None]:
    torch.manual_seed(0)
    logits = torch.randn(N, K, C, requires_grad=True)
    values = linear_bins(C).requires_grad_()
    prior = uniform_log_weights(C)
    grads = [torch.randn(N, K), torch.full((N, K), 1e-3)]

    def run() -> None:
        gumbels = -torch.empty_like(logits).exponential_().log()
        log_p = logits.log_softmax(-1)
        kl = (log_p.exp() * (log_p - prior)).sum(-1)
        z = (((logits + gumbels) / TEMPERATURE).softmax(-1) * values).sum(-1)
        torch.autograd.grad([z, kl], [logits, values], grads)

    return run


def squad_operation(backend: BackendName) -> Callable[[], None]:
    torch.manual_seed(0)
    logits = torch.randn(N, C, K, requires_grad=True)
    values = linear_bins(C).unsqueeze(-1).requires_grad_()
    prior = uniform_log_weights(C).unsqueeze(-1)
    grads = [torch.randn(N, K), torch.full((N, K), 1e-3)]
    seed, temperature = torch.tensor(1), torch.tensor(TEMPERATURE)

    def run() -> None:
        z, kl = sample_with_kl(logits, values, prior, temperature, seed=seed, backend=backend)
        torch.autograd.grad([z, kl], [logits, values], grads)

    return run


def main() -> None:
    options = arguments(__doc__)
    functions = {
        "plain [N, K, C]": plain(),
        "reference": squad_operation("reference"),
        "eager": squad_operation("eager"),
    }
    compiling = None
    with tempfile.TemporaryDirectory() as fresh:  # a fresh cache: code compiled by an earlier run must not be used
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = fresh
        compile_ = squad_operation("compile")
        start = time.perf_counter()
        compile_()
        if not compiled._state.failed:
            compiling = time.perf_counter() - start
            functions["compile"] = compile_
        seconds = in_turns(functions, "cpu", rounds=ROUNDS, warmup=10)
    base = seconds["plain [N, K, C]"]["median"]
    speedup = {name: base / spread["median"] for name, spread in seconds.items()}
    rows(
        f"sampling operation, forward + backward, N = {N}, C = {C}, K = {K}, {torch.get_num_threads()} threads",
        ["backend", "ms", "q25", "q75", "speedup"],
        [
            [name, *(f"{spread[q] * 1e3:.3f}" for q in ("median", "q25", "q75")), f"{speedup[name]:.2f}"]
            for name, spread in seconds.items()
        ],
    )
    if compiling is not None:
        print(f"  compile: {compiling:.1f} s for this shape")
    met = speedup["eager"] >= CLAIM
    print(f"  target: eager at least {CLAIM:g} times as fast as plain code: {'met' if met else 'NOT met'}")
    save(
        "op_cpu",
        options.out,
        {"N": N, "C": C, "K": K, "temperature": TEMPERATURE, "threads": torch.get_num_threads(), "rounds": ROUNDS},
        {"seconds": seconds, "speedup": speedup, "compile_seconds": compiling, "claim": CLAIM, "met": met},
        seed=1,
    )


if __name__ == "__main__":
    main()
