"""Time of a training step of the paper's SQUAD network on a CPU relative to its matrix products; target: at most 2.5.

The step is that of a training run: gathering rows, forward, backward, Adam.  The products are those of its forward and
backward pass (without the gradient of x), with the same shapes, as plain calls of ``torch.mm``.
"""

import os
import tempfile
from collections.abc import Callable

import torch

from benchmarks.harness import arguments, in_turns, rows, save
from squad.core import threads
from squad.layers.quantized import SquadLayer
from squad.models import Sampler, SquadConfig, build
from squad.ops import BackendName, sample_with_kl
from squad.train.adam import Adam
from squad.train.step import PlainSteps, backward

IN, HIDDEN, BINS, CLASSES, BATCH = 784, (32, 32), 15, 10, 244
#: Target for the ratio.
CLAIM = 2.5
TEMPERATURE = 0.7  # between the paper's 1.0 and 0.5
#: Consecutive calls, so that each finds in the caches what the same kind of call has left there.
IN_A_ROW = 5
ROUNDS = 50


def products() -> Callable[[], None]:
    torch.manual_seed(0)
    sizes = [(IN, BINS * HIDDEN[0]), (HIDDEN[0], BINS * HIDDEN[1]), (HIDDEN[1], CLASSES)]
    layers = [(torch.randn(BATCH, fan), torch.randn(fan, out), torch.randn(BATCH, out)) for fan, out in sizes]

    def run() -> None:
        for x, weight, _ in layers:
            torch.mm(x, weight)
        for index, (x, weight, grad) in reversed(list(enumerate(layers))):
            torch.mm(x.T, grad)
            if index:
                torch.mm(grad, weight.T)

    return run


class Step:
    """A training run in progress."""

    def __init__(self, backend: BackendName) -> None:
        torch.manual_seed(0)
        x, y = torch.randn(BATCH * IN_A_ROW, IN), torch.randint(CLASSES, (BATCH * IN_A_ROW,))
        self.network = build(SquadConfig(hidden=HIDDEN, bins=BINS), IN, CLASSES, [0])
        for layer in self.network.modules():
            if isinstance(layer, SquadLayer):
                layer.backend = backend
                layer.temperature.fill_(TEMPERATURE)
        self.adam = Adam(self.network, torch.tensor([8e-4]), torch.tensor([1e-5]))
        self.steps = PlainSteps(self.network, self.adam, x, y, torch.tensor([0.0027]), torch.tensor([2**61 + 1]), None)
        self.order = torch.randperm(len(x)).view(1, IN_A_ROW, BATCH)
        self.batch = x[:BATCH].unsqueeze(0), y[:BATCH].unsqueeze(0)
        self.count = 0
        # A real run has made a validation pass by now, whose memory determines how much the allocator keeps.
        Sampler(self.network.eval(), "relaxed", 8, exact=False)(x)
        self.network.train()

    def epoch(self) -> None:
        """Take ``IN_A_ROW`` steps."""
        self.steps.epoch(self.order, self.count)
        self.count += IN_A_ROW

    def gradients(self) -> None:
        """Take a step without gathering rows and without Adam."""
        self.adam.zero_grad()
        backward(self.network, *self.batch, self.steps.beta, self.steps.seed, self.count, None)


def operation(backend: BackendName) -> Callable[[], None]:
    """Return sampling and KL of both layers, forward and backward, from given logits."""
    torch.manual_seed(0)
    logits = torch.randn(1, BATCH, BINS, HIDDEN[0], requires_grad=True)
    values = torch.linspace(-3.5, 3.5, BINS).view(1, 1, BINS, 1).requires_grad_()
    prior = torch.zeros(1, 1, BINS, 1).log_softmax(-2)
    grads = [torch.randn(1, BATCH, HIDDEN[0]), torch.full((1, BATCH, HIDDEN[0]), 1e-3)]
    seed, temperature = torch.tensor([1]), torch.tensor([TEMPERATURE])

    def run() -> None:
        for _ in HIDDEN:
            z, kl = sample_with_kl(logits, values, prior, temperature, seed=seed, backend=backend)
            torch.autograd.grad([z, kl], [logits, values], grads)

    return run


def repeated(function: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(IN_A_ROW):
            function()

    return run


def main() -> None:
    threads.MIN_PARALLEL_WORK = 0  # use all threads for any amount of work, as the compared functions do
    options = arguments(__doc__)
    with tempfile.TemporaryDirectory() as fresh:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = fresh
        eager, compiled = Step("eager"), Step("compile")
        seconds = in_turns(
            {
                "matrix products": repeated(products()),
                "step": eager.epoch,
                "step, compile": compiled.epoch,
                "  forward and backward": repeated(eager.gradients),
                "  operation, 2 layers": repeated(operation("eager")),
                "  Adam": repeated(eager.adam.step),
            },
            "cpu",
            rounds=ROUNDS,
            warmup=5,
        )
    seconds = {name: {q: time / IN_A_ROW for q, time in spread.items()} for name, spread in seconds.items()}
    base = seconds["matrix products"]["median"]
    ratio = {name: spread["median"] / base for name, spread in seconds.items()}
    rows(
        f"SQUAD {IN}-32-32-{CLASSES}, C = {BINS}, batch {BATCH}, {torch.get_num_threads()} threads",
        ["", "ms", "q25", "q75", "relative to products"],
        [
            [name, *(f"{spread[q] * 1e3:.3f}" for q in ("median", "q25", "q75")), f"{ratio[name]:.2f}"]
            for name, spread in seconds.items()
        ],
    )
    met = ratio["step"] <= CLAIM
    print(f"  target: a step takes at most {CLAIM:g} times its matrix products: {'met' if met else 'NOT met'}")
    save(
        "step_cpu",
        options.out,
        {
            "network": [IN, *HIDDEN, CLASSES],
            "bins": BINS,
            "batch": BATCH,
            "temperature": TEMPERATURE,
            "threads": torch.get_num_threads(),
            "rounds": ROUNDS,
            "in_a_row": IN_A_ROW,
        },
        {"seconds": seconds, "ratio": ratio, "claim": CLAIM, "met": met},
        seed=0,
    )


if __name__ == "__main__":
    main()
