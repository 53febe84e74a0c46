"""Prediction with T samples: what does not depend on the sample is computed once, in blocks of bounded memory.

An answer is a function of its input.  Noise is keyed by (seed, layer, sample, neuron, bin), never by the row.  What is
left is rounding: a matrix product adds in another order at the edge of a block, with another number of rows or threads,
and with another processor's instructions.  On a CPU prediction is therefore computed in float64 from the first layer
to the last, whatever the network's own precision: rounding then changes a probability by 1e-14 or so, and takes a
coincidence of 1 in 10^9 to turn a step of the confidence's grid, and of 1 in 10^12 to turn a choice between bins.

On a GPU, where float64 is slow, and in validation passes during training, float64 ends with the last choice (hard and
stratified samples), because a choice that turns makes an answer jump.  Long sums in single precision, those of the
products up to the first draw, are made in products of one shape, the last block being padded: a row meets the same
arithmetic alone and in any batch, up to the rounding of a product's edges (1e-7 or so).

No random number is drawn for a row.  A sampler draws its noise when it is made, and makes ready what depends on noise,
values and temperature alone; nothing waits for a GPU to say what a temperature is.
"""

import contextlib
import copy
import functools
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from squad.core.checks import check_choice, check_count
from squad.core.threads import threads_for
from squad.layers import GaussianLinear, SquadLinear, stack
from squad.layers import sampling_modes as latents
from squad.layers.quantized import SquadLayer
from squad.models.networks import Network, Stage
from squad.ops import has_triton
from squad.ops.matmul_precision import PRECISIONS, matmul_precision

__all__ = ["SAMPLINGS", "Draws", "Sampler"]

SAMPLINGS = ("stratified", "relaxed", "hard", "sample", "mean")

#: Rows of a block: few, so that a single row is not padded to many; on a GPU enough to keep it busy.
ROWS = {"cpu": 64, "cuda": 2048}
#: A block of fewer rows is cut to a multiple of this where it may be.
GRAIN = {"cpu": 8, "cuda": 128}
#: Numbers of the largest tensor of a block, at the most (if one sample of one block fits).  On a CPU 1 MiB: it stays
#: in a core's cache, and is memory that is used again, not asked of the system anew for every block.
NUMBERS = {"cpu": 1 << 18, "cuda": 1 << 26}
#: Numbers of noise that are kept, at the most.
KEPT = {"cpu": 1 << 22, "cuda": 1 << 24}

#: The largest number in single precision.
FLOAT32_MAX = torch.finfo(torch.float32).max


@functools.cache
def _kernels(device: torch.device) -> ModuleType | None:
    """The Triton kernels, if they can serve this device; imported when they are first asked for."""
    if device.type != "cuda" or not has_triton() or torch.cuda.get_device_capability(device) < (8, 0):
        return None
    from squad.ops import triton_sampling

    return triton_sampling


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
    table: Tensor | latents.Gumbels | latents.Strata | None


class Ready(NamedTuple):
    """What draws of a SQUAD layer need beside noise.

    Attributes:
        values: (M, 1, 1, C, 1 or K), in the dtype of the result.
        power: of the temperature; of a temperature of 1 for means.
    """

    values: Tensor
    power: latents.Power


