"""Models with random weights that are nearly always correct: most labels are their own predictions."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from squad.data.array_transform import ArrayTransform
from squad.data.tables import Table
from squad.data.transforms import TableTransform
from squad.models import build, network_config
from squad.predictor import Predictor

Array = NDArray[Any]

CLASSES = ("cat", "dog", "emu")


def images(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 17, (count, 8, 8)).astype(np.uint8)


def features(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(3, 2, (count, 6))


def frame(count: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 9, count).round(1),
            "color": np.array(["red", "green", "blue"])[rng.integers(3, size=count)],
            "dose": rng.normal(0, 1, count),
            "label": np.array(CLASSES)[rng.integers(3, size=count)],
        }
    )


ROWS = {"images": images, "features": features, "table": frame}


def model(
    name: str = "squad",
    kind: str = "images",
    members: int = 2,
    classes: tuple[Any, ...] = CLASSES,
    scale: float = 2.5,
    **settings: Any,
) -> Predictor:
    transform: TableTransform | ArrayTransform = (
        TableTransform.fit(Table.of(frame(200)), "label") if kind == "table" else ArrayTransform.fit(ROWS[kind](200))
    )
    config = network_config(name, {"hidden": (6, 5), **settings})
    network = build(config, transform.features, len(classes), list(range(members)))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(scale)
    return Predictor(network, config, transform, classes, record={"source": "made up", "seed": 0})


def labels_for(predictor: Predictor, x: Any, seed: int = 0, most: float = 0.3) -> Array:
    """The model's own predictions, some of the less confident ones replaced by another class."""
    rng = np.random.default_rng(seed)
    answer = predictor.uncertified().answer(x)
    rank = answer.confidence.argsort().argsort() / len(answer)  # NaN, for rows that cannot be read, comes last
    flipped = rng.random(len(answer)) < most * (1 - rank) ** 2
    names = np.array(predictor.classes, dtype=object)
    labels = answer.label.astype(object)
    labels[answer.reason != ""] = names[0]
    others = names[(np.array([list(names).index(label) for label in labels]) + 1) % len(names)]
    return np.where(flipped, others, labels)


def certified(predictor: Predictor, kind: str = "images", count: int = 400, **settings: Any) -> Predictor:
    x = ROWS[kind](count, seed=7)
    arguments: dict[str, Any] = {"risk": 0.1, "delta": 0.05, **settings}
    return predictor.certify(x, labels_for(predictor, x, seed=8), **arguments)
