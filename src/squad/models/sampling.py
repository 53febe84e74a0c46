"""Prediction with T samples: what does not depend on the sample is computed once, in blocks of bounded memory.

An answer is a function of its input.  Noise is keyed by (seed, layer, sample, neuron, bin), never by the row; and all
matrix products have the shape of one full block, the last block being padded, so that a row meets the same arithmetic
alone, in any batch and in any place, up to the rounding of a product's edges (1e-7 or so).  Where a sample is a choice
(hard and stratified ones), rounding could still turn it on another machine: everything up to the last choice is
computed in float64, where that takes a coincidence of 1 in 10^12 or so.
"""

import contextlib
import copy
from collections.abc import Iterator
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from squad.core.checks import check_choice, check_count
from squad.layers import GaussianLinear, stack
from squad.layers import draws as latents
from squad.layers.quantized import SquadLayer
from squad.models.networks import Network, Stage

__all__ = ["SAMPLINGS", "Draws", "Sampler"]

SAMPLINGS = ("stratified", "relaxed", "hard", "sample", "mean")

#: Rows of a block: few, so that a single row is not padded to many; on a GPU enough to keep it busy.
ROWS = {"cpu": 64, "cuda": 1024}
#: Numbers of the largest tensor of a block, at the most (if one sample of one block fits): 4 MiB stay in a CPU's cache.
NUMBERS = {"cpu": 1 << 20, "cuda": 1 << 26}


class Draws(NamedTuple):
    """What T samples of each member say about N rows, in float64.

    Attributes:
        probabilities: (M, N, classes), the mean over a member's samples.
        entropy: (M, N), the mean over a member's samples of each one's entropy in nats.
    """

    probabilities: Tensor
    entropy: Tensor


class Noise(NamedTuple):
    """What a stage draws for some samples, (M, T, ...): factors of its dropout, and numbers of its layer."""

    masks: Tensor | None
    table: Tensor | latents.Strata | None

    def part(self, samples: slice) -> "Noise":
        """Of some of the samples."""
        table = self.table
        if isinstance(table, latents.Strata):
            table = latents.Strata(*(numbers[:, samples] for numbers in table))
        elif table is not None:
            table = table[:, samples]
        return Noise(None if self.masks is None else self.masks[:, samples], table)


