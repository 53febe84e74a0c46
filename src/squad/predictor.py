"""What is loaded, asked and saved: a network with its input transformation, classes, sampling and seeds."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from squad import artifact
from squad.artifact import ArtifactError
from squad.data.array_transform import ArrayTransform
from squad.data.tables import Table
from squad.data.transforms import TableTransform, from_json
from squad.errors import ArgumentError, SquadError
from squad.models import Network, NetworkConfig, Sampler, build, network_config

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Answer", "Predictor", "load"]

#: Rows that are transformed at once: memory stays bounded however many there are.
CHUNK = 8192

#: The kinds of class names that JSON keeps as they are.
Label = str | int | float | bool


@dataclass(frozen=True, eq=False)
class Answer:
    """What a predictor says about N rows.

    Attributes:
        label: (N,), the most likely class; None for a row that could not be read.
        confidence: (N,), its probability (the softmax response), float64; NaN for a row that could not be read.
        decision: (N,), "accepted", "referred", or "uncertified" where there is no certificate.
        entropy: (N,), of the class probabilities, in nats.
        mutual_information: (N,), between the class and which sample (and member) is asked, in nats: how much of the
            entropy comes from samples that disagree.
        probabilities: (N, classes).
        reason: (N,), why a row could not be read; empty otherwise.
    """

    label: NDArray[Any]
    confidence: NDArray[np.float64]
    decision: NDArray[Any]
    entropy: NDArray[np.float64]
    mutual_information: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    reason: NDArray[Any]

    def __len__(self) -> int:
        return len(self.label)

    def to_frame(self) -> "pd.DataFrame":
        """As a pandas data frame, one column for each of the above but the probabilities."""
        import pandas as pd

        names = ("label", "confidence", "decision", "entropy", "mutual_information", "reason")
        return pd.DataFrame({name: getattr(self, name) for name in names})


class Predictor:
    """A trained network that can be asked.

    Made by ``squad.SquadClassifier``, ``squad fit`` and :func:`squad.load`.

    Attributes:
        network: with members, in eval mode.
        config: its settings.
        transform: what turns rows into the network's input.
        classes: the names of the classes, in the order of the probabilities.
        sampling, num_samples: how it is sampled.
        record: how it was made: plain data.
    """

    def __init__(
        self,
        network: Network,
        config: NetworkConfig,
        transform: TableTransform | ArrayTransform,
        classes: Sequence[Label],
        *,
        sampling: str | None = None,
        num_samples: int | None = None,
        record: Mapping[str, Any] | None = None,
    ) -> None:
        if len(classes) != network.classes:
            raise ArgumentError.of("classes", f"{len(classes)} names", f"one for each of {network.classes} classes")
        if transform.features != network.in_features:
            raise ArgumentError.of(
                "transform", f"{transform.features} features", f"one that gives {network.in_features}"
            )
        self.network = network.eval()
        self.config = config
        self.transform = transform
        self.classes = tuple(classes)
        self.sampling, self.num_samples = config.check_sampling(sampling, num_samples)
        self.record = dict(record or {})
        self._sampler: Sampler | None = None

    @property
    def members(self) -> int:
        """How many networks answer together."""
        return self.network.members or 1

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.network.parameters()).device

    def __repr__(self) -> str:
        sizes = " - ".join(map(str, (self.network.in_features, *self.config.hidden, len(self.classes))))
        many = f", {self.members} members" if self.members > 1 else ""
        return f"Predictor({self.config.name} {sizes}{many}, {self.num_samples} {self.sampling} samples)"

    def __getstate__(self) -> dict[str, Any]:
        # What was made ready for asking is made anew; and a copy must open where there is no GPU.
        return {**vars(self), "_sampler": None, "network": copy.deepcopy(self.network).cpu()}

    def to(self, device: torch.device | str) -> "Predictor":
        """Compute on another device from now on; returns itself."""
        self.network.to(device)
        self._sampler = None
        return self

    def with_sampling(self, sampling: str | None = None, num_samples: int | None = None) -> "Predictor":
        """The same network, sampled in another way; weights are shared."""
        return Predictor(
            self.network,
            self.config,
            self.transform,
            self.classes,
            sampling=sampling or self.sampling,
            num_samples=num_samples or self.num_samples,
            record=self.record,
        )

    def answer(self, x: Any) -> Answer:
        """Class probabilities with their confidence, entropy and mutual information, row by row.

        An answer is a function of its row: it does not depend on what else is in ``x``.

        Args:
            x: for a model of a table, a data frame (or a table that was read) with the columns of training in any
                order; otherwise an array (N, ...) like the one that was trained on.
        """
        rows = self._checked(x)
        count = len(rows)
        p = np.empty((count, len(self.classes)))
        inner = np.empty(count)
        problems: dict[int, str] = {}
        sampler = self._ready()
        for start in range(0, count, CHUNK):
            end = start + CHUNK
            encoded = self.transform.apply(rows[start:end])
            drawn = sampler(torch.from_numpy(encoded.x))
            p[start:end] = drawn.probabilities.mean(0).cpu().numpy()
            inner[start:end] = drawn.entropy.mean(0).cpu().numpy()
            problems.update({start + row: reason for row, reason in encoded.problems.items()})
        entropy = -np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0), 1)
        # Rounding could leave either a hair below zero.
        return self._labelled(p, np.maximum(entropy, 0), np.maximum(entropy - inner, 0), problems)

    def _checked(self, x: Any) -> Any:
        """``x`` as the transform takes it: something with rows to slice."""
        if isinstance(self.transform, ArrayTransform):
            if isinstance(x, Table):
                raise ArgumentError.of(
                    "x", "a table", f"an array of shape {self.transform.shape} a row, as in training"
                )
            array = x if isinstance(x, np.ndarray) else np.asarray(x)
            # An empty slice has a shape too: a wrong one is told even if there are no rows.
            self.transform.apply(array[:0] if array.ndim else array)
            return array
        if not isinstance(x, Table):
            if not hasattr(x, "columns"):
                hint = "This model was trained on a table: pandas.DataFrame(x, columns=[...]) names them."
                raise ArgumentError.of("x", type(x).__name__, "a data frame with the columns of training", hint)
            x = Table.of(x)
        self.transform.apply(x[:0])
        return x

    def _ready(self) -> Sampler:
        if self._sampler is None:
            self._sampler = Sampler(self.network, self.sampling, self.num_samples)
        return self._sampler

    def _labelled(
        self,
        p: NDArray[np.float64],
        entropy: NDArray[np.float64],
        mutual: NDArray[np.float64],
        problems: Mapping[int, str],
    ) -> Answer:
        names = np.array(self.classes)
        label: NDArray[Any] = names[p.argmax(1)]
        confidence = p.max(1)
        decision = np.full(len(p), "uncertified", dtype=object)
        reason = np.full(len(p), "", dtype=object)
        if problems:
            rows = list(problems)
            label = label.astype(object)
            label[rows] = None
            decision[rows] = "referred"
            reason[rows] = list(problems.values())
            for numbers in (p, entropy, mutual, confidence):
                numbers[rows] = np.nan
        return Answer(label, confidence, decision, entropy, mutual, p, reason)

    def positions(self, labels: Sequence[Any] | NDArray[Any]) -> NDArray[np.int64]:
        """Where each label stands among the classes; one that is not among them is an error."""
        places = {name: place for place, name in enumerate(self.classes)}
        texts = {str(name): place for name, place in places.items()}
        values = labels.tolist() if hasattr(labels, "tolist") else list(labels)
        found = [places.get(value, texts.get(str(value), -1)) for value in values]
        unknown = sorted({str(value) for value, place in zip(values, found, strict=True) if place < 0})
        if unknown:
            known = ", ".join(map(str, self.classes[:8])) + (", ..." if len(self.classes) > 8 else "")
            raise ArgumentError.of("labels", ", ".join(unknown[:5]), f"among the classes of training ({known})")
        return np.array(found, dtype=np.int64)

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write the folder ``path`` with model.safetensors and config.json, whole or not at all."""
        config = {
            "network": {"name": self.config.name, **self.config.to_dict()},
            "members": self.members,
            "in_features": self.network.in_features,
            "classes": list(self.classes),
            "transform": self.transform.to_json(),
            "prediction": {"sampling": self.sampling, "num_samples": self.num_samples},
            "record": self.record,
        }
        return artifact.save(path, self.network.state_dict(), config, overwrite)

    @classmethod
    def load(cls, path: str | Path, device: torch.device | str = "cpu") -> "Predictor":
        """Read a folder that :meth:`save` wrote."""
        tensors, saved = artifact.load(path)
        try:
            settings = dict(saved["network"])
            config = network_config(settings.pop("name"), settings)
            network = build(config, saved["in_features"], len(saved["classes"]), [0] * saved["members"])
            network.load_state_dict(tensors)
            made = cls(
                network,
                config,
                from_json(saved["transform"]),
                saved["classes"],
                **saved["prediction"],
                record=saved["record"],
            )
        except (SquadError, KeyError, TypeError, ValueError, RuntimeError) as cause:
            raise ArtifactError(f"{path} does not describe a model that can be built: {cause}") from cause
        return made.to(device)


def load(path: str | Path, device: torch.device | str = "cpu") -> Predictor:
    """A saved model, ready to answer; nothing in the folder is run.

    Args:
        path: the folder that ``squad fit`` or ``Predictor.save`` wrote.
        device: where to compute.
    """
    return Predictor.load(path, device)
