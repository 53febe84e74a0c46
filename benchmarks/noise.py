"""Speed of random number generators, in nanoseconds per number: squad.core.noise, Philox4x32-10 in torch, torch's own.

The numbers of torch's own generator depend on the device, the number of threads and the shape, so it is included for
comparison only.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from benchmarks.harness import arguments, in_turns, rows, save
from squad.core.noise import bits, gumbel, make_key

SHAPES = [(244, 15, 32), (1024, 37, 256)]
WORD = 0xFFFFFFFF


def philox(count: int, device: str) -> Tensor:
    """Philox4x32-10 (Salmon et al., 2011), four numbers per counter; in int64, as torch lacks wide int32 products."""
    c0 = torch.arange(count // 4, device=device)
    c1, c2, c3 = (torch.zeros_like(c0) for _ in range(3))
    k0, k1 = 0x243F6A88, 0x85A308D3
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (p1 >> 32 & WORD) ^ c1 ^ k0, p1 & WORD, (p0 >> 32 & WORD) ^ c3 ^ k1, p0 & WORD
        k0, k1 = k0 + 0x9E3779B9 & WORD, k1 + 0xBB67AE85 & WORD
    return torch.stack([c0, c1, c2, c3])


def main() -> None:
    options = arguments(__doc__)
    device = options.device
    key = make_key(1, device=device)
    results = []
    for shape in SHAPES:
        count = shape[0] * shape[1] * shape[2]
        buffer = torch.empty(shape, device=device)
        functions: dict[str, Callable[[], object]] = {
            "hash, bits": partial(bits, key, *shape),
            "hash, Gumbel": partial(gumbel, key, *shape),
            "Philox, bits": partial(philox, count, device),
            "torch.rand": partial(torch.rand, shape, device=device),
            "exponential_": buffer.exponential_,
        }
        times = in_turns(functions, device)
        nanoseconds = {name: {k: v / count * 1e9 for k, v in t.items()} for name, t in times.items()}
        results.append({"shape": shape, "nanoseconds": nanoseconds})
        rows(
            f"nanoseconds per number, (rows, bins, neurons) = {shape}",
            ["generator", "median", "q25", "q75"],
            [[name, *(f"{t[k]:.3f}" for k in ("median", "q25", "q75"))] for name, t in nanoseconds.items()],
        )
    save(f"noise-{device}", options.out, {"device": device, "rounds": 30}, results, seed=1)


if __name__ == "__main__":
    main()
