"""Prediction with T samples, in blocks of bounded memory; whatever does not depend on the sample is computed once.

A prediction is a function of its input.  Noise is keyed by (seed, layer, sample, neuron, bin), never by the row.  The
only remaining source of variation is rounding: a matrix product sums in a different order at the edge of a block, for a
different number of rows or threads, and with the instructions of a different processor.  On a CPU prediction is
therefore computed in float64 from the first layer to the last, whatever the network's own precision.  Rounding then
changes a probability by about 1e-14; the probability that it moves a confidence to the next grid point is about 1 in
10^9, and that it changes a choice between bins about 1 in 10^12.

On a GPU, where float64 is slow, and in validation passes during training, float64 is used only up to the last discrete
choice (hard and stratified samples), because a changed choice makes a prediction jump.  Long sums in single precision,
those of the matrix products up to the first draw, are computed in products of one shape, with the last block padded: a
row goes through the same arithmetic alone and in any batch, up to the rounding at a product's edges (about 1e-7).

No random number is drawn per row.  A sampler draws its noise when it is created, and precomputes everything that
depends on noise, values and temperature only, so that prediction never waits for a GPU to report a temperature.
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
from squad.core.threads import limit_threads
from squad.layers import GaussianLinear, SquadLinear, stack
from squad.layers import sampling_modes as latents
from squad.layers.quantized import SquadLayer
from squad.models.networks import LATENT_LAYERS, Network, Stage
from squad.ops import has_triton
from squad.ops.matmul_precision import PRECISIONS, matmul_precision

__all__ = ["SAMPLINGS", "Draws", "Sampler"]

#: Sampling modes of all networks.
SAMPLINGS = ("stratified", "relaxed", "hard", "sample", "mean")

#: Rows per block, by device type: few on a CPU, so that a single row is not padded to many; enough to keep a GPU busy.
BLOCK_ROWS = {"cpu": 64, "cuda": 2048}
#: A block with fewer rows is padded only to a multiple of this, where results do not depend on it.
ROW_MULTIPLE = {"cpu": 8, "cuda": 128}
#: Maximum number of elements of the largest tensor of a block (unless one sample of one block is larger).  On a CPU
#: 1 MiB, which stays in a core's cache and is reused instead of being allocated anew for every block.
MAX_BLOCK_ELEMENTS = {"cpu": 1 << 18, "cuda": 1 << 26}
#: Maximum number of elements of stored noise; noise of more samples is drawn again for each block.
MAX_NOISE_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 24}

#: The largest float32 number.
FLOAT32_MAX = torch.finfo(torch.float32).max


@functools.cache
def _kernels(device: torch.device) -> ModuleType | None:
    """Return the module of Triton kernels if they support this device, else None; imported at first use."""
    if device.type != "cuda" or not has_triton() or torch.cuda.get_device_capability(device) < (8, 0):
        return None
    from squad.ops import triton_sampling

    return triton_sampling


class Draws(NamedTuple):
    """Predictions for N rows, averaged over the T samples of each of M members, in float64.

    Attributes:
        probabilities: (M, N, classes), class probabilities averaged over a member's samples.
        entropy: (M, N), entropy of each sample's prediction in nats, averaged over a member's samples.
    """

    probabilities: Tensor
    entropy: Tensor


class Noise(NamedTuple):
    """Noise of a stage for some samples, (M, T, ...): factors of its dropout, and noise of its latents."""

    masks: Tensor | None
    table: Tensor | latents.Gumbels | latents.Strata | None


class DrawConstants(NamedTuple):
    """Constants needed to draw the latents of a SQUAD layer.

    Attributes:
        values: Values of the bins, (M, 1, 1, C, 1 or K), in the dtype of the result.
        power: Power that applies the temperature; a temperature of 1 for means.
    """

    values: Tensor
    power: latents.Power


class Sampler:
    """Predicts with T samples of a network; noise and constants are computed when it is created.

    Args:
        network: With or without members; it is always evaluated as in eval mode.  A sampler uses the weights at the
            time of its creation: create a new one after a training step.
        sampling: "stratified" (relaxed samples with stratified winning bins; the last of several latent layers is
            replaced by its mean), "relaxed", "hard" or "mean" for SQUAD; "sample" or "mean" for MC dropout and Gaussian
            latents.  The layers' own ``sampling`` is ignored.
        num_samples: T; with "mean", or if nothing is random, a single pass is made for any T.
        rows: Rows per block; default: 64 on a CPU and 2,048 on a GPU.
        precision: Precision of matrix products in single precision on a GPU.  Predictions are made in "float32";
            validation passes during training use the precision of the training steps.
        exact: On a CPU, compute everything in float64.  False, for validation passes, computes in the precision of the
            network, except what discrete choices depend on.  Other devices always do the latter.

    See Also:
        :class:`squad.Predictor`: Trained networks with their transforms and certificate.

    Examples:
        >>> from squad.models import SquadConfig, build
        >>> network = build(SquadConfig(hidden=(8,)), in_features=4, classes=3, seeds=[0, 1])
        >>> sampler = Sampler(network, "stratified", num_samples=8)
        >>> sampler(torch.zeros(5, 4)).probabilities.shape
        torch.Size([2, 5, 3])
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
        # A network in half precision is evaluated in single precision, because noise and exponentials could overflow.
        self.device, self.dtype = parameter.device, torch.promote_types(parameter.dtype, torch.float32)
        #: Whether the computation is wider than the network's own dtype: numbers that overflow the latter become NaN.
        self.widened = exact and self.device.type == "cpu" and self.dtype != torch.float64
        if self.widened:
            self.dtype = torch.float64
        self.rows = check_count("rows", rows or self._for_device(BLOCK_ROWS), 1)
        latent = [index for index, stage in enumerate(self.stages) if isinstance(stage.layer, SquadLayer)]
        #: Index of the latent layer replaced by its mean: the last of several, in stratified sampling.
        self.averaged = latent[-1] if sampling == "stratified" and len(latent) > 1 else None
        choices = [index for index in latent if index != self.averaged] if sampling in ("hard", "stratified") else []
        #: Number of leading stages that are computed in float64, because a discrete choice depends on them.
        self.exact = choices[-1] + 1 if choices else 0
        self.first_random = next((p for p in range(len(self.stages)) if self._is_random(p)), None)
        #: Index of the layer whose logits, or moments, are the same for all samples.
        self.shared = (
            None if self.first_random is None or self._is_dropout_random(self.first_random) else self.first_random
        )
        self.num_samples = 1 if self.first_random is None else check_count("num_samples", num_samples, 1, 999_999)
        self.kernels = _kernels(self.device) if self.dtype in (torch.float32, torch.float64) else None
        with torch.no_grad():
            self.stages = [
                stage if parameter.dtype == self._dtype(index) else copy.deepcopy(stage).to(self._dtype(index))
                for index, stage in enumerate(self.stages)
            ]
            self.constants = [self._draw_constants(index) for index in range(len(self.stages))]
            widest = max(self._width(index) for index in range(self.first_random or 0, len(self.stages)))
            max_part = max(1, self._for_device(MAX_BLOCK_ELEMENTS) // (self.members * self.rows * widest))
            #: Number of samples computed at once; all parts have nearly the same size.
            self.part = -(-self.num_samples // -(-self.num_samples // max_part))
            #: Approximate number of multiplications per block.
            self.work = self.members * self.rows * sum(map(self._multiplications, range(len(self.stages))))
            with limit_threads(self.work, self.device):
                self.levels = [self._levels(index) for index in range(len(self.stages))]
                #: Noise for all rows, part by part; None if it is too large to store and is drawn again for each block.
                self.noise = (
                    [*map(self._noise, self._parts())] if self.num_samples <= self._max_stored_samples() else None
                )

    def _for_device(self, sizes: dict[str, int]) -> int:
        return sizes.get(self.device.type, sizes["cuda"])

    def _max_stored_samples(self) -> int:
        """Return the maximum number of samples whose noise is stored."""
        per_sample = sum(_noise_size(stage) for index, stage in enumerate(self.stages) if self._is_random(index))
        return self._for_device(MAX_NOISE_ELEMENTS) // (self.members * max(1, per_sample))

    def _is_dropout_random(self, index: int) -> bool:
        dropout = self.stages[index].dropout
        return dropout is not None and dropout.sampling == "sample" and self.sampling != "mean"

    def _draws_latents(self, index: int) -> bool:
        layer = self.stages[index].layer
        return isinstance(layer, LATENT_LAYERS) and self.sampling != "mean" and index != self.averaged

    def _is_random(self, index: int) -> bool:
        return self._is_dropout_random(index) or self._draws_latents(index)

    def _dtype(self, index: int) -> torch.dtype:
        return torch.float64 if index < self.exact else self.dtype

    def _draw_constants(self, index: int) -> DrawConstants | None:
        layer = self.stages[index].layer
        if not isinstance(layer, SquadLayer):
            return None
        stratified = self.sampling == "stratified" and self._draws_latents(index)
        # The computation after the last choice is continuous in its noise, so single precision suffices.
        dtype = self._dtype(index + 1 if stratified else index)
        power = latents.Power.of(
            layer.temperature if self._draws_latents(index) else torch.ones_like(layer.temperature), dtype
        )
        return DrawConstants(layer.op_values(5).detach().to(dtype), power)

    def _is_fused(self, index: int) -> bool:
        """Whether a single kernel computes this latent layer, including its matrix product."""
        layer = self.stages[index].layer
        choice = self._draws_latents(index) and self.sampling in ("hard", "stratified")
        if self.kernels is None or type(layer) is not SquadLinear or choice or index == self.shared:
            return False
        return bool(self.kernels.supports_linear(layer.in_features, self._dtype(index)))

    def _width(self, index: int) -> int:
        """Return the number of elements per row and sample of the largest tensor of a stage."""
        layer = self.stages[index].layer
        if not isinstance(layer, SquadLayer):
            return max(layer.in_features, layer.out_features * getattr(layer, "pieces", 2))
        if self._is_fused(index) or (index == self.shared and self.kernels is not None):
            return max(layer.in_features if index != self.shared else 1, layer.out_features)
        return layer.bins * layer.out_features

    def _multiplications(self, index: int) -> int:
        """Return the number of multiplications per row of a stage's matrix product, for one part of the samples."""
        layer = self.stages[index].layer
        shared = self.first_random is None or index < self.first_random or index == self.shared
        per_sample = layer.in_features * layer.out_features * getattr(layer, "bins", getattr(layer, "pieces", 1))
        return int(per_sample) * (1 if shared else self.part)

    def _levels(self, index: int) -> Tensor | None:
        """Return the levels at which winning bins are looked up, (M, T, K): strata are permuted over all T samples."""
        layer = self.stages[index].layer
        if self.sampling != "stratified" or not isinstance(layer, SquadLayer) or not self._draws_latents(index):
            return None
        return layer.levels(self.num_samples)

    def _noise(self, part: slice) -> list[Noise]:
        """Draw the noise of all stages for a part of the samples, (M, T, ...)."""
        return [Noise(self._masks(index, part), self._layer_noise(index, part)) for index in range(len(self.stages))]

    def _masks(self, index: int, part: slice) -> Tensor | None:
        """Return the dropout factors of a stage, (M, T, 1, features), or None."""
        dropout = self.stages[index].dropout
        if dropout is None or not self._is_dropout_random(index):
            return None
        return dropout.masks(part.stop - part.start, part.start).unsqueeze(2).to(self._dtype(index))

    def _layer_noise(self, index: int, part: slice) -> Tensor | latents.Gumbels | latents.Strata | None:
        """Draw the noise (M, T, ...) of a random layer, or return None for others."""
        layer, count, constants = self.stages[index].layer, part.stop - part.start, self.constants[index]
        if not self._draws_latents(index):
            return None
        if isinstance(layer, GaussianLinear):
            return layer.normals(count, part.start, self._dtype(index)).unsqueeze(2)
        assert isinstance(layer, SquadLayer)
        assert constants is not None
        levels = self.levels[index]
        if levels is not None:
            return layer.strata(levels[:, part], part.start, constants.values.dtype)
        gumbels = layer.gumbels(count, part.start, self._dtype(index)).unsqueeze(2)
        if self.sampling == "hard":
            return gumbels
        return latents.Gumbels.of(gumbels, constants.values, constants.power, shared=index == self.shared)

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Draws:
        """Predict for rows x (N, in), or (M or 1, N, in) if each member has its own rows."""
        x = self.network.with_member_axis(x)
        count = x.shape[1]
        shape = self.members, count
        probabilities = torch.zeros(*shape, self.network.classes, dtype=torch.float64, device=self.device)
        entropy = torch.zeros(shape, dtype=torch.float64, device=self.device)
        scratch = latents.Scratch()
        fraction = min(1.0, count / self.rows)  # of a full block
        with _matmul_settings(self.precision, self.device), limit_threads(fraction * self.work, self.device):
            for start in range(0, count, self.rows):
                rows = slice(start, start + self.rows)
                block = x[:, rows].to(self.device, self._dtype(0))
                self._block(block, probabilities[:, rows], entropy[:, rows], scratch)
        return Draws(probabilities, entropy)

    def _block(self, x: Tensor, probabilities: Tensor, entropy: Tensor, scratch: latents.Scratch) -> None:
        """Add the predictions for a block x (M or 1, N, in), N <= rows, to (M, N, classes) and (M, N)."""
        count = x.shape[1]
        sampled_rows = min(self.rows, -(-count // self._for_device(ROW_MULTIPLE)) * self._for_device(ROW_MULTIPLE))
        if self.shared is None and self.dtype != torch.float64:
            sampled_rows = self.rows
        # In float64 the shape of a product hardly changes its result, so that a short block needs less padding.
        height = sampled_rows if self._dtype(self.shared or 0) == torch.float64 else self.rows
        if count < height:
            x = nn.functional.pad(x, (0, 0, 0, height - count))
        x = x.unsqueeze(1)  # sample axis, of size 1 until something is drawn
        first_random = len(self.stages) if self.first_random is None else self.first_random
        for index in range(first_random):
            x = self._stage(index, x, Noise(None, None), scratch)
        if self.shared is not None:
            x = self._distribution_parameters(self.shared, x)[:, :, :sampled_rows]
        for noise in self.noise or map(self._noise, self._parts()):
            y = x
            for index in range(first_random, len(self.stages)):
                y = self._stage(index, y, noise[index], scratch)
            self._add(self._overflow_to_nan(y), probabilities, entropy)

    def _overflow_to_nan(self, x: Tensor) -> Tensor:
        """Return x with NaN in place of numbers that would be infinite in the network's own precision."""
        if not self.widened:
            return x
        low, high = torch.aminmax(x)
        if low >= -FLOAT32_MAX and high <= FLOAT32_MAX:
            return x
        return x.masked_fill((x.abs() > FLOAT32_MAX) & x.isfinite(), torch.nan)

    def _parts(self) -> Iterator[slice]:
        """Iterate over the samples in parts that are computed at once."""
        for start in range(0, self.num_samples, self.part):
            yield slice(start, min(start + self.part, self.num_samples))

    def _add(self, y: Tensor, probabilities: Tensor, entropy: Tensor) -> None:
        """Add the predictions of some samples, from logits y (M, S, rows, classes), to the sums."""
        add = latents.add_predictions if self.kernels is None else self.kernels.add_predictions
        add(y, probabilities, entropy, self.num_samples)

    def _distribution_parameters(self, index: int, x: Tensor, scratch: latents.Scratch | None = None) -> Tensor:
        """Return the logits of a random layer for x (M, S, rows, in), or its concatenated mean and deviation."""
        layer = self.stages[index].layer
        x = x.to(self._dtype(index))
        if isinstance(layer, GaussianLinear):
            return torch.cat(layer.moments(x), -1)
        assert isinstance(layer, SquadLayer)
        if scratch is None or type(layer) is not SquadLinear:
            return self._overflow_to_nan(layer.logits(x)) if index == 0 else layer.logits(x)
        shape = (self.members, *x.shape[1:-1], layer.bins, layer.out_features)
        out = scratch.take(0, shape, x)
        flat = x.reshape(x.shape[0], -1, x.shape[-1]).expand(self.members, -1, -1)
        torch.baddbmm(layer.bias.unsqueeze(1), flat, layer.weight, out=out.view(*flat.shape[:2], -1))
        return self._overflow_to_nan(out) if index == 0 else out  # inputs of later latents are bounded by the values

    def _stage(self, index: int, x: Tensor, noise: Noise, scratch: latents.Scratch) -> Tensor:
        """Apply a stage to x (M, S, rows, in), or to the parameters of its distribution: (M, S or T, rows, out)."""
        stage, table = self.stages[index], noise.table
        layer = stage.layer
        if noise.masks is not None:
            x = x * noise.masks
        if not isinstance(layer, LATENT_LAYERS):
            out = layer(x.to(self._dtype(index)))
            return cast(Tensor, out.relu() if stage.relu else out)
        if self._is_fused(index):
            return self._fused_layer(index, x, table)
        if index == self.shared:
            parameters = x
        else:
            parameters = self._distribution_parameters(index, x, scratch if self.kernels is None else None)
        if isinstance(layer, GaussianLinear):
            mu, sigma = parameters.chunk(2, -1)
            return mu if table is None else mu + sigma * cast(Tensor, table)
        constants = self.constants[index]
        assert constants is not None
        if self.kernels is not None:
            return _draw_with_kernels(self.kernels, parameters, constants, table)
        out = _draw(parameters, constants, table, scratch)
        # The argmax of NaN logits would still select a value.
        return out.masked_fill_(parameters.isnan().any(-2), torch.nan) if self.sampling == "hard" else out

    def _fused_layer(self, index: int, x: Tensor, table: object) -> Tensor:
        """Compute a latent layer with a single kernel."""
        layer, constants = self.stages[index].layer, self.constants[index]
        assert self.kernels is not None
        assert isinstance(layer, SquadLinear)
        assert constants is not None
        scaled = table.scaled if isinstance(table, latents.Gumbels) else None
        x = layer.check_input(x.to(self._dtype(index)))
        return cast(
            Tensor, self.kernels.linear(x, layer.weight, layer.bias, constants.values, scaled, constants.power.inverse)
        )


def _draw(
    logits: Tensor,
    constants: DrawConstants,
    table: Tensor | latents.Gumbels | latents.Strata | None,
    scratch: latents.Scratch,
) -> Tensor:
    """Draw latents from their logits: (M, S, rows, C, K) -> (M, S or T, rows, K)."""
    if table is None:
        return latents.mean(logits, constants.values, scratch)
    if isinstance(table, latents.Strata):
        return latents.stratified(logits, constants.values, table, constants.power, scratch)
    if isinstance(table, latents.Gumbels):
        return latents.relaxed(logits, constants.values, table, constants.power, scratch)
    return latents.hard(logits, constants.values, table)


def _draw_with_kernels(
    kernels: ModuleType,
    logits: Tensor,
    constants: DrawConstants,
    table: Tensor | latents.Gumbels | latents.Strata | None,
) -> Tensor:
    """Draw latents from their logits with Triton kernels, as :func:`_draw` does."""
    values, power = constants
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


def _noise_size(stage: Stage) -> int:
    """Return the number of elements of the noise of one sample."""
    layer = stage.layer
    return layer.in_features + layer.out_features * getattr(layer, "bins", 1)


@contextlib.contextmanager
def _matmul_settings(precision: str, device: torch.device) -> Iterator[None]:
    """Compute matrix products in this precision, whatever the caller allows: bfloat16 and TF32 keep three decimals."""
    with torch.autocast(device.type, enabled=False), matmul_precision(precision, device):
        yield