class Sampler:
    """A network, made ready to be asked: its noise drawn, its first layers in float64 where choices hang on them.

    Args:
        network: with or without members; in eval mode or not, it is used as in eval mode.  Weights are those of now,
            and what was made ready is not changed with them: make a new sampler after a training step.
        sampling: "stratified" (relaxed samples whose winners are stratified, the last of several latent layers by its
            mean), "relaxed", "hard" or "mean" for SQUAD; "sample" or "mean" for MC dropout and Gaussian latents.
            The layers' own ``sampling`` is not looked at.
        num_samples: T; with "mean", or nothing random, one pass is made whatever T is.
        rows: of a block; by default 64 on a CPU and 1,024 on a GPU.
    """

    def __init__(self, network: Network, sampling: str, num_samples: int, *, rows: int | None = None) -> None:
        self.sampling = check_choice("sampling", sampling, SAMPLINGS)
        self.network = network if network.members is not None else stack([network])
        self.members = cast(int, self.network.members)
        self.stages = cast(list[Stage], list(self.network.stages))
        parameter = next(self.network.parameters())
        self.device, self.dtype = parameter.device, parameter.dtype
        self.rows = check_count("rows", rows or ROWS.get(self.device.type, ROWS["cuda"]), 1)
        latent = [place for place, stage in enumerate(self.stages) if isinstance(stage.layer, SquadLayer)]
        #: The last latent layer of several is replaced by its mean in stratified sampling.
        self.averaged = latent[-1] if sampling == "stratified" and len(latent) > 1 else None
        choices = [place for place in latent if place != self.averaged] if sampling in ("hard", "stratified") else []
        #: Stages up to this one, not included, are computed in float64.
        self.exact = choices[-1] + 1 if choices else 0
        self.first_random = next((p for p in range(len(self.stages)) if self._is_random(p)), None)
        self.num_samples = 1 if self.first_random is None else check_count("num_samples", num_samples, 1, 999_999)
        with torch.no_grad():
            if self.dtype != torch.float64:
                self.stages = [
                    copy.deepcopy(stage).double() if place < self.exact else stage
                    for place, stage in enumerate(self.stages)
                ]
            widest = max(_width(stage) for stage in self.stages)
            #: Samples that are computed at once.
            self.part = max(1, NUMBERS.get(self.device.type, NUMBERS["cuda"]) // (self.members * self.rows * widest))
            self.levels = [self._levels(place) for place in range(len(self.stages))]
            # One table for all rows; of more samples than a part has it is drawn part by part, for each block anew.
            self.noise = self._noise(slice(0, self.num_samples)) if self.num_samples <= self._kept() else None

    def _kept(self) -> int:
        """So many samples' noise is kept: no more numbers than a part of a block has."""
        return self.part * self.rows

    def _drops(self, place: int) -> bool:
        dropout = self.stages[place].dropout
        return dropout is not None and dropout.sampling == "sample" and self.sampling != "mean"

    def _draws(self, place: int) -> bool:
        layer = self.stages[place].layer
        return isinstance(layer, (SquadLayer, GaussianLinear)) and self.sampling != "mean" and place != self.averaged

    def _is_random(self, place: int) -> bool:
        return self._drops(place) or self._draws(place)

    def _working(self, place: int) -> torch.dtype:
        return torch.float64 if place < self.exact else self.dtype

    def _levels(self, place: int) -> Tensor | None:
        """Where the winners of all samples are looked up, (M, T, K): an order of strata is one of all of them."""
        layer = self.stages[place].layer
        if self.sampling != "stratified" or not isinstance(layer, SquadLayer) or not self._draws(place):
            return None
        return layer.levels(self.num_samples)

    def _noise(self, part: slice) -> list[Noise]:
        """What every stage draws for some of the samples, (M, T, ...)."""
        return [Noise(self._masks(place, part), self._table(place, part)) for place in range(len(self.stages))]

    def _masks(self, place: int, part: slice) -> Tensor | None:
        """(M, T, 1, features)."""
        dropout = self.stages[place].dropout
        if dropout is None or not self._drops(place):
            return None
        return dropout.masks(part.stop - part.start, part.start).unsqueeze(2).to(self._working(place))

    def _table(self, place: int, part: slice) -> Tensor | latents.Strata | None:
        """Noise (M, T, ...) of a random layer."""
        layer, count = self.stages[place].layer, part.stop - part.start
        if not self._draws(place):
            return None
        if isinstance(layer, GaussianLinear):
            return layer.normals(count, part.start, self._working(place)).unsqueeze(2)
        assert isinstance(layer, SquadLayer)
        levels = self.levels[place]
        if levels is not None:
            # What follows the last choice is continuous in its noise, and single precision will do.
            return layer.strata(levels[:, part], part.start, self._working(place + 1))
        return layer.gumbels(count, part.start, self._working(place)).unsqueeze(2)

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Draws:
        """x (N, in), or (M or 1, N, in) for rows of each member's own -> (M, N, classes) and (M, N)."""
        x = self.network.with_member_axis(x)
        count = x.shape[1]
        shape = self.members, count
        probabilities = torch.empty(*shape, self.network.classes, dtype=torch.float64, device=self.device)
        entropy = torch.empty(shape, dtype=torch.float64, device=self.device)
        with _exact_products(self.device):
            for start in range(0, count, self.rows):
                block = x[:, start : start + self.rows].to(self.device, self._working(0))
                n = block.shape[1]
                if n < self.rows:
                    block = nn.functional.pad(block, (0, 0, 0, self.rows - n))
                p, h = self._block(block)
                probabilities[:, start : start + n], entropy[:, start : start + n] = p[:, :n], h[:, :n]
        return Draws(probabilities, entropy)

    def _block(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(M or 1, rows, in) -> the mean probabilities (M, rows, classes) and entropies (M, rows)."""
        x = x.unsqueeze(1)  # the axis of the samples, of size 1 until something is drawn
        random = len(self.stages) if self.first_random is None else self.first_random
        for place in range(random):
            x = self._stage(place, x, Noise(None, None))
        prepared = random < len(self.stages) and not self._drops(random)
        if prepared:
            x = self._prepared(random, x)  # the first latent layer's logits do not depend on the sample either
        total = h = torch.zeros((), dtype=torch.float64, device=self.device)
        for start in range(0, self.num_samples, self.part):
            part = slice(start, min(start + self.part, self.num_samples))
            noise = self._noise(part) if self.noise is None else [own.part(part) for own in self.noise]
            y = x
            for place in range(random, len(self.stages)):
                y = self._stage(place, y, noise[place], prepared=prepared and place == random)
            log_p = y.double().log_softmax(-1)
            p = log_p.exp()
            total = total + p.sum(1)
            h = h - (p * log_p).sum((1, -1))
        return total / self.num_samples, h / self.num_samples

    def _prepared(self, place: int, x: Tensor) -> Tensor:
        """What a random layer makes of x (M, S, rows, in) before it draws: its logits, or its moments side by side."""
        layer = self.stages[place].layer
        x = x.to(self._working(place))
        if isinstance(layer, SquadLayer):
            return layer.logits(x)
        assert isinstance(layer, GaussianLinear)
        return torch.cat(layer.moments(x), -1)

    def _stage(self, place: int, x: Tensor, noise: Noise, prepared: bool = False) -> Tensor:
        """x (M, S, rows, in), or what was prepared of it -> (M, S or T, rows, out)."""
        stage, table = self.stages[place], noise.table
        layer = stage.layer
        if noise.masks is not None:
            x = x * noise.masks
        if not isinstance(layer, (SquadLayer, GaussianLinear)):
            out = layer(x.to(self._working(place)))
            return cast(Tensor, out.relu() if stage.relu else out)
        made = x if prepared else self._prepared(place, x)
        if isinstance(layer, GaussianLinear):
            mu, sigma = made.chunk(2, -1)
            return mu if table is None else mu + sigma * cast(Tensor, table)
        values = layer.op_values(made.dim()).to(made.dtype)
        if table is None:
            return latents.mean(made, values)
        if isinstance(table, latents.Strata):
            return latents.stratified(made, values, table, layer.temperature)
        if self.sampling == "hard":
            return latents.hard(made, values, table)
        return latents.relaxed(made, values, table, layer.temperature)


def _width(stage: Stage) -> int:
    """Numbers a row and sample of the largest tensor of a stage."""
    layer = stage.layer
    return (
        layer.bins * layer.out_features
        if isinstance(layer, SquadLayer)
        else max(layer.in_features, layer.out_features * getattr(layer, "pieces", 2))
    )


@contextlib.contextmanager
def _exact_products(device: torch.device) -> Iterator[None]:
    """Matrix products in full precision, whatever the caller allows: bfloat16 and TF32 keep three decimals."""
    before = torch.backends.cuda.matmul.allow_tf32
    with torch.autocast(device.type, enabled=False):
        if device.type != "cuda" or not before:
            yield
            return
        torch.backends.cuda.matmul.allow_tf32 = False
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before