class Sampler:
    """A network, made ready for prediction: its noise drawn, its layers in the precision that they are computed in.

    Args:
        network: with or without members; in eval mode or not, it is used as in eval mode.  Weights are those of now,
            and what was made ready is not changed with them: make a new sampler after a training step.
        sampling: "stratified" (relaxed samples whose winners are stratified, the last of several latent layers by its
            mean), "relaxed", "hard" or "mean" for SQUAD; "sample" or "mean" for MC dropout and Gaussian latents.
            The layers' own ``sampling`` is not looked at.
        num_samples: T; with "mean", or nothing random, one pass is made whatever T is.
        rows: of a block; by default 64 on a CPU and 2,048 on a GPU.
        precision: of products in single precision on a GPU.  Answers that anybody relies on are made in "float32";
            training looks at its validation rows in the precision of its steps.
        exact: on a CPU, compute everything in float64.  False, for validation passes, stays in the precision of the
            network, but for what choices depend on.  On other devices that is so in any case.
    """

    def __init__(
        self,
        network: Network,
        sampling: str,
        num_samples: int,
        *,
        rows: int | None = None,
        precision: str = "float32",
        exact: bool = True,
    ) -> None:
        self.sampling = check_choice("sampling", sampling, SAMPLINGS)
        self.precision = check_choice("precision", precision, PRECISIONS)
        self.network = network if network.members is not None else stack([network])
        self.members = cast(int, self.network.members)
        self.stages = cast(list[Stage], list(self.network.stages))
        parameter = next(self.network.parameters())
        # A network in half precision is asked in single: its noise and exponentials would not fit.
        self.device, self.dtype = parameter.device, torch.promote_types(parameter.dtype, torch.float32)
        #: Whether numbers are wider than the network's own: what it could not hold is no number here either.
        self.widened = exact and self.device.type == "cpu" and self.dtype != torch.float64
        if self.widened:
            self.dtype = torch.float64
        self.rows = check_count("rows", rows or self._of(ROWS), 1)
        latent = [place for place, stage in enumerate(self.stages) if isinstance(stage.layer, SquadLayer)]
        #: The last latent layer of several is replaced by its mean in stratified sampling.
        self.averaged = latent[-1] if sampling == "stratified" and len(latent) > 1 else None
        choices = [place for place in latent if place != self.averaged] if sampling in ("hard", "stratified") else []
        #: Stages up to this one, not included, are computed in float64, whatever follows.
        self.exact = choices[-1] + 1 if choices else 0
        self.first_random = next((p for p in range(len(self.stages)) if self._is_random(p)), None)
        #: The layer whose logits, or moments, are the same for all samples.
        self.shared = None if self.first_random is None or self._drops(self.first_random) else self.first_random
        self.num_samples = 1 if self.first_random is None else check_count("num_samples", num_samples, 1, 999_999)
        self.kernels = _kernels(self.device) if self.dtype in (torch.float32, torch.float64) else None
        with torch.no_grad():
            self.stages = [
                stage if parameter.dtype == self._working(place) else copy.deepcopy(stage).to(self._working(place))
                for place, stage in enumerate(self.stages)
            ]
            self.ready = [self._ready(place) for place in range(len(self.stages))]
            widest = max(self._width(place) for place in range(self.first_random or 0, len(self.stages)))
            most = max(1, self._of(NUMBERS) // (self.members * self.rows * widest))
            #: Samples that are computed at once: parts of one size, so that none is nearly empty.
            self.part = -(-self.num_samples // -(-self.num_samples // most))
            #: Multiplications of a block's products, about.
            self.work = self.members * self.rows * sum(map(self._products, range(len(self.stages))))
            with threads_for(self.work, self.device):
                self.levels = [self._levels(place) for place in range(len(self.stages))]
                #: One table for all rows, part by part; of too many samples it is drawn for each block anew.
                self.noise = [*map(self._noise, self._parts())] if self.num_samples <= self._kept() else None

    def _of(self, sizes: dict[str, int]) -> int:
        return sizes.get(self.device.type, sizes["cuda"])

    def _kept(self) -> int:
        """So many samples' noise is kept."""
        numbers = sum(_noise_numbers(stage) for place, stage in enumerate(self.stages) if self._is_random(place))
        return self._of(KEPT) // (self.members * max(1, numbers))

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

    def _ready(self, place: int) -> Ready | None:
        layer = self.stages[place].layer
        if not isinstance(layer, SquadLayer):
            return None
        stratified = self.sampling == "stratified" and self._draws(place)
        # What follows the last choice is continuous in its noise, and single precision will do.
        dtype = self._working(place + 1 if stratified else place)
        power = latents.Power.of(layer.temperature if self._draws(place) else torch.ones_like(layer.temperature), dtype)
        return Ready(layer.op_values(5).detach().to(dtype), power)

    def _fused(self, place: int) -> bool:
        """Whether one kernel serves a latent layer, product and all."""
        layer = self.stages[place].layer
        choice = self._draws(place) and self.sampling in ("hard", "stratified")
        if self.kernels is None or type(layer) is not SquadLinear or choice or place == self.shared:
            return False
        return bool(self.kernels.serves_linear(layer.in_features, self._working(place)))

    def _width(self, place: int) -> int:
        """Numbers a row and sample of the largest tensor of a stage."""
        layer = self.stages[place].layer
        if not isinstance(layer, SquadLayer):
            return max(layer.in_features, layer.out_features * getattr(layer, "pieces", 2))
        if self._fused(place) or (place == self.shared and self.kernels is not None):
            return max(layer.in_features if place != self.shared else 1, layer.out_features)
        return layer.bins * layer.out_features

    def _products(self, place: int) -> int:
        """Multiplications a row of a stage's product, for the samples of a part."""
        layer = self.stages[place].layer
        shared = self.first_random is None or place < self.first_random or place == self.shared
        each = layer.in_features * layer.out_features * getattr(layer, "bins", getattr(layer, "pieces", 1))
        return int(each) * (1 if shared else self.part)

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

    def _table(self, place: int, part: slice) -> Tensor | latents.Gumbels | latents.Strata | None:
        """Noise (M, T, ...) of a random layer."""
        layer, count, ready = self.stages[place].layer, part.stop - part.start, self.ready[place]
        if not self._draws(place):
            return None
        if isinstance(layer, GaussianLinear):
            return layer.normals(count, part.start, self._working(place)).unsqueeze(2)
        assert isinstance(layer, SquadLayer)
        assert ready is not None
        levels = self.levels[place]
        if levels is not None:
            return layer.strata(levels[:, part], part.start, ready.values.dtype)
        gumbels = layer.gumbels(count, part.start, self._working(place)).unsqueeze(2)
        if self.sampling == "hard":
            return gumbels
        return latents.Gumbels.of(gumbels, ready.values, ready.power, shared=place == self.shared)

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Draws:
        """x (N, in), or (M or 1, N, in) for rows of each member's own -> (M, N, classes) and (M, N)."""
        x = self.network.with_member_axis(x)
        count = x.shape[1]
        shape = self.members, count
        probabilities = torch.zeros(*shape, self.network.classes, dtype=torch.float64, device=self.device)
        entropy = torch.zeros(shape, dtype=torch.float64, device=self.device)
        scratch = latents.Scratch()
        few = min(1.0, count / self.rows)  # of a block
        with _products(self.precision, self.device), threads_for(few * self.work, self.device):
            for start in range(0, count, self.rows):
                rows = slice(start, start + self.rows)
                block = x[:, rows].to(self.device, self._working(0))
                self._block(block, probabilities[:, rows], entropy[:, rows], scratch)
        return Draws(probabilities, entropy)

    def _block(self, x: Tensor, probabilities: Tensor, entropy: Tensor, scratch: latents.Scratch) -> None:
        """Add what samples say about x (M or 1, N, in), with N <= rows, to (M, N, classes) and (M, N)."""
        count = x.shape[1]
        few = min(self.rows, -(-count // self._of(GRAIN)) * self._of(GRAIN))
        if self.shared is None and self.dtype != torch.float64:
            few = self.rows
        short = self._working(self.shared or 0) == torch.float64
        height = few if short else self.rows
        if count < height:
            x = nn.functional.pad(x, (0, 0, 0, height - count))
        x = x.unsqueeze(1)  # the axis of the samples, of size 1 until something is drawn
        random = len(self.stages) if self.first_random is None else self.first_random
        for place in range(random):
            x = self._stage(place, x, Noise(None, None), scratch)
        if self.shared is not None:
            x = self._prepared(self.shared, x)[:, :, :few]
        for noise in self.noise or map(self._noise, self._parts()):
            y = x
            for place in range(random, len(self.stages)):
                y = self._stage(place, y, noise[place], scratch)
            self._add(self._held(y), probabilities, entropy)

    def _held(self, x: Tensor) -> Tensor:
        """``x`` with NaN for numbers that would have been infinite in the network's own precision."""
        if not self.widened:
            return x
        low, high = torch.aminmax(x)
        if low >= -FLOAT32_MAX and high <= FLOAT32_MAX:
            return x
        return x.masked_fill((x.abs() > FLOAT32_MAX) & x.isfinite(), torch.nan)

    def _parts(self) -> Iterator[slice]:
        """The samples, in parts that are computed at once."""
        for start in range(0, self.num_samples, self.part):
            yield slice(start, min(start + self.part, self.num_samples))

    def _add(self, y: Tensor, probabilities: Tensor, entropy: Tensor) -> None:
        """Add what some samples say, y (M, S, rows, classes), to their sums."""
        add = latents.add_answers if self.kernels is None else self.kernels.add_answers
        add(y, probabilities, entropy, self.num_samples)

    def _prepared(self, place: int, x: Tensor, scratch: latents.Scratch | None = None) -> Tensor:
        """What a random layer makes of x (M, S, rows, in) before it draws: its logits, or its moments side by side."""
        layer = self.stages[place].layer
        x = x.to(self._working(place))
        if isinstance(layer, GaussianLinear):
            return torch.cat(layer.moments(x), -1)
        assert isinstance(layer, SquadLayer)
        if scratch is None or type(layer) is not SquadLinear:
            return self._held(layer.logits(x)) if place == 0 else layer.logits(x)
        shape = (self.members, *x.shape[1:-1], layer.bins, layer.out_features)
        out = scratch.take(0, shape, x)
        flat = x.reshape(x.shape[0], -1, x.shape[-1]).expand(self.members, -1, -1)
        torch.baddbmm(layer.bias.unsqueeze(1), flat, layer.weight, out=out.view(*flat.shape[:2], -1))
        return self._held(out) if place == 0 else out  # what later latents are given is bounded by values

    def _stage(self, place: int, x: Tensor, noise: Noise, scratch: latents.Scratch) -> Tensor:
        """x (M, S, rows, in), or what was prepared of it -> (M, S or T, rows, out)."""
        stage, table = self.stages[place], noise.table
        layer = stage.layer
        if noise.masks is not None:
            x = x * noise.masks
        if not isinstance(layer, (SquadLayer, GaussianLinear)):
            out = layer(x.to(self._working(place)))
            return cast(Tensor, out.relu() if stage.relu else out)
        if self._fused(place):
            return self._in_one(place, x, table)
        made = x if place == self.shared else self._prepared(place, x, scratch if self.kernels is None else None)
        if isinstance(layer, GaussianLinear):
            mu, sigma = made.chunk(2, -1)
            return mu if table is None else mu + sigma * cast(Tensor, table)
        ready = self.ready[place]
        assert ready is not None
        if self.kernels is not None:
            return _by(self.kernels, made, ready, table)
        out = _drawn(made, ready, table, scratch)
        # The largest of numbers among which there is none would still be a value.
        return out.masked_fill_(made.isnan().any(-2), torch.nan) if self.sampling == "hard" else out

    def _in_one(self, place: int, x: Tensor, table: object) -> Tensor:
        """A latent layer by one kernel."""
        layer, ready = self.stages[place].layer, self.ready[place]
        assert self.kernels is not None
        assert isinstance(layer, SquadLinear)
        assert ready is not None
        scaled = table.scaled if isinstance(table, latents.Gumbels) else None
        x = layer.check_input(x.to(self._working(place)))
        return cast(Tensor, self.kernels.linear(x, layer.weight, layer.bias, ready.values, scaled, ready.power.inverse))


def _drawn(
    logits: Tensor,
    ready: Ready,
    table: Tensor | latents.Gumbels | latents.Strata | None,
    scratch: latents.Scratch,
) -> Tensor:
    """Latents from their logits: (M, S, rows, C, K) -> (M, S or T, rows, K)."""
    if table is None:
        return latents.mean(logits, ready.values, scratch)
    if isinstance(table, latents.Strata):
        return latents.stratified(logits, ready.values, table, ready.power, scratch)
    if isinstance(table, latents.Gumbels):
        return latents.relaxed(logits, ready.values, table, ready.power, scratch)
    return latents.hard(logits, ready.values, table)


def _by(
    kernels: ModuleType, logits: Tensor, ready: Ready, table: Tensor | latents.Gumbels | latents.Strata | None
) -> Tensor:
    """The same by kernels."""
    values, power = ready
    if table is None:
        out = kernels.mean(logits, values, power.inverse)
    elif isinstance(table, latents.Strata):
        out = kernels.stratified(logits, values, *table, power.inverse, power.squares)
    elif isinstance(table, latents.Gumbels):
        factors = None if table.factors is None else table.factors[0]
        out = kernels.relaxed(logits, values, table.scaled, factors, power.inverse)
    else:
        out = kernels.hard(logits, values, table)
    return cast(Tensor, out)


def _noise_numbers(stage: Stage) -> int:
    """Numbers of a sample's noise."""
    layer = stage.layer
    return layer.in_features + layer.out_features * getattr(layer, "bins", 1)


@contextlib.contextmanager
def _products(precision: str, device: torch.device) -> Iterator[None]:
    """Matrix products in this precision, whatever the caller allows: bfloat16 and TF32 keep three decimals."""
    with torch.autocast(device.type, enabled=False), matmul_precision(precision, device):
        yield
