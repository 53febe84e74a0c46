"""``squad demo``: a small network of SQUAD layers on scikit-learn's handwritten digits."""

from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch import Tensor, nn

import squad

__all__ = ["demo"]

SAMPLES = 32
KL_MULTIPLIER = 0.0027  # the paper's
BATCH = 64


class Digits(NamedTuple):
    """Standardized rows, labels, and the pictures (8 x 8, 0 to 16) of the test rows."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    pictures: Tensor


def demo(
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training rows.")] = 60,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of the split, the weights and the noise.")] = 0,
) -> None:
    """Train a small SQUAD network on handwritten digits, and let it say which ones it is not sure of."""
    console = Console()
    digits = load(seed)
    net = build(seed)
    console.print(f"{len(digits.x)} digits to learn from, {len(digits.x_test)} to be tested on.", highlight=False)
    console.print(
        "64 pixels -> 32 latents of 15 bins -> 32 latents of 15 bins -> 10 classes", style="dim", highlight=False
    )
    train(net, digits, epochs, console)
    show(predict(net.eval(), digits.x_test), digits, console)


def build(seed: int) -> nn.Sequential:
    """Two layers of 32 latents and a linear one; torch's generator is left at a known state for training."""
    torch.manual_seed(seed)
    return nn.Sequential(squad.SquadLinear(64, 32, bins=15), squad.SquadLinear(32, 32, bins=15), nn.Linear(32, 10))


def load(seed: int) -> Digits:
    """scikit-learn's digits, two thirds to train on, stratified."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    pixels, labels = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(pixels, labels, test_size=1 / 3, stratify=labels, random_state=seed)
    center, scale = x.mean(), x.std()
    return Digits(
        torch.tensor((x - center) / scale, dtype=torch.float32),
        torch.tensor(y),
        torch.tensor((x_test - center) / scale, dtype=torch.float32),
        torch.tensor(y_test),
        torch.tensor(x_test).view(-1, 8, 8),
    )


def train(net: nn.Module, digits: Digits, epochs: int, console: Console) -> None:
    """Cross-entropy plus the multiplied KL, the temperature falling from 1.0 to 0.5 over the first two thirds."""
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("epochs"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        for epoch in progress.track(range(epochs)):
            squad.set_temperature(net, max(0.5, 1.0 - 0.5 * epoch / max(1, 2 * epochs // 3)))
            for rows in torch.randperm(len(digits.x)).split(BATCH):
                with squad.collect_kl() as kls:
                    logits = net(digits.x[rows])
                kl = sum((kl.mean() for kl in kls), torch.zeros(()))
                loss = F.cross_entropy(logits, digits.y[rows]) + KL_MULTIPLIER * kl
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    squad.set_temperature(net, 0.5)


@torch.no_grad()
def predict(net: nn.Module, x: Tensor) -> Tensor:
    """Class probabilities, (N, 10): the mean over samples of the latents."""
    total = torch.zeros(len(x), 10)
    for index in range(SAMPLES):
        with squad.sample_index(index):
            total += net(x).softmax(-1)
    return total / SAMPLES


def show(probabilities: Tensor, digits: Digits, console: Console) -> None:
    """Accuracy, what abstaining buys, and the digit the network is least sure of."""
    confidence, label = probabilities.max(-1)
    right = (label == digits.y_test)[confidence.argsort(descending=True)]
    accuracy = right.float().mean().item()
    console.print(f"accuracy on the test digits: [bold]{100 * accuracy:.1f} %[/bold]\n", highlight=False)

    table = Table(title="If it answers only where it is most confident", title_justify="left", title_style="")
    for heading in ("answered", "referred to a person", "wrong answers"):
        table.add_column(heading, justify="right")
    for share in (1.0, 0.95, 0.9, 0.8):
        n = round(share * len(right))
        wrong = n - int(right[:n].sum())
        table.add_row(f"{100 * share:.0f} %", str(len(right) - n), f"{wrong} of {n} ({100 * wrong / n:.1f} %)")
    console.print(table)

    least = int(confidence.argmin())
    first, second = probabilities[least].topk(2).indices.tolist()
    console.print("\nThe digit it is least sure of:", highlight=False)
    for row in digits.pictures[least].tolist():
        console.print("    " + "".join(" ░▒▓█"[min(4, int(value // 3.5))] * 2 for value in row))
    p = probabilities[least]
    console.print(
        f"{first} with {100 * p[first]:.0f} %, {second} with {100 * p[second]:.0f} %. "
        f"Its writer meant {int(digits.y_test[least])}.",
        highlight=False,
    )
