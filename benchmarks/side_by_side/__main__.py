"""Prediction with T samples by squad's sampler, torch-uncertainty's MC dropout and a loop over plain modules.

All compute the mean probabilities of the same rows; squad's sampler also computes the mean entropies, in float64.
Multiples are relative to the same method with T = 1 (for ten networks: with one).  Methods that take seconds get fewer
rounds, and the memory of loops is not measured, because it is that of a single pass.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.harness import Spread, arguments, in_turns, peak_memory, rows
from benchmarks.side_by_side.plain import Loop, plain
from benchmarks.side_by_side.wrapper import Wrapped
from squad.layers import unstack
from squad.models import MaxoutDropoutConfig, MLPConfig, Network, NetworkConfig, ReluDropoutConfig, Sampler, SquadConfig
from squad.models.networks import build
from squad.records import Record, versions

INPUTS, HIDDEN, CLASSES, ROWS = 784, (32, 32), 10, 4_000
MANY, FEW, MEMBERS = 32, 8, 10
ROUNDS, SLOW_ROUNDS = 5, 3
SEED = 0

CONFIGS: dict[str, NetworkConfig] = {
    "SQUAD": SquadConfig(hidden=HIDDEN, bins=15),
    "maxout, dropout": MaxoutDropoutConfig(hidden=HIDDEN, pieces=11, dropout=0.1),
    "ReLU, dropout": ReluDropoutConfig(hidden=HIDDEN, dropout=0.1),
    "ReLU": MLPConfig(hidden=HIDDEN),
}


class Method(NamedTuple):
    """One row of the table.

    Attributes:
        who: The library.
        network: Name of the network.
        how: Sampling mode, "loop" or "batched".
        samples: T.
        members: Number of networks.
    """

    who: str
    network: str
    how: str
    samples: int
    members: int = 1

    @property
    def single(self) -> "Method":
        """The same method with one sample of one network."""
        # With one sample, batched and loop are the same.
        return self._replace(samples=1, members=1, how=self.how.replace("batched", "loop"))

    @property
    def slow(self) -> bool:
        """Whether one call takes seconds, because every pass draws again."""
        return self.who != "squad" and self.samples * self.members > 1

    @property
    def loops(self) -> bool:
        """Whether it makes one pass after the other."""
        return self.slow and self.how == "loop"


def all_methods() -> list[Method]:
    """Return all methods to measure, including single passes."""
    found = [Method("squad", "SQUAD", how, t) for how in ("relaxed", "stratified") for t in (1, FEW, MANY)]
    for network in ("maxout, dropout", "ReLU, dropout"):
        found += [Method("squad", network, "sample", t) for t in (1, MANY)]
        found += [Method("torch-uncertainty", network, "loop", t) for t in (1, MANY)]
        found += [Method("torch-uncertainty", network, "batched", MANY)]
    # Not with ReLU, which would repeat torch-uncertainty's loop; the benchmark should take less than a minute.
    found += [
        Method("plain PyTorch", network, "loop", t) for network in ("maxout, dropout", "SQUAD") for t in (1, MANY)
    ]
    # Ten networks: one batched product, or ten modules one after the other.
    found += [Method("squad", "SQUAD", "relaxed", 1, MEMBERS), Method("plain PyTorch", "SQUAD", "loop", 1, MEMBERS)]
    for count in (1, MEMBERS):
        found += [Method("squad", "ReLU", "mean", 1, count), Method("plain PyTorch", "ReLU", "loop", 1, count)]
    return found


def runner(method: Method, networks: dict[str, Network]) -> Callable[[Tensor], object]:
    """Return the function that predicts with this method."""
    alone = unstack(networks[method.network])[: method.members]
    if method.who == "squad":
        network = networks[method.network] if method.members > 1 else alone[0]
        return Sampler(network, method.how, method.samples)
    modules = [plain(one) for one in alone]
    if method.who == "torch-uncertainty":
        return Wrapped(modules[0], method.samples, on_batch=method.how == "batched")
    return Loop(modules, method.samples, random=method.network != "ReLU")


@torch.inference_mode()
def check_equal(networks: dict[str, Network], x: Tensor) -> dict[str, float]:
    """Return the largest difference between squad's and the plain network without noise.

    Raises:
        RuntimeError: If it is larger than rounding.
    """
    found = {}
    for name, network in networks.items():
        alone = unstack(network)[0]
        ours = Sampler(alone, "mean", 1)(x).probabilities[0]
        theirs = plain(alone).eval()(x).double().softmax(-1)
        found[name] = float((ours - theirs).abs().max())
        if found[name] > 1e-4:
            raise RuntimeError(
                f"{name}: the predictions of the plain network differ from squad's by {found[name]:.2g}."
            )
    return found


def measure(
    found: Mapping[Method, Callable[[], object]], rounds: int
) -> tuple[dict[Method, Spread], dict[Method, int | None]]:
    """Measure seconds per call, alternately, and bytes; the call that counts bytes also warms up."""
    peak_bytes = {method: None if method.loops else peak_memory(call, "cpu") for method, call in found.items()}
    times = in_turns({repr(method): call for method, call in found.items()}, "cpu", rounds=rounds, warmup=0)
    return {method: times[repr(method)] for method in found}, peak_bytes


def main() -> None:
    options = arguments(__doc__)
    torch.manual_seed(SEED)
    x = torch.randn(ROWS, INPUTS)
    networks = {name: build(config, INPUTS, CLASSES, range(MEMBERS)) for name, config in CONFIGS.items()}
    equal = check_equal(networks, x)
    calls = {method: partial(runner(method, networks), x) for method in all_methods()}
    # Fast methods first: single passes warm up the loops over them.
    seconds, peak_bytes = measure({method: call for method, call in calls.items() if not method.slow}, ROUNDS)
    slow_seconds, slow_memory = measure({method: call for method, call in calls.items() if method.slow}, SLOW_ROUNDS)
    seconds |= slow_seconds
    peak_bytes |= slow_memory
    results: list[dict[str, Any]] = []
    for method in calls:
        unit = seconds[method.single]["median"]
        results.append(
            {
                **method._asdict(),
                "seconds": seconds[method],
                "passes": {name: value / unit for name, value in seconds[method].items()},
                "bytes": peak_bytes[method],
            }
        )
    rows(
        f"{ROWS:,} rows, 784-32-32-10, {torch.get_num_threads()} threads; multiples of one pass of the same method",
        ["library", "network", "method", "networks", "T", "ms", "q25", "q75", "multiple", "MiB"],
        [
            [
                *(one["who"], one["network"], one["how"], str(one["members"]), str(one["samples"])),
                *(f"{1e3 * one['seconds'][name]:.1f}" for name in ("median", "q25", "q75")),
                f"{one['passes']['median']:.1f}",
                "" if one["bytes"] is None else f"{one['bytes'] / 2**20:.0f}",
            ]
            for one in results
        ],
    )
    settings = {
        "device": "cpu",
        "rows": ROWS,
        "sizes": [INPUTS, *HIDDEN, CLASSES],
        "networks": {name: config.to_dict() for name, config in CONFIGS.items()},
        "rounds": ROUNDS,
        "slow_rounds": SLOW_ROUNDS,
        "largest_difference": equal,
    }
    others = {name: version(name) for name in ("torch-uncertainty", "einops")}
    record = Record("benchmark", "side_by_side", settings, results, SEED, versions={**versions(), **others})
    print(f"written: {record.save(options.out / 'side_by_side.json')}")


if __name__ == "__main__":
    main()
