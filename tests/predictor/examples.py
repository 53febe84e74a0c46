"""Three classes in the plane, and settings of a small network for them."""

from typing import Any

import numpy as np
import pandas as pd

from squad.fitting import FitSettings
from squad.models import network_config
from squad.train import TrainConfig

QUICK = FitSettings(network=network_config("squad", {"hidden": (8,)}), training=TrainConfig(max_epochs=8))


def points(count: int, seed: int) -> tuple[Any, Any]:
    """Return points of three overlapping classes in the plane."""
    random = np.random.default_rng(seed)
    y = random.integers(3, size=count)
    centres = np.array([[0, 0], [2.5, 0], [0, 2.5]])
    return centres[y] + random.normal(size=(count, 2)), np.array(["a", "b", "c"])[y]


def frame(count: int, seed: int) -> pd.DataFrame:
    x, y = points(count, seed)
    random = np.random.default_rng(seed)
    site = random.choice(["Oslo", "Bern"], count)
    return pd.DataFrame(
        {"u": x[:, 0], "v": x[:, 1], "site": site, "who": [f"{seed}-{i // 2}" for i in range(count)], "y": y}
    )
