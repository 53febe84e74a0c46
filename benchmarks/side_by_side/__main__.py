"""Prediction with T samples by squad's sampler, torch-uncertainty's MC dropout and a loop over plain modules.

Everybody gives the mean probabilities of the same rows; squad's sampler the mean entropies as well, and in float64.
A multiple is of the same way with T = 1 (of ten networks: of one).  Ways that take seconds get fewer rounds, and a loop
over passes is not asked for its memory, which is that of one pass.
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


class Way(NamedTuple):
    """One line of the table: who predicts, with which network, how, with how many samples and networks."""

    who: str
    network: str
    how: str
    samples: int
    members: int = 1

    @property
    def single(self) -> "Way":
        """The same way with one sample of one network."""
        # One sample in a batch is one sample in a loop.
        return self._replace(samples=1, members=1, how=self.how.replace("batched", "loop"))

    @property
    def slow(self) -> bool:
        """Whether one call takes seconds: every pass draws anew."""
        return self.who != "squad" and self.samples * self.members > 1

    @property
    def loops(self) -> bool:
        """Whether it makes pass after pass."""
        return self.slow and self.how == "loop"


def ways() -> list[Way]:
    """Everything that is measured, single passes among them."""
    found = [Way("squad", "SQUAD", how, t) for how in ("relaxed", "stratified") for t in (1, FEW, MANY)]
    for network in ("maxout, dropout", "ReLU, dropout"):
        found += [Way("squad", network, "sample", t) for t in (1, MANY)]
        found += [Way("torch-uncertainty", network, "loop", t) for t in (1, MANY)]
        found += [Way("torch-uncertainty", network, "batched", MANY)]
    # Not with ReLU: it would be torch-uncertainty's loop once more, and a run should end within a minute.
    found += [Way("plain PyTorch", network, "loop", t) for network in ("maxout, dropout", "SQUAD") for t in (1, MANY)]
    # Ten networks: one batched product, or ten modules in turn.
    found += [Way("squad", "SQUAD", "relaxed", 1, MEMBERS), Way("plain PyTorch", "SQUAD", "loop", 1, MEMBERS)]
    for count in (1, MEMBERS):
        found += [Way("squad", "ReLU", "mean", 1, count), Way("plain PyTorch", "ReLU", "loop", 1, count)]
    return found


def runner(way: Way, networks: dict[str, Network]) -> Callable[[Tensor], object]:
    """What predicts in this way."""
    alone = unstack(networks[way.network])[: way.members]
    if way.who == "squad":
        network = networks[way.network] if way.members > 1 else alone[0]
        return Sampler(network, way.how, way.samples)
    modules = [plain(one) for one in alone]
    if way.who == "torch-uncertainty":
        return Wrapped(modules[0], way.samples, on_batch=way.how == "batched")
    return Loop(modules, way.samples, random=way.network != "ReLU")


@torch.inference_mode()
def check_equal(networks: dict[str, Network], x: Tensor) -> dict[str, float]:
    """How far our network and the plain one are apart where nothing is drawn; more than rounding is an error."""
    found = {}
    for name, network in networks.items():
        alone = unstack(network)[0]
        ours = Sampler(alone, "mean", 1)(x).probabilities[0]
        theirs = plain(alone).eval()(x).double().softmax(-1)
        found[name] = float((ours - theirs).abs().max())
        if found[name] > 1e-4:
            raise RuntimeError(
                f"{name}: the plain network must give what ours gives; they differ by {found[name]:.2g}."
            )
    return found


def measure(found: Mapping[Way, Callable[[], object]], rounds: int) -> tuple[dict[Way, Spread], dict[Way, int | None]]:
    """Seconds a call, in turns, and bytes; the call that counts them warms up as well."""
    seen_rows = {way: None if way.loops else peak_memory(call, "cpu") for way, call in found.items()}
    times = in_turns({repr(way): call for way, call in found.items()}, "cpu", rounds=rounds, warmup=0)
    return {way: times[repr(way)] for way in found}, seen_rows


def main() -> None:
    options = arguments(__doc__)
    torch.manual_seed(SEED)
    x = torch.randn(ROWS, INPUTS)
    networks = {name: build(config, INPUTS, CLASSES, range(MEMBERS)) for name, config in CONFIGS.items()}
    equal = check_equal(networks, x)
    calls = {way: partial(runner(way, networks), x) for way in ways()}
    # The quick ones first: single passes warm up the loops over them.
    seconds, seen_rows = measure({way: call for way, call in calls.items() if not way.slow}, ROUNDS)
    slow_seconds, slow_memory = measure({way: call for way, call in calls.items() if way.slow}, SLOW_ROUNDS)
    seconds |= slow_seconds
    seen_rows |= slow_memory
    results: list[dict[str, Any]] = []
    for way in calls:
        unit = seconds[way.single]["median"]
        results.append(
            {
                **way._asdict(),
                "seconds": seconds[way],
                "passes": {name: value / unit for name, value in seconds[way].items()},
                "bytes": seen_rows[way],
            }
        )
    rows(
        f"{ROWS:,} rows, 784-32-32-10, {torch.get_num_threads()} threads; multiples are of the same way's single pass",
        ["who", "network", "how", "networks", "T", "ms", "q25", "q75", "multiple", "MiB"],
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
