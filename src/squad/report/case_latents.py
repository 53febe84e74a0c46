"""Distributions of a case's latent variables in the first layer, which depend on the case alone."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from squad.layers.quantized import SquadLayer
from squad.predictor import Predictor

__all__ = ["CaseLatents", "case_latents"]

#: Maximum number of latent variables shown per case, those with the highest entropy.
MAX_LATENTS_SHOWN = 24
#: A latent variable is settled if one value is more probable than this.
SETTLED_PROBABILITY = 0.9


@dataclass(frozen=True)
class CaseLatents:
    """Distributions of the latent variables of one case.

    Attributes:
        units: Latent variables shown, counted from 1, highest entropy first.
        values: (units, bins), values of the bins, ascending.
        per_mille: (units, bins), probabilities in thousandths.
        settled: Number of latent variables with one value above 90 % probability, including those not shown.
        total: Number of latent variables in the layer.
    """

    units: list[int]
    values: list[list[float]]
    per_mille: list[list[int]]
    settled: int
    total: int


@torch.no_grad()
def case_latents(predictor: Predictor, x: Any) -> list[CaseLatents] | None:
    """Return the latent distributions of each row in the first ensemble member.

    Args:
        predictor: Model whose first layer is analysed.
        x: Rows that the predictor can encode.

    Returns:
        One entry per row; None for a network without quantized latents.
    """
    stages = list(predictor.network.stages)
    layer = cast(Any, stages[0]).layer
    if not isinstance(layer, SquadLayer) or not len(x):
        return None if not isinstance(layer, SquadLayer) else []
    encoded = torch.from_numpy(predictor.transform.apply(x).x).to(predictor.device)
    q = layer.posterior(encoded.to(next(layer.parameters()).dtype).unsqueeze(0))
    probs = q.probs[0].double().cpu().numpy()  # (rows, units, bins)
    values = np.broadcast_to(q.values[0].double().cpu().numpy(), probs.shape)
    order = values.argsort(axis=-1)
    probs, values = (np.take_along_axis(array, order, -1) for array in (probs, values))
    entropy = -np.sum(np.where(probs > 0, probs * np.log(np.where(probs > 0, probs, 1)), 0), -1)
    cases = []
    for row in range(len(probs)):
        shown = np.argsort(-entropy[row], kind="stable")[:MAX_LATENTS_SHOWN]
        cases.append(
            CaseLatents(
                (shown + 1).tolist(),
                values[row, shown].round(3).tolist(),
                (1000 * probs[row, shown]).round().astype(int).tolist(),
                int((probs[row].max(-1) > SETTLED_PROBABILITY).sum()),
                probs.shape[1],
            )
        )
    return cases
