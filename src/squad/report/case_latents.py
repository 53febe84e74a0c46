"""The latent distributions behind a case: those of the first latent layer, which depend on the case alone."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from squad.layers.quantized import SquadLayer
from squad.predictor import Predictor

__all__ = ["Latents", "latents_of"]

#: So many latents of a case are shown, those that hesitate most.
SHOWN = 24
#: A latent is settled when one value has more than this.
SETTLED = 0.9


@dataclass(frozen=True)
class Latents:
    """Of one case.

    Attributes:
        names: which latents, from 1, the least settled first.
        values: (latents, bins), where the bins stand, ascending.
        per_mille: (latents, bins), probabilities in thousandths.
        settled: how many of all latents have one value with more than 90 %.
        total: how many latents there are.
    """

    names: list[int]
    values: list[list[float]]
    per_mille: list[list[int]]
    settled: int
    total: int


@torch.no_grad()
def latents_of(predictor: Predictor, x: Any) -> list[Latents] | None:
    """Of each row of ``x`` (readable ones) in the first member; None for a network without quantized latents."""
    stages = list(predictor.network.stages)
    layer = cast(Any, stages[0]).layer
    if not isinstance(layer, SquadLayer) or not len(x):
        return None if not isinstance(layer, SquadLayer) else []
    encoded = torch.from_numpy(predictor.transform.apply(x).x).to(predictor.device)
    q = layer.posterior(encoded.to(next(layer.parameters()).dtype).unsqueeze(0))
    probs = q.probs[0].double().cpu().numpy()  # (rows, latents, bins)
    values = np.broadcast_to(q.values[0].double().cpu().numpy(), probs.shape)
    order = values.argsort(axis=-1)
    probs, values = (np.take_along_axis(array, order, -1) for array in (probs, values))
    entropy = -np.sum(np.where(probs > 0, probs * np.log(np.where(probs > 0, probs, 1)), 0), -1)
    found = []
    for row in range(len(probs)):
        kept = np.argsort(-entropy[row], kind="stable")[:SHOWN]
        found.append(
            Latents(
                (kept + 1).tolist(),
                values[row, kept].round(3).tolist(),
                (1000 * probs[row, kept]).round().astype(int).tolist(),
                int((probs[row].max(-1) > SETTLED).sum()),
                probs.shape[1],
            )
        )
    return found
